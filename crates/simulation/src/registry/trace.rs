//! The steps of a history, for a follower.

use std::time::Duration;

use uidring::{Layout, Timestamp, Uid};
use uidring_zookeeper::protocol::{CreateMode, Reserved, Write, instance_and_number};

use crate::{Answer, LeaseSeen, Take};

/// The setting of a history.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The layout of the uids.
    pub layout: Layout,
    /// How long the servers keep a session that they do not hear from.
    pub session: Duration,
    /// How long an instance continues without an answer.
    pub max_outage: Duration,
    /// The number of instances.
    pub instances: u8,
    /// Whether clocks stay within the outage budget.
    pub is_calm: bool,
}

/// Follows a history: sees each step, and the state after it. It may panic, which ends the history.
pub trait Follower: Send + 'static {
    /// Handles a step.
    fn step(&mut self, step: &Step, after: &Snapshot);
}

/// A step. Processes are numbered in the order of their starts.
#[derive(Clone, Debug)]
pub enum Step {
    /// Time has passed.
    Passed {
        /// Nanoseconds.
        nanos: u64,
        /// By the monotonic clocks of processes, in nanoseconds.
        by_processes: Vec<(u64, u64)>,
    },
    /// A process of an instance has started on a host.
    Started {
        /// The process.
        process: u64,
        /// The host.
        host: u8,
        /// The instance.
        instance: u8,
    },
    /// A process has ended, for whatever reason.
    Ended {
        /// The process.
        process: u64,
    },
    /// The servers have heard from all sessions of a process.
    Reached {
        /// The process.
        process: u64,
    },
    /// A process has connected.
    Connected {
        /// The process.
        process: u64,
        /// The session.
        session: i64,
        /// When the servers last heard from it, in nanoseconds before now.
        ago: u64,
    },
    /// The servers have read something for a process.
    Read {
        /// The process.
        process: u64,
        /// The node.
        node: Node,
    },
    /// What was read has arrived.
    ReadHeard {
        /// The process.
        process: u64,
        /// The node.
        node: Node,
        /// The node's version.
        version: Option<i32>,
        /// The holder, if it is the reservation.
        holder: Option<u64>,
    },
    /// A process sends a transaction.
    Sent {
        /// The process.
        process: u64,
        /// The transaction.
        request: Request,
    },
    /// The servers have executed a transaction, or refused it.
    Executed {
        /// The process.
        process: u64,
        /// The session.
        session: i64,
        /// The transaction.
        request: Request,
        /// Whether it was executed.
        is_done: bool,
        /// Whether it arrived late, when nobody waited for it any more.
        is_late: bool,
    },
    /// The answer to a transaction has arrived.
    Answered {
        /// The process.
        process: u64,
    },
    /// A session has ended.
    SessionEnded {
        /// The session.
        session: i64,
        /// Whether its process closed it.
        is_goodbye: bool,
    },
    /// A process has written its host's file.
    Filed {
        /// The process.
        process: u64,
    },
    /// A renewal is requested.
    RenewalAsked {
        /// The process.
        process: u64,
        /// The last tick wanted.
        horizon: u64,
    },
    /// The answer to a renewal has arrived.
    RenewalAnswered {
        /// The process.
        process: u64,
        /// The answer.
        answer: Answer,
    },
    /// A generator was built with the lease.
    Built {
        /// The process.
        process: u64,
    },
    /// Takers took uids.
    Took {
        /// The process.
        process: u64,
        /// The uids, and the error that ended the takes.
        takes: Vec<Take>,
    },
    /// The padder has looked.
    Serviced {
        /// The process.
        process: u64,
    },
    /// The generator was closed.
    Closed {
        /// The process.
        process: u64,
        /// The last uid that counts as issued.
        last: Option<Uid>,
    },
}

impl Step {
    /// Returns the step's process; `None` if time has passed or a session has ended.
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
        /// The number to replace.
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
        /// Whether it is the last write, which frees the name.
        frees_name: bool,
    },
}

/// The state after a step.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The nodes and files of each instance.
    pub instances: Vec<InstanceSeen>,
    /// The live sessions.
    pub sessions: Vec<SessionSeen>,
    /// The live generators, by process.
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
    /// The session that has the name.
    pub name: Option<i64>,
    /// The process that each host's file names.
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
    /// Nanoseconds until it ends, unless the servers hear from it.
    pub left: u64,
}

impl Request {
    /// Returns the transaction that these writes are.
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

/// Returns the number of a node below `forever`.
pub(super) fn number_of(path: &str) -> Option<u64> {
    let (_, node) = path.rsplit_once('/')?;
    instance_and_number(node)?.1.try_into().ok()
}
