//! What happens in a history, step by step, for somebody who follows it.

use std::time::Duration;

use uidring::{Layout, Timestamp, Uid};
use uidring_zookeeper::protocol::{CreateMode, Reserved, Write, instance_and_number};

use crate::{Answer, LeaseSeen, Take};

/// What a history is of.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The layout of the uids.
    pub layout: Layout,
    /// How long the servers keep a session without hearing from it.
    pub session: Duration,
    /// For how long an instance goes on without an answer.
    pub max_outage: Duration,
    /// How many instances there are.
    pub instances: u8,
    /// Whether clocks are as good as the outage budget assumes.
    pub is_calm: bool,
}

/// Follows a history: it sees each step, and what is there afterwards. It may panic, which ends the history.
pub trait Follower: Send + 'static {
    /// Something has happened.
    fn step(&mut self, step: &Step, after: &Snapshot);
}

/// A step. Processes are numbered in the order of their starts.
#[derive(Clone, Debug)]
pub enum Step {
    /// Time has passed.
    Passed {
        /// In nanoseconds.
        nanos: u64,
        /// By the monotonic clocks of processes.
        by_processes: Vec<(u64, u64)>,
    },
    /// A process of an instance has started on a host.
    Started {
        /// Which.
        process: u64,
        /// Where.
        host: u8,
        /// Of which.
        instance: u8,
    },
    /// A process has ended, whatever ended it.
    Ended {
        /// Which.
        process: u64,
    },
    /// The servers have heard from all sessions of a process.
    Reached {
        /// Which.
        process: u64,
    },
    /// A process has got a session.
    Connected {
        /// Which.
        process: u64,
        /// Its number.
        session: i64,
        /// When the servers have heard from it last: so many nanoseconds ago.
        ago: u64,
    },
    /// The servers have read something for a process.
    Read {
        /// For which.
        process: u64,
        /// What.
        node: Node,
    },
    /// What was read has arrived.
    ReadHeard {
        /// At which process.
        process: u64,
        /// What.
        node: Node,
        /// The node's version.
        version: Option<i32>,
        /// Whom the reservation named.
        holder: Option<u64>,
    },
    /// A process sends a transaction.
    Sent {
        /// Which.
        process: u64,
        /// Which.
        request: Request,
    },
    /// The servers have executed a transaction, or refused it.
    Executed {
        /// Of this process.
        process: u64,
        /// In this session.
        session: i64,
        /// Which.
        request: Request,
        /// Whether it was executed.
        is_done: bool,
        /// The servers have got it earlier, and nobody waits for it.
        is_late: bool,
    },
    /// The answer to a transaction has come.
    Answered {
        /// To which process.
        process: u64,
    },
    /// A session has ended.
    SessionEnded {
        /// Which.
        session: i64,
        /// Its process has said so.
        is_goodbye: bool,
    },
    /// A process has written its host's file.
    Filed {
        /// Which.
        process: u64,
    },
    /// A renewal is asked for.
    RenewalAsked {
        /// By which process.
        process: u64,
        /// The last tick that is wanted.
        horizon: u64,
    },
    /// The answer to a renewal has come.
    RenewalAnswered {
        /// To which process.
        process: u64,
        /// What it says.
        answer: Answer,
    },
    /// A generator was built with the lease.
    Built {
        /// By which process.
        process: u64,
    },
    /// Somebody takes uids.
    Took {
        /// From whose generator.
        process: u64,
        /// Each of them, and the error that was the last.
        takes: Vec<Take>,
    },
    /// The padder has looked.
    Serviced {
        /// At whose ring.
        process: u64,
    },
    /// The generator was closed.
    Closed {
        /// Whose.
        process: u64,
        /// The last uid that counts as issued.
        last: Option<Uid>,
    },
}

