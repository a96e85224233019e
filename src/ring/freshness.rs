//! How old a number may be.

use super::RingState;
use crate::sync::Ordering;

/// Says of numbers that were drawn earlier whether they may still be handed out, at the cost of the
/// load of a word that seldom changes.
///
/// It stores `!oldest`, so that a zeroed word, which a forked child finds, rejects every number.
#[derive(Clone, Debug)]
pub(crate) struct Freshness(RingState);

/// How old a number is, in the form of that word: the older, the greater.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age(u64);

impl Age {
    #[inline]
    pub(crate) fn of(number: u64) -> Self {
        Self(!number)
    }
}

impl Freshness {
    /// All numbers are fresh.
    pub(super) fn new(state: RingState) -> Self {
        state.freshness().store(u64::MAX, Ordering::Relaxed);
        Self(state)
    }

    #[inline]
    pub(crate) fn covers(&self, age: Age) -> bool {
        // Relaxed: it is about time, and there is no order between clocks and caches.
        age.0 <= self.0.freshness().load(Ordering::Relaxed)
    }

    /// Whether nothing is to be handed out any more, for good.
    pub(crate) fn is_expired(&self) -> bool {
        self.0.freshness().load(Ordering::Relaxed) == 0
    }

    /// The oldest number that may be handed out; `u64::MAX` allows for none.
    pub(crate) fn oldest(&self) -> u64 {
        !self.0.freshness().load(Ordering::Relaxed)
    }

    /// Numbers below this one are not to be handed out any more. Nothing becomes fresh again by
    /// it once nothing is, be it that the ring has ended or that this is a forked child.
    pub(crate) fn set_oldest(&self, number: u64) {
        let (word, limit) = (self.0.freshness(), (!number).max(1));
        let found = word.load(Ordering::Relaxed);
        // Written only when it changes: it lies in the caches of all who read it.
        if found != 0 && found != limit {
            // Nobody else sets it to anything but 0.
            let _ = word.compare_exchange(found, limit, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Nothing is to be handed out any more, for good.
    pub(super) fn expire(&self) {
        self.0.freshness().store(0, Ordering::Relaxed);
    }
}
