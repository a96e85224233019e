//! The file of a SQLite store: created for its owner only, and opened so that commits are durable.

use std::fs;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use uidring::adapter::Chain;
use uidring::{Error, StoreErrorKind};
use uidring_store::files::create_folder;
use uidring_store::{check_path, quoted, warn_once};

use super::commits::{self, CommitCount};
use super::create::{Found, NewFile, beside, look};
use super::dedicated;
use super::forked::Entry;
use super::format::{self, Commit, Problem};
use super::names::Names;
use super::opener::{Opener, check_is_at};
use super::patience::{Patience, Wait};
use super::read_only;
use super::volume::{Keeps, doubt};

/// A SQLite file, and how to open it.
#[derive(Clone, Debug)]
pub struct StoreFile {
    pub kind: &'static Kind,
    pub path: PathBuf,
    /// How long operations wait for other processes.
    pub patience: Patience,
    pub opener: Option<Opener>,
    pub keeps: Keeps,
    pub names: Arc<Names>,
    /// Whether the first use may create the file.
    pub creates: bool,
    /// Whether it may be a database of the caller's own program.
    pub foreign: bool,
    /// Whether the file is in the user's data directory.
    pub is_default: bool,
}

/// What a file is used for.
#[derive(Debug, PartialEq)]
pub struct Kind {
    pub what: &'static str,
    pub default_name: &'static str,
    /// The start of a message's clause, as in "worker ids come from".
    pub given: &'static str,
    /// The command that creates it.
    pub command: &'static str,
}

pub static WORKERS: Kind = Kind {
    what: "the worker file",
    default_name: "workers.db",
    given: "worker ids come",
    command: "worker init",
};

pub static SEGMENTS: Kind = Kind {
    what: "the segment file",
    default_name: "segments.db",
    given: "segments come",
    command: "segment create TAG --step S",
};

impl StoreFile {
    pub fn new(kind: &'static Kind, path: PathBuf) -> Self {
        Self {
            kind,
            path,
            patience: Patience::USUAL,
            opener: None,
            keeps: Keeps::HostsIds,
            names: Arc::default(),
            creates: false,
            foreign: false,
            is_default: false,
        }
    }

    /// Returns the file's name in errors of tables.
    pub fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns a command of the program, with the option that names the file.
    pub fn command(&self, command: &str) -> String {
        match self.is_default {
            true => format!("`uidring {command}`"),
            false => format!("`uidring {command} -u {}`", quoted(&url_of(&self.path))),
        }
    }

    /// Opens the file for use and checks all of it. Creates a missing file only if the caller asked for that, because
    /// all new files hand out the same ids.
    pub fn open_to_use(&self) -> Result<Opened, Error> {
        if !self.creates {
            self.existing_path()?;
        }
        self.open_or_create()
    }

    /// Opens the file and checks all of it. Creates a missing file.
    pub fn open_or_create(&self) -> Result<Opened, Error> {
        let path = self.absolute_path()?;
        self.check_place(&path)?;
        self.create(&path)?;
        self.check_names(&path)?;
        self.checked(&path, "opened", None)
    }

    /// Opens an existing file that has this table, and checks the table.
    pub fn open(&self, table: &'static str) -> Result<Opened, Error> {
        let path = self.existing_path()?;
        self.check_place(&path)?;
        self.checked(&path, "opened", Some(table))
    }

    /// Fails where a use of the file would fail, as far as can be seen without changing anything. Calls `work` on an
    /// existing file, or else returns the default. This process must not have the file open, because closing it here
    /// may drop its locks.
    pub fn check<T: Default>(
        &self,
        work: impl Fn(&Connection) -> Result<T, Problem>,
    ) -> Result<T, Error> {
        let path = match self.creates {
            true => self.absolute_path()?,
            false => self.existing_path()?,
        };
        self.check_place(&path)?;
        if !self.exists(&path)? {
            if let Err(error) = self.check_folder(&path) {
                warn_once(format!(
                    "a start fails as things are, unless systemd creates the folder for it (StateDirectory=): {}",
                    Chain(&error)
                ));
            }
            let made = NewFile::try_beside(&path);
            return made.map(|()| T::default()).map_err(|error| self.io_error("created", error));
        }
        self.check_names(&path)?;
        let look = |connection: &Connection| match format::check(connection, self.foreign)? {
            true => Ok((format::last_commit(connection)?, work(connection)?)),
            false => Ok((Commit::default(), T::default())),
        };
        let count = beside(&path, commits::END);
        // Read the count first: a commit is in the database before it is counted.
        let compared = || {
            let counted = commits::counted(&count)?;
            let (last, done) = read_only::read(&path, look)?;
            commits::refuse_lost(last, counted, &count).map(|()| done)
        };
        // Retry once, in case another process was writing.
        self.patiently("read", || compared().or_else(|_| compared()))
    }

