//! Worker ids from the table `WORKER_NODE`: what is assigned, and what is refused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use uidring::{Bits, CachedUidGenerator, Layout, Tick, Timestamp};
use uidring_store::server::ServerWorkerNodes;
use uidring_store::{TableError, WorkerTable};

use super::{DatabaseOf, TestedEngine, grant, runtimes, shared, store, store_at, told};
use crate::database::Databases;
use crate::namespace;

const LAYOUT: Layout = Layout::UID_GENERATOR;

/// Creates a database and the table.
fn table<T: TestedEngine>() -> (DatabaseOf<T>, ServerWorkerNodes) {
    let database = shared::<T>();
    let nodes = store::<T>(&database).worker_nodes();
    nodes.create().expect("created");
    (database, nodes)
}

pub(super) fn ids<T: TestedEngine>(database: &DatabaseOf<T>) -> Vec<u64> {
    let ids = database.column("SELECT ID FROM WORKER_NODE ORDER BY ID");
    ids.iter().map(|id| id.parse().expect("a number")).collect()
}

fn assign(nodes: &ServerWorkerNodes) -> u64 {
    nodes.assign(&LAYOUT).expect("assigned")
}

fn refusal(nodes: &ServerWorkerNodes) -> String {
    told(&nodes.assign(&LAYOUT).expect_err("refused"), nodes)
}

pub fn a_missing_table_is_made_only_when_asked<T: TestedEngine>() {
    let database = shared::<T>();
    let nodes = store::<T>(&database).worker_nodes();
    let text = refusal(&nodes);
    assert!(text.contains(T::NO_TABLE) && text.contains("uidring worker init"), "{text}");
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = ";
    assert!(database.column(&format!("{tables}{}", T::SCHEMA)).is_empty());
    let asked = nodes.create_table_if_missing(true);
    assert_eq!((assign(&asked), assign(&asked)), (1, 2));
    asked.create().expect("it is there, which is fine");
    let rows = asked.list().expect("listed");
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(rows[0].launch_date, rows[0].created[..10]);
    assert_eq!(rows[0].created.len(), "2026-01-01 00:00:00".len());
}

pub fn a_table_that_is_there_needs_no_right_to_make_one<T: TestedEngine>() {
    let (database, _) = table::<T>();
    let nodes = store_at::<T>(&grant::<T>(&database, 0));
    let nodes = nodes.worker_nodes().create_table_if_missing(true);
    assert_eq!(assign(&nodes), 1);
    let text = told(&nodes.prune(Duration::ZERO).map(|_| ()).expect_err("no right"), &nodes);
    assert!(text.contains("pruning also DELETE"), "{text}");
    database.administer("DROP TABLE WORKER_NODE");
    let text = refusal(&nodes);
    assert!(T::NO_RIGHT.iter().all(|words| text.contains(words)), "{text}");
}

pub fn assignments_work_within_runtimes<T: TestedEngine>() {
    let (_database, nodes) = table::<T>();
    let nodes = Arc::new(nodes);
    for runtime in runtimes() {
        let before = nodes.usage().expect("counted").rows;
        let builds: Vec<_> = (0..8)
            .map(|_| {
                let source = Arc::clone(&nodes);
                // This is how an async program builds its generators.
                runtime.spawn_blocking(move || {
                    CachedUidGenerator::builder().layout(LAYOUT).worker_from(source).build()
                })
            })
            .collect();
        let inside = {
            let _inside = runtime.enter();
            assign(&nodes)
        };
        let nested = runtime.block_on(async { assign(&nodes) });
        let mut all = BTreeSet::from([inside, nested]);
        for build in builds {
            let generator = runtime.block_on(build).expect("no panic").expect("built");
            all.insert(generator.stats().worker_id);
        }
        assert_eq!(all.len(), 10);
        assert_eq!(nodes.usage().expect("counted").rows, before + 10);
    }
}

