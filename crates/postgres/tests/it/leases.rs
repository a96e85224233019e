//! Leases of worker ids on a real server: what a start locks, and what becomes of a lease when the server
//! fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, SystemClock};
use uidring::worker::Lease;
use uidring::{Bits, CachedUidGenerator, Layout, TakeError, Tick};
use uidring_store::{LeaseOptions, LeaseRow, LeaseTable, WorkerTable};
use uidring_testkit::namespace::fresh;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::proxy::{Proxy, Verdict};
use uidring_testkit::{chain, docs, request};

use crate::support::{store, store_at, through};

/// Longer than anything here takes, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 4, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

fn options(millis: u64) -> LeaseOptions {
    LeaseOptions::default().lasts(Duration::from_millis(millis)).owner("tests")
}

fn database(server: &Arc<Postgres>) -> Database {
    let database = server.database();
    store(&database).leases().create().expect("made");
    database
}

fn acquire(database: &Database) -> Lease {
    store(database).leases().lease(&request(layout()), &options(5_000)).expect("free")
}

fn cached(lease: Lease) -> CachedUidGenerator {
    let builder = CachedUidGenerator::builder().layout(layout()).namespace(fresh());
    builder.worker(lease).build().expect("possible")
}

fn rows(database: &Database) -> Vec<LeaseRow> {
    store(database).leases().list().expect("listed")
}

fn until(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < LIMIT, "{what} did not come");
        thread::sleep(Duration::from_millis(5));
    }
}

/// It spends no new id either: whoever has locked a row may give it back.
#[test]
fn a_start_passes_over_a_locked_row_and_waits_where_all_are() {
    let database = database(&Postgres::shared());
    drop((0..2).map(|_| acquire(&database)).collect::<Vec<_>>());
    for (rows, taken) in [("WHERE WORKER_ID = 1", 2..=2), ("", 1..=2)] {
        thread::scope(|scope| {
            scope.spawn(|| {
                database.execute(&format!(
                    "BEGIN; SELECT * FROM UIDRING_LEASE {rows} FOR UPDATE; SELECT pg_sleep(2); COMMIT"
                ));
            });
            thread::sleep(Duration::from_millis(500));
            assert!(taken.contains(&acquire(&database).worker_id()));
        });
    }
    assert_eq!(rows(&database).len(), 2);
}

#[test]
fn the_rights_of_the_docs_are_enough() {
    let database = database(&Postgres::shared());
    let url = database
        .grant_as_docs_say("postgresql.md", "GRANT SELECT, INSERT, UPDATE ON uidring_lease");
    let leases = store_at(&url).leases();
    let lease = || leases.lease(&request(layout()), &options(5_000)).expect("free");
    let first = cached(lease()).next_uid().expect("ready");
    let again = cached(lease());
    assert!(again.next_uid().expect("ready") > first);
    leases.fence(1).expect("fenced");
    leases.release(1).expect("freed");
    let ended = store_at(&url).worker_nodes().assign(&layout()).expect("assigned");
    leases.reuse(ended..=ended, &layout(), SystemClock.now()).expect("reused");
    until("the fence", || again.next_uid() == Err(TakeError::LeaseLost));
}

/// The statement of the docs that lets the counter begin above another table's.
#[test]
fn leases_begin_above_a_counter_that_was_set() {
    let statement = docs::block("postgresql.md", "ALTER TABLE worker_node ALTER COLUMN id");
    let database = database(&Postgres::shared());
    database.execute(&statement);
    let bits = Bits { time: 38, worker: 13, sequence: 12 };
    let layout = Layout::new(bits, Tick::Millisecond, layout().epoch()).expect("possible");
    let lease = store(&database).leases().lease(&request(layout), &options(5_000)).expect("free");
    assert_eq!(lease.worker_id(), 5_001);
}

/// Its transaction reaches the server whole, or not at all.
#[test]
fn a_paused_start_keeps_no_row_from_others() {
    let database = database(&Postgres::shared());
    drop(acquire(&database));
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
    let leases = through(&database, &proxy).leases();
    thread::scope(|scope| {
        let start = scope.spawn(|| leases.lease(&request(layout()), &options(20_000)));
        until("the pause", || paused.load(Ordering::SeqCst) == 1);
        let other = acquire(&database);
        assert_eq!(other.worker_id(), 1);
        paused.store(2, Ordering::SeqCst);
        let lease = start.join().expect("no panic").expect("free");
        assert_eq!(lease.worker_id(), 2);
        assert_eq!(rows(&database)[0].token, 3, "nothing was changed of the other's row");
    });
}

