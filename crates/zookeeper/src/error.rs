//! What goes wrong, with the values and what to do.

use std::path::PathBuf;
use std::time::Duration;

use uidring::{Error, StoreError, StoreErrorKind, Timestamp};

/// Why a registry could not be used.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] gets it back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZooKeeperError {
    /// What names a registry, or an instance in it, cannot be a name there.
    #[error("`{name}` cannot be the name of a {what}: {problem}")]
    LeafName {
        /// What it was to name: `registry` or `instance`.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// The text that names a registry's servers is wrong. It is not repeated here: it may hold a
    /// password.
    #[error(
        "the servers of the registry are wrong: {problem}; write HOST:PORT,HOST:PORT, or with a \
         path behind them HOST:PORT/PATH"
    )]
    RegistryServers {
        /// What is wrong with it.
        problem: &'static str,
    },

    /// What should be user and password of a registry is not.
    #[error("user and password of the registry, {place}, are wrong; write USER:PASSWORD")]
    RegistryAuth {
        /// Where it was found.
        place: &'static str,
    },

    /// A registry could not be reached, refused, or holds what must not be used.
    #[error("registry {registry}: {problem}")]
    Registry {
        /// Its servers, and the path in it.
        registry: String,
        /// What went wrong, and what to do.
        problem: String,
        /// What kind of thing went wrong.
        kind: StoreErrorKind,
    },

    /// All worker ids of the layout are in the registry already.
    #[error(
        "registry {registry}: number {number} is over the layout's greatest worker id, {max}: \
         use a layout with more worker bits, or a new name with an earlier epoch"
    )]
    RegistryFull {
        /// Its servers, and the path in it.
        registry: String,
        /// The number of the instance.
        number: u64,
        /// The greatest worker id of the layout.
        max: u64,
    },

    /// Another process has, or had meanwhile, the name of this instance.
    #[error(
        "instance {instance} is in use: {holder}; stop the other process, or give each an instance \
         name of its own"
    )]
    InstanceInUse {
        /// The instance.
        instance: String,
        /// What is known of the other one.
        holder: String,
    },

    /// The clock stands before a time that was reached already.
    #[error(
        "the clock says {now}, {:?} before the time in {place}, {stored}, up to which ids may have \
         been issued: set the clock right, or wait until it has passed",
        stored.saturating_since(*now)
    )]
    ClockBehindStored {
        /// The node or file.
        place: String,
        /// The time in it.
        stored: Timestamp,
        /// What the clock said.
        now: Timestamp,
    },

    /// This host's clock and those of the other instances are further apart than is allowed.
    #[error(
        "this host's clock is {:?} {} the median of {peers} live instances', where {limit:?} is \
         allowed; set the wrong one right, or allow more",
        Duration::from_millis(by_millis.unsigned_abs()),
        if *by_millis < 0 { "behind" } else { "ahead of" }
    )]
    PeerClocksDiffer {
        /// How many instances there were to compare with.
        peers: usize,
        /// How far this clock is ahead of theirs, in milliseconds.
        by_millis: i64,
        /// How far it may be.
        limit: Duration,
    },

    /// The servers of a registry end sessions too soon for the outage that an instance is to
    /// survive: another could have its name before it has stopped.
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
        /// The outage that was to be survived.
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
    },
}

impl ZooKeeperError {
    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::LeafName { .. }
            | Self::RegistryServers { .. }
            | Self::RegistryAuth { .. }
            | Self::SessionTooShort { .. } => StoreErrorKind::Invalid,
            Self::Registry { kind, .. } | Self::CacheFile { kind, .. } => *kind,
            Self::RegistryFull { .. } => StoreErrorKind::Exhausted,
            Self::InstanceInUse { .. } => StoreErrorKind::Held,
            Self::ClockBehindStored { .. } | Self::PeerClocksDiffer { .. } => StoreErrorKind::Clock,
        }
    }
}

impl From<ZooKeeperError> for Error {
    fn from(error: ZooKeeperError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}
