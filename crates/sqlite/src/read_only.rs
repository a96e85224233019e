//! Reads the file with an account that may only read it.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
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
    let encoded = percent_encode(path.as_os_str().as_encoded_bytes(), PLAIN);
    let name = format!("file:{encoded}{}", if before.is_some() { "?immutable=1" } else { "" });
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(name, flags)?;
    check_is_at(&connection, path)?;
    let done = work(&connection)?;
    if before.is_some() && unlogged(path) != before {
        let busy = ffi::Error::new(ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(busy, None).into());
    }
    Ok(done)
}

/// Returns what changes when somebody writes to a file without a log.
fn unlogged(path: &Path) -> Option<(SystemTime, u64)> {
    if beside(path, "-wal").exists() {
        return None;
    }
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Characters that SQLite's URIs need not encode, besides letters and digits.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.');
