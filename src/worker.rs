//! Who owns which worker id.

#[cfg(test)]
mod deadline_tests;
mod grant;
mod lease;
mod renewals;
pub(crate) mod source;
mod tenure;

pub(crate) use self::grant::Grant;
pub use self::lease::{Lease, LeaseKeeper, LeaseTerms, RenewError, Worker};
pub(crate) use self::renewals::Beginning;
#[cfg(any(test, feature = "simulation"))]
pub use self::renewals::{Renewals, Renewer, Request, Task};
pub(crate) use self::source::WorkerChoice;
pub use self::source::{EnvWorkerId, FixedWorkerId, WorkerRequest, WorkerSource};
pub(crate) use self::tenure::Tenure;
