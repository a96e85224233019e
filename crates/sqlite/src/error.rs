//! What goes wrong, with the values and what to do.

use std::path::PathBuf;

use uidring::{Error, StoreError, StoreErrorKind};

/// Why a SQLite file could not be used.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] gets it back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqliteError {
    /// The file of worker ids could not be used.
    #[error("the worker file {} could not be {action}: {problem}", path.display())]
    WorkerFile {
        /// The file.
        path: PathBuf,
        /// What was being done: `created`, `opened`, `read`, `written`.
        action: &'static str,
        /// What went wrong, and what to do.
        problem: String,
        /// What kind of thing went wrong.
        kind: StoreErrorKind,
    },

    /// The file of segments could not be used.
    #[error("the segment file {} could not be {action}: {problem}", path.display())]
    SegmentFile {
        /// The file.
        path: PathBuf,
        /// What was being done: `created`, `opened`, `read`, `written`.
        action: &'static str,
        /// What went wrong, and what to do.
        problem: String,
        /// What kind of thing went wrong.
        kind: StoreErrorKind,
    },
}

impl SqliteError {
    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::WorkerFile { kind, .. } | Self::SegmentFile { kind, .. } => *kind,
        }
    }
}

impl From<SqliteError> for Error {
    fn from(error: SqliteError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}
