//! What goes wrong, with the values and what to do.

pub mod advice;

use std::time::Duration;

use uidring::{Error, StoreError, StoreErrorKind, Timestamp};

/// Why a PostgreSQL server could not be used.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] gets it back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The URL of a database is not one. It is not repeated here: it may hold a password.
    #[error(
        "the URL of the database, {place}, is wrong: {problem}; \
         write postgres://USER:PASSWORD@HOST:PORT/DATABASE"
    )]
    DatabaseUrl {
        /// Where it was found.
        place: &'static str,
        /// What is wrong with it.
        problem: String,
    },

    /// A database could not be reached, refused, or gave what must not be used.
    #[error("database {server}: {problem}")]
    Database {
        /// Its hosts, ports and name.
        server: String,
        /// What to do about it, and what went wrong unless `source` says it.
        problem: String,
        /// What kind of thing went wrong.
        kind: StoreErrorKind,
        /// What the driver, the server or the system said: [`tokio_postgres::Error`],
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
        /// Hosts, ports and name of the database.
        server: String,
        /// What this host's clock said.
        ours: Timestamp,
        /// What the server's clock said meanwhile.
        theirs: Timestamp,
        /// How far they may be apart.
        limit: Duration,
    },

    /// The table of worker ids has gone over what the layout can hold.
    #[error(
        "database {server}: row {row} of WORKER_NODE is over the layout's greatest worker id, \
         {max}: use a layout with more worker bits, or a fresh table with an earlier epoch"
    )]
    WorkerIdsUsedUp {
        /// Hosts, ports and name of the database.
        server: String,
        /// The key that was generated.
        row: u64,
        /// The greatest worker id of the layout.
        max: u64,
    },
}

impl PostgresError {
    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::DatabaseUrl { .. } => StoreErrorKind::Invalid,
            Self::Database { kind, .. } => *kind,
            Self::ClockDiffers { .. } => StoreErrorKind::Clock,
            Self::WorkerIdsUsedUp { .. } => StoreErrorKind::Exhausted,
        }
    }
}

impl From<PostgresError> for Error {
    fn from(error: PostgresError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}
