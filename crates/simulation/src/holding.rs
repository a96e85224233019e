//! What an owner knows of its lease.

use uidring::Uid;

/// What an owner knows of its row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    pub(super) worker_id: u64,
    pub(super) token: u64,
    /// The horizon when it was acquired.
    pub(super) before: Option<Uid>,
    /// From somebody who did not give it back.
    pub(super) is_seized: bool,
}

/// Another one has the row, or may.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fenced;
