//! The file of a SQLite store: made for its owner only, opened so that what is committed lasts.

use std::fs::OpenOptions;
use std::io;
use std::path::{self, Path, PathBuf};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::clock::Deadline;
use crate::error::Error;
use crate::store::{check_path, create_folder};

/// How long a process waits for others that are at the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// A SQLite file, and what errors say of it.
#[derive(Clone, Debug)]
pub struct StoreFile {
    kind: Kind,
    path: PathBuf,
    patience: Duration,
    /// What SQL takes for the present time, if not the system's clock.
    #[cfg(feature = "simulation")]
    clock: Option<std::sync::Arc<dyn crate::clock::Clock>>,
}

/// What a file is for.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Workers,
    Segments,
}

impl StoreFile {
    pub fn new(kind: Kind, path: PathBuf) -> Self {
        Self {
            kind,
            path,
            patience: PATIENCE,
            #[cfg(feature = "simulation")]
            clock: None,
        }
    }

    /// The same, but with a clock of the caller's.
    #[cfg(feature = "simulation")]
    pub fn with_clock(mut self, clock: impl crate::clock::Clock + 'static) -> Self {
        self.clock = Some(std::sync::Arc::new(clock));
        self
    }

    /// The same, but nothing waits for others at the file for longer than this.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience.min(PATIENCE);
        self
    }

    /// In the folder `uidring` of the user's data directory.
    pub fn in_data_directory(kind: Kind) -> Result<Self, Error> {
        let folder = dirs::data_dir().ok_or(Error::NoDataDirectory)?;
        let name = match kind {
            Kind::Workers => "workers.db",
            Kind::Segments => "segments.db",
        };
        Ok(Self::new(kind, folder.join("uidring").join(name)))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A connection to the file, which is made if there is none.
    pub fn open_or_create(&self) -> Result<Connection, Error> {
        let path = self.absolute_path()?;
        create(&path).map_err(|error| self.error("created", error.to_string()))?;
        self.patiently(|| self.connect(&path)).map_err(|error| self.sqlite_error("opened", &error))
    }

    /// A connection to a file that is there already.
    pub fn open(&self) -> Result<Connection, Error> {
        let path = self.existing_path()?;
        self.patiently(|| self.connect(&path)).map_err(|error| self.sqlite_error("opened", &error))
    }

    /// A transaction that nobody else writes in.
    pub fn begin<'a>(&self, connection: &'a mut Connection) -> Result<Transaction<'a>, Error> {
        connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| self.sqlite_error("written", &error))
    }

    /// Works on a file that is there already.
    pub fn read<T>(&self, work: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let path = self.existing_path()?;
        self.patiently(|| work(&self.connect(&path)?))
            .map_err(|error| self.sqlite_error("read", &error))
    }

    pub fn error(&self, action: &'static str, problem: String) -> Error {
        let path = self.path.clone();
        match self.kind {
            Kind::Workers => Error::WorkerFile { path, action, problem },
            Kind::Segments => Error::SegmentFile { path, action, problem },
        }
    }

    pub fn sqlite_error(&self, action: &'static str, error: &rusqlite::Error) -> Error {
        let remedy = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => "; free some space",
            Some(ErrorCode::NotADatabase) => "; name a file that is one, or a new one",
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "; another process keeps it locked"
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                "; file and folder must be writable for this user"
            }
            _ if error.to_string().contains("no such table: UIDRING_LEASE") => {
                "; name the file that worker ids are leased from, or make the table (`uidring worker \
                 init --leases`)"
            }
            _ if error.to_string().contains("no such table") => match self.kind {
                Kind::Workers => {
                    "; name the file that worker ids come from, or make the table (`uidring worker \
                     init`)"
                }
                Kind::Segments => {
                    "; name the file that segments come from, or make the table with its first tag \
                     (`uidring segment create`)"
                }
            },
            _ => "",
        };
        self.error(action, format!("{error}{remedy}"))
    }

    /// Absolute, so that SQLite takes no name (`:memory:`, an empty one) for something that is
    /// not a file: two starts from two such databases would get the same numbers.
    fn absolute_path(&self) -> Result<PathBuf, Error> {
        let what = match self.kind {
            Kind::Workers => "the worker file",
            Kind::Segments => "the segment file",
        };
        check_path(what, &self.path)?;
        path::absolute(&self.path).map_err(|error| self.error("opened", error.to_string()))
    }

    fn existing_path(&self) -> Result<PathBuf, Error> {
        let path = self.absolute_path()?;
        if path.exists() {
            return Ok(path);
        }
        let problem = match self.kind {
            Kind::Workers => "there is no such file: no worker id has been assigned from it",
            Kind::Segments => {
                "there is no such file; make it with its first tag (`uidring segment create`)"
            }
        };
        Err(self.error("read", problem.into()))
    }

    fn connect(&self, path: &Path) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(self.patience)?;
        #[cfg(feature = "simulation")]
        if let Some(clock) = &self.clock {
            super::virtual_time::install(&connection, clock)?;
        }
        // Write-ahead logging: starts that insert and people who list do not wait for each other.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // The row must be on the disk before its id is used: one that a power failure takes back
        // would be handed out again.
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection)
    }

    /// Tries again while the file is busy. SQLite's own busy timeout does not cover the change of a new
    /// file to write-ahead logging, where many processes that start at once meet.
    fn patiently<T>(
        &self,
        mut attempt: impl FnMut() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let deadline = Deadline::after(Some(self.patience));
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
}

/// Makes the file, with its folder, for its owner only, if there is none.
fn create(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlites_special_names_are_files_here() {
        let file = StoreFile::new(Kind::Workers, ":memory:".into());
        assert!(file.absolute_path().expect("a path").is_absolute());
        assert!(StoreFile::new(Kind::Segments, PathBuf::new()).open_or_create().is_err());
    }
}
