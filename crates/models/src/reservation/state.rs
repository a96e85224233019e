//! What the model is made of.

use super::mutation::Mutation;
use crate::{Clocks, Network};

/// The end of a millisecond that is reserved, or issued: its tick.
pub type Tick = u8;

/// How long the servers keep a session without hearing from it, in units of time.
pub const SESSION: u8 = 3;

/// For how long an owner issues uids after it asked for the last renewal: less than a session, so that an
/// owner's clock may be slower than the servers' (`check_session` in `crates/zookeeper/src/session.rs`).
pub const OUTAGE: u8 = 2;

/// The model, and its bounds.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// How many hosts there are, with a process each at most: it locks the local file.
    pub hosts: u8,
    /// How many starts there are in a history.
    pub starts: u8,
    /// How many sessions are made in a history.
    pub sessions: u8,
    /// How many ticks there are.
    pub ticks: u8,
    /// What clocks do.
    pub clocks: Clocks,
    /// What is wrong with it.
    pub mutation: Option<Mutation>,
}

/// Everything that decides what may happen next, and what was issued.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The nodes, and the sessions.
    pub registry: Registry,
    /// Whom the file of each host names.
    pub files: Vec<Option<u8>>,
    /// Who lives, in the order of their starts.
    pub processes: Vec<Process>,
    /// The transactions that were sent.
    pub network: Network<Request>,
    /// How many starts there were.
    pub starts: u8,
    /// A set of ticks: those that any caller got.
    pub issued: u32,
    /// A uid was issued that had been issued before.
    pub repeated: bool,
    /// A uid was issued that the registry did not have reserved at that moment.
    pub uncovered: bool,
    /// A uid was issued that had been reserved, or issued, when its process was let in.
    pub not_above: bool,
}

/// The nodes of an instance (`crates/zookeeper/src/nodes.rs`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registry {
    /// The version of `forever/INSTANCE`, which has the number.
    pub endpoint: u8,
    /// `reserved/INSTANCE`.
    pub reserved: Reserved,
    /// The session that `temporary/INSTANCE` lives with.
    pub name: Option<u8>,
    /// The sessions that live.
    pub sessions: Vec<Session>,
    /// How many sessions there were.
    pub connects: u8,
}

/// The node with the reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reserved {
    /// The node's version.
    pub version: u8,
    /// The last tick that may have been issued.
    pub until: Option<Tick>,
    /// The process that was let in last.
    pub holder: u8,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// Its number.
    pub number: u8,
    /// Whose it is.
    pub process: u8,
    /// Units of time until the servers may end it.
    pub(super) left: u8,
}

/// A transaction. It names what it expects, and so takes effect once at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// Makes the node with the name: `create_name` in `crates/zookeeper/src/claim.rs`.
    Name {
        /// In this session.
        session: u8,
    },
    /// Takes the name over from a process that is dead: `inherit_name`.
    Inherit {
        /// In this session.
        session: u8,
        /// Who.
        process: u8,
        /// The version of the reservation as it was read.
        version: u8,
    },
    /// Writes the reservation: `InstanceNodes::write` in `crates/zookeeper/src/entry.rs`.
    Mark {
        /// In this session.
        session: u8,
        /// Who.
        process: u8,
        /// The versions of both nodes.
        endpoint: u8,
        /// The version of the reservation.
        reserved: u8,
        /// The last tick to issue.
        until: Option<Tick>,
        /// It is the last one, and frees the name.
        frees_name: bool,
    },
}

/// What the servers answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The name lives with this session.
    NameOf(u8),
    /// The transaction was executed.
    Done {
        /// The new version of the node with the number.
        endpoint: u8,
        /// The new version of the reservation.
        reserved: u8,
        /// For the property `Above`: the greatest tick that was reserved or issued before it. No process knows
        /// it.
        floor: Option<Tick>,
    },
    /// A node is not as the transaction expects.
    Changed,
    /// The session has ended.
    Over,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Which start it is: its `holder`.
    pub start: u8,
    /// Where it runs.
    pub host: u8,
    /// Who had the name on this host before, by the file: it is dead, since the file's lock is ours.
    pub previous: Option<u8>,
    /// Its session, as far as it knows.
    pub session: Option<u8>,
    /// Where it is in the protocol.
    pub place: Place,
    /// The transaction that it waits for.
    pub call: Option<Call>,
    /// The renewal that it is to bring about.
    pub asked: Option<Asked>,
    /// What it issues by, once it was let in.
    pub lease: Option<Lease>,
}

/// Where a process is: `Session::try_store` and `InstanceNodes::claim`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It has no session.
    Offline,
    /// It is to make the node with the name.
    Naming,
    /// It has read the reservation, to take the name over.
    Inheriting(u8),
    /// It has the name.
    Named,
    /// It has read the version of the node with the number.
    ReadNumber(u8),
    /// It has read the reservation, too.
    ReadReserved {
        /// The version of the node with the number.
        endpoint: u8,
        /// The version of the reservation.
        reserved: u8,
        /// What is reserved.
        until: Option<Tick>,
    },
    /// It was let in. It knows the versions of both nodes, unless an answer was lost.
    Entered {
        /// The version of the node with the number.
        endpoint: u8,
        /// The version of the reservation.
        reserved: u8,
    },
}

/// A transaction that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// What was sent.
    pub request: Request,
    /// What the servers have answered, which has not arrived yet.
    pub answer: Option<Answer>,
}

/// A renewal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The last tick that may be issued after it.
    pub horizon: Tick,
    /// Units of time since it was asked for, by the process's clock.
    pub(super) age: u8,
    /// How many more units that clock may fail to count.
    pub(super) slack: u8,
}

/// A lease and its generator (`crates/zookeeper/src/lease.rs`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// What was reserved when it was let in.
    pub base: Option<Tick>,
    /// For `Above`; see [`Answer::Done`].
    pub(super) floor: Option<Tick>,
    /// The furthest that the registry was asked for. It may hold that whatever it has answered.
    pub mark: Option<Tick>,
    /// The last tick that may be issued; `None` before the first renewal.
    pub horizon: Option<Tick>,
    /// The next tick to be made ready.
    pub next: Tick,
    /// A set: the ticks that takers may get without asking anybody.
    pub ready: u32,
    /// The last tick that was taken.
    pub last: Option<Tick>,
    /// It is known to be over.
    pub lost: bool,
    /// Units of time to the deadline, by the process's clock.
    pub(super) left: u8,
    /// How many more units that clock may fail to count.
    pub(super) slack: u8,
}
