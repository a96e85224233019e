//! Disposable worker ids: each start inserts a row of `WORKER_NODE` and uses its key.

use std::path::Path;
use std::time::Duration;

use rusqlite::{OptionalExtension, Row, Transaction};
use uidring::{Error, Layout, Timestamp, Worker, WorkerRequest, WorkerSource};
use uidring_store::sql::NEWEST_NODE;
use uidring_store::{
    Fitting, IsLeased, NodeIdentity, Pruned, WorkerNode, WorkerRange, WorkerTable, WorkerUsage,
    age_in_seconds, announce_end,
};

use crate::columns::{optional_unsigned, unsigned};
use crate::dedicated;
use crate::dialect::DIALECT;
use crate::file::StoreFile;
use crate::format::{self, Problem};
use crate::range;

/// A table `WORKER_NODE` in a SQLite file; of [`SqliteStore`](crate::SqliteStore). Each assignment inserts a row. Its
/// generated key is the worker id of one start, and never used again.
#[derive(Clone, Debug)]
pub struct SqliteWorkerNodes {
    pub(crate) file: StoreFile,
}

impl SqliteWorkerNodes {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }
}

impl WorkerSource for SqliteWorkerNodes {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.assign(&request.layout).map(Worker::from)
    }
}

/// [`create`](WorkerTable::create) creates the file. [`assign`](WorkerTable::assign) does so only with
/// [`SqliteStore::create`](crate::SqliteStore::create), or in the user's data directory.
impl WorkerTable for SqliteWorkerNodes {
    /// Inserts a row, commits it to the disk, and returns its key. An id that does not fit the layout is not spent: its
    /// row is rolled back.
    fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        let node = NodeIdentity::from_env()?;
        let place = self.file.place();
        let (worker_id, range) = self.file.write(&mut self.file.open_to_use()?, |transaction| {
            let range = range::recorded(transaction)?;
            let next = insert_node(transaction, &node)?;
            let fitting = Fitting::new(layout, range);
            match fitting.has(next) {
                true => Ok((next, range)),
                false => Err(fitting.error(place.clone(), next).into()),
            }
        })?;
        announce_end(&place, layout, range, worker_id, IsLeased::No, || self.usage());
        Ok(worker_id)
    }

    fn create(&self) -> Result<(), Error> {
        self.file.write(&mut self.file.open_or_create()?, |_| Ok(()))
    }

    fn range(&self) -> Result<Option<WorkerRange>, Error> {
        self.file.read(range::recorded)
    }

    fn record_range(&self, range: WorkerRange) -> Result<(), Error> {
        self.file.write(&mut self.file.open_to_use()?, |transaction| {
            range::record(transaction, range, self.file.place())
        })
    }

    fn list(&self) -> Result<Vec<WorkerNode>, Error> {
        self.file.read(|connection| {
            connection
                .prepare(&DIALECT.list_nodes())?
                .query_map([], |row| {
                    Ok(WorkerNode {
                        id: unsigned(row, 0)?,
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
        let window = [WorkerUsage::WINDOW_DAYS];
        let time = |row: &Row<'_>, index| {
            row.get::<_, i64>(index).map(|s| Timestamp::from_millis(s.saturating_mul(1_000)))
        };
        self.file.read(|connection| {
            let first = connection
                .query_row(&DIALECT.first_node(), window, |row| {
                    Ok((unsigned(row, 0)?, time(row, 1)?))
                })
                .optional()?;
            connection.query_row(&DIALECT.count_nodes(), window, |row| {
                let usage = WorkerUsage {
                    rows: unsigned(row, 0)?,
                    newest: optional_unsigned(row, 1)?,
                    last_key: None,
                    per_day: None,
                    range: range::recorded(connection)?,
                    now: time(row, 2)?,
                };
                Ok(usage.with_rate(optional_unsigned(row, 3)?, first))
            })
        })
    }

    fn prune(&self, older_than: Duration) -> Result<Pruned, Error> {
        self.file.with_existing(|connection| {
            let newest = connection.query_row(NEWEST_NODE, [], |row| optional_unsigned(row, 0))?;
            let age = age_in_seconds(older_than).cast_signed();
            // Without a limit.
            let values = (newest.map(u64::cast_signed), age, -1);
            let removed = connection.execute(&DIALECT.prune_nodes(), values)?;
            Ok(Pruned { removed: removed as u64, newest })
        })
    }
}

/// Inserts a row and returns its key.
pub fn insert_node(transaction: &Transaction<'_>, node: &NodeIdentity) -> Result<u64, Problem> {
    dedicated::refuse(transaction, "other worker ids")?;
    let last = format::last_worker_id(transaction)?;
    let Some(next) = last.checked_add(1) else {
        return Err(Problem::UsedUp(format!(
            "its worker ids are used up: the last one was {last}"
        )));
    };
    let insert = format!("{} RETURNING ID", DIALECT.insert_node());
    let values = (&node.host, &node.port, node.kind as i64);
    let id: i64 = transaction.query_row(&insert, values, |row| row.get(0))?;
    if id != next || id < 0 {
        return format::unusable(format!("after {last} it generated the key {id}"));
    }
    Ok(id.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rusqlite::Connection;
    use uidring::{Bits, Tick};

    use uidring_store::TableError;
    use uidring_testkit::chain;

    use super::*;
    use crate::SqliteStore;

    fn new_file() -> (tempfile::TempDir, SqliteWorkerNodes) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::in_folder(&folder.path().join("a/b"));
        (folder, store.worker_nodes())
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
            let error = nodes.assign(&small).expect_err("none is left");
            assert!(matches!(error.store(), Some(TableError::NoneFits { next: 2, max: 1, .. })));
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
        let text = SqliteStore::new(folder.path().join("text")).create(true).worker_nodes();
        fs::write(text.path(), "this is not a database, and longer than a header").expect("writes");
        let error = chain(&text.assign(&Layout::UID_GENERATOR).expect_err("no database"));
        assert!(error.contains("not a database"), "{error}");

        let other = SqliteStore::new(folder.path().join("other")).create(true).worker_nodes();
        Connection::open(other.path())
            .and_then(|c| c.execute_batch("CREATE TABLE T (ID INTEGER PRIMARY KEY)"))
            .expect("creates");
        for error in [other.list().map(drop), other.assign(&Layout::UID_GENERATOR).map(drop)] {
            let error = chain(&error.expect_err("of another"));
            assert!(error.contains("another program's database"), "{error}");
        }
        for content in ["CREATE VIEW leaf_alloc AS SELECT 1 AS max_id", "PRAGMA user_version = 7"] {
            let name = content.split(' ').next().unwrap_or_default();
            let empty = SqliteStore::new(folder.path().join(name)).create(true).worker_nodes();
            let made = Connection::open(empty.path()).and_then(|c| c.execute_batch(content));
            made.expect("creates");
            let before = fs::read(empty.path()).expect("reads");
            let error = chain(&empty.assign(&Layout::UID_GENERATOR).expect_err("of another"));
            assert!(error.contains("another program's database"), "{error}");
            assert_eq!(fs::read(empty.path()).expect("reads"), before);
        }
        let allowed = SqliteStore::new(other.path()).foreign(true).worker_nodes();
        let error = chain(&allowed.list().expect_err("no table"));
        assert!(error.contains("no such table") && error.contains("worker init"), "{error}");
    }

    #[test]
    fn sqlites_special_names_are_files_here() {
        assert!(
            SqliteStore::new("")
                .create(true)
                .worker_nodes()
                .assign(&Layout::UID_GENERATOR)
                .is_err()
        );
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
