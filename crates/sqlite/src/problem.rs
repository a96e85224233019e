//! The errors of a file: what happened, and what to do.

use std::io::{self, ErrorKind};

use rusqlite::ErrorCode;
use uidring::{Error, StoreErrorKind};

use super::SqliteError;
use super::commits;
use super::disk;
use super::file::StoreFile;
use super::format::{DAMAGED, Problem};

impl StoreFile {
    pub fn error(&self, action: &'static str, problem: Problem) -> Error {
        let refused = |kind, text| self.error_from("used", kind, text, None);
        match problem {
            Problem::Sqlite(error) => {
                let (kind, advice) = self.advice(&error);
                self.error_from(action, kind, advice, Some(once(error).into()))
            }
            Problem::Count(error) => {
                let (kind, advice) = advice_on_count(error.kind());
                let advice = format!("the file of the same name with {} {advice}", commits::END);
                self.error_from(action, kind, advice, Some(error.into()))
            }
            Problem::Locked(gave_up) => {
                self.error_from(action, StoreErrorKind::TimedOut, gave_up.to_string(), None)
            }
            Problem::Unusable(problem) => refused(StoreErrorKind::Corrupt, problem),
            Problem::Denied(problem) => refused(StoreErrorKind::Denied, problem),
            Problem::UsedUp(problem) => refused(StoreErrorKind::Exhausted, problem),
            Problem::Final(error) => error,
        }
    }

    pub fn error_from(
        &self,
        action: &'static str,
        kind: StoreErrorKind,
        problem: String,
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        let (what, path) = (self.kind.what, self.path.clone());
        Error::from(SqliteError::File { what, path, action, problem, kind, source })
    }

    pub fn io_error(&self, action: &'static str, error: io::Error) -> Error {
        let kind = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreErrorKind::Unreachable,
            ErrorKind::InvalidInput => StoreErrorKind::Invalid,
            _ => StoreErrorKind::Denied,
        };
        let advice = match error.kind() {
            ErrorKind::PermissionDenied => "name a file in a folder that this user may write to",
            _ => "",
        };
        self.error_from(action, kind, advice.into(), Some(error.into()))
    }

    fn advice(&self, error: &rusqlite::Error) -> (StoreErrorKind, String) {
        let (kind, advice) = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => (StoreErrorKind::Unreachable, "free some space"),
            Some(ErrorCode::SystemIoFailure) => {
                let left = disk::bytes_free(&self.path).filter(|left| *left < disk::LITTLE);
                let text = left.map(|left| {
                    format!("its disk may be full ({left} bytes are left); free some space")
                });
                return (StoreErrorKind::Unreachable, text.unwrap_or_default());
            }
            Some(ErrorCode::OutOfMemory) => (StoreErrorKind::Unreachable, ""),
            Some(ErrorCode::DatabaseCorrupt) => {
                return (StoreErrorKind::Corrupt, format!("it is damaged: {DAMAGED}"));
            }
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
            _ => return self.advice_on_table(&error.to_string()),
        };
        (kind, advice.into())
    }

    fn advice_on_table(&self, error: &str) -> (StoreErrorKind, String) {
        let (ids, command) = match error {
            _ if !error.contains("no such table") => return (StoreErrorKind::Other, String::new()),
            _ if error.contains("no such table: UIDRING_LEASE") => {
                ("worker ids are leased", "worker init --leases")
            }
            _ => (self.kind.given, self.kind.command),
        };
        let command = self.command(command);
        let advice = format!("name the file that {ids} from, or make the table: {command}");
        (StoreErrorKind::NotFound, advice)
    }
}

fn advice_on_count(error: ErrorKind) -> (StoreErrorKind, &'static str) {
    match error {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            (StoreErrorKind::Denied, "must be a file that is writable for this user, and no link")
        }
        ErrorKind::IsADirectory => (StoreErrorKind::Denied, "must be a file"),
        ErrorKind::Unsupported => {
            (StoreErrorKind::Denied, "must be on a file system with locks (flock)")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            (StoreErrorKind::Unreachable, "needs space; free some")
        }
        _ => (StoreErrorKind::Unreachable, "could not be used"),
    }
}

/// Removes the text of the cause from the error's own text.
fn once(error: rusqlite::Error) -> rusqlite::Error {
    let rusqlite::Error::SqliteFailure(code, Some(text)) = error else { return error };
    let cause = code.to_string();
    let repeats = cause.rsplit_once(": ").is_some_and(|(_, short)| text.starts_with(short));
    rusqlite::Error::SqliteFailure(code, Some(if repeats { cause } else { text }))
}
