//! The parts of the model.

use super::mutation::Mutation;
use crate::{Clocks, Network, Scale, Small};

/// The model and its bounds. A tick represents its last millisecond, which is what is reserved or issued.
#[derive(Clone, Debug)]
pub struct Reservation<S: Scale = Small> {
    /// Hosts. Each has at most one process, which locks the local file.
    pub hosts: u8,
    /// Starts in a history.
    pub starts: S::Number,
    /// Sessions in a history.
    pub sessions: S::Number,
    /// Ticks.
    pub ticks: S::Number,
    /// How long the servers keep a session that they do not hear from, in units of time.
    pub session: S::Number,
    /// How long an owner issues uids after it asked for the last renewal. Less than a session, so that an owner's clock
    /// may be slower than the servers' (`check_session` in `crates/zookeeper/src/session.rs`).
    pub outage: S::Number,
    /// Includes the steps of `details.rs`, on which no promise depends.
    pub in_detail: bool,
    /// What clocks do.
    pub clocks: Clocks,
    /// What is wrong with the model.
    pub mutation: Option<Mutation>,
}

impl Reservation {
    /// Small bounds, to be extended.
    pub const SMALL: Self = Self {
        hosts: 2,
        starts: 2,
        sessions: 2,
        ticks: 1,
        session: 3,
        outage: 2,
        in_detail: false,
        clocks: Clocks::Anything,
        mutation: None,
    };
}

/// All that decides what may happen next, and what was issued.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<S: Scale = Small> {
    /// The nodes and the sessions.
    pub registry: Registry<S>,
    /// The process that each host's file names.
    pub files: Vec<Option<S::Number>>,
    /// The live processes, in order of their starts.
    pub processes: Vec<Process<S>>,
    /// The transactions sent.
    pub network: Network<Request<S>>,
    /// Starts so far.
    pub starts: S::Number,
    /// The set of ticks that callers got.
    pub issued: S::Uids,
    /// A uid was issued twice.
    pub repeated: bool,
    /// A uid was issued that was not reserved at that moment.
    pub uncovered: bool,
    /// A uid was issued that had been reserved or issued when its process was admitted.
    pub not_above: bool,
}

/// The nodes of an instance (`crates/zookeeper/src/nodes.rs`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registry<S: Scale = Small> {
    /// The numbers of the instance's nodes below `forever`. The lowest counts. In a search without details it exists.
    pub numbers: S::Uids,
    /// How many numbers were made, by any instance; also the next one.
    pub made: S::Number,
    /// The version of `forever/INSTANCE`, which has the number. Versions start at 1; 0 means that there is no node.
    pub endpoint: S::Number,
    /// `reserved/INSTANCE`.
    pub reserved: Reserved<S>,
    /// The session that `temporary/INSTANCE` belongs to.
    pub name: Option<S::Number>,
    /// The live sessions.
    pub sessions: Vec<Session<S>>,
    /// Sessions so far.
    pub connects: S::Number,
}

/// The node with the reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reserved<S: Scale = Small> {
    /// The node's version.
    pub version: S::Number,
    /// The last tick that may have been issued.
    pub until: Option<S::Number>,
    /// The process that was admitted last.
    pub holder: S::Number,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session<S: Scale = Small> {
    /// Its number.
    pub number: S::Number,
    /// Its process.
    pub process: S::Number,
    /// Units of time until the servers may end it.
    pub(super) left: S::Number,
}

/// A transaction. It names what it expects, so it takes effect at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request<S: Scale = Small> {
    /// Makes the node with the name: `create_name` in `crates/zookeeper/src/claim.rs`.
    Name {
        /// The session.
        session: S::Number,
    },
    /// Takes the name over from a dead process: `inherit_name`.
    Inherit {
        /// The session.
        session: S::Number,
        /// The process.
        process: S::Number,
        /// The reservation's version as read.
        version: S::Number,
    },
    /// Makes a number, a first one or in place of 0: `make_number`.
    Number {
        /// The session.
        session: S::Number,
        /// The process.
        process: S::Number,
        /// The number to replace.
        instead: Option<S::Number>,
        /// The reservation's version as read.
        reserved: S::Number,
    },
    /// Writes the reservation: `InstanceNodes::write` in `crates/zookeeper/src/entry.rs`.
    Mark {
        /// The session.
        session: S::Number,
        /// The process.
        process: S::Number,
        /// The version of the node with the number.
        endpoint: S::Number,
        /// The version of the reservation.
        reserved: S::Number,
        /// The last tick to issue.
        until: Option<S::Number>,
        /// Whether it is the last write, which frees the name.
        frees_name: bool,
    },
}

