//! An empty register for the models: each execution builds its generators anew, as in a new process.

use crate::error::Error;
use crate::layout::Layout;
use crate::uid::Uid;
use crate::worker::IssueHorizon;

/// As in the register.
#[cfg(any(test, feature = "simulation"))]
pub const ELSEWHERE: &str = "";

#[derive(Debug)]
pub(super) struct Registration;

pub(super) fn check(_: &str, _: &Layout) -> Result<(), Error> {
    Ok(())
}

pub(super) fn register(_: &str, _: &Layout, _: u64) -> Result<Registration, Error> {
    Ok(Registration)
}

impl Registration {
    pub(super) fn last(&self) -> Option<Uid> {
        None
    }

    pub(super) fn leased(&self, _: &IssueHorizon) {}

    pub(super) fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    pub(super) fn confirm(&self) -> Result<(), Error> {
        Ok(())
    }

    pub(super) fn release(&self, _: Option<Uid>) {}
}
