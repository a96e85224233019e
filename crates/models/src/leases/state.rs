//! What the model is made of.

use super::mutation::Mutation;
use crate::{Clocks, Network, Scale, Small};

/// The model, and its bounds.
#[derive(Clone, Debug)]
pub struct Leases<S: Scale = Small> {
    /// How many owners may live at one time.
    pub owners: usize,
    /// How many starts there are in a history.
    pub starts: u8,
    /// How many worker ids there are.
    pub worker_ids: u8,
    /// How many ticks there are.
    pub ticks: S::Number,
    /// How many uids a tick has.
    pub uids_per_tick: S::Number,
    /// How many uids a local taker may have claimed at one time.
    pub claims: u64,
    /// How long a lease lasts by the store's clock, in units of time.
    pub lasts: S::Number,
    /// By how much earlier its owner counts it as over: `LeaseTerms::margin`.
    pub margin: S::Number,
    /// How often an operator acts in a history.
    pub operations: u8,
    /// What clocks do.
    pub clocks: Clocks,
    /// What is wrong with it.
    pub mutation: Option<Mutation>,
}

impl Leases {
    /// What an exhaustive search goes without.
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

/// Everything that decides what may happen next, and what was issued.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<S: Scale = Small> {
    /// The table, by worker id.
    pub rows: Vec<Row<S>>,
    /// Who lives, in the order of their starts.
    pub owners: Vec<Owner<S>>,
    /// The requests that were sent.
    pub network: Network<Request<S>>,
    /// How many starts there were.
    pub starts: u8,
    /// How often an operator has acted.
    pub operations: u8,
    /// A set of uids for each worker id: those that any caller got.
    pub issued: Vec<S::Uids>,
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
pub struct Row<S: Scale = Small> {
    /// The last owner to acquire it.
    pub owner: u8,
    /// The fencing token.
    pub token: u8,
    /// Units of time until the lease ends by the store's clock; `None` where the row is free.
    pub ends: Option<S::Number>,
    /// The greatest uid that any owner may have issued: `tick * uids_per_tick + sequence`.
    pub horizon: Option<S::Number>,
}

/// What an owner asks the store for. A request does the same whenever it is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request<S: Scale = Small> {
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
        horizon: Option<S::Number>,
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
        horizon: S::Number,
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
        last: Option<S::Number>,
    },
}

/// What the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer<S: Scale = Small> {
    /// The row is the owner's, with this token.
    Taken {
        /// The token.
        token: u8,
        /// The row's horizon.
        before: Option<S::Number>,
        /// For the property `Above`: the greatest uid that the row allowed at that moment, or that was issued.
        /// No owner knows it.
        floor: Option<S::Number>,
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
pub struct Owner<S: Scale = Small> {
    /// Which start it is: its name.
    pub session: u8,
    /// How far it is.
    pub stage: Stage<S>,
    /// The call that its lease's thread, or its start, waits for: one at a time.
    pub call: Option<Call<S>>,
}

/// How far a process is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stage<S: Scale = Small> {
    /// It has no row yet. So many times it has asked for one.
    Starting(u8),
    /// The store has given it a row.
    Holding(Lease<S>),
}

/// A request that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call<S: Scale = Small> {
    /// What was asked.
    pub request: Request<S>,
    /// What the store has answered, which has not arrived yet.
    pub answer: Option<Answer<S>>,
    /// Units of time since it was asked, by the owner's clock.
    pub(super) age: S::Number,
    /// How many more units that clock may fail to count.
    pub(super) slack: S::Number,
}

/// A lease, as its owner knows it, and its generator.
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
    /// The last tick that the store has granted; `None` before the first renewal, when nothing may be issued.
    pub horizon: Option<S::Number>,
    /// The next uid to be made ready.
    pub next: S::Number,
    /// A set: the uids that takers may get without asking anybody.
    pub ready: S::Uids,
    /// A set: the uids that a local taker has claimed.
    pub lent: S::Uids,
    /// The greatest uid that was taken, claimed or skipped.
    pub last: Option<S::Number>,
    /// It is known to be over.
    pub lost: bool,
    /// For `Ended`: somebody was told so.
    pub(super) told: bool,
    /// The padder has seen that.
    pub shut: bool,
    /// The generator was closed.
    pub closed: bool,
    /// Units of time to the deadline, by the owner's clock.
    pub left: S::Number,
    /// How many more units that clock may fail to count.
    pub(super) slack: S::Number,
}
