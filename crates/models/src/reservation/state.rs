//! What the model is made of.

use super::mutation::Mutation;
use crate::{Clocks, Network, Scale, Small};

/// The model, and its bounds. A tick stands for the millisecond of its end that is reserved, or issued.
#[derive(Clone, Debug)]
pub struct Reservation<S: Scale = Small> {
    /// How many hosts there are, with a process each at most: it locks the local file.
    pub hosts: u8,
    /// How many starts there are in a history.
    pub starts: S::Number,
    /// How many sessions are made in a history.
    pub sessions: S::Number,
    /// How many ticks there are.
    pub ticks: S::Number,
    /// How long the servers keep a session without hearing from it, in units of time.
    pub session: S::Number,
    /// For how long an owner issues uids after it asked for the last renewal: less than a session, so that an
    /// owner's clock may be slower than the servers' (`check_session` in `crates/zookeeper/src/session.rs`).
    pub outage: S::Number,
    /// With the steps of `details.rs`, which the code does, and no promise depends on.
    pub in_detail: bool,
    /// What clocks do.
    pub clocks: Clocks,
    /// What is wrong with it.
    pub mutation: Option<Mutation>,
}

impl Reservation {
    /// What an exhaustive search goes without.
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

/// Everything that decides what may happen next, and what was issued.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<S: Scale = Small> {
    /// The nodes, and the sessions.
    pub registry: Registry<S>,
    /// Whom the file of each host names.
    pub files: Vec<Option<S::Number>>,
    /// Who lives, in the order of their starts.
    pub processes: Vec<Process<S>>,
    /// The transactions that were sent.
    pub network: Network<Request<S>>,
    /// How many starts there were.
    pub starts: S::Number,
    /// A set of ticks: those that any caller got.
    pub issued: S::Uids,
    /// A uid was issued that had been issued before.
    pub repeated: bool,
    /// A uid was issued that the registry did not have reserved at that moment.
    pub uncovered: bool,
    /// A uid was issued that had been reserved, or issued, when its process was let in.
    pub not_above: bool,
}

/// The nodes of an instance (`crates/zookeeper/src/nodes.rs`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registry<S: Scale = Small> {
    /// The numbers of the instance's nodes below `forever`: the lowest one counts. That exists in a search without
    /// details.
    pub numbers: S::Uids,
    /// How many numbers were made, whoever's: the next one.
    pub made: S::Number,
    /// The version of `forever/INSTANCE`, which has the number. Versions begin with 1, and 0 is no node's.
    pub endpoint: S::Number,
    /// `reserved/INSTANCE`.
    pub reserved: Reserved<S>,
    /// The session that `temporary/INSTANCE` lives with.
    pub name: Option<S::Number>,
    /// The sessions that live.
    pub sessions: Vec<Session<S>>,
    /// How many sessions there were.
    pub connects: S::Number,
}

/// The node with the reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reserved<S: Scale = Small> {
    /// The node's version.
    pub version: S::Number,
    /// The last tick that may have been issued.
    pub until: Option<S::Number>,
    /// The process that was let in last.
    pub holder: S::Number,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session<S: Scale = Small> {
    /// Its number.
    pub number: S::Number,
    /// Whose it is.
    pub process: S::Number,
    /// Units of time until the servers may end it.
    pub(super) left: S::Number,
}

