//! A SQLite file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use uidring::segment::{SegmentStore, SegmentTag};
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest, WorkerSource};
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::suite::{Cause, Change, Place, Row, Rows, Site, Store, Tags, Terms, tables};

/// The present time, as the table of leases has it.
const NOW: &str = "strftime('%Y-%m-%d %H:%M:%f', 'now')";

pub struct Sqlite;

/// A file for each kind: where all share one, there is hardly a moment at which nobody has it open, and it
/// is then that a file is tidied up.
struct Files(TempDir);

impl Files {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn execute(&self, file: PathBuf, sql: &str) {
        let connection = Connection::open(file).expect("opens");
        connection.busy_timeout(Duration::from_secs(10)).expect("set");
        connection.execute_batch(sql).expect(sql);
    }
}

fn workers(folder: &Path) -> SqliteStore {
    SqliteStore::new(folder.join("workers.db")).create(true)
}

fn leases(folder: &Path) -> SqliteStore {
    SqliteStore::new(folder.join("leases.db")).create(true)
}

fn segments(folder: &Path) -> SqliteStore {
    SqliteStore::new(folder.join("segments.db")).create(true)
}

impl Store for Sqlite {
    fn start(&self) -> Box<dyn Site> {
        let files = Files(tempfile::tempdir().expect("a folder"));
        leases(files.path()).leases().create().expect("made");
        let tag = NewSegmentTag::new("made with the table", 1).expect("allowed");
        segments(files.path()).segments().create_tag(&tag).expect("made");
        Box::new(files)
    }

    fn worker_ids(&self, place: &Place) -> Result<Box<dyn WorkerSource>, Error> {
        Ok(Box::new(workers(Path::new(&place.address)).worker_nodes()))
    }

    fn lease(&self, place: &Place, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
        tables::lease(&leases(Path::new(&place.address)).leases(), request, terms)
    }

    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(Box::new(segments(Path::new(&place.address)).segments()))
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        let is_locked = error.contains("another process keeps it locked");
        // As on a server.
        let is_late = error.contains("is in use: a generator of this process");
        let other = is_locked.then_some(Cause::Locked).or(is_late.then_some(Cause::Away));
        tables::lease_cause(error).or(other)
    }
}

impl Site for Files {
    fn address(&self, _: usize) -> String {
        self.path().to_str().expect("UTF-8").into()
    }

    fn prune(&self) {
        workers(self.path()).worker_nodes().prune(Duration::ZERO).expect("pruned");
    }

    fn record_range(&self, first: u64, last: u64) -> Result<(), Error> {
        [workers(self.path()), leases(self.path())]
            .into_iter()
            .try_for_each(|store| store.worker_nodes().record_range(tables::range(first, last)))
    }

    fn rows(&self) -> &dyn Rows {
        self
    }

    fn tags(&self) -> &dyn Tags {
        self
    }
}

impl Rows for Files {
    fn row(&self, worker_id: u64) -> Option<Row> {
        tables::row(&leases(self.path()).leases(), worker_id)
    }

    fn change(&self, worker_id: u64, change: Change) {
        let sql = tables::change(worker_id, change, NOW);
        self.execute(self.path().join("leases.db"), &sql);
    }
}

impl Tags for Files {
    fn put(&self, tag: &SegmentTag) {
        self.execute(self.path().join("segments.db"), &tables::put(tag).join(";"));
    }

    fn set_step(&self, tag: &str, step: i64) {
        self.execute(self.path().join("segments.db"), &tables::set_step(tag, step));
    }
}
