//! The padder: the thread that fills rings, and sleeps when there is nothing to do.

mod core;
mod pad_state;
mod padded_ring;
mod thread;

pub use self::core::PadderCore;
pub use self::thread::Padder;

use std::sync::Arc;
use std::time::Duration;

use self::padded_ring::PaddedRing;
use crate::error::Error;
use crate::ring::RingBuffer;

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
#[non_exhaustive]
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

/// What a padder does when all its rings are full enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PadderIdle {
    /// Sleep until a taker finds a ring below its padding factor. It costs no processor time; the
    /// taker pays for the wake-up, a system call.
    #[default]
    Sleep,
    /// Look at the rings again and again, without end. It takes a whole core: for those who have
    /// one to spare, and want takers never to make a system call.
    BusyPoll,
}

/// How a padder runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PadderOptions {
    /// The core on which it runs.
    pub core: PadderCore,
    /// What it does when all its rings are full enough.
    pub idle: PadderIdle,
}

impl PadderOptions {
    /// Sets the core.
    #[must_use]
    pub fn core(mut self, core: PadderCore) -> Self {
        self.core = core;
        self
    }

    /// Whether a padder can run so.
    pub(crate) fn check(self) -> Result<(), Error> {
        core::find(self.core, None).map(drop)
    }

    /// Sets what the padder does when there is nothing to do.
    #[must_use]
    pub fn idle(mut self, idle: PadderIdle) -> Self {
        self.idle = idle;
        self
    }
}

/// A ring that a padder keeps filled. Dropping it closes the ring; the padder goes on if others
/// need it.
#[derive(Debug)]
pub struct Padding {
    served: Arc<PaddedRing>,
    // Keeps the padder's thread alive.
    _padder: Padder,
}

impl Padding {
    /// The ring.
    pub fn ring(&self) -> &Arc<RingBuffer> {
        self.served.ring()
    }

    /// How often the ring has been padded by the padder, the first filling included.
    pub fn paddings(&self) -> u64 {
        self.served.paddings()
    }

    /// Puts a few runs into the ring in the caller's own thread, unless the padder, or another
    /// helper, is just at it; returns whether there may be something to take now.
    ///
    /// A taker that finds the ring dry need not wait until the operating system lets the padder
    /// run, which on a busy machine takes thousands of times longer than the runs themselves.
    #[cold]
    pub fn help(&self) -> bool {
        self.served.help()
    }

    /// Closes the ring and throws away what is in it: takers that wait are released, and every
    /// take from now on gets [`TakeError::Closed`](crate::TakeError::Closed). A second close
    /// changes nothing.
    pub fn close(&self) {
        self.end();
    }

    /// [`close`](Self::close); returns a number below which all lie that were taken before, `None`
    /// if nothing was ever put into the ring.
    pub(crate) fn end(&self) -> Option<u64> {
        self.served.close()
    }

    /// What the padder does at its next refresh, at once and in this thread.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn service(&self) {
        self.served.hurry();
        let _ = self.served.service();
    }
}

impl Drop for Padding {
    fn drop(&mut self) {
        self.served.close();
    }
}