/// A transaction. It names what it expects, and so takes effect once at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request<S: Scale = Small> {
    /// Makes the node with the name: `create_name` in `crates/zookeeper/src/claim.rs`.
    Name {
        /// In this session.
        session: S::Number,
    },
    /// Takes the name over from a process that is dead: `inherit_name`.
    Inherit {
        /// In this session.
        session: S::Number,
        /// Who.
        process: S::Number,
        /// The version of the reservation as it was read.
        version: S::Number,
    },
    /// Makes a number, which is new or instead of 0: `make_number`.
    Number {
        /// In this session.
        session: S::Number,
        /// Who.
        process: S::Number,
        /// The number that goes.
        instead: Option<S::Number>,
        /// The version of the reservation as it was read.
        reserved: S::Number,
    },
    /// Writes the reservation: `InstanceNodes::write` in `crates/zookeeper/src/entry.rs`.
    Mark {
        /// In this session.
        session: S::Number,
        /// Who.
        process: S::Number,
        /// The versions of both nodes.
        endpoint: S::Number,
        /// The version of the reservation.
        reserved: S::Number,
        /// The last tick to issue.
        until: Option<S::Number>,
        /// It is the last one, and frees the name.
        frees_name: bool,
    },
}

/// What the servers answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer<S: Scale = Small> {
    /// The name lives with this session.
    NameOf(S::Number),
    /// The transaction was executed.
    Done {
        /// The new version of the node with the number.
        endpoint: S::Number,
        /// The new version of the reservation.
        reserved: S::Number,
        /// For the property `Above`: the greatest tick that was reserved or issued before it. No process knows
        /// it.
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
    /// Which start it is: its `holder`.
    pub start: S::Number,
    /// Where it runs.
    pub host: u8,
    /// Who had the name on this host before, by the file: it is dead, since the file's lock is ours.
    pub previous: Option<S::Number>,
    /// Its session, as far as it knows.
    pub session: Option<S::Number>,
    /// Where it is in the protocol.
    pub place: Place<S>,
    /// The transaction that it waits for.
    pub call: Option<Call<S>>,
    /// The renewal that it is to bring about.
    pub asked: Option<Asked<S>>,
    /// What it issues by, once it was let in.
    pub lease: Option<Lease<S>>,
}

/// Where a process is: `Session::try_store` and `InstanceNodes::claim`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place<S: Scale = Small> {
    /// It has no session.
    Offline,
    /// It is to make the node with the name.
    Naming,
    /// It has read the reservation, to take the name over.
    Inheriting(S::Number),
    /// It has the name.
    Named,
    /// It has found no number that it could use, and is to make one.
    Numberless {
        /// The number that is to go.
        instead: Option<S::Number>,
        /// The version of the reservation, once it was read.
        reserved: Option<S::Number>,
    },
    /// It has read the version of the node with the number.
    ReadNumber(S::Number),
    /// It has read the reservation, too.
    ReadReserved {
        /// The version of the node with the number.
        endpoint: S::Number,
        /// The version of the reservation.
        reserved: S::Number,
        /// What is reserved.
        until: Option<S::Number>,
    },
    /// It was let in. It knows the versions of both nodes, unless an answer was lost.
    Entered {
        /// The version of the node with the number.
        endpoint: S::Number,
        /// The version of the reservation.
        reserved: S::Number,
    },
    /// It was refused, since somebody else was let in, and asks for nothing more.
    Refused,
}

/// A transaction that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call<S: Scale = Small> {
    /// What was sent.
    pub request: Request<S>,
    /// What the servers have answered, which has not arrived yet.
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
    /// What was reserved when it was let in.
    pub base: Option<S::Number>,
    /// For `Above`; see [`Answer::Done`].
    pub(super) floor: Option<S::Number>,
    /// The furthest that the registry was asked for. It may hold that whatever it has answered.
    pub mark: Option<S::Number>,
    /// The last tick that may be issued; `None` before the first renewal.
    pub horizon: Option<S::Number>,
    /// The next tick to be made ready.
    pub next: S::Number,
    /// A set: the ticks that takers may get without asking anybody.
    pub ready: S::Uids,
    /// The last tick that was taken.
    pub last: Option<S::Number>,
    /// It is known to be over.
    pub lost: bool,
    /// Its generator is closed, and it is being given back.
    pub closed: bool,
    /// Units of time to the deadline, by the process's clock.
    pub(super) left: S::Number,
    /// How many more units that clock may fail to count.
    pub(super) slack: S::Number,
}