pub fn the_generator_lives_without_the_server<T: TestedEngine>() {
    let server = T::Kind::start_with(&[]);
    let store = store::<T>(&server.database());
    let nodes = store.worker_nodes().create_table_if_missing(true);
    let first = assign(&nodes);
    let generator = CachedUidGenerator::builder().layout(LAYOUT).worker_id(first);
    let generator = generator.namespace(namespace::fresh()).build().expect("built");
    server.kill();
    for uid in generator.uids().take(1_000_000) {
        assert_eq!(generator.decode(uid.expect("taken")).expect("ours").worker_id, first);
    }
    let text = refusal(&store.clone().deadline(Duration::from_secs(3)).worker_nodes());
    for words in ["refused", "is the server running?", "attempts within 3s"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // A start that comes too early waits for the server.
    let late = thread::scope(|scope| {
        let patient = store.deadline(Duration::from_secs(60)).worker_nodes();
        let late = scope.spawn(move || assign(&patient));
        thread::sleep(Duration::from_millis(200));
        server.start_again();
        late.join().expect("no panic")
    });
    assert!(late > first, "{late} after {first}");
}

pub fn a_key_over_the_maximum_names_row_and_maximum<T: TestedEngine>() {
    let (database, nodes) = table::<T>();
    database.execute(&T::set_counter(1_024));
    let error = nodes.assign(&Layout::SNOWFLAKE).expect_err("1,023 is the greatest");
    assert!(
        matches!(error.store(), Some(TableError::NoneFits { next: 1_024, max: 1_023, .. })),
        "{error:?}"
    );
    let text = told(&error, &nodes);
    for word in ["1024", "reuse FIRST LAST ", "more worker bits", "earlier epoch", &database.name()]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(ids::<T>(&database).is_empty(), "its row was rolled back");
    let tiny = Bits { time: 40, worker: 1, sequence: 10 };
    let tiny = Layout::new(tiny, Tick::Second, Timestamp::default()).expect("possible");
    let usage = nodes.usage().expect("counted");
    assert_eq!((usage.rows, usage.left(&tiny)), (0, 0), "the counter is above all of them");
}

pub fn a_counter_that_went_backwards_is_refused<T: TestedEngine>() {
    let server = T::Kind::start_with(&[]);
    let database = server.database();
    let nodes = store::<T>(&database).worker_nodes().create_table_if_missing(true);
    assert_eq!(assign(&nodes), 1);
    database.execute("UPDATE WORKER_NODE SET ID = 1000");
    T::set_next_key(&database, 2);
    let text = refusal(&nodes);
    assert!(text.contains("key 2 ") && text.contains("greatest in WORKER_NODE, 1000"), "{text}");
    // Next keys that are in use: the server itself refuses.
    T::set_next_key(&database, 1_000);
    let text = refusal(&nodes);
    assert!(T::KEY_TAKEN.iter().all(|words| text.contains(words)), "{text}");
    assert_eq!(ids::<T>(&database), [1_000], "what was refused was rolled back");
    T::set_next_key(&database, 1_001);
    assert_eq!(assign(&nodes), 1_001);
}

pub fn pruning_keeps_the_newest_row_and_the_counter<T: TestedEngine>() {
    let server = T::Kind::start_with(&[]);
    let database = server.database();
    let nodes = store::<T>(&database).worker_nodes().create_table_if_missing(true);
    for id in 1..=5 {
        assert_eq!(assign(&nodes), id);
    }
    let age = "UPDATE WORKER_NODE SET CREATED = NOW() - INTERVAL '2' DAY WHERE ID <> 2";
    database.execute(age);
    let usage = nodes.usage().expect("counted");
    assert_eq!((usage.rows, usage.newest), (5, Some(5)));
    assert!(usage.per_day.is_some_and(|rate| (1.9..2.1).contains(&rate)), "{usage:?}");
    let day = Duration::from_secs(86_400);
    let done = nodes.prune(day).expect("pruned");
    assert_eq!((done.removed, done.newest), (3, Some(5)));
    assert_eq!(ids::<T>(&database), [2, 5]);
    server.stop();
    server.start_again();
    assert_eq!(assign(&nodes), 6);
    // More rows than one statement removes.
    let rows = |id: &str, of: &str| {
        database.execute(&format!(
            "INSERT INTO WORKER_NODE SELECT {id}, HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED
             FROM WORKER_NODE WHERE {of}"
        ));
    };
    rows("-1", "ID = 5");
    (0..15).for_each(|power| rows(&format!("ID - {}", 1 << power), "ID < 0"));
    // Pruning does not wait for a start that has a key already and locks its row.
    let mut start = database.session();
    start("BEGIN");
    start(
        "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
         VALUES ('h', 'p', 1, CURRENT_DATE, NOW(), NOW())",
    );
    assert_eq!(nodes.prune(day).expect("pruned").removed, (1 << 15) + 1);
    start("ROLLBACK");
    let ever = nodes.prune(Duration::MAX).expect("100 years at most");
    assert_eq!((ever.removed, ever.newest), (0, Some(6)));
    database.execute("DELETE FROM WORKER_NODE");
    let empty = nodes.prune(day).expect("nothing to do");
    assert_eq!((empty.removed, empty.newest), (0, None));
}