#[test]
fn a_table_that_cannot_hold_the_horizon_is_refused() {
    let database = database(&Postgres::shared());
    // A second change, of which the answer of the first knows nothing.
    let change = "IF NEW.HORIZON_TICK > 5 THEN UPDATE UIDRING_LEASE SET HORIZON_TICK = 5; END IF;
                  RETURN NEW;";
    for (kind, body, when, rest) in [
        ("", "NEW.HORIZON_TICK := 5; RETURN NEW;", "BEFORE", ""),
        ("", change, "AFTER", ""),
        ("CONSTRAINT", change, "AFTER", "DEFERRABLE INITIALLY DEFERRED"),
    ] {
        database.execute(&format!(
            "DROP TRIGGER IF EXISTS cut ON UIDRING_LEASE;
             CREATE OR REPLACE FUNCTION cut() RETURNS TRIGGER LANGUAGE plpgsql AS
             'BEGIN {body} END';
             CREATE {kind} TRIGGER cut {when} UPDATE OF HORIZON_TICK ON UIDRING_LEASE {rest}
             FOR EACH ROW EXECUTE FUNCTION cut()"
        ));
        let builder = CachedUidGenerator::builder().layout(layout()).namespace(fresh());
        let error = builder.worker(acquire(&database)).build().expect_err("not stored");
        let text = chain(&error);
        assert!(text.contains("reads 5 and") && text.contains("without triggers"), "{text}");
    }
}

/// The next holder would start as on a row that was never used.
#[test]
fn a_row_that_lost_its_tick_at_a_release_is_passed_over() {
    let database = database(&Postgres::shared());
    database.execute(
        "CREATE FUNCTION clear() RETURNS TRIGGER LANGUAGE plpgsql AS
         'BEGIN IF NEW.LEASE_END IS NULL THEN NEW.HORIZON_TICK := NULL; END IF; RETURN NEW; END';
         CREATE TRIGGER clear BEFORE UPDATE ON UIDRING_LEASE FOR EACH ROW EXECUTE FUNCTION clear()",
    );
    for worker_id in [1, 2] {
        let lease = acquire(&database);
        assert_eq!(lease.worker_id(), worker_id);
        let builder = CachedUidGenerator::builder().layout(layout()).namespace(fresh());
        builder.worker(lease).build().expect("built").next_uid().expect("a uid");
    }
}

#[test]
fn a_counter_that_went_backwards_is_refused() {
    let database = database(&Postgres::shared());
    std::mem::forget(acquire(&database));
    database.execute("DELETE FROM WORKER_NODE");
    database.execute("ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH 1");
    database.execute("UPDATE UIDRING_LEASE SET WORKER_ID = 2 WHERE WORKER_ID = 1");
    let leases = store(&database).leases();
    let error = leases.lease(&request(layout()), &options(5_000)).expect_err("backwards");
    assert!(chain(&error).contains("went backwards"), "{}", chain(&error));
}

/// What it costs, in the server's own terms: a transaction that comes and is answered at once.
#[test]
fn a_renewal_is_one_transaction_in_one_round_trip() {
    let server = Postgres::start();
    let database = database(&server);
    let asked = Arc::new(AtomicUsize::new(0));
    let proxy = Proxy::with(server.port(), {
        let asked = Arc::clone(&asked);
        move |chunk| {
            asked.fetch_add(usize::from(!chunk.answers()), Ordering::SeqCst);
            Verdict::Forward
        }
    });
    let leases = through(&database, &proxy).leases();
    let generator = cached(leases.lease(&request(layout()), &options(2_000)).expect("free"));
    let renewed = || rows(&database)[0].renewed;
    let before = renewed();
    until("a renewal", || renewed() != before);
    server.log_statements();
    let log = server.log().len();
    let logged = || server.log()[log..].contains("UPDATE UIDRING_LEASE SET LEASE_END");
    until("a renewal in the log", logged);
    let (before, chunks) = (renewed(), asked.load(Ordering::SeqCst));
    until("a renewal", || renewed() != before);
    let chunks = asked.load(Ordering::SeqCst) - chunks;
    // An idle connection is asked first whether it is there.
    assert!(chunks <= 2, "{chunks} pieces");
    drop(generator);
}
