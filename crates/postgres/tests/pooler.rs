//! A PgBouncer in front of the server: what works by way of it, and what it says where nothing does.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::{Bits, CachedUidGenerator, Layout, Tick};
use uidring_postgres::PostgresStore;
use uidring_store::{
    LeaseOptions, LeaseState, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable,
};
use uidring_testkit::postgres::pgbouncer::PgBouncer;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::{chain, namespace, request};

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 6, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

fn database() -> Database {
    let database = Postgres::shared().database();
    let store = PostgresStore::from_url(&database.url()).expect("a URL");
    store.leases().create().expect("made");
    let segments = store.segments().create_table_if_missing(true);
    segments.create_tag(&NewSegmentTag::new("t", 5).expect("allowed")).expect("created");
    database
}

fn by_way_of(database: &Database, pooler: &PgBouncer) -> PostgresStore {
    PostgresStore::from_url(&database.url_at(&pooler.address().to_string())).expect("a URL")
}

/// More clients than connections, all of which do everything, for longer than their leases last.
fn check(mode: &str, connections: u32) {
    let database = database();
    let pooler = PgBouncer::start(&database, mode, connections);
    let (uids, ids) = (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let store = by_way_of(&database, &pooler).deadline(Duration::from_secs(30));
                let options = LeaseOptions::default().lasts(Duration::from_secs(3));
                let lease = store.leases().lease(&request(layout()), &options).expect("free");
                let generator = CachedUidGenerator::builder().layout(layout()).worker(lease);
                let generator = generator.namespace(namespace::fresh()).build().expect("built");
                let mut segments = store.segments();
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_secs(7) {
                    let uid = generator.next_uid().expect("kept");
                    assert!(uids.lock().expect("whole").insert(uid), "{uid} twice");
                    let wanted = [SegmentRequest { tag: "t".into(), step: 5 }];
                    segments.load(&wanted, &mut |_, loaded| {
                        let range = loaded.expect("loaded");
                        let mut ids = ids.lock().expect("whole");
                        assert!((range.start..range.end).all(|id| ids.insert(id)), "{range:?}");
                    });
                    store.worker_nodes().assign(&Layout::UID_GENERATOR).expect("assigned");
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
    assert!(uids.into_inner().expect("whole").len() > 100, "{}", pooler.log());
    let rows = by_way_of(&database, &pooler).leases().list().expect("listed");
    assert!(rows.iter().all(|row| row.state == LeaseState::Free), "{rows:?}");
    // Nothing of ours stays in the server's sessions.
    let left = "SELECT COUNT(*) FROM pg_prepared_statements";
    let config = database.url_at(&pooler.address().to_string()).parse().expect("a URL");
    let limit = Duration::from_secs(30);
    let query =
        |sql: &str| uidring_testkit::postgres::query(&config, limit, sql).expect("answered");
    assert_eq!(query(left), [["0"]]);
    assert_eq!(query("SHOW lock_timeout"), [["0"]]);
}

#[test]
fn everything_works_in_transaction_mode() {
    check("transaction", 2);
}

#[test]
fn everything_works_in_session_mode() {
    check("session", 30);
}

#[test]
fn statement_mode_is_refused_with_its_reason() {
    let database = database();
    let pooler = PgBouncer::start(&database, "statement", 2);
    let store = by_way_of(&database, &pooler).deadline(Duration::from_secs(5));
    let error = store.worker_nodes().assign(&layout()).expect_err("no transactions");
    let text = chain(&error);
    assert!(text.contains("set pool_mode = transaction"), "{text}");
    assert!(database.query("SELECT * FROM WORKER_NODE").is_empty(), "nothing was spent");
}

#[test]
fn a_wrong_password_or_database_is_an_error_at_once() {
    let database = database();
    let pooler = PgBouncer::start(&database, "transaction", 2);
    let begin = Instant::now();
    let (user, address) = (database.user(), pooler.address().to_string());
    for url in [
        format!("postgres://{user}:wr0ng@{address}/{}", database.name()),
        database.url_of("nobody", &address),
        format!("{}x", database.url_at(&address)),
    ] {
        let store = PostgresStore::from_url(&url).expect("a URL");
        let error = store.worker_nodes().assign(&layout()).expect_err("not let in");
        let text = chain(&error);
        let words = ["refused", "login failed", "no such database"];
        assert!(words.iter().any(|word| text.contains(word)), "{text}");
        assert!(!text.contains("attempts") && !text.contains("wr0ng"), "{text}");
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}
