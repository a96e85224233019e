//! Who owns which worker id.

#[cfg(test)]
mod deadline_tests;
mod grant;
pub(crate) mod lease;
mod renewals;
pub(crate) mod source;
mod tenure;

pub(crate) use self::grant::Grant;
pub(crate) use self::lease::Worker;
pub use self::lease::{Lease, LeaseKeeper, LeaseTerms, RenewError};
pub(crate) use self::renewals::Beginning;
#[cfg(any(test, feature = "simulation"))]
#[doc(hidden)]
pub use self::renewals::{Renewals, Renewer, Request, Task};
pub use self::source::{EnvWorkerId, FixedWorkerId};
pub(crate) use self::source::{WorkerChoice, WorkerRequest, WorkerSource};
pub(crate) use self::tenure::Tenure;
