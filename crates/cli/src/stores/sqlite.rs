//! Tables in a SQLite file.

use std::path::Path;
#[cfg(feature = "server")]
use std::path::PathBuf;
use std::time::Duration;

use uidring::WorkerSource;
use uidring::segment::SegmentStore;
use uidring::worker::Ordinal;
#[cfg(feature = "server")]
use uidring::{Error, Layout};
use uidring_sqlite::SqliteStore;
use uidring_store::url::check_once;
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

/// The file with this path, after which parameters may follow, as in SQLite's own URIs: `a.db?mode=rwc`. They
/// begin at the last question mark.
fn named(text: &Path) -> Result<SqliteStore, Failure> {
    check_path("the file of --sqlite", text).map_err(Failure::usage)?;
    let Some((path, parameters)) = text.to_str().and_then(|text| text.rsplit_once('?')) else {
        return Ok(SqliteStore::new(text));
    };
    let mut store = SqliteStore::new(path);
    check_once(parameters).map_err(|problem| Failure::Usage(format!("--sqlite: {problem}")))?;
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        store = match (name, value) {
            ("mode", "rw") => store.create(false),
            ("mode", "rwc") => store.create(true),
            ("foreign", "true") => store.foreign(true),
            ("foreign", "false") => store.foreign(false),
            _ => {
                return Err(Failure::Usage(format!(
                    "--sqlite: `{parameter}` is no parameter of a file: {PARAMETERS}. If the path has a \
                     question mark itself, write another one after it"
                )));
            }
        };
    }
    Ok(store)
}

const PARAMETERS: &str = "there are mode=rwc (or rw), to create a missing file, and foreign=true (or false), \
                          to use the database of another program of yours";

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
