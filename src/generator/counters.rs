//! Counts takes that found nothing.

use crate::error::TakeError;
use crate::sync::{AtomicU64, Ordering};

/// Takes and fills that found nothing at first.
#[derive(Debug, Default)]
pub(super) struct Counters {
    waits: AtomicU64,
    rejects: AtomicU64,
    clock_refusals: AtomicU64,
}

// Relaxed throughout: counters only.
impl Counters {
    /// Counts a take or fill that had to ask the take policy.
    pub(super) fn count(&self, waited: bool, error: Option<&TakeError>) {
        self.waits.fetch_add(waited.into(), Ordering::Relaxed);
        let is_rejected = error.is_some_and(|e| e.may_pass() || *e == TakeError::DeadlineExceeded);
        self.rejects.fetch_add(is_rejected.into(), Ordering::Relaxed);
        let is_refused = matches!(error, Some(TakeError::ClockBackwards { .. }));
        self.clock_refusals.fetch_add(is_refused.into(), Ordering::Relaxed);
    }

    pub(super) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    pub(super) fn rejects(&self) -> u64 {
        self.rejects.load(Ordering::Relaxed)
    }

    pub(super) fn clock_refusals(&self) -> u64 {
        self.clock_refusals.load(Ordering::Relaxed)
    }
}
