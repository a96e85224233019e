//! What the protocol asks of ZooKeeper: a tree of nodes, seen in a session. The servers' own client
//! is behind it, or a tree in memory where the protocol is modelled.

use std::future::Future;
use std::time::Duration;

use uidring::adapter::Moment;

use super::problem::Problem;

/// The servers that a session is made with.
pub trait Ensemble: Clone {
    type Tree: Tree;

    /// The present moment, by which waiting is measured.
    fn moment(&self) -> Moment;

    async fn pause(&self, time: Duration);

    /// Makes a session.
    async fn connect(&self) -> Result<Self::Tree, Problem>;

    /// Waits for the work, but no longer than this; `None` if it is not done by then.
    async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T>;
}

/// The nodes, in one session.
pub trait Tree: Clone {
    /// The session's number.
    fn session(&self) -> i64;

    /// How long the servers keep the session alive without hearing of it.
    fn session_timeout(&self) -> Duration;

    /// Whether the session has ended.
    fn is_over(&self) -> bool;

    /// Makes the folder, and those that it is in, unless it is there.
    async fn make_folder(&self, path: &str) -> Result<(), Problem>;

    /// The names of the nodes below this one.
    async fn children(&self, path: &str) -> Result<Vec<String>, Problem>;

    /// A node's data; `None` if it is not there.
    async fn read(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, Problem>;

    /// Those of these nodes that can be read.
    async fn read_all(&self, paths: &[String]) -> Vec<(Vec<u8>, Stat)>;

    /// Does all of these in one transaction, or nothing.
    async fn write(&self, writes: &[Write<'_>]) -> Result<Vec<Written>, Failure>;

    /// Waits until the node is written or removed, or is not there.
    async fn changed(&self, path: &str) -> Result<(), Problem>;

    /// Ends the session. The servers are told if they can be.
    async fn close(self);
}

/// What else is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub version: i32,
    /// The number of the transaction that wrote it last.
    pub written: i64,
    /// When that was, and when it was made, by the servers' clock.
    pub written_at: i64,
    pub made_at: i64,
    /// The session that it lives with, or 0.
    pub owner: i64,
}

/// A part of a transaction.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    Create {
        path: &'a str,
        data: &'a str,
        kind: Kind,
    },
    /// If the node has this version.
    Set {
        path: &'a str,
        data: &'a str,
        version: i32,
    },
    Delete {
        path: &'a str,
    },
}

/// How long a node lives, and what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Lasting,
    /// Lasting, with a number at the end of its name that no other gets.
    Numbered,
    /// It ends with the session.
    Temporary,
}

/// What a part of a transaction has led to.
#[derive(Clone, Debug)]
pub enum Written {
    Created,
    /// The version.
    Set(i32),
    Deleted,
}

/// Why a transaction was not executed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// A node is not there.
    Missing,
    /// A node is there already.
    Exists,
    /// A node has another version.
    Changed,
    /// It may have been executed, too.
    Other(Problem),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Missing => Self::missing_node(),
            Failure::Exists => Self::Denied("a node is there already".into()),
            Failure::Changed => Self::Denied("a node was changed meanwhile".into()),
            Failure::Other(problem) => problem,
        }
    }
}
