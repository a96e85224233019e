//! No register: the models build their generators anew in every execution, each of which is a
//! process of its own.

use super::position::Position;
use crate::error::Error;
use crate::layout::Layout;
use crate::uid::Uid;
use crate::worker::IssueHorizon;

/// As in the register.
#[cfg(any(test, feature = "simulation"))]
pub(crate) const ELSEWHERE: &str = "";

#[derive(Debug)]
pub(super) struct Registration;

pub(super) fn register(_: &str, _: &Layout, _: u64) -> Result<Registration, Error> {
    Ok(Registration)
}

impl Registration {
    pub(super) fn start(&self, _: &Layout) -> Option<(Position, u64)> {
        None
    }

    pub(super) fn leased(&self, _: &Layout, _: &IssueHorizon) {}

    pub(super) fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    pub(super) fn release(&self, _: Option<Uid>) {}
}
