//! Errors, with their values and what to do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use uidring::adapter::{Chain, error_traits};
use uidring::{Error, StoreError, StoreErrorKind, Timestamp};

/// Why a registry could not be used.
///
/// The cause of a [`StoreError`], which [`Error::store`] returns.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ZooKeeperError {
    /// The name of a registry or an instance is not allowed.
    #[error("`{name}` cannot be the name of the {what}: {problem}")]
    LeafName {
        /// `registry` or `instance`.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// A registry could not be reached, refused a request or the session that it granted, holds unusable data, or has
    /// used up the layout's worker ids.
    #[error("registry {registry}: {problem}")]
    Registry {
        /// Its servers and its path.
        registry: String,
        /// What went wrong, and what to do.
        problem: String,
        /// What kind of thing went wrong.
        kind: StoreErrorKind,
        /// The error of the client, rustls or the system that caused it.
        source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },

    /// A node's access list denies this user a right. To the servers, a wrong password is another user.
    #[error(
        "registry {registry}: this user lacks the right to {right} on node {node}; give the user and \
         password that the node was made with, or have its access list changed (setAcl)"
    )]
    NotAllowed {
        /// Its servers and its path.
        registry: String,
        /// The node.
        node: String,
        /// The missing right and its letter, such as `create (c)`.
        right: &'static str,
        /// The client's error.
        source: zookeeper_client::Error,
    },

    /// Another process has this instance's name, or had it in between.
    #[error(
        "instance {instance} is in use: {holder}; stop the other process, or give each an instance \
         name of its own"
    )]
    InstanceInUse {
        /// The instance.
        instance: String,
        /// What is known about the other process.
        holder: String,
    },

    /// The clock is behind a time up to which ids may have been issued.
    #[error(
        "the clock says {now}, {:?} before the time in {location}, {stored}, up to which ids may \
         have been issued: set the clock right, or wait until that time has passed",
        stored.saturating_since(*now)
    )]
    ClockBehindStored {
        /// The node or file with that time.
        location: String,
        /// The time in it.
        stored: Timestamp,
        /// The clock's time.
        now: Timestamp,
    },

    /// This host's clock differs too much from those of the other instances.
    #[error(
        "this host's clock is {:?} {} the median of {peers} live instances', where {limit:?} is \
         allowed; set the wrong clock right, or allow more",
        Duration::from_millis(by_millis.unsigned_abs()),
        if *by_millis < 0 { "behind" } else { "ahead of" }
    )]
    PeerClocksDiffer {
        /// How many live instances were compared.
        peers: usize,
        /// How far this clock is ahead, in milliseconds.
        by_millis: i64,
        /// The greatest difference allowed.
        limit: Duration,
    },

    /// The local file could not be used.
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

impl ZooKeeperError {
    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::LeafName { .. } => StoreErrorKind::Invalid,
            Self::Registry { kind, .. } | Self::CacheFile { kind, .. } => *kind,
            Self::NotAllowed { .. } => StoreErrorKind::Denied,
            Self::InstanceInUse { .. } => StoreErrorKind::Held,
            Self::ClockBehindStored { .. } | Self::PeerClocksDiffer { .. } => StoreErrorKind::Clock,
        }
    }

    /// Whether no server answered, so that a start may use the local file.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.kind() == StoreErrorKind::Unreachable
    }

    /// Whether the registry itself refuses the instance, so that its lease is lost for good.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self.kind(), StoreErrorKind::Unreachable | StoreErrorKind::Denied)
    }
}

impl From<ZooKeeperError> for Error {
    fn from(error: ZooKeeperError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}

/// Refuses a start if the clock is behind the time stored in this node or file.
pub fn check_clock(place: &str, stored: Timestamp, now: Timestamp) -> Result<(), ZooKeeperError> {
    if stored <= now {
        return Ok(());
    }
    Err(ZooKeeperError::ClockBehindStored { location: place.into(), stored, now })
}
