//! Tables in a SQLite file.

use std::path::Path;
use std::time::Duration;

use uidring::WorkerSource;
use uidring::segment::SegmentStore;
use uidring::worker::Ordinal;
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseOptions, LeaseTable, SegmentTable, WorkerTable, check_path};

use super::database::Database;
use crate::failure::Failure;

/// The file with this path, or the user's own files in the data directory.
pub fn open(path: Option<&Path>) -> Result<Box<dyn Database>, Failure> {
    Ok(Box::new(match path {
        Some(path) => {
            check_path("the file of --sqlite", path).map_err(Failure::usage)?;
            SqliteStore::new(path)
        }
        None => SqliteStore::in_data_directory()?,
    }))
}

/// The worker id of an ordinal, from the file with this path.
pub fn ordinal(
    path: &Path,
    ordinal: Ordinal,
    options: LeaseOptions,
) -> Result<Box<dyn WorkerSource + Send>, Failure> {
    check_path("the file of --sqlite", path).map_err(Failure::usage)?;
    Ok(Box::new(SqliteStore::new(path).ordinal(ordinal).options(options)))
}

impl Database for SqliteStore {
    /// The file's clock is this host's.
    fn worker_table(&self, _: Option<Duration>) -> Box<dyn WorkerTable + Send> {
        Box::new(self.worker_nodes())
    }

    fn leases(&self, options: LeaseOptions) -> Box<dyn LeaseTable + Send> {
        Box::new(self.leases().options(options))
    }

    fn segment_table(&self) -> Box<dyn SegmentTable + Send + Sync> {
        Box::new(self.segments())
    }

    fn segment_store(&self) -> Box<dyn SegmentStore> {
        Box::new(self.segments())
    }
}
