//! The words that takers and the producer share.

use super::slot::{Run, Slot};
use crate::sync::{AtomicU64, Numbers, Ordering};

/// The next number and its limit, the number of the open run, the slots, and how old a number may be.
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

/// How old a number is: the older, the greater.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age(u64);

impl Age {
    #[inline]
    pub(crate) fn of(number: u64) -> Self {
        Self(!number)
    }
}

impl RingState {
    /// One slot at least. The open run is number 1, which is empty; all numbers are fresh.
    pub(super) fn new(slots: usize) -> Option<Self> {
        let state = Self { numbers: Numbers::new(0, slots)? };
        state.slot(1).write(Run { index: 1, first: 0, end: 0, before: 0 });
        state.cursor().store(1, Ordering::Relaxed);
        state.freshness().store(u64::MAX, Ordering::Relaxed);
        Some(state)
    }

    /// The number of the open run.
    pub(crate) fn cursor_index(&self) -> u64 {
        // Acquire: pairs with the Release in `advance`: who sees a run opened sees the word raised.
        self.cursor().load(Ordering::Acquire)
    }

    /// Moves the cursor to a run, to whose first number the word was raised before.
    pub(super) fn advance(&self, index: u64) {
        self.cursor().fetch_max(index, Ordering::AcqRel);
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

    /// Whether a number that was drawn earlier may still be handed out, at the cost of the load of a
    /// word that seldom changes.
    #[inline]
    pub(crate) fn is_fresh(&self, age: Age) -> bool {
        // Relaxed: it is about time, and there is no order between clocks and caches.
        age.0 <= self.freshness().load(Ordering::Relaxed)
    }

    /// The oldest number that may be handed out; `u64::MAX` allows for none.
    pub(crate) fn oldest(&self) -> u64 {
        !self.freshness().load(Ordering::Relaxed)
    }

    /// Numbers below this one are not to be handed out any more. Nothing becomes fresh again by
    /// it once nothing is, be it that the ring has ended or that this is a forked child.
    pub(crate) fn set_oldest(&self, number: u64) {
        let (word, limit) = (self.freshness(), (!number).max(1));
        let found = word.load(Ordering::Relaxed);
        // Written only when it changes: it lies in the caches of all who read it.
        if found != 0 && found != limit {
            // Nobody else sets it to anything but 0.
            let _ = word.compare_exchange(found, limit, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Nothing is to be handed out any more, for good.
    pub(super) fn expire(&self) {
        self.freshness().store(0, Ordering::Relaxed);
    }

    /// The [`Age`] of the oldest fresh number. A zeroed word, which a forked child finds, rejects every
    /// number.
    #[inline]
    fn freshness(&self) -> &AtomicU64 {
        self.numbers.pages().word()
    }

    fn cursor(&self) -> &AtomicU64 {
        &self.numbers.pages().hot()[1].1
    }
}
