//! A SQLite file, and the tables in it.

use std::path::PathBuf;

use uidring::Error;
use uidring_store::TableError;

use super::file::{Kind, StoreFile};
use super::{SqliteLeases, SqliteSegments, SqliteWorkerNodes};

/// A SQLite file with tables of worker ids, of leases and of segments: the embedded store, for one
/// host.
///
/// Any number of processes of one host may use the file at once. It is unique to that host and has
/// to be kept: a copy of it on another host, or an older state of it put back, hands out worker
/// ids and ranges that are in use. It must not stand on a network file system.
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
/// let store = SqliteStore::new(path);
/// let generator = CachedUidGenerator::builder().worker_from(store.worker_nodes()).build()?;
/// println!("{}", generator.next_uid()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteStore {
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    /// A file for each kind in this folder.
    Folder(PathBuf),
}

impl SqliteStore {
    /// The tables in this file, which is made, with its folder, when it is first used.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { place: Place::File(path.into()) }
    }

    /// The tables in the user's own files: `uidring/workers.db` and `uidring/segments.db` in the
    /// user's data directory (`$XDG_DATA_HOME`, or `~/.local/share`, on Linux).
    ///
    /// In a container, which has a data directory of its own, each use of a table logs a warning.
    ///
    /// # Errors
    ///
    /// [`TableError::NoDataDirectory`](uidring_store::TableError::NoDataDirectory).
    pub fn in_data_directory() -> Result<Self, Error> {
        let folder = dirs::data_dir().ok_or(Error::from(TableError::NoDataDirectory))?;
        Ok(Self { place: Place::Folder(folder.join("uidring")) })
    }

    /// The table `WORKER_NODE`: a fresh worker id for each start.
    pub fn worker_nodes(&self) -> SqliteWorkerNodes {
        SqliteWorkerNodes { file: self.file(Kind::Workers) }
    }

    /// The table `UIDRING_LEASE`: worker ids that are held, renewed and given back.
    pub fn leases(&self) -> SqliteLeases {
        SqliteLeases::of(self.file(Kind::Workers))
    }

    /// The table `leaf_alloc`: segments of dense numbers.
    pub fn segments(&self) -> SqliteSegments {
        SqliteSegments::of(self.file(Kind::Segments))
    }

    fn file(&self, kind: Kind) -> StoreFile {
        match &self.place {
            Place::File(path) => StoreFile::new(kind, path.clone()),
            Place::Folder(folder) => StoreFile::in_folder(kind, folder),
        }
    }
}