/// An answer of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer<S: Scale = Small> {
    /// The name belongs to this session.
    NameOf(S::Number),
    /// The transaction was executed.
    Done {
        /// The new version of the node with the number.
        endpoint: S::Number,
        /// The new version of the reservation.
        reserved: S::Number,
        /// For the property `Above`: the greatest tick reserved or issued before. No process knows it.
        floor: Option<S::Number>,
    },
    /// A node is not as the transaction expects.
    Changed,
    /// The session has ended.
    Over,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process<S: Scale = Small> {
    /// The number of its start: its `holder`.
    pub start: S::Number,
    /// Its host.
    pub host: u8,
    /// The last process on this host to have the name, by the file. It is dead, because this one holds the file's lock.
    pub previous: Option<S::Number>,
    /// Its session, as far as it knows.
    pub session: Option<S::Number>,
    /// Where it is in the protocol.
    pub place: Place<S>,
    /// The transaction that it waits for.
    pub call: Option<Call<S>>,
    /// The renewal to bring about.
    pub asked: Option<Asked<S>>,
    /// What it issues by, once it is admitted.
    pub lease: Option<Lease<S>>,
}

/// Where a process is in the protocol: `Session::try_store` and `InstanceNodes::claim`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place<S: Scale = Small> {
    /// It has no session.
    Offline,
    /// It is about to make the node with the name.
    Naming,
    /// It has read the reservation, with this version, to take the name over.
    Inheriting(S::Number),
    /// It has the name.
    Named,
    /// It has found no usable number, and is about to make one.
    Numberless {
        /// The number to replace.
        instead: Option<S::Number>,
        /// The reservation's version, once it was read.
        reserved: Option<S::Number>,
    },
    /// It has read the version of the node with the number.
    ReadNumber(S::Number),
    /// It has also read the reservation.
    ReadReserved {
        /// The version of the node with the number.
        endpoint: S::Number,
        /// The version of the reservation.
        reserved: S::Number,
        /// What is reserved.
        until: Option<S::Number>,
    },
    /// It was admitted. It knows the versions of both nodes, unless an answer was lost.
    Entered {
        /// The version of the node with the number.
        endpoint: S::Number,
        /// The version of the reservation.
        reserved: S::Number,
    },
    /// It was refused, because another process was admitted. It asks for nothing more.
    Refused,
}

/// A transaction that a process waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call<S: Scale = Small> {
    /// The transaction.
    pub request: Request<S>,
    /// The servers' answer, which has not arrived yet.
    pub answer: Option<Answer<S>>,
}

/// A renewal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asked<S: Scale = Small> {
    /// The last tick that may be issued after it.
    pub horizon: S::Number,
    /// Units of time since it was asked for, by the process's clock.
    pub(super) age: S::Number,
    /// How many more units that clock may fail to count.
    pub(super) slack: S::Number,
}

/// A lease and its generator (`crates/zookeeper/src/lease.rs`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease<S: Scale = Small> {
    /// What was reserved when the process was admitted.
    pub base: Option<S::Number>,
    /// For `Above`; see [`Answer::Done`].
    pub(super) floor: Option<S::Number>,
    /// The furthest tick that the registry was asked for. It may hold this, whatever it has answered.
    pub mark: Option<S::Number>,
    /// The last tick granted; `None` before the first renewal.
    pub horizon: Option<S::Number>,
    /// The next tick to make ready.
    pub next: S::Number,
    /// The set of ticks that takers may get without asking anyone.
    pub ready: S::Uids,
    /// The last tick that was taken.
    pub last: Option<S::Number>,
    /// The process knows that it is over.
    pub lost: bool,
    /// The generator is closed, and the lease is being given back.
    pub closed: bool,
    /// Units of time until the deadline, by the process's clock.
    pub(super) left: S::Number,
    /// How many more units that clock may fail to count.
    pub(super) slack: S::Number,
}