    /// Refuses a path whose folder is missing, unless it is the default: a file at a mistyped path would hand out the
    /// ids of the right one.
    pub fn check_folder(&self, path: &Path) -> Result<(), Error> {
        let missing = path.parent().filter(|folder| !self.is_default && !folder.exists());
        let Some(folder) = missing.map(Path::display) else { return Ok(()) };
        let problem = format!("there is no folder {folder}: correct the path, or create it");
        Err(self.error_from("created", StoreErrorKind::NotFound, problem, None))
    }

    /// Refuses a file that has a second name.
    fn check_names(&self, path: &Path) -> Result<(), Error> {
        self.names.check(path).map_err(|problem| self.error("used", problem))
    }

    /// Refuses a place where another file would hand out the same ids, and warns if that is only possible.
    fn check_place(&self, path: &Path) -> Result<(), Error> {
        let doubt = doubt(path, self.keeps);
        if let Some(sign) = doubt.map_err(|why| self.error("used", Problem::Denied(why)))? {
            warn_once(format!(
                "{} is in the file system of a container ({sign}): each new container starts with a new file, and hands \
                 out the same ids; name a file on a volume, or use a server. UIDRING_CONTAINER=0 says that this is no \
                 container",
                self.path.display()
            ));
        }
        Ok(())
    }

    /// Runs `work` in a write transaction, in which all tables exist. Commits if it succeeds.
    pub fn write<T>(
        &self,
        opened: &mut Opened,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Problem>,
    ) -> Result<T, Error> {
        self.write_if(opened, |_| true, work)
    }

    /// Like [`write`](Self::write), but rolls back unless `commits` accepts the result.
    pub fn write_if<T>(
        &self,
        opened: &mut Opened,
        commits: impl FnOnce(&T) -> bool,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Problem>,
    ) -> Result<T, Error> {
        let done = self.try_write(&mut opened.connection, commits, work);
        done.map_err(|problem| self.error("written", problem))
    }

    fn try_write<T>(
        &self,
        connection: &mut Connection,
        commits: impl FnOnce(&T) -> bool,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        // Links are resolved, as in the name of SQLite's log.
        let path = connection.path().map_or_else(|| self.path.clone(), PathBuf::from);
        let mut wait = Wait::new(self.patience);
        let mut count = CommitCount::lock(&path, &mut wait)?;
        // The count is locked, so only readers, `prune` and other software can hold SQLite's locks.
        connection.busy_timeout(wait.left().min(self.patience.standstill))?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        format::prepare(&transaction)?;
        if *self.kind == SEGMENTS {
            dedicated::refuse(&transaction, "segments")?;
        }
        let last = format::last_commit(&transaction)?;
        count.check(last, &path)?;
        let done = work(&transaction)?;
        if commits(&done) {
            let commit = last.next();
            format::finish(&transaction, commit)?;
            transaction.commit()?;
            count.set(commit)?;
        }
        Ok(done)
    }

    /// Runs `work` on an existing file, outside a transaction.
    pub fn with_existing<T>(
        &self,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let path = self.existing_path()?;
        let opened = self.checked(&path, "read", None)?;
        self.patiently("read", || Ok(work(&opened.connection)?))
    }

    /// Like [`with_existing`](Self::with_existing), for work that only reads and needs no right to write.
    pub fn read<T>(&self, work: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let done = self.with_existing(&work);
        match &done {
            Err(Error::Store(error))
                if error.kind() == StoreErrorKind::Denied && self.opener.is_none() => {}
            _ => return done,
        }
        let path = self.existing_path()?;
        let read = |connection: &Connection| {
            format::check(connection, self.foreign)?;
            Ok(work(connection)?)
        };
        // The first refusal says more.
        self.patiently("read", || read_only::read(&path, read)).or(done)
    }

