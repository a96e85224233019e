//! What the model is made of.

use super::mutation::Mutation;
use crate::{Clocks, Network};

/// A tick and a sequence number in one: `tick * uids_per_tick + sequence`.
pub type Uid = u8;

/// How long a lease lasts by the store's clock, in units of time.
pub const LASTS: u8 = 3;

/// By how much earlier its owner counts it as over: `LeaseTerms::margin`.
pub const MARGIN: u8 = 1;

/// The model, and its bounds.
#[derive(Clone, Debug)]
pub struct Leases {
    /// How many owners may live at one time.
    pub owners: usize,
    /// How many starts there are in a history.
    pub starts: u8,
    /// How many worker ids there are.
    pub worker_ids: u8,
    /// How many ticks there are.
    pub ticks: u8,
    /// How many uids a tick has.
    pub uids_per_tick: u8,
    /// How often an operator acts in a history.
    pub operations: u8,
    /// What clocks do.
    pub clocks: Clocks,
    /// What is wrong with it.
    pub mutation: Option<Mutation>,
}

/// Everything that decides what may happen next, and what was issued.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The table, by worker id.
    pub rows: Vec<Row>,
    /// Who lives, in the order of their starts.
    pub owners: Vec<Owner>,
    /// The requests that were sent.
    pub network: Network<Request>,
    /// How many starts there were.
    pub starts: u8,
    /// How often an operator has acted.
    pub operations: u8,
    /// A set of uids for each worker id: those that any caller got.
    pub issued: Vec<u32>,
    /// What was violated in the step to this state, or before.
    pub broken: Broken,
}

/// Properties of a step, rather than of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken {
    /// A uid was issued that had been issued before.
    pub once: bool,
    /// A uid was issued above the horizon that the store had at that moment.
    pub covered: bool,
    /// A uid was issued at or below the horizon at the acquire, or what was issued until then.
    pub above: bool,
    /// An owner went on after its end.
    pub ended: bool,
}

/// A row of `UIDRING_LEASE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Row {
    /// The last owner to acquire it.
    pub owner: u8,
    /// The fencing token.
    pub token: u8,
    /// Units of time until the lease ends by the store's clock; `None` where the row is free.
    pub ends: Option<u8>,
    /// The greatest uid that any owner may have issued.
    pub horizon: Option<Uid>,
}

/// What an owner asks the store for. A request does the same whenever it is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// To take a row, if it still is as it was read (`crates/mysql/src/leases/acquire.rs`). SQLite reads and
    /// takes it at once, which is a read that nothing comes after.
    Take {
        /// Who asks.
        owner: u8,
        /// The row.
        worker: u8,
        /// Its token as it was read.
        token: u8,
        /// Its horizon as it was read.
        horizon: Option<Uid>,
    },
    /// To renew a lease (`crates/mysql/src/leases/hold.rs`, `crates/sqlite/src/leases/rows.rs`).
    Renew {
        /// Who asks.
        owner: u8,
        /// The row.
        worker: u8,
        /// The token of the lease.
        token: u8,
        /// The last tick to issue.
        horizon: u8,
    },
    /// To free a row (same files).
    Release {
        /// Who asks.
        owner: u8,
        /// The row.
        worker: u8,
        /// The token of the lease.
        token: u8,
        /// The greatest uid that may have been issued.
        last: Option<Uid>,
    },
}

/// What the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The row is the owner's, with this token.
    Taken {
        /// The token.
        token: u8,
        /// The row's horizon.
        before: Option<Uid>,
        /// For the property `Above`: the greatest uid that the row allowed at that moment, or that was issued.
        /// No owner knows it.
        floor: Option<Uid>,
    },
    /// Somebody else was faster.
    NotTaken,
    /// The lease is renewed.
    Renewed,
    /// The row is another's, or has another token.
    Lost,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Which start it is: its name.
    pub session: u8,
    /// How far it is.
    pub stage: Stage,
    /// The call that its lease's thread, or its start, waits for: one at a time.
    pub call: Option<Call>,
}

/// How far a process is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It has no row yet. So many times it has asked for one.
    Starting(u8),
    /// The store has given it a row.
    Holding(Lease),
}

/// A request that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// What was asked.
    pub request: Request,
    /// What the store has answered, which has not arrived yet.
    pub answer: Option<Answer>,
    /// Units of time since it was asked, by the owner's clock.
    pub(super) age: u8,
    /// How many more units that clock may fail to count.
    pub(super) slack: u8,
}

/// A lease, as its owner knows it, and its generator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The worker id.
    pub worker: u8,
    /// The token.
    pub token: u8,
    /// The row's horizon at the acquire.
    pub before: Option<Uid>,
    /// For `Above`; see [`Answer::Taken`].
    pub(super) floor: Option<Uid>,
    /// For `Owner`: an operator has fenced it.
    pub(super) fenced: bool,
    /// The last tick that the store has granted; `None` before the first renewal, when nothing may be issued.
    pub horizon: Option<u8>,
    /// The next uid to be made ready.
    pub next: Uid,
    /// A set: the uids that takers may get without asking anybody.
    pub ready: u32,
    /// A uid that a local taker has claimed.
    pub lent: Option<Uid>,
    /// The greatest uid that was taken or claimed.
    pub last: Option<Uid>,
    /// It is known to be over.
    pub lost: bool,
    /// For `Ended`: somebody was told so.
    pub(super) told: bool,
    /// The padder has seen that.
    pub(super) shut: bool,
    /// The generator was closed.
    pub closed: bool,
    /// Units of time to the deadline, by the owner's clock.
    pub(super) left: u8,
    /// How many more units that clock may fail to count.
    pub(super) slack: u8,
}
