//! Messages between hosts and the store.

use uidring::simulation::RenewRequest;
use uidring::worker::RenewError;
use uidring::{Error, StoreError, StoreErrorKind, Uid};

use super::holding::Holding;

pub(super) enum Event {
    /// A message reaches the store, which answers after this time, or not at all.
    Asked {
        host: usize,
        session: u64,
        call: Call,
        answered_in: Option<u64>,
    },
    Answered {
        host: usize,
        session: u64,
        answer: Answer,
    },
}

#[derive(Clone, Copy)]
pub(super) enum Call {
    Acquire,
    Renew(Holding, RenewRequest),
    Release(Holding, Option<Uid>),
}

pub(super) enum Answer {
    Acquired(Option<Holding>),
    Renewed(RenewRequest, Result<(), RenewError>),
    Released,
}

/// Returns an error of the store; any will do.
pub(super) fn problem() -> Error {
    StoreError::new(StoreErrorKind::Unreachable, "the store is away").into()
}
