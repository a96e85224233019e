//! Reads the file with an account that may only read it.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use rusqlite::{Connection, OpenFlags, ffi};

use super::create::beside;
use super::format::Problem;
use super::opener::check_is_at;

/// Runs `work` on a connection that only reads. If the file has no log, SQLite would need to create one, so the file is
/// opened as immutable, without locks. This process must not be writing to it, because its locks may be dropped.
///
/// # Errors
///
/// The file is busy, if somebody wrote to it meanwhile.
pub fn read<T>(
    path: &Path,
    work: impl FnOnce(&Connection) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let before = unlogged(path);
    let mut name = uri(path);
    if before.is_some() {
        name.push_str("?immutable=1");
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(name, flags)?;
    check_is_at(&connection, path)?;
    let done = work(&connection)?;
    match before.is_none() || unlogged(path) == before {
        true => Ok(done),
        false => {
            Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None).into())
        }
    }
}

/// Returns what changes when somebody writes to a file without a log.
fn unlogged(path: &Path) -> Option<(SystemTime, u64)> {
    if beside(path, "-wal").exists() {
        return None;
    }
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Returns the path as part of SQLite's URI.
fn uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(*byte));
            }
            // Writing into a string cannot fail.
            byte => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}
