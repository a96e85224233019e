//! Ranges of worker ids: what they need from an account, a server and its tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use uidring::Layout;
use uidring::worker::Lease;
use uidring_store::server::ServerWorkerNodes;
use uidring_store::{LeaseTable, RangeRefusal, TableError, WorkerTable};

use super::leases::{layout, options};
use super::{
    DatabaseOf, StoreOf, TestedEngine, grant, shared, store, store_at, through, told, until,
};
use crate::database::Databases;
use crate::proxy::{Proxy, Verdict};
use crate::suite::tables::range;
use crate::{chain, request};

const LAYOUT: Layout = Layout::UID_GENERATOR;

fn nodes<T: TestedEngine>(database: &DatabaseOf<T>) -> ServerWorkerNodes {
    store::<T>(database).deadline(Duration::from_secs(30)).worker_nodes()
}

/// Creates a database with all tables and this range.
fn database<T: TestedEngine>(first: u64, last: u64) -> DatabaseOf<T> {
    let database = shared::<T>();
    store::<T>(&database).leases().create().expect("created");
    nodes::<T>(&database).record_range(range(first, last)).expect("recorded");
    database
}

fn refusal(nodes: &ServerWorkerNodes) -> String {
    told(&nodes.assign(&LAYOUT).expect_err("refused"), nodes)
}

/// Starts must not leave a range that their account may not read.
pub fn the_rights_of_the_docs_are_enough<T: TestedEngine>() {
    let (page, beginning) = T::GRANT_RANGE;
    for table in [0, 1] {
        let database = database::<T>(1, 10);
        let store = store_at::<T>(&grant::<T>(&database, table));
        let text = refusal(&store.worker_nodes());
        let names = text.to_uppercase();
        assert!(names.contains("UIDRING_RANGE") && text.contains("SELECT on"), "{text}");
        T::Kind::grant_also(&database, page, beginning);
        assert_eq!(store.worker_nodes().assign(&layout()).expect("assigned"), 1);
        assert_eq!(store.worker_nodes().range().expect("read"), Some(range(1, 10)));
        if table == 1 {
            let lease = store.leases().lease(&request(layout()), &options(5_000)).expect("free");
            assert_eq!(lease.worker_id(), 2);
        }
    }
}

pub fn the_right_to_record_one_is_named<T: TestedEngine>() {
    let database = shared::<T>();
    nodes::<T>(&database).create().expect("created");
    let nodes = store_at::<T>(&grant::<T>(&database, 0)).worker_nodes();
    let error = nodes.record_range(range(1, 10)).expect_err("no right");
    let text = told(&error, &nodes);
    assert!(text.contains("recording a range needs"), "{text}");
    assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 1, "nothing was recorded");
}

/// A server may forget the counter of an empty table.
pub fn it_begins_at_the_first_after_a_restart<T: TestedEngine>() {
    let server = T::Kind::start_with(&[]);
    let database = server.database();
    let nodes = nodes::<T>(&database).create_table_if_missing(true);
    nodes.record_range(range(100, 199)).expect("recorded");
    server.stop();
    server.start_again();
    let usage = nodes.usage().expect("counted");
    assert_eq!((usage.rows, usage.newest, usage.left(&LAYOUT)), (0, None, 100));
    assert_eq!(nodes.list().expect("listed"), []);
    assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 100);
    let usage = nodes.usage().expect("counted");
    assert_eq!((usage.rows, usage.newest, usage.left(&LAYOUT)), (1, Some(100), 99));
}

pub fn without_its_table_nothing_is_handed_out<T: TestedEngine>() {
    let database = database::<T>(100, 199);
    database.execute("DROP TABLE UIDRING_RANGE");
    let text = refusal(&nodes::<T>(&database));
    assert!(text.contains("the table UIDRING_RANGE is gone: restore it"), "{text}");
    nodes::<T>(&database).record_range(range(100, 199)).expect("restored");
    assert_eq!(nodes::<T>(&database).assign(&LAYOUT).expect("assigned"), 100);
    database.execute("DROP TABLE UIDRING_RANGE");
    let error = nodes::<T>(&database).record_range(range(200, 299)).expect_err("another one");
    assert!(
        matches!(
            error.store(),
            Some(TableError::RangeRefused { why: RangeRefusal::Used(100), .. })
        ),
        "{error:?}"
    );
}

/// Baidu's Java client ignores it.
pub fn who_ignores_it_is_noticed<T: TestedEngine>() {
    let database = database::<T>(100, 101);
    let nodes = nodes::<T>(&database);
    for _ in 0..3 {
        database.execute(
            "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
             VALUES ('h', 'p', 1, CURRENT_DATE, NOW(), NOW())",
        );
    }
    let error = nodes.record_range(range(100, 101)).expect_err("102 is in use");
    assert!(
        matches!(
            error.store(),
            Some(TableError::RangeRefused { why: RangeRefusal::Ignored(102), .. })
        ),
        "{error:?}"
    );
    assert!(refusal(&nodes).contains("the next, 103, is over the last"));
}

