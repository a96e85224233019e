//! Worker ids and segments from a SQLite file: the embedded store, for one host.
//!
//! It brings SQLite by rusqlite, of which it takes a range of versions: cargo allows one SQLite in a
//! program, and chooses the version that shares it with sqlx 0.8 or 0.9, or with diesel 2.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

mod container;
mod create;
mod error;
mod file;
mod forked;
mod format;
mod leases;
mod segments;
mod store;
#[cfg(feature = "simulation")]
mod virtual_time;

use std::path::Path;
use std::time::Duration;

#[cfg(test)]
use rusqlite::Connection;
use rusqlite::{OptionalExtension, Row, Transaction};
use uidring::{Error, Layout, StoreErrorKind, Timestamp, Worker, WorkerRequest, WorkerSource};
use uidring_store::{Counts, NodeIdentity, age};
pub use uidring_store::{
    LeaseOptions, LeaseRow, LeaseState, LeaseTable, NewSegmentTag, Pruned, SegmentTable,
    TableError, WorkerNode, WorkerTable, WorkerUsage,
};

pub use self::error::SqliteError;
use self::file::StoreFile;
pub use self::leases::SqliteLeases;
pub use self::segments::SqliteSegments;
pub use self::store::SqliteStore;

/// A table `WORKER_NODE` in a SQLite file: [`SqliteStore::worker_nodes`]. Every assignment inserts a row,
/// whose generated key is the worker id: used by one start, and never again.
#[derive(Clone, Debug)]
pub struct SqliteWorkerNodes {
    file: StoreFile,
}

impl SqliteWorkerNodes {
    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

impl WorkerSource for SqliteWorkerNodes {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.assign(&request.layout).map(Worker::from)
    }
}

/// Everything but [`assign`](WorkerTable::assign) and [`create`](WorkerTable::create) demands that
/// the file is there.
impl WorkerTable for SqliteWorkerNodes {
    /// Inserts a row and commits it to the disk, then returns its key. An id that does not fit the
    /// layout is not spent: its row is rolled back.
    fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        let node = NodeIdentity::from_env()?;
        let explain = |error: rusqlite::Error| self.file.sqlite_error("written", error);
        let mut connection = self.file.open_or_create()?;
        let transaction = self.file.begin(&mut connection)?;
        let worker_id = insert_node(&self.file, &transaction, &node)?;
        layout.check_worker_id(worker_id)?;
        transaction.commit().map_err(explain)?;
        Ok(worker_id)
    }

    fn create(&self) -> Result<(), Error> {
        let mut connection = self.file.open_or_create()?;
        let transaction = self.file.begin(&mut connection)?;
        transaction.commit().map_err(|error| self.file.sqlite_error("written", error))
    }

    fn list(&self) -> Result<Vec<WorkerNode>, Error> {
        self.file.read(|connection| {
            let mut rows = connection.prepare(
                "SELECT ID, HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED
                 FROM WORKER_NODE ORDER BY ID",
            )?;
            rows.query_map([], |row| {
                Ok(WorkerNode {
                    id: row.get(0)?,
                    host_name: row.get(1)?,
                    port: row.get(2)?,
                    kind: row.get(3)?,
                    launch_date: row.get(4)?,
                    modified: row.get(5)?,
                    created: row.get(6)?,
                })
            })?
            .collect()
        })
    }

    fn usage(&self) -> Result<WorkerUsage, Error> {
        let time = |row: &Row<'_>, index| {
            row.get::<_, i64>(index).map(|s| Timestamp::from_millis(s.saturating_mul(1_000)))
        };
        self.file.read(|connection| {
            let first = connection
                .query_row(
                    "SELECT ID, UNIXEPOCH(CREATED) FROM WORKER_NODE
                     WHERE CREATED >= DATETIME('now', '-' || ?1 || ' days') ORDER BY ID LIMIT 1",
                    [WorkerUsage::WINDOW_DAYS],
                    |row| Ok((row.get(0)?, time(row, 1)?)),
                )
                .optional()?;
            connection.query_row(
                "SELECT COUNT(*), MAX(ID), UNIXEPOCH(),
                 MAX(CASE WHEN CREATED < DATETIME('now', '-' || ?1 || ' days') THEN ID END)
                 FROM WORKER_NODE",
                [WorkerUsage::WINDOW_DAYS],
                |row| {
                    Ok(WorkerUsage::new(Counts {
                        rows: row.get::<_, i64>(0)?.unsigned_abs(),
                        newest: row.get(1)?,
                        now: time(row, 2)?,
                        before: row.get(3)?,
                        first,
                    }))
                },
            )
        })
    }

    fn prune(&self, older_than: Duration) -> Result<Pruned, Error> {
        self.file.read(|connection| {
            let newest: Option<i64> =
                connection.query_row("SELECT MAX(ID) FROM WORKER_NODE", [], |row| row.get(0))?;
            let removed = connection.execute(
                "DELETE FROM WORKER_NODE
                 WHERE ID < ?1 AND CREATED <= DATETIME('now', '-' || ?2 || ' seconds')",
                (newest, age(older_than).cast_signed()),
            )?;
            Ok(Pruned { removed: removed as u64, newest })
        })
    }
}

