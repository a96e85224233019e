//! Many more starts at once than there are worker ids: exactly those that are free are had, and what that
//! costs the server.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::{Bits, Error, Layout, Tick};
use uidring_postgres::PostgresStore;
use uidring_store::{LeaseOptions, LeaseTable, TableError, WorkerTable};
use uidring_testkit::postgres::Postgres;
use uidring_testkit::{chain, request};

/// Longer than anything here takes, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(120);

/// 255 worker ids.
fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 8, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// `UIDRING_HERD` says how many.
fn starts() -> usize {
    std::env::var("UIDRING_HERD").map_or(300, |text| text.parse().expect("a number"))
}

#[test]
fn what_is_free_is_had_and_nothing_else() {
    // A lease keeps its connection, so 255 of these are used in the end.
    let server = Postgres::start_with(&["max_connections=320", "log_connections=on"]);
    let database = server.database();
    let store = PostgresStore::from_url(&database.url()).expect("a URL");
    let store = store.connect_timeout(LIMIT).deadline(LIMIT);
    store.leases().create().expect("made");
    database.execute(
        "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
         SELECT 'h', '80', 1, NOW(), NOW(), NOW() FROM GENERATE_SERIES(1, 255)",
    );
    let until = "2026-06-01".parse().expect("a time");
    store.leases().reuse(1..=255, &layout(), until).expect("added");
    // So many are free.
    let options = LeaseOptions::default().lasts(Duration::from_secs(600));
    let held: Vec<_> = (0..55)
        .map(|_| store.leases().lease(&request(layout()), &options).expect("free"))
        .collect();
    server.set("log_statement", "all");
    let before = server.error_log().len();
    let (together, done) = (Barrier::new(starts()), Mutex::new(Vec::new()));
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..starts() {
            scope.spawn(|| {
                let leases = store.leases();
                together.wait();
                let lease = leases.lease(&request(layout()), &options);
                // It stays held, as by a process that goes on.
                done.lock().expect("whole").push(lease.map(|lease| {
                    let id = lease.worker_id();
                    std::mem::forget(lease);
                    id
                }));
            });
        }
    });
    let took = begin.elapsed();
    let mut ids = BTreeSet::new();
    let mut refused = 0;
    for done in done.into_inner().expect("whole") {
        match done {
            Ok(id) => assert!(ids.insert(id), "{id} twice"),
            Err(error) => {
                let is_short = matches!(
                    error.store::<TableError>(),
                    Some(TableError::NoFreeWorkerId { held: 255, .. })
                );
                assert!(is_short && matches!(error, Error::Store(_)), "{}", chain(&error));
                refused += 1;
            }
        }
    }
    assert_eq!((ids.len(), refused), (200, starts() - 200), "no false exhaustion");
    assert_eq!(store.worker_nodes().usage().expect("counted").newest, Some(255), "none was spent");
    drop(held);
    let log = server.error_log()[before..].to_owned();
    let count = |words: &str| log.matches(words).count();
    eprintln!(
        "{} starts at once on 200 free leases: {took:?}, {} connections, of which {} too many, {} \
         statements",
        starts(),
        count("connection received"),
        count("too many clients") + count("remaining connection slots"),
        count("execute <unnamed>") + count("statement: ")
    );
}
