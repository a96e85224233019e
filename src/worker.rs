//! Who owns which worker id.

#[cfg(test)]
mod deadline_tests;
mod grant;
mod identity;
mod lease;
mod renewals;
mod tenure;

pub(crate) use self::grant::Grant;
pub use self::identity::{NodeIdentity, NodeKind};
pub use self::lease::{Lease, LeaseKeeper, LeaseTerms, RenewError, Worker};
pub(crate) use self::renewals::Beginning;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use self::renewals::{Renewals, Renewer, Request, Task};
pub(crate) use self::tenure::Tenure;

use std::env;

use crate::error::Error;
use crate::layout::Layout;

/// Hands out the worker id of a generator that is about to start.
///
/// ```
/// use uidring::{FixedWorkerId, Layout, WorkerIdAssigner};
///
/// let layout = Layout::SNOWFLAKE;
/// assert_eq!(FixedWorkerId(1_023).assign(&layout)?, 1_023);
/// assert!(FixedWorkerId(1_024).assign(&layout).is_err());
/// # Ok::<(), uidring::Error>(())
/// ```
pub trait WorkerIdAssigner {
    /// A worker id that fits the layout.
    ///
    /// # Errors
    ///
    /// [`Error::WorkerIdOutOfRange`] where the id does not fit the layout, and the assigner's own
    /// errors. There is no id that stands for a failure.
    fn assign(&self, layout: &Layout) -> Result<u64, Error>;
}

/// The same worker id every time; it is up to the caller that nobody else has it, and that a new
/// start is [above](crate::CachedBuilder::start_after) what was issued before.
#[derive(Clone, Copy, Debug)]
pub struct FixedWorkerId(pub u64);

impl WorkerIdAssigner for FixedWorkerId {
    fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        layout.check_worker_id(self.0).map(|()| self.0)
    }
}

/// The worker id in the environment variable `UIDRING_WORKER_ID`; otherwise like
/// [`FixedWorkerId`].
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvWorkerId;

impl EnvWorkerId {
    /// The variable's name.
    pub const VARIABLE: &'static str = "UIDRING_WORKER_ID";

    /// Whether the variable is there at all.
    pub fn is_set() -> bool {
        env::var_os(Self::VARIABLE).is_some()
    }
}

impl WorkerIdAssigner for EnvWorkerId {
    fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        let wrong = |problem| Error::WorkerIdVariable { variable: Self::VARIABLE, problem };
        let Some(value) = env::var_os(Self::VARIABLE) else {
            return Err(wrong("is not set".into()));
        };
        let value = value.to_string_lossy();
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        let worker_id = value.parse().ok().filter(|_| digits);
        let worker_id = worker_id.ok_or_else(|| {
            // One with a password, it may be.
            let is_url = value.contains("://");
            wrong(if is_url { "holds a URL".into() } else { format!("holds `{value}`") })
        })?;
        FixedWorkerId(worker_id).assign(layout)
    }
}
