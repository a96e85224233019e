//! What goes wrong with a server, whatever its engine.

use std::time::Duration;

use uidring::adapter::{Chain, error_traits};
use uidring::{Error, StoreError, StoreErrorKind, Timestamp};

/// Why a server could not be used, whatever its engine.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] gets it back. The crates of the engines call it by names
/// of their own.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address of a server is wrong. It is not repeated here: it may hold a password.
    #[error("{what}, {place}, is wrong: {problem}; write {form}")]
    Address {
        /// What it is the address of.
        what: &'static str,
        /// Where it was found.
        place: String,
        /// How such an address is written.
        form: &'static str,
        /// What is wrong with it.
        problem: String,
    },

    /// Options do not go together, or with what they are for.
    #[error("{problem} (URL {place})")]
    Options {
        /// Which ones, and why.
        problem: String,
        /// Where the URL was found.
        place: String,
    },

    /// A server could not be reached, refused, or gave what must not be used.
    #[error("{engine} {server}: {problem}")]
    Server {
        /// What people call the engine.
        engine: &'static str,
        /// Its host, port and name; of several hosts, each.
        server: String,
        /// What to do about it, and what went wrong unless `source` says it.
        problem: String,
        /// What kind of thing went wrong.
        kind: StoreErrorKind,
        /// What the driver, the server or the system said: an error of the driver's crate,
        /// [`io::Error`](std::io::Error), ….
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },

    /// A database's clock and this host's are further apart than is allowed.
    #[error(
        "database {server}: its clock says {theirs}, this host's says {ours}: {:?} apart, where \
         {limit:?} is allowed; set the wrong one right, or allow more",
        theirs.saturating_since(*ours).max(ours.saturating_since(*theirs))
    )]
    ClockDiffers {
        /// Host, port and name of the database.
        server: String,
        /// What this host's clock said.
        ours: Timestamp,
        /// What the server's clock said meanwhile.
        theirs: Timestamp,
        /// How far they may be apart.
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
