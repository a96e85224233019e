//! How far a generator may issue.

use std::sync::Arc;

use super::lease_shared::LeaseShared;
use crate::error::TakeError;

/// How far a generator may issue: up to its lease's horizon, or without limit for a plain worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct IssueHorizon(Option<Arc<LeaseShared>>);

impl IssueHorizon {
    pub(super) fn new(shared: Arc<LeaseShared>) -> Self {
        Self(Some(shared))
    }

    /// Returns whether uids of this tick may be issued. [`TakeError::Empty`] if the store has to be asked first; this
    /// call requests that.
    #[inline]
    pub(crate) fn check(&self, tick: u64) -> Result<(), TakeError> {
        self.0.as_ref().map_or(Ok(()), |shared| shared.check(tick))
    }

    /// Notes that the generator has reached this tick, so that the store is asked in time.
    pub(crate) fn reach(&self, tick: u64) {
        if let Some(shared) = &self.0 {
            shared.reach(tick);
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_pending())
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_lost())
    }

    /// If the lease is lost, returns the last tick of which uids may have been issued or still may be: a taker in the
    /// middle of a tick continues with it.
    #[cfg(any(test, not(uidring_loom)))]
    pub(crate) fn lost_at(&self) -> Option<u64> {
        let shared = self.0.as_ref().filter(|shared| shared.is_lost())?;
        Some(shared.horizon())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::lease_shared::tests::shared;

    #[test]
    fn a_generator_is_pending_above_its_horizon_and_without_one_never() {
        let plain = IssueHorizon::default();
        plain.reach(1 << 40);
        assert!(!plain.is_pending() && !plain.is_lost());
        assert_eq!((plain.check(1 << 40), plain.lost_at()), (Ok(()), None));
        let shared = Arc::new(shared());
        let leased = IssueHorizon::new(Arc::clone(&shared));
        leased.reach(6);
        assert!(!leased.is_pending());
        leased.reach(7);
        assert!(leased.is_pending() && !leased.is_lost());
        assert_eq!(leased.lost_at(), None);
        shared.lose();
        assert_eq!((leased.is_lost(), leased.lost_at()), (true, Some(6)));
        assert_eq!(leased.check(1), Err(TakeError::LeaseLost));
    }
}
