//! Leases of worker ids: what a start locks, and what changes of the table by others do to a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::worker::Lease;
use uidring::{Bits, CachedUidGenerator, Error, Layout, TakeError, Tick};
use uidring_store::server::ServerLeases;
use uidring_store::{LeaseOptions, LeaseRow, LeaseTable, WorkerTable};

use super::{
    DatabaseOf, TestedEngine, grant, meddling_triggers, runtimes, shared, store, store_at, through,
    told, until,
};
use crate::proxy::{Proxy, Verdict};
use crate::{chain, docs, namespace, request};

pub(super) fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 4, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

pub(super) fn options(millis: u64) -> LeaseOptions {
    LeaseOptions::default().lasts(Duration::from_millis(millis)).owner("tests")
}

fn leases<T: TestedEngine>(database: &DatabaseOf<T>) -> ServerLeases {
    store::<T>(database).deadline(Duration::from_secs(20)).leases()
}

fn database<T: TestedEngine>() -> DatabaseOf<T> {
    let database = shared::<T>();
    leases::<T>(&database).create().expect("made");
    database
}

pub(super) fn acquire<T: TestedEngine>(database: &DatabaseOf<T>) -> Lease {
    leases::<T>(database).lease(&request(layout()), &options(5_000)).expect("free")
}

fn build(lease: Lease) -> Result<CachedUidGenerator, Error> {
    let builder = CachedUidGenerator::builder().layout(layout()).namespace(namespace::fresh());
    builder.worker(lease).build()
}

pub(super) fn cached(lease: Lease) -> CachedUidGenerator {
    build(lease).expect("possible")
}

pub(super) fn rows<T: TestedEngine>(database: &DatabaseOf<T>) -> Vec<LeaseRow> {
    leases::<T>(database).list().expect("listed")
}

/// Also within a runtime.
pub fn a_start_passes_over_what_another_has_locked<T: TestedEngine>() {
    let database = database::<T>();
    drop([(); 2].map(|()| acquire::<T>(&database)));
    let mut other = database.session();
    other("BEGIN");
    other("SELECT * FROM UIDRING_LEASE WHERE WORKER_ID = 1 FOR UPDATE");
    // It stays locked, so a start that waited for it would fail.
    let [runtime, _] = runtimes();
    assert_eq!(runtime.block_on(async { acquire::<T>(&database) }).worker_id(), 2);
}

/// It uses up no new id, because the one with the lock may give a row back.
pub fn a_start_waits_where_everything_is_locked<T: TestedEngine>() {
    let database = database::<T>();
    drop([(); 5].map(|()| acquire::<T>(&database)));
    let mut other = database.session();
    other("BEGIN");
    other("SELECT * FROM UIDRING_LEASE FOR UPDATE");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| acquire::<T>(&database));
        thread::sleep(Duration::from_secs(4));
        assert!(!waiter.is_finished(), "it waits for the rows");
        other("COMMIT");
        let lease = waiter.join().expect("no panic");
        assert!(lease.worker_id() <= 5, "{}", lease.worker_id());
    });
    assert_eq!(rows::<T>(&database).len(), 5);
}

