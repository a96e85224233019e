//! What an owner knows of its lease.

use uidring::Uid;

#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    pub(super) worker_id: u64,
    pub(super) token: u64,
    /// The horizon at the acquire.
    pub(super) before: Option<Uid>,
    /// The earlier holder did not give it back.
    pub(super) is_seized: bool,
}

/// Another owner has the row, or may have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fenced;
