//! Leases of worker ids on a real server: what a start locks, and what becomes of a lease when the server
//! fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::worker::Lease;
use uidring::{Bits, CachedUidGenerator, Layout, Tick};
use uidring_store::{LeaseOptions, LeaseRow, LeaseTable};
use uidring_testkit::namespace::fresh;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::proxy::{Proxy, Verdict};
use uidring_testkit::request;

use crate::support::{store, through};

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
