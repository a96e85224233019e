//! The words that takers and the producer share.

use super::slot::{Run, Slot};
use crate::sync::{AtomicU64, Numbers, Ordering};

/// The next number and its limit, the number of the open run, and the slots.
///
/// All of it lies in memory that a forked child finds zeroed. The number of the open run only grows,
/// by read-modify-writes alone, as the two words of [`Numbers`] do.
///
/// A clone is the same state. A generator keeps one beside what else a take needs, so that the take
/// does not go by way of the ring.
#[derive(Clone, Debug)]
pub(crate) struct RingState {
    pub(crate) numbers: Numbers,
}

impl RingState {
    /// One slot at least. The open run is number 1, which is empty.
    pub(super) fn new(slots: usize) -> Option<Self> {
        let state = Self { numbers: Numbers::new(0, slots)? };
        state.slot(1).publish(Run { index: 1, first: 0, end: 0, before: 0 });
        state.cursor().store(1, Ordering::Relaxed);
        Some(state)
    }

    /// The number of the open run.
    pub(super) fn cursor_index(&self) -> u64 {
        // Acquire: pairs with the Release in `advance`: who sees a run opened sees the word raised.
        self.cursor().load(Ordering::Acquire)
    }

    /// Moves the cursor to a run, to whose first number the word was raised before. Returns whether
    /// it stood before it.
    pub(super) fn advance(&self, index: u64) -> bool {
        self.cursor().fetch_max(index, Ordering::AcqRel) < index
    }

    /// The slot in which a run is, was or will be.
    pub(super) fn slot(&self, index: u64) -> Slot<'_> {
        let lines = self.numbers.pages().lines();
        // The length is a power of two, so this is the remainder.
        Slot::new(&lines[index as usize & (lines.len() - 1)])
    }

    pub(super) fn slots(&self) -> u64 {
        self.numbers.pages().lines().len() as u64
    }

    /// A word by itself, beside the others: see [`Freshness`](super::Freshness).
    #[inline]
    pub(super) fn freshness(&self) -> &AtomicU64 {
        self.numbers.pages().word()
    }

    fn cursor(&self) -> &AtomicU64 {
        &self.numbers.pages().hot()[1].1
    }
}
