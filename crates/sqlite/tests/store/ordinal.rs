//! The file of an ordinal, on the volume of its pod: one worker id, by leases.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use uidring::worker::{Lease, Ordinal};
use uidring::{Error, Worker, WorkerRequest, WorkerSource};
use uidring_sqlite::SqliteStore;
use uidring_testkit::suite::{Change, Place, Row, Rows, Site, Store, Terms, tables};

/// The present time, as the table of leases has it.
const NOW: &str = "strftime('%Y-%m-%d %H:%M:%f', 'now')";

pub struct OrdinalFile;

struct Volume(TempDir);

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::new(folder.join("uidring.db")).create(true)
}

impl Store for OrdinalFile {
    fn start(&self) -> Box<dyn Site> {
        // Not in memory, which is no volume.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        Box::new(Volume(folder.expect("a folder")))
    }

    fn lease(&self, place: &Place, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
        let ordinal = open(Path::new(&place.address)).ordinal(Ordinal::of_host("app-1")?);
        match ordinal.options(tables::options(terms)).acquire(request)? {
            Worker::Leased(lease) => Ok(lease),
            other => panic!("{other:?}"),
        }
    }
}

impl Site for Volume {
    fn address(&self, _: usize) -> String {
        self.0.path().to_str().expect("UTF-8").into()
    }

    fn rows(&self) -> &dyn Rows {
        self
    }
}

impl Rows for Volume {
    fn row(&self, worker_id: u64) -> Option<Row> {
        tables::row(&open(self.0.path()).leases(), worker_id)
    }

    fn change(&self, worker_id: u64, change: Change) {
        let connection = Connection::open(self.0.path().join("uidring.db")).expect("opens");
        connection.busy_timeout(Duration::from_secs(10)).expect("set");
        let sql = tables::change(worker_id, change, NOW);
        connection.execute_batch(&sql).expect(&sql);
    }
}
