//! What happens in a history, step by step, for somebody who follows it.

use std::time::Duration;

use uidring::worker::RenewError;
use uidring::{TakeError, Uid};

use super::beside::Setting;

/// Follows a history: it sees each step, and what is there afterwards. It may panic, which ends the history.
pub trait Follower: Send + 'static {
    /// Something has happened.
    fn step(&mut self, step: &Step, after: &Snapshot);
}

/// Makes a follower of a history.
pub(super) type Follow<'a> = dyn Fn(&Setting) -> Box<dyn Follower> + Sync + 'a;

/// A step. Sessions are starts of processes, by number.
#[derive(Clone, Debug)]
pub enum Step {
    /// Time has passed.
    Passed {
        /// By the store's clock, in milliseconds.
        by_store: i64,
        /// By the monotonic clocks of sessions, in nanoseconds.
        by_sessions: Vec<(u64, u64)>,
    },
    /// The store has performed an acquire: worker id and token, if there was a free one.
    Acquired {
        /// Who had asked.
        session: u64,
        /// Its worker id and token.
        lease: Option<(u64, u64)>,
    },
    /// The answer to an acquire has come, or nobody waits for it any more.
    AcquireAnswered {
        /// Who had asked.
        session: u64,
        /// Its worker id and token.
        lease: Option<(u64, u64)>,
    },
    /// A renewal is asked for.
    RenewalAsked {
        /// By whom.
        session: u64,
        /// The last tick that is wanted.
        horizon: u64,
    },
    /// The store has performed a renewal.
    Renewed {
        /// Of this lease: worker id and token.
        lease: (u64, u64),
        /// The last tick that was wanted.
        horizon: u64,
        /// Whether the lease was still held.
        is_held: bool,
        /// Whether an answer is on its way, to somebody who may have gone.
        is_answered: bool,
    },
    /// The answer to a renewal has come.
    RenewalAnswered {
        /// To whom.
        session: u64,
        /// What it says.
        answer: Answer,
    },
    /// A generator was built with the lease, or was not.
    Built {
        /// By whom.
        session: u64,
        /// Whether it was.
        is_built: bool,
    },
    /// Somebody takes uids.
    Took {
        /// From whose generator.
        session: u64,
        /// Each of them, and the error that was the last.
        takes: Vec<Take>,
    },
    /// The padder has looked.
    Serviced {
        /// At whose ring.
        session: u64,
    },
    /// The generator was closed.
    Closed {
        /// Whose.
        session: u64,
        /// The last uid that counts as issued.
        last: Option<Uid>,
    },
    /// The store has performed a release.
    Released {
        /// Of this lease: worker id and token.
        lease: (u64, u64),
        /// The last uid that counts as issued.
        last: Option<Uid>,
    },
    /// A process has ended without a word.
    Crashed {
        /// Which.
        session: u64,
    },
    /// An operator has ended a lease.
    Fenced {
        /// Of this worker id.
        worker_id: u64,
    },
    /// An operator has freed a row, unless it was held.
    Freed {
        /// Of this worker id.
        worker_id: u64,
        /// Whether it could be had.
        is_free: bool,
    },
}

/// An answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Renewed,
    /// Nobody knows whether it is.
    Failed,
    /// The lease is another's.
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
    /// What it gave.
    pub uid: Result<Uid, TakeError>,
    /// Of a local taker: the end of the block that it has claimed.
    pub block_end: Option<u64>,
    /// The lease and the ring afterwards; for uids that are taken at once, after the last.
    pub after: Option<LeaseSeen>,
}

/// What is there.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The store's rows, by worker id.
    pub rows: Vec<RowSeen>,
    /// The generators that live.
    pub owners: Vec<(u64, LeaseSeen)>,
}

/// A row of the store.
#[derive(Clone, Copy, Debug)]
pub struct RowSeen {
    /// The session that was the last to acquire it.
    pub owner: u64,
    /// The fencing token.
    pub token: u64,
    /// When the lease ends, in milliseconds from now; `None` where it was given back.
    pub ends_in: Option<i64>,
    /// The greatest uid that may have been issued.
    pub horizon: Option<Uid>,
}

/// A lease, as its owner sees it.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSeen {
    /// The last tick that may be issued.
    pub horizon: u64,
    /// Whether it was found to be lost.
    pub is_lost: bool,
    /// The time to its deadline.
    pub time_left: Option<Duration>,
    /// The ring of its generator, if that has one.
    pub ring: Option<RingSeen>,
}

/// A ring.
#[derive(Clone, Copy, Debug)]
pub struct RingSeen {
    /// How many runs were published.
    pub runs: u64,
    /// The end of the last of them.
    pub end: u64,
    /// The number that comes next.
    pub next: Option<u64>,
    /// How many are ready.
    pub available: u64,
    /// Once nothing comes from it any more: the last uid that counts as issued.
    pub last: Option<Option<Uid>>,
}
