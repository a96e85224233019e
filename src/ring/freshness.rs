//! How old a number may be.

use crate::sync::{Ordering, Pages};

/// Says of numbers that were taken earlier whether they may still be handed out, at the cost of the
/// load of a word that seldom changes.
///
/// The word lies in the ring's pages: `!n` for the least number `n` that may; so that 0, which a
/// forked child finds, allows for none.
#[derive(Clone, Debug)]
pub(crate) struct Freshness(Pages);

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
    pub(super) fn new(pages: Pages) -> Self {
        let freshness = Self(pages);
        freshness.set_oldest(0);
        freshness
    }

    #[inline]
    pub(crate) fn covers(&self, age: Age) -> bool {
        // Relaxed: it is about time, and there is no order between clocks and caches.
        age.0 <= self.0.word().load(Ordering::Relaxed)
    }

    /// Numbers below this one are not to be handed out any more: `u64::MAX` allows for none.
    pub(crate) fn set_oldest(&self, number: u64) {
        // Written only when it changes: it lies in the caches of all who read it.
        if self.0.word().load(Ordering::Relaxed) != !number {
            self.0.word().store(!number, Ordering::Relaxed);
        }
    }
}
