//! What goes wrong, with the values and what to do.

use uidring::adapter::{Chain, error_traits};
use uidring::{Error, StoreError, StoreErrorKind};

/// Why an etcd cluster could not be used.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] gets it back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// The endpoints are written wrongly. They are not repeated: they may hold a password.
    #[error(
        "the endpoints of etcd are wrong: {problem}; write HOST:PORT,HOST:PORT, or \
         https://HOST:PORT,https://HOST:PORT for TLS"
    )]
    Endpoints {
        /// What is wrong with them.
        problem: &'static str,
    },

    /// The prefix of the keys is not one.
    #[error("`{prefix}` cannot be the prefix of keys in etcd: {problem}")]
    Prefix {
        /// The prefix.
        prefix: String,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// The cluster could not be reached, refused, or gave what must not be used.
    #[error("etcd {cluster}: {problem}")]
    Cluster {
        /// Its endpoints and the prefix of the keys.
        cluster: String,
        /// What went wrong, and what to do about it.
        problem: String,
        /// What kind of thing went wrong.
        kind: StoreErrorKind,
        /// What the HTTP client said, if that is the cause.
        source: Option<Box<ureq::Error>>,
    },

    /// The cluster has used up its quota of space, and accepts no writes.
    #[error(
        "etcd {cluster}: its database is full (alarm NOSPACE): compact and defragment it, or raise \
         --quota-backend-bytes, then `etcdctl alarm disarm`"
    )]
    NoSpace {
        /// Its endpoints and the prefix of the keys.
        cluster: String,
    },
}

error_traits!(EtcdError);

impl EtcdError {
    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Endpoints { .. } | Self::Prefix { .. } => StoreErrorKind::Invalid,
            Self::Cluster { kind, .. } => *kind,
            Self::NoSpace { .. } => StoreErrorKind::Other,
        }
    }
}

impl From<EtcdError> for Error {
    fn from(error: EtcdError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}
