//! The histories of the model of leases, with the rows of a SQLite file beside the model's store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;
use uidring::clock::{Clock, ManualClock};
use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp};
use uidring_simulation::{Histories, Setting, StoreUnderTest, StoredLease};
use uidring_sqlite::{SqliteLeases, SqliteStore};
use uidring_store::{LeaseOptions, LeaseTable, TableError};
use uidring_testkit::request;

use crate::virtual_time;

const REPLAY: &str = "cargo test -p uidring-sqlite --test it lease_histories";

#[test]
fn sqlite_answers_as_the_model_does() {
    Histories::from_env(500, REPLAY).run_beside(Rows::open);
}

/// A file of a history's own.
struct Rows {
    leases: SqliteLeases,
    clock: ManualClock,
    layout: Layout,
    options: LeaseOptions,
    /// Kept open, for a file whose last connection is closed has its log written back.
    reader: Connection,
    _folder: TempDir,
}

impl Rows {
    fn open(setting: &Setting) -> Self {
        let folder = fast_folder();
        let path = folder.path().join("workers.db");
        let clock = ManualClock::new(Timestamp::default());
        let virtual_time: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = SqliteStore::new(&path).create(true).open_with(move |path| {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(path, flags)?;
            virtual_time::install(&connection, &virtual_time)?;
            Ok(connection)
        });
        let leases = store.leases();
        leases.create().expect("created");
        let reader = Connection::open(path).expect("opened");
        // As if starts without a lease had had the worker ids below.
        let before = setting.worker_ids.start() - 1;
        reader
            .execute(
                "INSERT INTO WORKER_NODE VALUES (?1, 'host', '1', 2, DATE(), '', '')",
                [before.cast_signed()],
            )
            .expect("inserted");
        Self {
            leases,
            clock,
            layout: setting.layout,
            // No row is passed over for its horizon: the model's store has no such rule.
            options: LeaseOptions::default().lasts(setting.lasts),
            reader,
            _folder: folder,
        }
    }
}

/// In memory, where there is such a thing: nothing here is about what a disk keeps.
fn fast_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).expect("a folder")
}

impl StoreUnderTest for Rows {
    fn set_time(&mut self, now: Timestamp) {
        self.clock.set(now);
    }

    fn acquire(&mut self) -> Result<Option<Lease>, Error> {
        match self.leases.lease(&request(self.layout).with_max_ahead(Duration::MAX), &self.options)
        {
            Ok(lease) => Ok(Some(lease)),
            Err(error) => match error.store() {
                Some(TableError::NoFreeWorkerId { .. }) => Ok(None),
                _ => Err(error),
            },
        }
    }

    fn fence(&mut self, worker_id: u64) -> Result<(), Error> {
        self.leases.fence(worker_id).map(drop)
    }

    fn free(&mut self, worker_id: u64) -> Result<bool, Error> {
        match self.leases.release(worker_id) {
            Ok(_) => Ok(true),
            Err(error) => match error.store() {
                Some(TableError::LeaseHeld { .. }) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Read without the code under test.
    fn rows(&mut self) -> Result<Vec<StoredLease>, Error> {
        let mut rows = self.reader.prepare_cached(READ).expect("a statement");
        let rows = rows.query_map([], |row| {
            let tick: Option<i64> = row.get(3)?;
            Ok(StoredLease {
                worker_id: row.get::<_, i64>(0)?.cast_unsigned(),
                token: row.get::<_, i64>(1)?.cast_unsigned(),
                ends: row.get::<_, Option<i64>>(2)?.map(Timestamp::from_millis),
                horizon: match tick {
                    Some(tick) => {
                        Some((tick.cast_unsigned(), row.get::<_, i64>(4)?.cast_unsigned()))
                    }
                    None => None,
                },
            })
        });
        Ok(rows.and_then(Iterator::collect).expect("rows"))
    }
}

const READ: &str = "SELECT WORKER_ID, TOKEN,
    CAST(ROUND(UNIXEPOCH(LEASE_END, 'subsec') * 1000) AS INTEGER), HORIZON_TICK, HORIZON_SEQUENCE
    FROM UIDRING_LEASE ORDER BY WORKER_ID";
