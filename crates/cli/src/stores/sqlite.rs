//! Tables in a SQLite file.

use std::path::Path;
#[cfg(feature = "server")]
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use uidring::WorkerSource;
use uidring::segment::SegmentStore;
use uidring::worker::Ordinal;
#[cfg(feature = "server")]
use uidring::{Error, Layout};
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseOptions, LeaseTable, SegmentTable, WorkerTable, check_path};

use super::database::Database;
use crate::failure::Failure;

/// The file with this path, or the user's own files in the data directory.
pub fn open(path: Option<&Path>) -> Result<Box<dyn Database>, Failure> {
    Ok(Box::new(match path {
        Some(path) => named(path)?,
        None => SqliteStore::in_data_directory()?,
    }))
}

/// The worker id of an ordinal, from the file with this path.
pub fn ordinal(
    path: &Path,
    ordinal: Ordinal,
    options: LeaseOptions,
) -> Result<Box<dyn WorkerSource + Send>, Failure> {
    Ok(Box::new(named(path)?.ordinal(ordinal).options(options)))
}

/// The file with this path, after which options may follow as in a URL: `a.db?mode=rwc`. They begin at the last
/// question mark.
fn named(text: &Path) -> Result<SqliteStore, Failure> {
    check_path("the file of --sqlite", text).map_err(Failure::usage)?;
    let Some((path, options)) = text.to_str().and_then(|text| text.rsplit_once('?')) else {
        return Ok(SqliteStore::new(text));
    };
    let path = utf8_percent_encode(path, NON_ALPHANUMERIC);
    SqliteStore::from_url(&format!("sqlite:{path}?{options}")).map_err(|error| {
        Failure::Usage(format!(
            "--sqlite: {error}. If the path has a question mark itself, write another one after it"
        ))
    })
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

    #[cfg(feature = "server")]
    fn check_workers(&self, leases: Option<&Layout>) -> Result<(), Error> {
        self.check_workers(leases)
    }

    #[cfg(feature = "server")]
    fn check_segments(&self) -> Result<Vec<String>, Error> {
        self.check_segments()
    }

    #[cfg(feature = "server")]
    fn worker_file(&self) -> Option<PathBuf> {
        Some(self.worker_file())
    }
}