/// A new row's key.
fn insert_node(
    file: &StoreFile,
    transaction: &Transaction<'_>,
    node: &NodeIdentity,
) -> Result<u64, Error> {
    let last = format::last_worker_id(transaction).map_err(|problem| file.unusable(problem))?;
    let next = last.checked_add(1).ok_or_else(|| {
        file.error(
            "used",
            StoreErrorKind::Exhausted,
            format!("its worker ids are used up: the last one was {last}"),
        )
    })?;
    let id: i64 = transaction
        .query_row(
            "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
             VALUES (?1, ?2, ?3, DATE('now'), CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)
             RETURNING ID",
            (&node.host, &node.port, node.kind as i64),
            |row| row.get(0),
        )
        .map_err(|error| file.sqlite_error("written", error))?;
    if id != next {
        return Err(file.error(
            "used",
            StoreErrorKind::Corrupt,
            format!("after {last} it generated the key {id}"),
        ));
    }
    u64::try_from(id).map_err(|_| {
        file.error("used", StoreErrorKind::Corrupt, format!("it generated the key {id}"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use uidring::{Bits, Tick};

    use uidring_testkit::chain;

    use super::*;

    fn new_file() -> (tempfile::TempDir, SqliteWorkerNodes) {
        let folder = tempfile::tempdir().expect("a folder");
        let nodes = SqliteStore::new(folder.path().join("a/b/workers.db")).worker_nodes();
        (folder, nodes)
    }

    #[test]
    fn ids_count_up_from_one_even_when_rows_are_deleted() {
        let (_folder, nodes) = new_file();
        let layout = Layout::UID_GENERATOR;
        assert_eq!(nodes.assign(&layout).expect("assigned"), 1);
        assert_eq!(nodes.assign(&layout).expect("assigned"), 2);
        let connection = Connection::open(nodes.path()).expect("opens");
        connection.execute("DELETE FROM WORKER_NODE", []).expect("deletes");
        assert_eq!(nodes.assign(&layout).expect("assigned"), 3);
        let rows = nodes.list().expect("lists");
        assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [3]);
        assert_eq!(rows[0].launch_date, rows[0].created[..10]);
    }

    #[test]
    fn pruning_keeps_the_newest_row() {
        let (_folder, nodes) = new_file();
        nodes.create().expect("made");
        let day = Duration::from_secs(86_400);
        assert_eq!(nodes.prune(day).expect("pruned"), Pruned { removed: 0, newest: None });
        for _ in 0..4 {
            nodes.assign(&Layout::UID_GENERATOR).expect("assigned");
        }
        assert_eq!(nodes.prune(day).expect("pruned"), Pruned { removed: 0, newest: Some(4) });
        let connection = Connection::open(nodes.path()).expect("opens");
        let age = "UPDATE WORKER_NODE SET CREATED = DATETIME('now', '-2 days') WHERE ID != 2";
        connection.execute(age, []).expect("ages");
        let usage = nodes.usage().expect("counted");
        assert_eq!((usage.rows, usage.newest), (4, Some(4)));
        assert!(usage.per_day.is_some_and(|rate| (1.4..1.6).contains(&rate)), "{usage:?}");
        assert_eq!(nodes.prune(day).expect("pruned"), Pruned { removed: 2, newest: Some(4) });
        let left: Vec<_> = nodes.list().expect("lists").iter().map(|row| row.id).collect();
        assert_eq!(left, [2, 4]);
        assert_eq!(nodes.assign(&Layout::UID_GENERATOR).expect("assigned"), 5);
        let ever = nodes.prune(Duration::MAX).expect("100 years at most");
        assert_eq!(ever, Pruned { removed: 0, newest: Some(5) });
    }

    #[test]
    fn the_rate_is_that_of_the_last_30_days() {
        let (_folder, nodes) = new_file();
        nodes.create().expect("made");
        let connection = Connection::open(nodes.path()).expect("opens");
        let start = |id: i64, age: &str| {
            let row = "INSERT INTO WORKER_NODE
                VALUES (?1, 'h', '80', 1, DATE('now'), DATETIME('now'), DATETIME('now', ?2))";
            connection.execute(row, (id, age)).expect("inserts");
            nodes.usage().expect("counted").per_day
        };
        assert_eq!(nodes.usage().expect("counted").per_day, None);
        assert_eq!(start(20, "-300 days"), Some(0.0));
        assert_eq!(start(60, "-2 hours"), Some(40.0 / 30.0));
        assert_eq!(start(120, "-1 hours"), Some(100.0 / 30.0));
        connection.execute("DELETE FROM WORKER_NODE WHERE ID < 120", []).expect("deletes");
        assert_eq!(nodes.usage().expect("counted").per_day, None, "a single start tells nothing");
        let rate = start(130, "-0 hours").expect("two tell");
        assert!((230.0..=240.0).contains(&rate), "{rate}");
    }

    #[test]
    fn an_id_over_the_maximum_is_refused_and_not_spent() {
        let (_folder, nodes) = new_file();
        let bits = Bits { time: 40, worker: 1, sequence: 10 };
        let small = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
        assert_eq!(nodes.assign(&small).expect("the one id besides 0"), 1);
        for _ in 0..3 {
            assert!(matches!(
                nodes.assign(&small),
                Err(Error::WorkerIdOutOfRange { worker_id: 2, max: 1 })
            ));
        }
        assert_eq!(nodes.assign(&Layout::UID_GENERATOR).expect("assigned"), 2);
    }

    #[cfg(unix)]
    #[test]
    fn file_and_folder_are_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, nodes) = new_file();
        nodes.assign(&Layout::UID_GENERATOR).expect("assigned");
        let mode = |path: &Path| fs::metadata(path).expect("exists").permissions().mode() & 0o777;
        assert_eq!(mode(nodes.path()), 0o600);
        assert_eq!(mode(nodes.path().parent().expect("has one")), 0o700);
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = SqliteStore::new(folder.path().join("text")).worker_nodes();
        fs::write(text.path(), "this is not a database, and longer than a header").expect("writes");
        let error = chain(&text.assign(&Layout::UID_GENERATOR).expect_err("no database"));
        assert!(error.contains("not a database"), "{error}");

        let other = SqliteStore::new(folder.path().join("other")).worker_nodes();
        Connection::open(other.path())
            .and_then(|c| c.execute_batch("CREATE TABLE T (ID INTEGER PRIMARY KEY)"))
            .expect("creates");
        let error = chain(&other.list().expect_err("no table"));
        assert!(error.contains("no such table") && error.contains("worker init"), "{error}");

        let foreign = SqliteStore::new(folder.path().join("foreign")).worker_nodes();
        Connection::open(foreign.path())
            .and_then(|c| c.execute_batch("CREATE TABLE WORKER_NODE (ID INTEGER PRIMARY KEY)"))
            .expect("creates");
        let error = chain(&foreign.assign(&Layout::UID_GENERATOR).expect_err("no counter"));
        assert!(error.contains("AUTOINCREMENT"), "{error}");
    }

    #[test]
    fn sqlites_special_names_are_files_here() {
        assert!(SqliteStore::new("").worker_nodes().assign(&Layout::UID_GENERATOR).is_err());
    }

    #[test]
    fn a_url_is_no_file_and_is_not_repeated() {
        let nodes = SqliteStore::new("mysql://u:s3cret@h/d").worker_nodes();
        for error in [
            nodes.assign(&Layout::UID_GENERATOR).expect_err("no path"),
            nodes.create().expect_err("no path"),
            nodes.list().expect_err("no path"),
        ] {
            assert!(matches!(error.store(), Some(TableError::UrlForPath { .. })), "{error:?}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        assert!(!Path::new("mysql:").exists(), "nothing was made");
    }
}
