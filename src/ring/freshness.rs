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
        let freshness = Self(state);
        freshness.set_oldest(0);
        freshness
    }

    #[inline]
    pub(crate) fn covers(&self, age: Age) -> bool {
        // Relaxed: it is about time, and there is no order between clocks and caches.
        age.0 <= self.0.freshness().load(Ordering::Relaxed)
    }

    /// The oldest number that may be handed out; `u64::MAX` allows for none.
    pub(crate) fn oldest(&self) -> u64 {
        !self.0.freshness().load(Ordering::Relaxed)
    }

    /// Numbers below this one are not to be handed out any more.
    pub(crate) fn set_oldest(&self, number: u64) {
        // Written only when it changes: it lies in the caches of all who read it.
        if self.oldest() != number {
            self.0.freshness().store(!number, Ordering::Relaxed);
            // A thread that forked on its way here must not let the child have anything.
            if self.0.numbers.is_wiped() {
                self.0.freshness().store(0, Ordering::Relaxed);
            }
        }
    }
}