impl Step {
    /// The process whose step it is; none if time has passed, or a session has ended.
    pub fn process(&self) -> Option<u64> {
        match *self {
            Self::Passed { .. } | Self::SessionEnded { .. } => None,
            Self::Started { process, .. }
            | Self::Ended { process, .. }
            | Self::Reached { process, .. }
            | Self::Connected { process, .. }
            | Self::Read { process, .. }
            | Self::ReadHeard { process, .. }
            | Self::Sent { process, .. }
            | Self::Executed { process, .. }
            | Self::Answered { process, .. }
            | Self::Filed { process, .. }
            | Self::RenewalAsked { process, .. }
            | Self::RenewalAnswered { process, .. }
            | Self::Built { process, .. }
            | Self::Took { process, .. }
            | Self::Serviced { process, .. }
            | Self::Closed { process, .. } => Some(process),
        }
    }
}

/// A node of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// The numbers below `forever`.
    Numbers,
    /// The node with the number.
    Number,
    /// The reservation.
    Reserved,
    /// The name.
    Name,
}

/// A transaction, with the versions that it expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Makes the node with the name.
    Name,
    /// Takes the name over.
    Inherit {
        /// The version of the reservation.
        reserved: i32,
    },
    /// Makes a number.
    Number {
        /// The number that goes.
        instead: Option<u64>,
        /// The version of the reservation, if there is one.
        reserved: Option<i32>,
    },
    /// Writes the reservation.
    Mark {
        /// The version of the node with the number.
        endpoint: i32,
        /// The version of the reservation.
        reserved: i32,
        /// The last millisecond to issue.
        until: Timestamp,
        /// It is the last one, and frees the name.
        frees_name: bool,
    },
}

/// What is there.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The nodes and files of each instance.
    pub instances: Vec<InstanceSeen>,
    /// The sessions that live.
    pub sessions: Vec<SessionSeen>,
    /// The generators that live, by process.
    pub owners: Vec<(u64, LeaseSeen)>,
}

/// An instance.
#[derive(Clone, Debug)]
pub struct InstanceSeen {
    /// Its numbers.
    pub numbers: Vec<u64>,
    /// The version of the node with the lowest one.
    pub endpoint: Option<i32>,
    /// The reservation.
    pub reserved: Option<ReservedSeen>,
    /// The session that the name lives with.
    pub name: Option<i64>,
    /// The processes that the files of hosts name.
    pub files: Vec<(u8, Option<u64>)>,
}

/// A reservation.
#[derive(Clone, Copy, Debug)]
pub struct ReservedSeen {
    /// The node's version.
    pub version: i32,
    /// The last millisecond that may have been issued.
    pub until: Timestamp,
    /// The process that wrote it.
    pub holder: Option<u64>,
}

/// A session.
#[derive(Clone, Copy, Debug)]
pub struct SessionSeen {
    /// Its number.
    pub session: i64,
    /// In how many nanoseconds it ends, unless the servers hear from it.
    pub left: u64,
}

impl Request {
    /// What these writes are.
    pub(super) fn new(writes: &[Write]) -> Option<Self> {
        match writes {
            [Write::Create { mode: CreateMode::Ephemeral, .. }] => Some(Self::Name),
            [Write::Check { .. }, Write::Set { version, .. }, ..] => {
                Some(Self::Inherit { reserved: *version })
            }
            [Write::Create { mode: CreateMode::PersistentSequential, .. }, rest @ ..] => {
                let (instead, reserve) = match rest {
                    [Write::Delete { path }, reserve] => (number_of(path), reserve),
                    [reserve] => (None, reserve),
                    _ => return None,
                };
                let reserved = match reserve {
                    Write::Set { version, .. } => Some(*version),
                    _ => None,
                };
                Some(Self::Number { instead, reserved })
            }
            [
                Write::Set { version: endpoint, .. },
                Write::Set { version: reserved, data, .. },
                rest @ ..,
            ] => {
                let until = Reserved::from_json(data.as_bytes())?.until;
                let (endpoint, reserved) = (*endpoint, *reserved);
                let frees_name = matches!(rest, [.., Write::Delete { .. }]);
                Some(Self::Mark { endpoint, reserved, until, frees_name })
            }
            _ => None,
        }
    }
}

/// The number of a node below `forever`.
pub(super) fn number_of(path: &str) -> Option<u64> {
    let (_, node) = path.rsplit_once('/')?;
    instance_and_number(node)?.1.try_into().ok()
}
