//! A SQLite file, and the tables in it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use uidring::Error;
use uidring::worker::Ordinal;
use uidring_store::files::data_folder;

use super::file::{Kind, StoreFile};
use super::opener::Opener;
use super::{SqliteLeases, SqliteOrdinal, SqliteSegments, SqliteWorkerNodes};

/// A SQLite file with tables of worker ids, of leases and of segments: the embedded store, for one
/// host.
///
/// Any number of processes of one host may use the file at once. It is unique to that host and has
/// to be kept: a copy of it on another host hands out worker ids and ranges that are in use. So does
/// an older state that is put back, unless the newer count of commits is still beside it
/// (`FILE-commits`). It must not stand on a network file system. In a container it has to be on a volume:
/// in the container's own file system it is refused, or warned of where that is a whole disk.
///
/// Nothing but SQLite may open the file while it is in use: closing any descriptor of it drops the
/// process's locks on it. Each start checks the file for damage, and refuses a damaged one.
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
    files: Files,
    opener: Option<Opener>,
    creates: bool,
    foreign: bool,
}

#[derive(Clone, Debug)]
enum Files {
    File(PathBuf),
    /// A file for each kind in this folder.
    Folder(PathBuf),
}

/// The file of the worker ids.
impl fmt::Display for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path(Kind::Workers).display())
    }
}

impl SqliteStore {
    /// The tables in this file, which must exist unless it is [created](Self::create).
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::of(Files::File(path.into()))
    }

    /// Whether the first use creates the file, in a folder that exists, if there is none. By default that is an
    /// error, since ids of a new file begin anew: at a path that is mistyped they would be those of the right
    /// file. [`WorkerTable::create`](uidring_store::WorkerTable::create),
    /// [`LeaseTable::create`](uidring_store::LeaseTable::create) and
    /// [`SegmentTable::create_tag`](uidring_store::SegmentTable::create_tag) always create it.
    #[must_use]
    pub fn create(mut self, creates: bool) -> Self {
        self.creates = creates;
        self
    }

    /// Whether the file may be a database of your own application, which has tables of other names. By default
    /// that is an error: nothing is added to another program's database by mistake. The tables of uidring are
    /// added to it, and it gets write-ahead logging.
    #[must_use]
    pub fn foreign(mut self, foreign: bool) -> Self {
        self.foreign = foreign;
        self
    }

    /// The tables in the user's own files: `uidring/workers.db` and `uidring/segments.db` in the
    /// user's data directory (`$XDG_DATA_HOME`, or `~/.local/share`, on Linux). They are made when they are
    /// first used.
    ///
    /// In a container, whose own file system ends with it, files are refused unless they are on a volume.
    /// If a container's root is a whole disk, perhaps that of a virtual machine, a process logs a warning when it
    /// uses one.
    ///
    /// # Errors
    ///
    /// [`TableError::NoDataDirectory`](uidring_store::TableError::NoDataDirectory), or
    /// [`TableError::RelativeDataDirectory`](uidring_store::TableError::RelativeDataDirectory) if `$HOME` or
    /// `$XDG_DATA_HOME` is not an absolute path.
    pub fn in_data_directory() -> Result<Self, Error> {
        Ok(Self::of(Files::Folder(data_folder()?)))
    }

    fn of(files: Files) -> Self {
        Self { files, opener: None, creates: false, foreign: false }
    }

    /// Opens the files by this function, for a program with a VFS of its own, a key (SQLCipher) or
    /// settings of its own.
    ///
    /// Each use of a table calls it with an absolute path. It must open that path, for reading and
    /// writing, without making a new file: the store makes its files itself, under a temporary name that
    /// the function gets first. The store then sets what its commits rely on (`journal_mode`,
    /// `synchronous`, triggers, the busy timeout), and refuses a connection on which these do not hold, or
    /// which is open to another file.
    ///
    /// Nothing else in the process may open the file, unless SQLite opens it: closing any descriptor of the
    /// file drops SQLite's locks on it.
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
        self.opener = Some(Opener(Arc::new(open)));
        self
    }

    /// The table `WORKER_NODE`: a fresh worker id for each start.
    pub fn worker_nodes(&self) -> SqliteWorkerNodes {
        SqliteWorkerNodes::of(self.file(Kind::Workers))
    }

    /// The table `UIDRING_LEASE`: worker ids that are held, renewed and given back.
    pub fn leases(&self) -> SqliteLeases {
        SqliteLeases::of(self.file(Kind::Workers))
    }

    /// The worker id of this ordinal, held and given back. The file is for it alone, and is to be on the
    /// volume of its pod.
    pub fn ordinal(&self, ordinal: Ordinal) -> SqliteOrdinal {
        SqliteOrdinal::of(self.file(Kind::Workers), ordinal)
    }

    /// The table `leaf_alloc`: segments of dense numbers.
    pub fn segments(&self) -> SqliteSegments {
        SqliteSegments::of(self.file(Kind::Segments))
    }

    /// Returns whether the files are those in the user's data directory.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self.files, Files::Folder(_))
    }

    pub(crate) fn path(&self, kind: Kind) -> PathBuf {
        match &self.files {
            Files::File(path) => path.clone(),
            Files::Folder(folder) => folder.join(kind.default_name()),
        }
    }

    pub(crate) fn file(&self, kind: Kind) -> StoreFile {
        let file = match &self.files {
            Files::File(path) => StoreFile::new(kind, path.clone()),
            Files::Folder(folder) => StoreFile::in_folder(kind, folder),
        };
        file.with_opener(self.opener.clone()).with_creation(self.creates).in_foreign(self.foreign)
    }
}
