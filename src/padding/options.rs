//! How a padder runs.

use super::pinning::{self, PadderCore};
use crate::error::Error;

/// What a padder does when all its rings are full enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PadderIdle {
    /// Sleep until a ring is below its padding factor, or a refresh or schedule is due. As long as takers keep a
    /// steady pace, the padder predicts when that will be. Otherwise a taker wakes it, which costs that taker a
    /// system call.
    #[default]
    Sleep,
    /// Poll the rings without sleeping. This takes a whole core, but saves the takers the system call.
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

    /// Returns an error if no padder can run with these options.
    pub(crate) fn check(self) -> Result<(), Error> {
        pinning::find(self.core, None).map(drop)
    }

    /// Sets what the padder does when there is nothing to do.
    #[must_use]
    pub fn idle(mut self, idle: PadderIdle) -> Self {
        self.idle = idle;
        self
    }
}
