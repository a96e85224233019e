//! The source of a ring's runs.

use std::time::Duration;

/// Where runs come from.
///
/// Its methods are called with no lock held, and may take ids themselves: one that is served by the same
/// padder, or this one, gets [`TakeError::Empty`](crate::TakeError::Empty) at once where nothing is
/// ready, since it would wait for itself.
pub trait RunSource: Send + 'static {
    /// Called before each padding and at each refresh: the time to look at a clock, which is too
    /// dear for every run. Returns the oldest number that may still be taken; at a refresh, runs
    /// in the ring below it are discarded, if they are in order. `None` if nothing of this source
    /// may be taken any more, not even what is in the ring: takers then get
    /// [`LeaseLost`](crate::TakeError::LeaseLost), for good.
    fn begin(&mut self) -> Option<u64> {
        Some(0)
    }

    /// The next run. Its numbers are above those of all runs before it, and below 2^63: one that
    /// gives others is at fault, and its ring is closed.
    fn next_run(&mut self) -> NextRun;

    /// How often the padder calls [`begin`](Self::begin) if there is nothing to pad; not at all if
    /// `None`.
    fn refresh(&self) -> Option<Duration> {
        None
    }
}

/// What a source of runs has to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRun {
    /// A run as long as the ring's runs are at most, by its first number.
    Run(u64),
    /// A run of any other length.
    Part {
        /// The first number.
        first: u64,
        /// How many numbers it has.
        length: u64,
    },
    /// Nothing before this time is over. The padder asks again then.
    NotYet(Duration),
    /// There will never be another run.
    End,
}

/// A function that makes the first number of each run, all of which are as long as the ring's runs
/// are at most, and `None` when there will never be another one.
impl<F: FnMut() -> Option<u64> + Send + 'static> RunSource for F {
    fn next_run(&mut self) -> NextRun {
        self().map_or(NextRun::End, NextRun::Run)
    }
}
