//! Tables in a SQLite file.

use std::path::Path;
use std::time::Duration;

use uidring::segment::SegmentStore;
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
