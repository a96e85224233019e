//! Files of other versions, tables of others, and changes by hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore};
use uidring::{Error, Fields, Layout};
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::{chain, request};

const LAYOUT: Layout = Layout::UID_GENERATOR;

fn assign(path: &Path) -> Result<u64, Error> {
    SqliteStore::new(path).create(true).worker_nodes().assign(&LAYOUT)
}

fn load(path: &Path, tag: &str) -> Result<LoadedSegment, LoadError> {
    let mut done = None;
    let wanted = [SegmentRequest { tag: tag.into(), step: 0 }];
    SqliteStore::new(path)
        .create(true)
        .segments()
        .load(&wanted, &mut |_, result| done = Some(result));
    done.expect("handed over")
}

fn execute(path: &Path, sql: &str) {
    let connection = Connection::open(path).expect("opens");
    connection.busy_timeout(Duration::from_secs(10)).expect("set");
    connection.execute_batch(sql).expect(sql);
}

fn new_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    (folder, path)
}

#[test]
fn a_file_of_another_version_is_refused_by_everything() {
    let (_folder, path) = new_path();
    assert_eq!(assign(&path).expect("assigned"), 1);
    let tag = NewSegmentTag::new("a", 5).expect("allowed");
    SqliteStore::new(&path).create(true).segments().create_tag(&tag).expect("made");
    execute(&path, "UPDATE UIDRING_FILE SET VERSION = 2");
    let before = fs::read(&path).expect("reads");
    let nodes = SqliteStore::new(&path).create(true).worker_nodes();
    let leases = SqliteStore::new(&path).create(true).leases();
    let segments = SqliteStore::new(&path).create(true).segments();
    let day = Duration::from_secs(86_400);
    let errors = [
        chain(&assign(&path).map(drop).expect_err("refused")),
        chain(&nodes.create().expect_err("refused")),
        chain(&nodes.list().map(drop).expect_err("refused")),
        chain(&nodes.usage().map(drop).expect_err("refused")),
        chain(&nodes.prune(day).map(drop).expect_err("refused")),
        chain(&leases.lease(&request(LAYOUT), &LeaseOptions::default()).expect_err("refused")),
        chain(&leases.list().map(drop).expect_err("refused")),
        chain(&leases.fence(1).map(drop).expect_err("refused")),
        chain(&segments.list_tags().map(drop).expect_err("refused")),
        chain(&segments.create_tag(&NewSegmentTag::new("b", 5).unwrap()).expect_err("no")),
        chain(&load(&path, "a").map(drop).expect_err("refused")),
    ];
    for error in errors {
        assert!(error.contains("version 2") && error.contains("version 1"), "{error}");
    }
    assert_eq!(fs::read(&path).expect("reads"), before);
}

#[test]
fn tables_of_our_names_that_somebody_else_made_are_left_alone() {
    for table in ["WORKER_NODE", "UIDRING_LEASE", "leaf_alloc"] {
        let (_folder, path) = new_path();
        execute(
            &path,
            &format!("CREATE TABLE {table} (ID INTEGER); INSERT INTO {table} VALUES (7)"),
        );
        let before = fs::read(&path).expect("reads");
        for foreign in [false, true] {
            let store = SqliteStore::new(&path).create(true).foreign(foreign);
            let errors = [
                chain(&store.worker_nodes().assign(&LAYOUT).map(drop).expect_err("refused")),
                chain(
                    &store
                        .leases()
                        .lease(&request(LAYOUT), &LeaseOptions::default())
                        .expect_err("refused"),
                ),
                chain(
                    &store
                        .segments()
                        .create_tag(&NewSegmentTag::new("b", 5).unwrap())
                        .expect_err("no"),
                ),
            ];
            for error in errors {
                assert!(error.contains(table) && error.contains("version 1"), "{error}");
            }
        }
        assert_eq!(fs::read(&path).expect("reads"), before);
    }
}

/// Checking the file's integrity calls the functions of all its tables.
#[test]
fn tables_of_others_may_call_functions() {
    let (_folder, path) = new_path();
    execute(
        &path,
        "CREATE TABLE ORDERS (DATA TEXT CHECK (json_valid(DATA)), NAME TEXT);
         INSERT INTO ORDERS VALUES ('{\"a\": 1}', 'Smith');
         CREATE INDEX BY_FIELD ON ORDERS (json_extract(DATA, '$.a'), DATA ->> 'b');
         CREATE INDEX BY_SOUND ON ORDERS (soundex(NAME));
         CREATE INDEX BY_TIME ON ORDERS (round(julianday('2026-01-01')), lower(NAME))",
    );
    let store = SqliteStore::new(&path).create(true).foreign(true);
    assert_eq!(store.worker_nodes().assign(&LAYOUT).expect("assigned"), 1);
}

#[test]
fn people_may_change_it_by_hand() {
    let (_folder, path) = new_path();
    assign(&path).expect("assigned");
    SqliteStore::new(&path)
        .create(true)
        .leases()
        .lease(&request(LAYOUT), &LeaseOptions::default())
        .expect("new");
    let tag = NewSegmentTag::new("a", 5).expect("allowed");
    SqliteStore::new(&path).create(true).segments().create_tag(&tag).expect("made");
    execute(
        &path,
        "INSERT INTO WORKER_NODE (ID, HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
         VALUES (5000, 'above', 'the old table', 2, DATE('now'), DATETIME('now'), DATETIME('now'));
         UPDATE leaf_alloc SET step = 7; UPDATE leaf_alloc SET max_id = 1000;
         UPDATE UIDRING_LEASE SET HORIZON_TICK = 77, HORIZON_SEQUENCE = 3, LEASE_END = NULL",
    );
    assert_eq!(assign(&path).expect("assigned"), 5_001);
    let range = load(&path, "a").expect("loaded");
    assert_eq!((range.start, range.end), (1_000, 1_007));
    let lease = SqliteStore::new(&path)
        .create(true)
        .leases()
        .lease(&request(LAYOUT), &LeaseOptions::default());
    assert_eq!(
        lease.expect("free").after(),
        Some(LAYOUT.compose(Fields { tick: 77, worker_id: 2, sequence: 3 }).unwrap())
    );
}