    fn checked(
        &self,
        path: &Path,
        action: &'static str,
        table: Option<&'static str>,
    ) -> Result<Opened, Error> {
        let entry = Entry::new().ok_or_else(|| {
            let problem = "this process was forked from one that had a SQLite file open, and does not \
                           have its locks; start a new process (exec)";
            self.error_from(action, StoreErrorKind::Denied, problem.into(), None)
        })?;
        let connect = || {
            let connection = self.connect(path)?;
            format::check_ours(&connection)?;
            format::check_integrity(&connection, table)?;
            Ok(connection)
        };
        Ok(Opened { connection: self.patiently(action, connect)?, _entry: entry })
    }

    /// Returns an absolute path. SQLite reads `:memory:`, or an empty name, as a database without a file, and all of
    /// these hand out the same numbers.
    pub fn absolute_path(&self) -> Result<PathBuf, Error> {
        check_path(self.kind.what, &self.path)?;
        path::absolute(&self.path).map_err(|error| self.io_error("opened", error))
    }

    /// Returns the path of a file that exists and has no second name.
    fn existing_path(&self) -> Result<PathBuf, Error> {
        let path = self.absolute_path()?;
        if self.exists(&path)? {
            return self.check_names(&path).map(|()| path);
        }
        let or = match !self.creates && *self.kind == WORKERS {
            true => ", or `?mode=rwc` after the path in its URL (in Rust, `.create(true)`)",
            false => "",
        };
        let problem = match self.path.to_string_lossy().contains('?') {
            // The user may have written it as in a URL.
            true => "there is no such file: a path in Rust has no parameters. To create the file, remove what \
                     follows the `?`, and call `.create(true)`"
                .into(),
            false => format!(
                "there is no such file. If the path is right, create it: by {}{or}",
                self.command(self.kind.command)
            ),
        };
        Err(self.error_from("opened", StoreErrorKind::NotFound, problem, None))
    }

    /// Refuses an empty file, anything that is not a file, and a missing file whose log or count is left.
    fn exists(&self, path: &Path) -> Result<bool, Error> {
        // Look for those first: another process may create the file meanwhile, and creates it before them.
        let mut beside = ["-wal", commits::END].map(|end| beside(path, end)).into_iter();
        let left = beside.find(|path| path.exists());
        let found = look(path).map_err(|error| self.io_error("opened", error))?;
        let problem = match (found, left) {
            (Found::File, _) => return Ok(true),
            (Found::Nothing, None) => return Ok(false),
            (Found::Empty, _) => Problem::Unusable(EMPTY.into()),
            (Found::Other(what), _) => Problem::Denied(format!("that is {what}; name a file")),
            (Found::Nothing, Some(left)) => Problem::Unusable(format!(
                "{} exists, but the file is gone: a new file would repeat ids. Find the file, or see \
                 docs/sqlite.md",
                left.display()
            )),
        };
        Err(self.error("used", problem))
    }

    fn create(&self, path: &Path) -> Result<(), Error> {
        if self.exists(path)? {
            return Ok(());
        }
        let explain = |error| self.io_error("created", error);
        self.check_folder(path)?;
        if let Some(folder) = path.parent().filter(|_| self.is_default) {
            create_folder(folder).map_err(explain)?;
        }
        let new = NewFile::for_path(path).map_err(explain)?;
        let mut opened = self.checked(&new.0, "created", None)?;
        let prepared = prepare_new(&mut opened.connection);
        prepared.map_err(|problem| self.error("created", problem))?;
        drop(opened);
        new.link(path).map_err(explain)
    }

    /// Opens the file and sets what durable commits need, even on a caller's own connection.
    fn connect(&self, path: &Path) -> Result<Connection, Problem> {
        let connection = match &self.opener {
            Some(opener) => opener.open(path)?,
            None => {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                Connection::open_with_flags(path, flags)?
            }
        };
        check_is_at(&connection, path)?;
        connection.busy_timeout(self.patience.standstill)?;
        // Do not let a close merge a log into the file and delete it before the file is recognised: the log may be
        // another program's, left by a crash.
        let has_log = fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
        format::recognise(&connection, self.foreign)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        // The tables are guarded by triggers.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)?;
        // Detects more kinds of damage when a page is read.
        connection.pragma_update(None, "cell_size_check", "ON")?;
        // With a write-ahead log, readers and writers do not wait for each other.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // The row must be on the disk before its id is used. Otherwise a power failure could undo it, and the id would
        // be handed out again.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // On macOS, an ordinary sync may leave the row in the disk's cache. No effect elsewhere.
        connection.pragma_update(None, "fullfsync", "ON")?;
        check_durability(&connection)?;
        Ok(connection)
    }

