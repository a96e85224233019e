//! A SQLite file, and the tables in it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use uidring::Error;
use uidring::worker::Ordinal;
use uidring_store::files::data_folder;

use super::file::{Kind, SEGMENTS, StoreFile, WORKERS};
use super::opener::Opener;
use super::{SqliteLeases, SqliteOrdinal, SqliteSegments, SqliteWorkerNodes};

/// A SQLite file with tables of worker ids, leases and segments: the embedded store, for one host.
///
/// Any number of processes of one host may use the file at once. Keep it: a copy on another host hands out worker ids
/// and ranges that are in use. So does an older state, unless the newer count of commits is still beside it
/// (`FILE-commits`). Do not put it on a network file system. In a container, put it on a volume: a file in the
/// container's own file system is refused, or warned about if that is a whole disk.
///
/// Only SQLite may open the file while it is in use: closing any descriptor of it drops the process's locks. Each start
/// checks the file for damage, and refuses a damaged one.
///
/// ```
/// use uidring::CachedUidGenerator;
/// use uidring_sqlite::SqliteStore;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("workers.db");
/// let store = SqliteStore::new(path).create(true);
/// let generator = CachedUidGenerator::builder().worker_from(store.worker_nodes()).build()?;
/// println!("{}", generator.next_uid()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteStore {
    /// The file of the worker ids. The segments are in the same file, or in the default one beside it.
    workers: StoreFile,
}

/// The path of the worker file.
impl fmt::Display for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.workers.path.display())
    }
}

impl SqliteStore {
    /// Returns the store in this file, which must exist unless [`create`](Self::create) is set.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { workers: StoreFile::new(&WORKERS, path.into()) }
    }

    /// Sets whether the first use creates a missing file, in a folder that exists. By default a missing file is an
    /// error: at a mistyped path, a new file would hand out the ids of the right one.
    /// [`WorkerTable::create`](uidring_store::WorkerTable::create),
    /// [`LeaseTable::create`](uidring_store::LeaseTable::create) and
    /// [`SegmentTable::create_tag`](uidring_store::SegmentTable::create_tag) always create it.
    #[must_use]
    pub fn create(mut self, creates: bool) -> Self {
        self.workers.creates = creates || self.workers.is_default;
        self
    }

    /// Sets whether the file may be the database of your own application, with tables of other names. It gets uidring's
    /// tables and write-ahead logging. By default another program's database is an error.
    #[must_use]
    pub fn foreign(mut self, foreign: bool) -> Self {
        self.workers.foreign = foreign;
        self
    }

    /// Returns the store in the user's own files: `uidring/workers.db` and `uidring/segments.db` in the user's data
    /// directory (on Linux `$XDG_DATA_HOME`, or `~/.local/share`). The first use creates them.
    ///
    /// In a container, files are refused unless they are on a volume. If the container's root is a whole disk, which
    /// may be that of a virtual machine, a use only logs a warning.
    ///
    /// # Errors
    ///
    /// [`TableError::DataDirectory`](uidring_store::TableError::DataDirectory) if no data directory is known, or `$HOME`
    /// or `$XDG_DATA_HOME` is not an absolute path.
    pub fn in_data_directory() -> Result<Self, Error> {
        Ok(Self::in_folder(&data_folder()?))
    }

    /// Returns the store in the default files in this folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        let workers = StoreFile::new(&WORKERS, folder.join(WORKERS.default_name));
        Self { workers: StoreFile { creates: true, is_default: true, ..workers } }
    }

    /// Sets the function that opens the files, for a VFS, a key (SQLCipher) or other settings of your own.
    ///
    /// Each use of a table calls it with an absolute path, which it must open for reading and writing. It must not
    /// create a file: the store does that itself, under a temporary name that the function gets first. The store then
    /// sets what its commits rely on (`journal_mode`, `synchronous`, triggers, the busy timeout). It refuses a
    /// connection on which these have no effect, or one to another file.
    ///
    /// Only SQLite may open the file in this process: closing any descriptor of it drops SQLite's locks.
    ///
    /// ```
    /// use uidring_sqlite::{SqliteStore, rusqlite::Connection, rusqlite::OpenFlags};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("workers.db");
    /// let store = SqliteStore::new(path).create(true).open_with(|path| {
    ///     let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    ///     connection.pragma_update(None, "cache_size", -512)?;
    ///     Ok(connection)
    /// });
    /// # use uidring_sqlite::WorkerTable;
    /// # assert_eq!(store.worker_nodes().assign(&uidring::Layout::UID_GENERATOR)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn open_with(
        mut self,
        open: impl Fn(&Path) -> rusqlite::Result<Connection> + Send + Sync + 'static,
    ) -> Self {
        self.workers.opener = Some(Opener(Arc::new(open)));
        self
    }

    /// Returns the table `WORKER_NODE`, with a new worker id for each start.
    pub fn worker_nodes(&self) -> SqliteWorkerNodes {
        SqliteWorkerNodes { file: self.file(&WORKERS) }
    }

    /// Returns the table `UIDRING_LEASE`, with worker ids that are held, renewed and released.
    pub fn leases(&self) -> SqliteLeases {
        SqliteLeases::of(self.file(&WORKERS))
    }

    /// Returns the leased worker id of this ordinal. The file is for it alone, on its pod's volume.
    pub fn ordinal(&self, ordinal: Ordinal) -> SqliteOrdinal {
        SqliteOrdinal::of(self.file(&WORKERS), ordinal)
    }

    /// Returns the table `leaf_alloc`, with segments of dense numbers.
    pub fn segments(&self) -> SqliteSegments {
        SqliteSegments { file: self.file(&SEGMENTS) }
    }

    pub(crate) fn file(&self, kind: &'static Kind) -> StoreFile {
        let StoreFile { path, is_default, .. } = &self.workers;
        let path = if *is_default { path.with_file_name(kind.default_name) } else { path.clone() };
        // Each table checks for a second name itself.
        StoreFile { kind, path, names: Arc::default(), ..self.workers.clone() }
    }
}
