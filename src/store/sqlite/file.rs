//! The file of a SQLite store: made for its owner only, opened so that what is committed lasts.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::clock::Deadline;
use crate::store::create_folder;

/// How long a process waits for others that are at the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the file, with its folder, for its owner only, if there is none.
pub fn create(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

pub fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // Write-ahead logging: starts that insert and people who list do not wait for each other.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // The row must be on the disk before its id is used: one that a power failure takes back
    // would be handed out again.
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Tries again while the file is busy. SQLite's own busy timeout does not cover the change of a new
/// file to write-ahead logging, where many processes that start at once meet.
pub fn patiently<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let deadline = Deadline::after(Some(PATIENCE));
    loop {
        match attempt() {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && deadline.remaining() > Some(Duration::ZERO) =>
            {
                thread::sleep(Duration::from_millis(fastrand::u64(1..=10)));
            }
            done => return done,
        }
    }
}
