//! What the protocol needs from ZooKeeper: a tree of nodes, seen in a session. The real client implements these traits;
//! models use a tree in memory.

use std::time::Duration;

use uidring::adapter::Moment;
pub use zookeeper_client::{CreateMode, Stat};

use super::error::ZooKeeperError;

pub trait Ensemble: Clone {
    type Tree: Tree;

    /// The present moment, for measuring waits.
    fn moment(&self) -> Moment;

    async fn pause(&self, time: Duration);

    /// Opens a session.
    async fn connect(&self) -> Result<Self::Tree, ZooKeeperError>;

    /// Runs `work` for at most this long; `None` if it is not done by then.
    async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T>;
}

/// The nodes, as seen in one session.
pub trait Tree: Clone {
    fn session(&self) -> i64;

    /// How long the servers keep a session without hearing from it.
    fn session_timeout(&self) -> Duration;

    fn is_over(&self) -> bool;

    /// Creates the folder if it does not exist.
    async fn make_folder(&self, path: &str) -> Result<(), ZooKeeperError>;

    async fn children(&self, path: &str) -> Result<Vec<String>, ZooKeeperError>;

    /// A node's data; `None` if it does not exist.
    async fn read(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, ZooKeeperError>;

    /// Returns the nodes that can be read.
    async fn read_all(&self, paths: &[String]) -> Vec<(Vec<u8>, Stat)>;

    /// Executes all writes in one transaction, or none. Returns the new version of each node created or set.
    async fn write(&self, writes: Vec<Write>) -> Result<Vec<i32>, Failure>;

    /// Waits until the node is written or removed. Returns at once if it does not exist.
    async fn changed(&self, path: &str) -> Result<(), ZooKeeperError>;

    /// Ends the session, and tells the servers if they can be reached.
    async fn close(self);
}

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

#[derive(Clone, Debug)]
pub enum Failure {
    /// A node does not exist.
    Missing,
    /// A node exists already.
    Exists,
    /// A node has another version.
    Changed,
    /// Any other error. The transaction may have been executed.
    Other(ZooKeeperError),
}
