//! The source of a ring's runs.

use std::time::Duration;

/// Gives the runs of a ring.
///
/// Its methods are called with no lock held, and may take ids themselves. Such a take never waits, because it
/// would wait for its own thread: if nothing is ready, it gets [`TakeError::Empty`](crate::TakeError::Empty)
/// or [`TakeError::BorrowLimit`](crate::TakeError::BorrowLimit) at once, whatever its policy.
pub trait RunSource: Send + 'static {
    /// Returns the oldest number that may still be taken. Called before each padding and at each refresh,
    /// so that a clock need not be read for every run. At a refresh, runs in the ring below that number
    /// are discarded. `None` if nothing of this source may be taken any more, not even what is in the
    /// ring: takers then get [`LeaseLost`](crate::TakeError::LeaseLost), for good.
    fn oldest_fresh(&mut self) -> Option<u64> {
        Some(0)
    }

    /// Returns the next run. Its numbers must be above those of all runs before it, and below 2^63;
    /// otherwise the ring is closed.
    fn next_run(&mut self) -> NextRun;

    /// Returns why there is no run yet, for the log. Called after [`NotYet`](NextRun::NotYet).
    fn waits_for(&self) -> &'static str {
        "its source has no run yet"
    }

    /// Returns how often the padder calls [`oldest_fresh`](Self::oldest_fresh) if there is nothing to pad; never if
    /// `None`.
    fn refresh_interval(&self) -> Option<Duration> {
        None
    }
}

/// What a source of runs has to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextRun {
    /// A run of the ring's full run length, by its first number.
    Run(u64),
    /// A run of another length.
    Part {
        /// The first number.
        first: u64,
        /// How many numbers it has.
        length: u64,
    },
    /// There is no run until this time has passed. The padder then asks again.
    NotYet(Duration),
    /// There will never be another run.
    End,
}

/// A function that returns the first number of each run, or `None` when there will never be another one.
/// All runs have the full length of the ring's runs.
impl<F: FnMut() -> Option<u64> + Send + 'static> RunSource for F {
    fn next_run(&mut self) -> NextRun {
        self().map_or(NextRun::End, NextRun::Run)
    }
}
