//! Finds commits that are lost, by a count of them in a file of its own.
//!
//! A commit is in the log before it is in the database, and nothing in a log that was deleted comes back.
//! SQLite's locks keep others from deleting it, but a process that closes any descriptor of the database
//! drops them (see [`create`](super::create)), and people delete files. The database then shows an older
//! state, whose numbers would be handed out again.
//!
//! So each transaction that writes counts itself twice: in the database, `UIDRING_FILE.COMMITS`, and, when
//! it is committed, in the file `DATABASE-commits`. Nothing is handed out before both are done. A
//! transaction that finds less in the database than in the file is refused. It finds more after a crash
//! between the two, or without the file: that is allowed.
//!
//! While one transaction counts, others must not begin, also where SQLite lets them: two that do not see each
//! other in their logs would both count on from the same number. So a transaction holds a lock of the file,
//! by `flock`. That lock belongs to the open file, and no other descriptor's close drops it.
//!
//! The count is not synced. A power failure may take it back, and then less is found. It cannot become
//! greater than what is committed, because the commit is synced before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use uidring::adapter::Deadline;

/// The count of commits, locked against all other transactions.
pub struct CommitCount(File);

impl CommitCount {
    /// Waits for the lock. Returns `None` if others have it for all this time.
    pub fn lock(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        let deadline = Deadline::after(Some(patience));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        loop {
            let count = Self(options.open(path)?);
            match count.0.try_lock() {
                // Someone may have removed the file that was opened, and another may have locked a new one.
                Ok(()) if is_at(&count.0, path) => return Ok(Some(count)),
                Ok(()) => {}
                Err(fs::TryLockError::Error(error)) => return Err(error),
                Err(fs::TryLockError::WouldBlock)
                    if deadline.remaining() == Some(Duration::ZERO) =>
                {
                    return Ok(None);
                }
                Err(fs::TryLockError::WouldBlock) => {
                    thread::sleep(Duration::from_micros(fastrand::u64(100..=5_000)));
                }
            }
        }
    }

    /// Returns the count, which is 0 in a new file.
    pub fn get(&mut self) -> io::Result<u64> {
        let mut bytes = Vec::with_capacity(8);
        self.0.rewind()?;
        (&self.0).take(8).read_to_end(&mut bytes)?;
        // What a file system lost in a power failure reads as nothing or zeros.
        bytes.resize(8, 0);
        Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
    }

    pub fn set(&mut self, commits: u64) -> io::Result<()> {
        self.0.rewind()?;
        self.0.write_all(&commits.to_le_bytes())
    }
}

impl Drop for CommitCount {
    fn drop(&mut self) {
        // Not left to the close: a child that was forked meanwhile has the descriptor, too.
        let _ = self.0.unlock();
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |found: io::Result<fs::Metadata>| found.ok().map(|it| (it.dev(), it.ino()));
    identity(file.metadata()) == identity(fs::metadata(path))
}

/// An open file cannot be removed.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}
