//! The steps of a history, for a follower.

use std::time::Duration;

use uidring::worker::RenewError;
use uidring::{TakeError, Uid};

use super::beside::Setting;

/// Follows a history: sees each step, and the state after it. It may panic, which ends the history.
pub trait Follower: Send + 'static {
    /// Handles a step.
    fn step(&mut self, step: &Step, after: &Snapshot);
}

/// Creates a history's follower.
pub(super) type Follow<'a> = dyn Fn(&Setting) -> Box<dyn Follower> + Sync + 'a;

/// A step. A session is one start of a process.
#[derive(Clone, Debug)]
pub enum Step {
    /// Time has passed.
    Passed {
        /// By the store's clock, in milliseconds.
        by_store: i64,
        /// By the monotonic clocks of sessions, in nanoseconds.
        by_sessions: Vec<(u64, u64)>,
    },
    /// The store has performed an acquire.
    Acquired {
        /// The session that asked.
        session: u64,
        /// Worker id and token, if a row was free.
        lease: Option<(u64, u64)>,
    },
    /// The answer to an acquire has arrived, or nobody waits for it any more.
    AcquireAnswered {
        /// The session that asked.
        session: u64,
        /// Worker id and token.
        lease: Option<(u64, u64)>,
    },
    /// A renewal is requested.
    RenewalAsked {
        /// The session.
        session: u64,
        /// The last tick wanted.
        horizon: u64,
    },
    /// The store has performed a renewal.
    Renewed {
        /// Worker id and token.
        lease: (u64, u64),
        /// The last tick wanted.
        horizon: u64,
        /// Whether the lease was still held.
        is_held: bool,
        /// Whether an answer is on its way, even if nobody waits for it.
        is_answered: bool,
    },
    /// The answer to a renewal has arrived.
    RenewalAnswered {
        /// The session.
        session: u64,
        /// The answer.
        answer: Answer,
    },
    /// A generator was built with the lease, or the build failed.
    Built {
        /// The session.
        session: u64,
        /// Whether it succeeded.
        is_built: bool,
    },
    /// Takers took uids.
    Took {
        /// The session.
        session: u64,
        /// The uids, and the error that ended the takes.
        takes: Vec<Take>,
    },
    /// The padder has looked.
    Serviced {
        /// The session.
        session: u64,
    },
    /// The generator was closed.
    Closed {
        /// The session.
        session: u64,
        /// The last uid that counts as issued.
        last: Option<Uid>,
    },
    /// The store has performed a release.
    Released {
        /// Worker id and token.
        lease: (u64, u64),
        /// The last uid that counts as issued.
        last: Option<Uid>,
    },
    /// A process has ended without telling anyone.
    Crashed {
        /// The session.
        session: u64,
    },
    /// An operator has ended a lease.
    Fenced {
        /// The worker id.
        worker_id: u64,
    },
    /// An operator has tried to free a row.
    Freed {
        /// The worker id.
        worker_id: u64,
        /// Whether it was not held.
        is_free: bool,
    },
}

/// An answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Renewed,
    /// Done or not; nobody knows.
    Failed,
    /// The lease is lost.
    Lost,
}

impl From<&Result<(), RenewError>> for Answer {
    fn from(answer: &Result<(), RenewError>) -> Self {
        match answer {
            Ok(()) => Self::Renewed,
            Err(RenewError::Lost(_)) => Self::Lost,
            Err(_) => Self::Failed,
        }
    }
}

/// A take.
#[derive(Clone, Copy, Debug)]
pub struct Take {
    /// The result.
    pub uid: Result<Uid, TakeError>,
    /// With a local taker: the end of the block that it has claimed.
    pub block_end: Option<u64>,
    /// Lease and ring after it; in a batch, only after the last.
    pub after: Option<LeaseSeen>,
}

/// The state after a step.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The store's rows, by worker id.
    pub rows: Vec<RowSeen>,
    /// The live generators, by session.
    pub owners: Vec<(u64, LeaseSeen)>,
}

/// A row of the store.
#[derive(Clone, Copy, Debug)]
pub struct RowSeen {
    /// The session that acquired it last.
    pub owner: u64,
    /// The fencing token.
    pub token: u64,
    /// When the lease ends, in milliseconds from now; `None` if it was given back.
    pub ends_in: Option<i64>,
    /// The greatest uid that may have been issued.
    pub horizon: Option<Uid>,
}

/// A lease as its owner sees it.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSeen {
    /// The last tick that may be issued.
    pub horizon: u64,
    /// Whether the owner knows that it is lost.
    pub is_lost: bool,
    /// The time until its deadline.
    pub time_left: Option<Duration>,
    /// The generator's ring, if it has one.
    pub ring: Option<RingSeen>,
}

/// A ring.
#[derive(Clone, Copy, Debug)]
pub struct RingSeen {
    /// Runs published.
    pub runs: u64,
    /// The end of the last one.
    pub end: u64,
    /// The next number.
    pub next: Option<u64>,
    /// Uids ready.
    pub available: u64,
    /// Once it issues nothing more: the last uid that counts as issued.
    pub last: Option<Option<Uid>>,
}
