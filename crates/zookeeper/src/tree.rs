//! What the protocol asks of ZooKeeper: a tree of nodes, seen in a session. Behind these traits is
//! the real client, or a tree in memory where the protocol is modelled.

use std::time::Duration;

use uidring::Timestamp;
use uidring::adapter::Moment;
pub use zookeeper_client::CreateMode;

use super::error::ZooKeeperError;

/// The servers that a session is made with.
pub trait Ensemble: Clone {
    type Tree: Tree;

    /// The present moment, by which waiting is measured.
    fn moment(&self) -> Moment;

    async fn pause(&self, time: Duration);

    /// Makes a session.
    async fn connect(&self) -> Result<Self::Tree, ZooKeeperError>;

    /// Waits for the work, but no longer than this; `None` if it is not done by then.
    async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T>;
}

/// The nodes, in one session.
pub trait Tree: Clone {
    /// The session's number.
    fn session(&self) -> i64;

    /// How long the servers keep the session alive without hearing from it.
    fn session_timeout(&self) -> Duration;

    /// Whether the session has ended.
    fn is_over(&self) -> bool;

    /// Makes the folder unless it exists.
    async fn make_folder(&self, path: &str) -> Result<(), ZooKeeperError>;

    /// The names of the nodes below this one.
    async fn children(&self, path: &str) -> Result<Vec<String>, ZooKeeperError>;

    /// A node's data; `None` if it does not exist.
    async fn read(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, ZooKeeperError>;

    /// Those of these nodes that can be read.
    async fn read_all(&self, paths: &[String]) -> Vec<(Vec<u8>, Stat)>;

    /// Executes all of these in one transaction, or none. Returns the new version of each node that
    /// was created or set.
    async fn write(&self, writes: Vec<Write>) -> Result<Vec<i32>, Failure>;

    /// Waits until the node is written or removed, unless it does not exist.
    async fn changed(&self, path: &str) -> Result<(), ZooKeeperError>;

    /// Ends the session, and tells the servers if they can be reached.
    async fn close(self);
}

/// What else is known of a node.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    pub version: i32,
    /// The number of the transaction that wrote it last.
    pub written: i64,
    /// When it was written last, and when it was made, by the servers' clock.
    pub written_at: Timestamp,
    pub made_at: Timestamp,
    /// The session that it lives with, or 0.
    pub owner: i64,
}

/// A part of a transaction.
#[derive(Clone, Debug)]
pub enum Write {
    Create {
        path: String,
        data: String,
        mode: CreateMode,
    },
    /// Fails unless the node has this version.
    Set {
        path: String,
        data: String,
        version: i32,
    },
    Delete {
        path: String,
    },
    /// Fails unless the node has this version.
    Check {
        path: String,
        version: i32,
    },
}

/// Why a transaction failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// A node does not exist.
    Missing,
    /// A node exists already.
    Exists,
    /// A node has another version.
    Changed,
    /// Anything else. The transaction may have been executed.
    Other(ZooKeeperError),
}
