//! Finds commits that are lost, by a count of them in a file of its own.
//!
//! A commit is in the log before it is in the database, and is lost with the log. SQLite's locks keep others
//! from deleting it, but a process that closes any descriptor of the database drops them (see
//! [`create`](super::create)), and people delete files. The database then shows an older state, whose numbers
//! would be handed out again.
//!
//! So each transaction counts itself twice, except what only removes rows: in the database, in the table
//! `UIDRING_FILE`, and, when it is committed, in the file `DATABASE-commits`. Nothing is handed out before
//! both are done. Each commit also has a random word, for two commits of the same number in two logs. A
//! transaction that finds less in the database than in the file, or another word, is refused. It finds more
//! after a crash between the two, or without the file: that is allowed.
//!
//! While one transaction counts, others must not begin, also where SQLite lets them: two that do not see each
//! other in their logs would both count on from the same number. So a transaction holds a lock of the file,
//! by `flock`. It belongs to the open file, and no other descriptor's close drops it. A child that was forked
//! meanwhile keeps it, until it ends or calls `exec`, if its parent is killed before the commit.
//!
//! One case is out of reach. A process that has lost its locks, and has a log that was deleted, writes that
//! log back into the database when it closes it. It may do so while another's transaction reads pages, which
//! are then of two states.
//!
//! The count is not synced. A power failure may take it back, and then less is found. It cannot become
//! greater than what is committed, because a commit is synced before it is counted. docs/inside-stores.md says what a
//! sync would find and cost.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use uidring_store::files::open_or_create;

use super::create::{beside, identity};
use super::format::{self, Commit, Problem};
use super::names::second_name;
use super::patience::Wait;

/// How the name of the file ends.
pub const END: &str = "-commits";

/// The file, locked against all other transactions.
pub struct CommitCount {
    file: File,
    path: PathBuf,
}

impl CommitCount {
    /// Waits for the lock.
    pub fn lock(database: &Path, wait: &mut Wait<Option<Commit>>) -> Result<Self, Problem> {
        let open = || {
            let path = beside(database, END);
            open(&path, database).map(|file| Self { file, path })
        };
        let mut count = open()?;
        loop {
            match count.file.try_lock() {
                Ok(()) if is_at(&count.file, &count.path) => return Ok(count),
                // Someone has removed the file that was opened, and another may have locked a new one.
                Ok(()) => count = open()?,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            // If somebody writes it now, it is read half: that, too, shows that others get on. Windows lets nobody
            // read a file that another has locked.
            wait.go_on(count.get().ok())?;
        }
    }

    /// Refuses a database with this last commit if the file knows a later one, or another. Also if it knows less and
    /// the database has a second name, whose commits are counted elsewhere.
    pub fn check(&mut self, last: Commit, database: &Path) -> Result<(), Problem> {
        let counted = self.get()?;
        if last == counted {
            return Ok(());
        }
        if last.count > counted.count {
            if let Some(found) = second_name(database) {
                return Err(Problem::Denied(found));
            }
            // That commit is not counted now: it is synced with the next one, at the latest. But if there
            // is no space for the count, that is known before a number is used.
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

/// Refuses a database with this last commit if a later one was counted, or another.
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

/// Returns the last commit that was counted, without the lock: another process may be about to count one.
pub fn counted(path: &Path) -> io::Result<Commit> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Commit::default()),
        Err(error) => Err(error),
        Ok(found) if found.is_file() => read(&File::open(path)?),
        Ok(_) => {
            let text = format!("{} is no regular file", path.display());
            Err(io::Error::new(ErrorKind::InvalidInput, text))
        }
    }
}

/// Returns the commit in a file; its count is 0 in a new one.
fn read(file: &File) -> io::Result<Commit> {
    let mut bytes = Vec::with_capacity(16);
    file.take(16).read_to_end(&mut bytes)?;
    // What a file system lost in a power failure reads as nothing or zeros.
    bytes.resize(16, 0);
    let (numbers, _) = bytes.as_chunks();
    Ok(Commit { count: u64::from_le_bytes(numbers[0]), word: u64::from_le_bytes(numbers[1]) })
}

impl Drop for CommitCount {
    fn drop(&mut self) {
        // Not left to the close: a child that was forked meanwhile has the descriptor, too.
        let _ = self.file.unlock();
    }
}

/// Opens the file, through no link. A new one is for whom the database is for, as SQLite's log is. One that is
/// there stays as it is: somebody may have put a file of another user's in its place.
fn open(path: &Path, database: &Path) -> io::Result<File> {
    let of = fs::metadata(database)?;
    #[cfg(unix)]
    let mode = of.mode() & 0o777;
    #[cfg(not(unix))]
    let mode = 0;
    let (file, is_new) = open_or_create(path, mode)?;
    #[cfg(unix)]
    if is_new {
        // Only the superuser may give it to another user. The mode last: a change of owner may reset it.
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
    Ok(file)
}

fn is_at(file: &File, path: &Path) -> bool {
    let [opened, found] = [file.metadata(), fs::symlink_metadata(path)];
    opened.ok().as_ref().map(identity) == found.ok().as_ref().map(identity)
}