    /// Retries while the file is busy. SQLite's own busy timeout does not cover the switch of a new file to write-ahead
    /// logging, which many processes may attempt at once.
    fn patiently<T>(
        &self,
        action: &'static str,
        mut attempt: impl FnMut() -> Result<T, Problem>,
    ) -> Result<T, Error> {
        let mut wait = Wait::new(self.patience);
        loop {
            match attempt() {
                Err(Problem::Sqlite(error))
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && wait.go_on(()).is_ok() => {}
                done => return done.map_err(|problem| self.error(action, problem)),
            }
        }
    }
}

/// Creates the tables in a file that no other process knows.
fn prepare_new(connection: &mut Connection) -> Result<(), Problem> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    format::prepare(&transaction)?;
    format::finish(&transaction, Commit::default().next())?;
    transaction.commit()?;
    // Closing would also merge the log, but would not report a full disk. The file would then be linked without the
    // rest of its log.
    Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
}

/// uidring never leaves an empty file.
const EMPTY: &str = "the file is empty: it was cut off, or another program created it. If no id was \
                     ever handed out from it, remove it; else see docs/sqlite.md";

/// A connection, which closes before its entry is dropped.
pub struct Opened {
    connection: Connection,
    _entry: Entry,
}

/// Refuses a connection whose commits might not be durable. SQLite silently ignores a setting that it cannot apply.
fn check_durability(connection: &Connection) -> Result<(), Problem> {
    let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    // In exclusive mode, SQLite takes no shared memory and no locks that other processes see.
    let locking: String = connection.pragma_query_value(None, "locking_mode", |row| row.get(0))?;
    if journal == "wal" && synchronous == 2 && locking == "normal" {
        return Ok(());
    }
    format::unusable(format!(
        "its commits would not last, or not exclude others: it has journal_mode = {journal}, \
         synchronous = {synchronous} and locking_mode = {locking}, and needs wal, 2 (FULL) and normal"
    ))
}

/// Returns the file's URL for messages.
fn url_of(path: &Path) -> String {
    format!("sqlite:{}", path.to_string_lossy().replace('%', "%25").replace('?', "%3F"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlites_special_names_are_files_here() {
        let file = StoreFile::new(&WORKERS, ":memory:".into());
        assert!(file.absolute_path().expect("a path").is_absolute());
        assert!(StoreFile::new(&SEGMENTS, PathBuf::new()).open_or_create().is_err());
    }

    #[test]
    fn a_commit_reaches_the_disk_before_it_returns() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = StoreFile::new(&WORKERS, folder.path().join("a.db"));
        commits_last(&file.open_or_create().expect("made").connection);
    }

    #[test]
    fn a_connection_of_the_callers_is_put_right() {
        let folder = tempfile::tempdir().expect("a folder");
        let careless = |path: &Path| {
            let connection = Connection::open(path)?;
            connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA fullfsync = OFF")?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
            Ok(connection)
        };
        let mut file = StoreFile::new(&WORKERS, folder.path().join("a.db"));
        file.opener = Some(Opener(Arc::new(careless)));
        let connection = file.open_or_create().expect("made").connection;
        commits_last(&connection);
        let triggers = connection.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER);
        assert!(triggers.expect("known"));
    }

    fn commits_last(connection: &Connection) {
        let pragma = |name: &str| -> String {
            let value = connection.query_row(&format!("PRAGMA {name}"), [], |row| {
                row.get::<_, rusqlite::types::Value>(0)
            });
            format!("{:?}", value.expect(name))
        };
        assert_eq!(pragma("synchronous"), "Integer(2)");
        assert_eq!(pragma("fullfsync"), "Integer(1)");
        assert_eq!(pragma("journal_mode"), "Text(\"wal\")");
        assert_eq!(pragma("cell_size_check"), "Integer(1)");
    }
}
