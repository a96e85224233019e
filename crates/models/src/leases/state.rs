//! The parts of the model.

use super::mutation::Mutation;
use crate::{Clocks, Network, Scale, Small};

/// The model and its bounds.
#[derive(Clone, Debug)]
pub struct Leases<S: Scale = Small> {
    /// Owners alive at once, at most.
    pub owners: usize,
    /// Starts in a history.
    pub starts: u8,
    /// Worker ids.
    pub worker_ids: u8,
    /// Ticks.
    pub ticks: S::Number,
    /// Uids per tick.
    pub uids_per_tick: S::Number,
    /// Uids that an owner's local takers have claimed at once, at most.
    pub claims: u64,
    /// The length of a lease by the store's clock, in units of time.
    pub lasts: S::Number,
    /// How much earlier its owner counts it as over: `LeaseTerms::margin`.
    pub margin: S::Number,
    /// Operations in a history.
    pub operations: u8,
    /// What clocks do.
    pub clocks: Clocks,
    /// What is wrong with the model.
    pub mutation: Option<Mutation>,
}

impl Leases {
    /// Small bounds, to be extended.
    pub const SMALL: Self = Self {
        owners: 2,
        starts: 2,
        worker_ids: 1,
        ticks: 1,
        uids_per_tick: 1,
        claims: 1,
        operations: 0,
        lasts: 3,
        margin: 1,
        clocks: Clocks::Anything,
        mutation: None,
    };
}

/// All that decides what may happen next, and what was issued.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<S: Scale = Small> {
    /// The table, by worker id.
    pub rows: Vec<Row<S>>,
    /// The live owners, in order of their starts.
    pub owners: Vec<Owner<S>>,
    /// The requests sent.
    pub network: Network<Request<S>>,
    /// Starts so far.
    pub starts: u8,
    /// Operations so far.
    pub operations: u8,
    /// The set of uids that callers got, by worker id.
    pub issued: Vec<S::Uids>,
    /// What this step or an earlier one violated.
    pub broken: Broken,
}

/// Properties of a step, rather than of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken {
    /// A uid was issued twice.
    pub once: bool,
    /// A uid was issued above the store's horizon at that moment.
    pub covered: bool,
    /// A uid was issued that is not above the horizon at the acquire and all uids issued until then.
    pub above: bool,
    /// An owner continued after its end.
    pub ended: bool,
}

/// A row of `UIDRING_LEASE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Row<S: Scale = Small> {
    /// The owner that acquired it last.
    pub owner: u8,
    /// The fencing token.
    pub token: u8,
    /// Units of time until the lease ends by the store's clock; `None` if the row is free.
    pub ends: Option<S::Number>,
    /// The greatest uid that any owner may have issued: `tick * uids_per_tick + sequence`.
    pub horizon: Option<S::Number>,
}

/// A request to the store. It does the same whenever it is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request<S: Scale = Small> {
    /// Takes a row if it is still as read (`crates/store/src/server/leases/take.rs`). SQLite reads and takes it at
    /// once; here nothing comes between.
    Take {
        /// The owner that asks.
        owner: u8,
        /// The row.
        worker: u8,
        /// The row's token as read.
        token: u8,
        /// The row's horizon as read.
        horizon: Option<S::Number>,
    },
    /// Renews a lease (`crates/store/src/server/leases/hold.rs`, `crates/sqlite/src/leases/rows.rs`).
    Renew {
        /// The owner that asks.
        owner: u8,
        /// The row.
        worker: u8,
        /// The lease's token.
        token: u8,
        /// The last tick to issue.
        horizon: S::Number,
    },
    /// Frees a row (same files).
    Release {
        /// The owner that asks.
        owner: u8,
        /// The row.
        worker: u8,
        /// The lease's token.
        token: u8,
        /// The greatest uid that may have been issued.
        last: Option<S::Number>,
    },
}

/// An answer of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer<S: Scale = Small> {
    /// The row is the owner's, with this token.
    Taken {
        /// The token.
        token: u8,
        /// The row's horizon.
        before: Option<S::Number>,
        /// For the property `Above`: the greatest uid allowed or issued at that moment. No owner knows it.
        floor: Option<S::Number>,
    },
    /// Another owner was faster.
    NotTaken,
    /// The lease is renewed.
    Renewed,
    /// The row belongs to another owner, or has another token.
    Lost,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner<S: Scale = Small> {
    /// The number of its start: its name.
    pub session: u8,
    /// How far it is.
    pub stage: Stage<S>,
    /// The call that the lease's thread or the start waits for.
    pub call: Option<Call<S>>,
}

/// How far a process is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stage<S: Scale = Small> {
    /// It has no row yet, and has asked for one this many times.
    Starting(u8),
    /// The store has given it a row.
    Holding(Lease<S>),
}

/// A request that an owner waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call<S: Scale = Small> {
    /// The request.
    pub request: Request<S>,
    /// The store's answer, which has not arrived yet.
    pub answer: Option<Answer<S>>,
    /// Units of time since it was sent, by the owner's clock.
    pub(super) age: S::Number,
    /// How many more units that clock may fail to count.
    pub(super) slack: S::Number,
}

/// A lease as its owner knows it, and its generator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease<S: Scale = Small> {
    /// The worker id.
    pub worker: u8,
    /// The token.
    pub token: u8,
    /// The row's horizon at the acquire.
    pub before: Option<S::Number>,
    /// For `Above`; see [`Answer::Taken`].
    pub(super) floor: Option<S::Number>,
    /// For `Owner`: an operator has fenced it.
    pub(super) fenced: bool,
    /// The last tick granted; `None` before the first renewal, when nothing may be issued.
    pub horizon: Option<S::Number>,
    /// The next uid to make ready.
    pub next: S::Number,
    /// The set of uids that takers may get without asking anyone.
    pub ready: S::Uids,
    /// The set of uids that a local taker has claimed.
    pub lent: S::Uids,
    /// The greatest uid that was taken, claimed or skipped.
    pub last: Option<S::Number>,
    /// The owner knows that it is over.
    pub lost: bool,
    /// For `Ended`: someone was told so.
    pub(super) told: bool,
    /// The padder has seen that it is over.
    pub shut: bool,
    /// The generator was closed.
    pub closed: bool,
    /// Units of time until the deadline, by the owner's clock.
    pub left: S::Number,
    /// How many more units that clock may fail to count.
    pub(super) slack: S::Number,
}