pub fn worker_ids_outside_are_not_reused<T: TestedEngine>() {
    let database = database::<T>(3, 5);
    let store = store::<T>(&database);
    assert_eq!(store.worker_nodes().assign(&layout()).expect("assigned"), 3);
    let reuse = |first, last| {
        store.leases().reuse(first..=last, &layout(), "2026-02-01".parse().expect("a time"))
    };
    for (first, last, outside) in [(1, 1, 1), (2, 3, 2), (3, 6, 6)] {
        let error = reuse(first, last).expect_err("outside");
        assert!(
            matches!(error.store(), Some(TableError::NotReusable { worker_id, why, .. })
                if *worker_id == outside && why.contains("outside the range")),
            "{error:?}"
        );
    }
    reuse(3, 3).expect("one of the range");
}

/// Starts that began before the range was recorded leave such leases.
pub fn leases_outside_are_not_taken<T: TestedEngine>() {
    let database = database::<T>(3, 4);
    let store = store::<T>(&database);
    let add = |worker_id: u64| {
        database.execute(&format!(
            "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LAYOUT, CREATED, RENEWED)
             VALUES ({worker_id}, '', 0, '{}', NOW(), NOW())",
            layout()
        ));
    };
    add(1);
    add(2);
    let lease = || store.leases().lease(&request(layout()), &options(5_000));
    let held = [(); 2].map(|()| lease().expect("free"));
    assert_eq!(held.each_ref().map(Lease::worker_id), [3, 4]);
    let text = told(&lease().expect_err("none is free"), &store.leases());
    for words in ["of the 2 worker ids 3-4 of this store, 2 are held", "WORKER_ID 1: it is outside"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    add(5);
    let record = || nodes::<T>(&database).record_range(range(3, 4));
    for outside in [1, 2, 5] {
        let error = record().expect_err("a lease is outside");
        assert!(
            matches!(error.store(), Some(TableError::RangeRefused { why, .. })
                if *why == RangeRefusal::Ignored(outside)),
            "{error:?}"
        );
        database.execute(&format!("DELETE FROM UIDRING_LEASE WHERE WORKER_ID = {outside}"));
    }
    record().expect("none is outside any more");
}

/// Pauses a start that has not seen the range before it inserts its row, and before it commits.
pub fn recording_waits_for_starts_under_way<T: TestedEngine>() {
    let assign = |store: &StoreOf<T>| store.worker_nodes().assign(&layout()).expect("assigned");
    let lease = |store: &StoreOf<T>| {
        let lease = store.leases().lease(&request(layout()), &options(5_000)).expect("free");
        lease.worker_id()
    };
    for at in ["INSERT INTO WORKER_NODE", T::COMMIT] {
        recording_waits::<T>(at, assign);
        recording_waits::<T>(at, lease);
    }
}

fn recording_waits<T: TestedEngine>(at: &'static str, start: impl Fn(&StoreOf<T>) -> u64 + Sync) {
    let (database, range) = (shared::<T>(), range(8, 12));
    store::<T>(&database).leases().create().expect("created");
    let [reached, goes_on] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let proxy = Proxy::with(database.server().port(), {
        let (reached, goes_on) = (Arc::clone(&reached), Arc::clone(&goes_on));
        move |chunk| {
            if chunk.asks(at) {
                reached.store(true, Ordering::SeqCst);
                while !goes_on.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Verdict::Forward
        }
    });
    let paused = through::<T>(&database, &proxy).deadline(Duration::from_secs(30));
    let (id, recorded) = thread::scope(|scope| {
        let start = scope.spawn(|| start(&paused));
        until("the pause", || reached.load(Ordering::SeqCst));
        let record = scope.spawn(|| nodes::<T>(&database).record_range(range));
        thread::sleep(Duration::from_millis(500));
        let has_waited = !record.is_finished();
        goes_on.store(true, Ordering::SeqCst);
        let id = start.join().expect("no panic");
        let recorded = record.join().expect("no panic");
        assert!(has_waited, "{at}: {id}, {recorded:?}");
        (id, recorded)
    });
    assert_eq!(recorded.is_ok(), range.contains(id), "{at}: {id}, {recorded:?}");
    if let Err(error) = recorded {
        let is_ignored = matches!(error.store(), Some(TableError::RangeRefused { why, .. })
            if *why == RangeRefusal::Ignored(id));
        assert!(is_ignored, "{}", chain(&error));
    }
    assert_eq!(nodes::<T>(&database).assign(&LAYOUT).expect("assigned"), id.max(7) + 1);
}
