//! Worker ids: their sources, fixed ones, and leases with the thread that renews them.

mod backend;
#[cfg(test)]
mod deadline_tests;
mod issue_horizon;
pub(crate) mod lease;
mod lease_handle;
mod lease_shared;
mod ordinal;
mod renewal_thread;
mod renewals;
pub(crate) mod source;
mod stats;

pub use self::backend::{LeaseBackend, LeaseTerms, RenewError};
pub(crate) use self::issue_horizon::IssueHorizon;
pub use self::lease::Lease;
pub(crate) use self::lease::Worker;
pub(crate) use self::lease_handle::LeaseHandle;
pub use self::ordinal::Ordinal;
pub(crate) use self::renewals::LeaseStart;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use self::renewals::{LeaseAction, RenewRequest, RenewalMachine, Renewer};
pub use self::source::FixedWorkerId;
pub(crate) use self::source::{WorkerChoice, WorkerRequest, WorkerSource};
pub use self::stats::LeaseStats;
