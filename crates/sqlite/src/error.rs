//! The error of the store.

use std::path::PathBuf;

use uidring::adapter::{Chain, error_traits};
use uidring::{Error, StoreError, StoreErrorKind};

/// Why a SQLite file could not be used.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] gets it back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SqliteError {
    /// A file could not be used.
    #[error(
        "{what} {} could not be {action}{}{problem}",
        path.display(),
        if problem.is_empty() { "" } else { ": " }
    )]
    File {
        /// `the worker file` or `the segment file`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The operation: `created`, `opened`, `read` or `written`.
        action: &'static str,
        /// What to do about it, and what went wrong unless `source` says so.
        problem: String,
        /// The kind of failure.
        kind: StoreErrorKind,
        /// The error of SQLite or the system: a [`rusqlite::Error`] or an [`io::Error`](std::io::Error).
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

error_traits!(SqliteError);

impl From<SqliteError> for Error {
    fn from(error: SqliteError) -> Self {
        let SqliteError::File { kind, .. } = error;
        StoreError::new(kind, error).into()
    }
}
