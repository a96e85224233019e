//! A primary that fails, and its standby in its place. More of it is in storm.rs.
#![cfg(unix)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::worker::Lease;
use uidring::{Bits, CachedUidGenerator, Error, Layout, TakeError, Tick};
use uidring_postgres::PostgresStore;
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::{chain, namespace, request};

/// Longer than anything here takes, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 5, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// A primary, its synchronous standby, and a database with all tables.
struct Pair {
    primary: Arc<Postgres>,
    standby: Arc<Postgres>,
    database: Database,
}

impl Pair {
    fn new(settings: &[&str]) -> Self {
        let primary = Postgres::start_with(settings);
        let database = primary.database();
        let store = PostgresStore::from_url(&database.url()).expect("a URL");
        store.leases().create().expect("made");
        let segments = store.segments().create_table_if_missing(true);
        segments.create_tag(&NewSegmentTag::new("t", 5).expect("allowed")).expect("created");
        let standby = primary.standby(&[]);
        primary.set("synchronous_standby_names", "standby");
        let pair = Self { primary, standby, database };
        until("the standby follows", || {
            let state = "SELECT sync_state FROM pg_stat_replication";
            pair.primary.query(state) == [["sync"]]
        });
        pair
    }

    /// Both servers, of which the one that takes rows is used.
    fn store(&self) -> PostgresStore {
        let ports = [&self.primary, &self.standby].map(|server| server.port());
        let hosts = format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
        let store = PostgresStore::from_url(&self.database.url_at(&hosts)).expect("a URL");
        store.deadline(Duration::from_secs(20))
    }
}

fn until(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < LIMIT, "{what} did not come");
        thread::sleep(Duration::from_millis(5));
    }
}

fn locales() -> String {
    let output = Command::new("locale").arg("-a").output().expect("locale, of libc-bin, starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn lease(store: &PostgresStore, lasts: u64) -> Result<Lease, Error> {
    let options = LeaseOptions::default().lasts(Duration::from_secs(lasts));
    let options = options.wait_for(Duration::from_secs(20));
    store.leases().lease(&request(layout()), &options)
}

fn cached(lease: Lease) -> Result<CachedUidGenerator, Error> {
    let builder = CachedUidGenerator::builder().layout(layout()).namespace(namespace::fresh());
    builder.worker(lease).build()
}

/// A host that refuses nothing and answers nothing does not keep clients from the next one.
#[test]
fn a_host_that_does_not_answer_is_passed_over() {
    let pair = Pair::new(&[]);
    let store = pair.store();
    // A new primary skips up to 32 worker ids.
    let first = store.worker_nodes().assign(&Layout::UID_GENERATOR).expect("assigned");
    pair.primary.freeze();
    pair.standby.promote();
    let next = store.worker_nodes().assign(&Layout::UID_GENERATOR).expect("assigned");
    assert!(next > first, "{next} after {first}");
}

/// The wait for a standby that is away can be cancelled, and the server then says that it has committed, with a
/// warning in its own language. Warnings before the COMMIT are another matter.
#[test]
fn a_commit_that_no_standby_has_confirmed_does_not_count() {
    let german = "de_DE.UTF-8";
    assert!(
        locales().contains("de_DE.utf8"),
        "this system has no locale {german}: run scripts/servers, or as root localedef -i de_DE -f UTF-8 \
         {german}"
    );
    let pair = Pair::new(&[&format!("lc_messages={german}")]);
    pair.database.administer(
        "UPDATE pg_database SET datcollversion = '1' WHERE datname = CURRENT_DATABASE();
         CREATE FUNCTION warn() RETURNS TRIGGER LANGUAGE plpgsql AS
         'BEGIN RAISE WARNING ''of a trigger''; RETURN NEW; END';
         CREATE TRIGGER warn AFTER INSERT ON WORKER_NODE FOR EACH ROW EXECUTE FUNCTION warn()",
    );
    let store = pair.store().deadline(Duration::from_secs(3));
    let first = store.worker_nodes().assign(&layout()).expect("assigned");
    let generator = cached(lease(&store, 30).expect("free")).expect("built");
    pair.standby.kill();
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    for (is_cancelled, words) in [
        (false, "did not end within 3s; is WORKER_NODE locked, a synchronous standby away"),
        (true, "Die Transaktion wurde lokal bereits committet"),
    ] {
        let over = AtomicBool::new(!is_cancelled);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    pair.primary.execute(cancel);
                    thread::sleep(Duration::from_millis(20));
                }
            });
            let begin = Instant::now();
            let assigned = store.worker_nodes().assign(&layout());
            let leased = lease(&store, 1);
            over.store(true, Ordering::SeqCst);
            let text = chain(&assigned.expect_err("nobody has confirmed it"));
            assert!(text.contains(words), "{text}");
            let text = chain(&leased.expect_err("nobody has confirmed it"));
            assert!(text.contains("standby"), "{text}");
            assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        });
        generator.next_uid().expect("the server is not needed");
    }
    pair.standby.start_again();
    let next = store.deadline(Duration::from_secs(30)).worker_nodes().assign(&layout());
    let next = next.expect("assigned");
    assert!(next > first + 1, "what was not confirmed is spent: {next} after {first}");
}

/// Another server may lack what was committed: without a word of it, that ends a lease, and a load of a
/// segment is refused where it is asked for.
#[test]
fn a_promoted_standby_is_another_server() {
    let pair = Pair::new(&[]);
    // A standby may take seconds to be promoted: the leases last longer.
    let lasts = Duration::from_secs(16);
    let follows =
        cached(lease(&pair.store().synchronous_cluster(), lasts.as_secs()).expect("free"));
    let stops = cached(lease(&pair.store(), lasts.as_secs()).expect("free"));
    let (follows, stops) = (follows.expect("built"), stops.expect("built"));
    let mut segments = pair.store().require_durability().segments();
    let wanted = [SegmentRequest { tag: "t".into(), step: 5 }];
    let mut load = || {
        let mut done = None;
        segments.load(&wanted, &mut |_, loaded| done = Some(loaded));
        done.expect("handed over")
    };
    load().expect("loaded");
    pair.primary.kill();
    pair.standby.promote();
    let begin = Instant::now();
    while stops.next_uid() != Err(TakeError::LeaseLost) {
        assert!(begin.elapsed() < LIMIT, "it goes on");
        thread::sleep(Duration::from_millis(5));
    }
    let text = chain(&load().expect_err("another server"));
    assert!(text.contains("another server answers"), "{text}");
    let begin = Instant::now();
    while begin.elapsed() < lasts {
        follows.next_uid().expect("it follows");
        thread::sleep(Duration::from_millis(5));
    }
}
