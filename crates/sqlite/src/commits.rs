//! Detects lost commits by counting them in a second file.
//!
//! A commit goes to the write-ahead log first, and is lost with it. SQLite's locks keep other processes from deleting
//! the log. But closing any descriptor of the database drops them (see [`create`](super::create)), and people delete
//! files. The database then shows an older state, and would hand out the same numbers again.
//!
//! So every transaction except those of `prune` counts itself twice: in the table `UIDRING_FILE`, and after the commit
//! in the file `DATABASE-commits`. Nothing is handed out before both are done. Each commit has a random word, too,
//! which tells apart equal numbers from two logs. A transaction is refused if the database has fewer commits than the
//! file, or another word. It may have more: after a crash between the two steps, or if the file is missing.
//!
//! Only one transaction may count at a time, even where SQLite would let two begin: if neither saw the other in its
//! log, both would count on from the same number. So a transaction holds an `flock` on the file. It belongs to the open
//! file, so closing another descriptor does not drop it. If the process is killed before the commit, a child that it
//! forked meanwhile keeps the lock until the child ends or calls `exec`.
//!
//! One case cannot be detected. A process that lost its locks, and then its log, writes that log back into the database
//! when it closes it. A transaction that reads pages at that moment may see a mix of two states.
//!
//! The count is not synced. A power failure may set it back, which hides lost commits. It never exceeds what is
//! committed, because SQLite syncs a commit before it is counted. docs/inside-stores.md says what a sync would detect
//! and cost.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use uidring_store::files::{open_or_create, open_regular};

use super::create::{beside, identity};
use super::format::{self, Commit, Problem};
use super::names::second_name;
use super::patience::Wait;

/// The suffix of the file's name.
pub const END: &str = "-commits";

/// The locked file. The lock excludes all other transactions.
pub struct CommitCount {
    file: File,
    path: PathBuf,
}

impl CommitCount {
    /// Waits for the lock.
    pub fn lock(database: &Path, wait: &mut Wait<Option<Commit>>) -> Result<Self, Problem> {
        let mut count = Self::open(database)?;
        loop {
            match count.file.try_lock() {
                Ok(()) if is_at(&count.file, &count.path) => return Ok(count),
                // The opened file was removed. Another process may have locked a new one.
                Ok(()) => count = Self::open(database)?,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            // The count may be read while it is written. A torn value still shows that others make progress. On
            // Windows, nobody can read a file that another process has locked.
            wait.go_on(count.get().ok())?;
        }
    }

    /// Opens the file without following links. A new one gets the database's owner and mode, like SQLite's log. An
    /// existing one keeps its own, because somebody may have put another user's file there.
    fn open(database: &Path) -> io::Result<Self> {
        let path = beside(database, END);
        let of = fs::metadata(database)?;
        #[cfg(unix)]
        let mode = of.mode() & 0o777;
        #[cfg(not(unix))]
        let mode = 0;
        let (file, is_new) = open_or_create(&path, mode)?;
        #[cfg(unix)]
        if is_new {
            // Only root may change the owner. Set the mode last, because a change of owner may reset it.
            let _ = fchown(&file, None, Some(of.gid()));
            let _ = fchown(&file, Some(of.uid()), None);
            let _ = file.set_permissions(fs::Permissions::from_mode(mode));
        } else {
            let is = file.metadata()?;
            if is.nlink() > 1 && is.uid() != of.uid() {
                let text = format!("{} is a hard link to a file of another user", path.display());
                return Err(io::Error::new(ErrorKind::PermissionDenied, text));
            }
        }
        Ok(Self { file, path })
    }

    /// Refuses a database whose last commit is not the file's, if the file has at least as many. If it has fewer,
    /// refuses a database with a second name, whose commits are counted elsewhere.
    pub fn check(&mut self, last: Commit, database: &Path) -> Result<(), Problem> {
        let counted = self.get()?;
        if last == counted {
            return Ok(());
        }
        if last.count > counted.count {
            if let Some(found) = second_name(database) {
                return Err(Problem::Denied(found));
            }
            // Do not count that commit yet: it may be synced only with the next one. Write the old count again, so that
            // a full disk is noticed before a number is used.
            return Ok(self.set(counted)?);
        }
        refuse_lost(last, counted, &self.path)
    }

    fn get(&mut self) -> io::Result<Commit> {
        self.file.rewind()?;
        read(&self.file)
    }

    pub fn set(&mut self, Commit { count, word }: Commit) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all([count.to_le_bytes(), word.to_le_bytes()].as_flattened())
    }
}

/// Refuses a database if a later commit was counted, or a different one of the same number.
pub fn refuse_lost(last: Commit, counted: Commit, path: &Path) -> Result<(), Problem> {
    if last.count > counted.count || last == counted {
        return Ok(());
    }
    format::unusable(format!(
        "commits are lost: it has {} of the {} that {} counts{}. Its log was removed while the file \
         was in use, or an older or another file was put in its place; {}",
        last.count,
        counted.count,
        path.display(),
        if last.count < counted.count { "" } else { ", and the last is another one" },
        format::DAMAGED
    ))
}

/// Returns the last counted commit. Without the lock, another process may be about to count one.
pub fn counted(path: &Path) -> io::Result<Commit> {
    match open_regular(path, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Commit::default()),
        file => read(&file?),
    }
}

/// Returns the commit in a file; an empty file has count 0.
fn read(file: &File) -> io::Result<Commit> {
    let mut bytes = Vec::with_capacity(16);
    file.take(16).read_to_end(&mut bytes)?;
    // After a power failure, lost data may be missing or read as zeros.
    bytes.resize(16, 0);
    let (numbers, _) = bytes.as_chunks();
    Ok(Commit { count: u64::from_le_bytes(numbers[0]), word: u64::from_le_bytes(numbers[1]) })
}

impl Drop for CommitCount {
    fn drop(&mut self) {
        // Closing is not enough: a child that was forked meanwhile has the descriptor, too.
        let _ = self.file.unlock();
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    identity(file.metadata()) == identity(fs::symlink_metadata(path))
}
