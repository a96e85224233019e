//! Errors, with the values and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use uidring::adapter::{Chain, error_traits};
use uidring::{Error, StoreError, StoreErrorKind, Timestamp};

/// Why a registry could not be used.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] returns it.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ZooKeeperError {
    /// The name of a registry or of an instance is not allowed.
    #[error("`{name}` cannot be the name of the {what}: {problem}")]
    LeafName {
        /// `registry` or `instance`.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// A registry could not be reached, refused a request, or holds data that must not be used.
    #[error("registry {registry}: {problem}")]
    Registry {
        /// Its servers, and the path in it.
        registry: String,
        /// What went wrong, and what to do.
        problem: String,
        /// What kind of thing went wrong.
        kind: StoreErrorKind,
        /// What the client, rustls or the system says, if that is the cause.
        source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },

    /// The servers do not allow this user something, by a node's access list. A wrong password is
    /// another user to them.
    #[error(
        "registry {registry}: this user lacks the right to {right} on node {node}; give the user and \
         password that the node was made with, or have its access list changed (setAcl)"
    )]
    NotAllowed {
        /// Its servers, and the path in it.
        registry: String,
        /// The node.
        node: String,
        /// What is not allowed on it.
        right: Right,
        /// The client's error.
        source: zookeeper_client::Error,
    },

    /// The registry has used up the worker ids of the layout.
    #[error(
        "registry {registry}: number {number} is over the layout's greatest worker id, {max}: each instance \
         that ever started keeps its number; start with the name of one that is gone, which `uidring worker \
         list` and the flags of this registry show, or use a layout with more worker bits, or a new name with an earlier epoch"
    )]
    RegistryFull {
        /// Its servers, and the path in it.
        registry: String,
        /// The number of the instance.
        number: u64,
        /// The greatest worker id of the layout.
        max: u64,
    },

    /// Another process has the name of this instance, or had it meanwhile.
    #[error(
        "instance {instance} is in use: {holder}; stop the other process, or give each an instance \
         name of its own"
    )]
    InstanceInUse {
        /// The instance.
        instance: String,
        /// What is known of the other process.
        holder: String,
    },

    /// The clock is behind a time up to which ids may have been issued.
    #[error(
        "the clock says {now}, {:?} before the time in {location}, {stored}, up to which ids may \
         have been issued: set the clock right, or wait until that time has passed",
        stored.saturating_since(*now)
    )]
    ClockBehindStored {
        /// The node or file that holds it.
        location: String,
        /// The time in it.
        stored: Timestamp,
        /// What the clock said.
        now: Timestamp,
    },

    /// This host's clock differs from those of the other instances by more than is allowed.
    #[error(
        "this host's clock is {:?} {} the median of {peers} live instances', where {limit:?} is \
         allowed; set the wrong clock right, or allow more",
        Duration::from_millis(by_millis.unsigned_abs()),
        if *by_millis < 0 { "behind" } else { "ahead of" }
    )]
    PeerClocksDiffer {
        /// How many live instances the clock was compared with.
        peers: usize,
        /// How far this clock is ahead of theirs, in milliseconds.
        by_millis: i64,
        /// The greatest difference allowed.
        limit: Duration,
    },

    /// The servers of a registry end sessions too soon for the outage that an instance should
    /// survive: another one could get its name before it has stopped.
    #[error(
        "registry {registry}: the servers grant sessions of {granted:?}, of which an outage may take \
         nine tenths, less than {max_outage:?}; allow a shorter one, or ask for longer sessions \
         within the servers' maxSessionTimeout"
    )]
    SessionTooShort {
        /// Its servers, and the path in it.
        registry: String,
        /// The session timeout that the servers grant.
        granted: Duration,
        /// The outage to survive.
        max_outage: Duration,
    },

    /// The local file that stands in for a registry could not be used.
    #[error("the cache file {} {problem}", path.display())]
    CacheFile {
        /// The file.
        path: PathBuf,
        /// What went wrong, and what to do.
        problem: String,
        /// What kind of thing went wrong.
        kind: StoreErrorKind,
        /// The system's error, if that is the cause.
        source: Option<Arc<io::Error>>,
    },
}

error_traits!(ZooKeeperError);

/// What an access list of ZooKeeper grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Right {
    /// To make nodes below the node.
    Create,
    /// To read the node and the names below it.
    Read,
    /// To write to the node.
    Write,
    /// To remove nodes below the node.
    Delete,
}

/// The right, and its letter in an access list.
impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create (c)",
            Self::Read => "read (r)",
            Self::Write => "write (w)",
            Self::Delete => "delete (d)",
        })
    }
}

impl ZooKeeperError {
    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::LeafName { .. } | Self::SessionTooShort { .. } => StoreErrorKind::Invalid,
            Self::Registry { kind, .. } | Self::CacheFile { kind, .. } => *kind,
            Self::NotAllowed { .. } => StoreErrorKind::Denied,
            Self::RegistryFull { .. } => StoreErrorKind::Exhausted,
            Self::InstanceInUse { .. } => StoreErrorKind::Held,
            Self::ClockBehindStored { .. } | Self::PeerClocksDiffer { .. } => StoreErrorKind::Clock,
        }
    }

    /// Whether no server has answered. A start may then go by the local file.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.kind() == StoreErrorKind::Unreachable
    }

    /// Whether the registry itself speaks against the instance, so that its lease is lost for good.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self.kind(), StoreErrorKind::Unreachable | StoreErrorKind::Denied)
    }
}

impl From<ZooKeeperError> for Error {
    fn from(error: ZooKeeperError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}