/// As after a manual change of the table.
pub fn a_row_that_cannot_be_read_is_lost<T: TestedEngine>() {
    let database = database::<T>();
    let lease = acquire::<T>(&database);
    database.execute(&T::nullable("UIDRING_LEASE", "TOKEN"));
    let other = acquire::<T>(&database);
    database.execute("UPDATE UIDRING_LEASE SET TOKEN = NULL WHERE WORKER_ID = 1");
    assert_eq!(rows::<T>(&database).len(), 1, "the others are listed");
    drop(other);
    let error = chain(&build(lease).expect_err("lost"));
    for words in ["worker id 1 is lost", "its row cannot be read: ", "TOKEN"] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

/// As after a migration that lost the key. Two holders of one worker id would repeat ids.
pub fn a_table_without_its_key_has_no_second_holder<T: TestedEngine>() {
    let database = database::<T>();
    let first = acquire::<T>(&database);
    for statement in [
        "CREATE TABLE copied AS SELECT * FROM UIDRING_LEASE",
        "DROP TABLE UIDRING_LEASE",
        "ALTER TABLE copied RENAME TO UIDRING_LEASE",
        "UPDATE UIDRING_LEASE SET LEASE_END = NULL WHERE WORKER_ID = 1",
        "CREATE TABLE copied AS SELECT * FROM UIDRING_LEASE WHERE WORKER_ID = 1",
        "UPDATE copied SET TOKEN = TOKEN + 2",
        "INSERT INTO UIDRING_LEASE SELECT * FROM copied",
    ] {
        database.execute(statement);
    }
    let second = leases::<T>(&database).lease(&request(layout()), &options(5_000));
    for text in [build(first), second.and_then(build)].map(|done| chain(&done.expect_err("no key")))
    {
        assert!(text.contains("primary key"), "{text}");
    }
    let text = chain(&leases::<T>(&database).fence(1).expect_err("two rows"));
    assert!(text.contains("worker id 1 has 2 rows in UIDRING_LEASE"), "{text}");
}

pub fn the_rights_of_the_docs_are_enough<T: TestedEngine>() {
    let database = database::<T>();
    let store = store_at::<T>(&grant::<T>(&database, 1));
    let leases = store.leases();
    let lease = || leases.lease(&request(layout()), &options(5_000)).expect("free");
    let first = cached(lease()).next_uid().expect("ready");
    // The same row again, above what was issued from it.
    let again = cached(lease());
    assert!(again.next_uid().expect("ready") > first);
    assert_eq!(leases.list().expect("listed")[0].worker_id, 1);
    leases.fence(1).expect("fenced");
    leases.release(1).expect("freed");
    let ended = store.worker_nodes().assign(&layout()).expect("assigned");
    leases.reuse(ended..=ended, &layout(), SystemClock.now()).expect("reused");
    until("the fence", || again.next_uid() == Err(TakeError::LeaseLost));
}

/// The docs let the counter begin above that of another table.
pub fn leases_begin_above_what_the_docs_set<T: TestedEngine>() {
    let (page, beginning) = T::BEGIN_ABOVE;
    let database = database::<T>();
    database.execute(docs::block(page, beginning).trim_end().trim_end_matches(';'));
    let bits = Bits { time: 38, worker: 13, sequence: 12 };
    let layout = Layout::new(bits, Tick::Millisecond, layout().epoch()).expect("possible");
    let lease = leases::<T>(&database).lease(&request(layout), &options(5_000)).expect("free");
    assert_eq!(lease.worker_id(), 5_001);
}

/// What a paused start has read is stale when it goes on, and its row belongs to another. It takes the next one.
pub fn a_paused_start_keeps_no_row_from_others<T: TestedEngine>() {
    let database = database::<T>();
    drop(acquire::<T>(&database));
    let (held, paused) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let proxy = Proxy::with(database.server().port(), {
        let paused = Arc::clone(&paused);
        move |chunk| {
            let is_first = chunk.asks("UPDATE UIDRING_LEASE SET OWNER")
                && held.fetch_add(1, Ordering::SeqCst) == 0;
            if is_first {
                paused.store(1, Ordering::SeqCst);
                while paused.load(Ordering::SeqCst) == 1 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Verdict::Forward
        }
    });
    let leases = through::<T>(&database, &proxy).deadline(Duration::from_secs(20)).leases();
    thread::scope(|scope| {
        let start = scope.spawn(|| leases.lease(&request(layout()), &options(20_000)));
        until("the pause", || paused.load(Ordering::SeqCst) == 1);
        let other = acquire::<T>(&database);
        assert_eq!(other.worker_id(), 1);
        paused.store(2, Ordering::SeqCst);
        let lease = start.join().expect("no panic").expect("free");
        assert_eq!(lease.worker_id(), 2);
        assert_eq!(rows::<T>(&database)[0].token, 3, "nothing was changed of the other's row");
    });
}

/// A start that finds no free worker id then counts who holds them.
pub fn what_is_given_back_before_it_is_counted_is_taken<T: TestedEngine>() {
    let database = database::<T>();
    let bits = Bits { time: 44, worker: 1, sequence: 10 };
    let layout = Layout::new(bits, Tick::Millisecond, layout().epoch()).expect("possible");
    let start = |leases: ServerLeases| leases.lease(&request(layout), &options(60_000));
    let held = start(leases::<T>(&database)).expect("free");
    let proxy = Proxy::before(database.server().port(), "SELECT COUNT(*)", move || {
        held.release().expect("given back");
    });
    assert_eq!(start(through::<T>(&database, &proxy).leases()).expect("free").worker_id(), 1);
}

pub fn a_table_that_cannot_hold_the_horizon_is_refused<T: TestedEngine>() {
    for trigger in meddling_triggers::<T>("UIDRING_LEASE", "HORIZON_TICK", "WORKER_ID = 1") {
        let database = database::<T>();
        let lease = acquire::<T>(&database);
        database.execute(&trigger);
        let text = chain(&build(lease).expect_err("not stored"));
        assert!(text.contains("reads 5 and 1023") && text.contains("without triggers"), "{text}");
    }
}

pub fn the_lack_of_the_tables_names_the_command_or_is_made_good<T: TestedEngine>() {
    let database = shared::<T>();
    let leases = leases::<T>(&database);
    let error = leases.lease(&request(layout()), &options(5_000)).expect_err("no table");
    let text = told(&error, &leases);
    assert!(text.contains(T::NO_TABLE) && text.contains("uidring worker init --leases"), "{text}");
    let leases = leases.create_tables_if_missing(true);
    assert_eq!(leases.lease(&request(layout()), &options(5_000)).expect("made").worker_id(), 1);
    let nodes = store::<T>(&database).worker_nodes();
    assert_eq!(nodes.assign(&layout()).expect("assigned"), 2, "the counter is shared");
}

pub fn a_table_of_starts_that_was_lost_is_not_made_anew<T: TestedEngine>() {
    let database = database::<T>();
    let store = store::<T>(&database);
    store.leases().lease(&request(layout()), &options(5_000)).expect("free").release().expect("ok");
    database.execute("DROP TABLE WORKER_NODE");
    let texts = [
        store.leases().create().expect_err("refused"),
        store.worker_nodes().create().expect_err("refused"),
        store.worker_nodes().create_table_if_missing(true).assign(&layout()).expect_err("refused"),
    ]
    .map(|error| chain(&error));
    for text in texts {
        assert!(text.contains("in UIDRING_LEASE is 1, and that in WORKER_NODE is none"), "{text}");
    }
    let error = store.worker_nodes().assign(&layout()).expect_err("it was not made");
    assert!(chain(&error).contains("no table WORKER_NODE"), "{}", chain(&error));
}

pub fn a_counter_that_went_backwards_is_refused<T: TestedEngine>() {
    let database = database::<T>();
    std::mem::forget(acquire::<T>(&database));
    database.execute("DELETE FROM WORKER_NODE");
    database.execute(&T::set_counter(1));
    database.execute("UPDATE UIDRING_LEASE SET WORKER_ID = 2 WHERE WORKER_ID = 1");
    let leases = leases::<T>(&database);
    let error = leases.lease(&request(layout()), &options(5_000)).expect_err("backwards");
    assert!(chain(&error).contains("went backwards"), "{}", chain(&error));
}
