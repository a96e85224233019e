//! What the error of a file says: what happened, and what to do.

use std::io::ErrorKind;

use rusqlite::ErrorCode;
use uidring::adapter::Chain;
use uidring::{Error, StoreErrorKind};

use super::SqliteError;
use super::commits;
use super::file::{Kind, StoreFile};
use super::format::{self, Problem};

impl StoreFile {
    /// The error for a file that could not be used.
    pub fn error(&self, action: &'static str, problem: Problem) -> Error {
        let (kind, problem) = match problem {
            Problem::Sqlite(error) => return self.sqlite_error(action, error),
            Problem::Count(error) => {
                let kind = match error.kind() {
                    ErrorKind::PermissionDenied
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::IsADirectory
                    | ErrorKind::Unsupported => StoreErrorKind::Denied,
                    _ => StoreErrorKind::Unreachable,
                };
                let advice = format!(
                    "the file of the same name with {} must be writable for this user, and its file \
                     system must have locks (flock) and space",
                    commits::END
                );
                return self.error_from(action, kind, advice, Some(error.into()));
            }
            Problem::Locked(gave_up) => {
                let problem = gave_up.to_string();
                return self.error_from(action, StoreErrorKind::TimedOut, problem, None);
            }
            Problem::Unusable(problem) => (StoreErrorKind::Corrupt, problem),
            Problem::Denied(problem) => (StoreErrorKind::Denied, problem),
            Problem::UsedUp(problem) => (StoreErrorKind::Exhausted, problem),
        };
        self.error_from("used", kind, problem, None)
    }

    /// The same error again, for what was not tried after it.
    pub fn repeated(&self, error: &SqliteError) -> Error {
        let SqliteError::File { action, problem, kind, source, .. } = error;
        let cause = source.as_deref().map(|cause| format!(": {}", Chain(cause)));
        self.error_from(action, *kind, format!("{problem}{}", cause.unwrap_or_default()), None)
    }

    pub fn error_from(
        &self,
        action: &'static str,
        kind: StoreErrorKind,
        problem: String,
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        let (what, path) = (self.kind().what(), self.path().to_owned());
        Error::from(SqliteError::File { what, path, action, problem, kind, source })
    }

    fn sqlite_error(&self, action: &'static str, error: rusqlite::Error) -> Error {
        let text = error.to_string();
        let (kind, advice) = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => (StoreErrorKind::Unreachable, "free some space"),
            Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => {
                (StoreErrorKind::Unreachable, "")
            }
            Some(ErrorCode::DatabaseCorrupt) => (StoreErrorKind::Corrupt, format::DAMAGED),
            Some(ErrorCode::NotADatabase) => (
                StoreErrorKind::Corrupt,
                "name a file that is a database. If ids were handed out from this file, it is damaged: \
                 see docs/sqlite.md",
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (StoreErrorKind::TimedOut, "another process keeps it locked")
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                (StoreErrorKind::Denied, "file and folder must be writable for this user")
            }
            _ if !text.contains("no such table") => (StoreErrorKind::Other, ""),
            _ if text.contains("no such table: UIDRING_LEASE") => (
                StoreErrorKind::NotFound,
                "name the file that worker ids are leased from, or make the table (`uidring worker \
                 init --leases`)",
            ),
            _ => match self.kind() {
                Kind::Workers => (
                    StoreErrorKind::NotFound,
                    "name the file that worker ids come from, or make the table (`uidring worker \
                     init`)",
                ),
                Kind::Segments => (
                    StoreErrorKind::NotFound,
                    "name the file that segments come from, or make the table with its first tag \
                     (`uidring segment create`)",
                ),
            },
        };
        self.error_from(action, kind, advice.into(), Some(error.into()))
    }
}
