//! `MarkThread` and `Owner` for systems without shared rings.

use std::io;

use crate::sync::{RingWords, WipeOnForkMemory};

#[derive(Debug)]
pub(crate) struct MarkThread;

#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) mark: u32,
}

impl MarkThread {
    pub(crate) fn start(_: &WipeOnForkMemory<RingWords>) -> io::Result<(Self, Owner)> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Owner {
    pub(crate) fn has_ended(&self, _: u32) -> bool {
        false
    }
}
