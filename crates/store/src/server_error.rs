//! Errors of servers of any engine.

use std::time::Duration;

use uidring::adapter::{Chain, error_traits};
use uidring::{Error, StoreError, StoreErrorKind, Timestamp};

/// Why a server could not be used, whatever its engine.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] returns it. The engines' crates re-export it under names of
/// their own.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address of a server is wrong. It may hold a password, so it is not repeated.
    #[error("{what}, {place}, is wrong: {problem}; write {form}")]
    Address {
        /// What the address is for.
        what: &'static str,
        /// Where it was found.
        place: String,
        /// How such an address is written.
        form: &'static str,
        /// What is wrong with it.
        problem: String,
    },

    /// Options contradict each other, or do not fit their purpose.
    #[error("{problem} (URL {place})")]
    Options {
        /// Which ones, and why.
        problem: String,
        /// Where the URL was found.
        place: String,
    },

    /// A server could not be reached, refused, or gave an answer that must not be used.
    #[error("{engine} {server}: {problem}")]
    Server {
        /// The engine's common name.
        engine: &'static str,
        /// Host, port and name; of several hosts, each.
        server: String,
        /// What to do, and what went wrong unless `source` says it.
        problem: String,
        /// The kind of error.
        kind: StoreErrorKind,
        /// What the driver, the server or the system said: an error of the driver's crate or an
        /// [`io::Error`](std::io::Error), for example.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },

    /// The clocks of a database and of this host differ by more than the limit.
    #[error(
        "database {server}: its clock says {theirs}, this host's says {ours}: {:?} apart, where \
         {limit:?} is allowed; set the wrong one right, or allow more",
        theirs.saturating_since(*ours).max(ours.saturating_since(*theirs))
    )]
    ClockDiffers {
        /// Host, port and name of the database.
        server: String,
        /// This host's clock.
        ours: Timestamp,
        /// The server's clock at that time.
        theirs: Timestamp,
        /// How far they may differ.
        limit: Duration,
    },
}

error_traits!(ServerError);

impl ServerError {
    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Address { .. } | Self::Options { .. } => StoreErrorKind::Invalid,
            Self::Server { kind, .. } => *kind,
            Self::ClockDiffers { .. } => StoreErrorKind::Clock,
        }
    }
}

impl From<ServerError> for Error {
    fn from(error: ServerError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}
