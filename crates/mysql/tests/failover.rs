//! Leases and segments where more than one server stands behind an address: a proxy that splits reads
//! from writes, and servers that take each other's place.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use uidring::policy::TakePolicy;
use uidring::segment::SegmentError;
use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::worker::Lease;
use uidring::{Bits, CachedUidGenerator, Layout, SegmentGenerator, TakeError, Tick};
use uidring_mysql::{MySqlLeases, MySqlStore};
use uidring_store::{
    LeaseOptions, LeaseRow, LeaseState, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable,
};
use uidring_testkit::log::Log;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::proxy::Proxy;
use uidring_testkit::splitter::Splitter;
use uidring_testkit::{chain, namespace, request};

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 4, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

fn options(millis: u64) -> LeaseOptions {
    LeaseOptions::default().lasts(Duration::from_millis(millis)).owner("tests")
}

fn server_at(url: &str) -> MySqlStore {
    MySqlStore::from_url(url).expect("a URL").deadline(Duration::from_secs(20))
}

fn at(url: &str) -> MySqlLeases {
    server_at(url).leases()
}

fn cached(lease: Lease) -> CachedUidGenerator {
    CachedUidGenerator::builder()
        .layout(layout())
        .worker(lease)
        .namespace(namespace::fresh())
        .build()
        .expect("possible")
}

fn rows(database: &Database) -> Vec<LeaseRow> {
    at(&database.url()).list().expect("listed")
}

/// A database of the same name, for the same user without a password, on each of two servers.
fn twins() -> [Database; 2] {
    [(); 2].map(|()| {
        let database: Database = MariaDb::start().database();
        let user = database.user();
        database.server().execute(&format!("ALTER USER {user} IDENTIFIED BY ''"));
        database
    })
}

/// The user's password is none of those that the helpers know.
fn query<T: mysql_async::prelude::FromRow + Send + 'static>(
    database: &Database,
    sql: &str,
) -> Vec<T> {
    let name = database.name();
    let qualified = ["UIDRING_LEASE", "leaf_alloc"]
        .iter()
        .fold(sql.to_owned(), |sql, table| sql.replace(table, &format!("{name}.{table}")));
    database.server().query(&qualified)
}

fn execute(database: &Database, sql: &str) {
    query::<mysql_async::Row>(database, sql);
}

fn open_url(database: &Database, port: u16) -> String {
    format!("mysql://{}@127.0.0.1:{port}/{}", database.user(), database.name())
}

/// The replica is so far behind that it has none of what the test does.
#[test]
fn a_proxy_that_reads_from_a_stale_replica_breaks_nothing() {
    let [primary, replica] = twins();
    for database in [&primary, &replica] {
        let url = open_url(database, database.server().port());
        let leases = at(&url);
        leases.create().expect("made");
        drop(leases.lease(&request(layout()), &options(5_000)).expect("free"));
        let segments = server_at(&url).segments().create_table_if_missing(true);
        segments.create_tag(&NewSegmentTag::new("t", 10).expect("allowed")).expect("created");
    }
    let direct = open_url(&primary, primary.server().port());
    for _ in 0..3 {
        cached(at(&direct).lease(&request(layout()), &options(5_000)).expect("free"));
    }
    let splitter = Splitter::new(primary.server().port(), replica.server().port());
    let url = open_url(&primary, splitter.port());
    let row = || at(&direct).list().expect("listed").remove(0);
    let mut last = None;
    for _ in 0..3 {
        let lease = at(&url).lease(&request(layout()), &options(1_200)).expect("free");
        assert_eq!(lease.worker_id(), 1, "no other is spent");
        let generator = cached(lease);
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            let uid = generator.next_uid().expect("renewed");
            assert!(Some(uid) > last);
            last = Some(uid);
            thread::sleep(Duration::from_millis(5));
        }
        generator.close();
        let row = row();
        assert_eq!(row.state, LeaseState::Free, "given back");
        let decoded = layout().decode(last.expect("taken")).expect("of the layout");
        // It may have passed over the ticks since the last take, and keeps none of the reserve.
        let (tick, sequence) = row.horizon.expect("used");
        assert!((tick, sequence) >= (decoded.tick, decoded.sequence), "{row:?}");
        assert!(tick < decoded.tick + 5_000, "{row:?}");
    }
    // What people are shown of what they have done is the primary's, too.
    let held = at(&url).lease(&request(layout()), &options(5_000)).expect("free");
    let fenced = at(&url).fence(1).expect("fenced");
    assert_eq!((fenced.token, fenced.clone()), (row().token, row()));
    let error = CachedUidGenerator::builder().layout(layout()).worker(held).build();
    let text = chain(&error.expect_err("fenced"));
    assert!(text.contains("fenced"), "{text}");
    let mut segments = server_at(&url).segments();
    for round in 0..3 {
        let wanted = [SegmentRequest { tag: "t".into(), step: 10 }];
        segments.load(&wanted, &mut |_, loaded| {
            assert_eq!(loaded.expect("loaded").start, round * 10 + 1);
        });
    }
    let nodes = server_at(&url).worker_nodes();
    assert_eq!(nodes.assign(&layout()).expect("assigned"), 2);
    assert!(splitter.split() > 0, "the proxy has split");
    let stale = at(&open_url(&replica, replica.server().port())).list().expect("listed").remove(0);
    assert_eq!(stale.token, 2, "nothing was written there: {stale:?}");
}

/// The log is the process's, and tests of this file run at once.
fn log() -> &'static Log {
    static LOG: std::sync::OnceLock<Log> = std::sync::OnceLock::new();
    LOG.get_or_init(Log::start)
}

fn until(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what} did not come");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Takes until an error comes.
fn until_lost(generator: &CachedUidGenerator) -> TakeError {
    let begin = Instant::now();
    loop {
        match generator.next_uid() {
            Ok(_) => assert!(begin.elapsed() < Duration::from_secs(60), "it goes on"),
            Err(error) => return error,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Copies the rows of a table from one server to another, as a replication that is up to date does.
fn replicate(from: &Database, to: &Database) {
    execute(to, "DELETE FROM UIDRING_LEASE");
    type Row = (i64, String, i64, String, Option<u64>, Option<u64>);
    let rows: Vec<Row> = query(
        from,
        "SELECT WORKER_ID, OWNER, TOKEN, CAST(LEASE_END AS CHAR), HORIZON_TICK, HORIZON_SEQUENCE
         FROM UIDRING_LEASE",
    );
    let number = |value: Option<u64>| value.map_or("NULL".into(), |value| value.to_string());
    for (id, owner, token, end, tick, sequence) in rows {
        let insert = format!(
            "INSERT INTO UIDRING_LEASE VALUES ({id}, '{owner}', {token}, '{end}', {}, {}, '{}',
             UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))",
            number(tick),
            number(sequence),
            layout()
        );
        execute(to, &insert);
    }
}

/// Whether a generator goes on when another server answers that has the very same row.
fn follows(is_cluster: bool) -> bool {
    let [one, two] = twins();
    for database in [&one, &two] {
        at(&open_url(database, database.server().port())).create().expect("made");
    }
    let proxy = Proxy::to(one.server().port());
    let mut server = server_at(&open_url(&one, proxy.port()));
    if is_cluster {
        server = server.synchronous_cluster();
    }
    let lease = server.leases().lease(&request(layout()), &options(30_000)).expect("free");
    let generator = cached(lease);
    generator.next_uid().expect("ready");
    // Nobody can be reached while the other one catches up.
    proxy.redirect(0);
    proxy.cut();
    replicate(&one, &two);
    let renewed = || query::<String>(&two, "SELECT CAST(MAX(RENEWED) AS CHAR) FROM UIDRING_LEASE");
    let before = renewed();
    proxy.redirect(two.server().port());
    until("the renewal", || renewed() != before);
    if !is_cluster {
        assert_eq!(until_lost(&generator), TakeError::LeaseLost);
        return false;
    }
    // The next one is answered, too.
    let before = renewed();
    until("the next renewal", || renewed() != before);
    generator.next_uid().is_ok()
}

#[test]
fn a_server_that_takes_the_others_place_ends_the_lease() {
    let log = log();
    assert!(!follows(false));
    until("the log", || log.lines("another server answers than the one") > 0);
    assert!(log.lines("After commits were lost") > 0, "{}", log.text());
}

#[test]
fn in_a_synchronous_cluster_the_lease_goes_on() {
    assert!(follows(true));
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp starts");
    assert!(status.success());
}

/// Puts a stale copy of its files in the place of a server's, and starts it on the same port: to all
/// appearances it is the same server.
fn put_back(server: &MariaDb, stale: &Path) {
    server.stop();
    let data = server.folder().join("data");
    fs::remove_dir_all(&data).expect("removed");
    copy(stale, &data);
    server.start_again();
}

#[test]
fn a_stale_copy_of_the_files_on_the_same_port_is_noticed() {
    let log = log();
    let server = MariaDb::start();
    let database = server.database();
    let leases = at(&database.url());
    leases.create().expect("made");
    let segments = server_at(&database.url()).segments().create_table_if_missing(true);
    segments.create_tag(&NewSegmentTag::new("t", 10).expect("allowed")).expect("created");
    let lease = leases.lease(&request(layout()), &options(60_000)).expect("free");
    let generator = cached(lease);
    generator.next_uid().expect("ready");
    let numbers = SegmentGenerator::builder(server_at(&database.url()).segments())
        .step_factor(1)
        .take_policy(TakePolicy::WaitFor(Duration::from_secs(60)))
        .build()
        .expect("built");
    numbers.next_id("t").expect("taken");
    server.stop();
    let stale = server.folder().join("stale");
    copy(&server.folder().join("data"), &stale);
    server.start_again();
    // Uids and ids go on, and the store has more than the copy.
    let horizon = || rows(&database)[0].horizon;
    let before = horizon();
    until("a renewal", || {
        generator.next_uid().expect("kept");
        horizon() > before
    });
    let mut last = 0;
    while last < 200 {
        let id = numbers.next_id("t").expect("taken");
        assert!(id > last);
        last = id;
    }
    let confirmed = horizon();
    put_back(&server, &stale);
    let stale = horizon();
    assert!(stale < confirmed, "{stale:?} is not behind {confirmed:?}");
    assert_eq!(until_lost(&generator), TakeError::LeaseLost);
    until("the log", || log.lines("the store has lost commits") > 0);
    assert_eq!(horizon(), stale, "nothing was built on it");
    // Of the numbers what is in memory is good; a range that was had before is not.
    let error = loop {
        match numbers.next_id("t") {
            Ok(id) => {
                assert!(id > last, "{id} after {last}");
                last = id;
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SegmentError::InvalidRow(_)), "{error:?}");
    assert!(chain(&error).contains("went back"), "{error}");
}

/// Its range is above all that was seen here; whether others have seen it, nobody can tell.
#[test]
fn segments_of_another_server_warn_or_are_refused() {
    let log = log();
    let [one, two] = [(); 2].map(|()| {
        let server = MariaDb::start_with(&["--innodb-flush-log-at-trx-commit=1"]);
        let database = server.database();
        server.execute(&format!("ALTER USER {} IDENTIFIED BY ''", database.user()));
        let url = open_url(&database, server.port());
        let segments = server_at(&url).segments().create_table_if_missing(true);
        segments.create_tag(&NewSegmentTag::new("t", 10).expect("allowed")).expect("created");
        database
    });
    execute(&two, "UPDATE leaf_alloc SET max_id = 1000");
    for (is_strict, is_cluster) in [(false, false), (true, false), (true, true)] {
        let proxy = Proxy::to(one.server().port());
        let mut server = server_at(&open_url(&one, proxy.port()));
        if is_strict {
            server = server.require_durability();
        }
        if is_cluster {
            server = server.synchronous_cluster();
        }
        let mut store = server.segments();
        let mut load = || {
            let mut done = None;
            let wanted = [SegmentRequest { tag: "t".into(), step: 10 }];
            store.load(&wanted, &mut |_, result| done = Some(result));
            done.expect("handed over")
        };
        load().expect("the first one");
        proxy.redirect(two.server().port());
        proxy.cut();
        let place = format!(":{}/", proxy.port());
        let warnings = || {
            let text = log.text();
            text.lines().filter(|l| l.contains(&place) && l.contains("another server")).count()
        };
        if is_strict && !is_cluster {
            let error = load().expect_err("another server");
            assert!(chain(&error).contains("another server answers"), "{error}");
            let max_id = || query::<u64>(&two, "SELECT max_id FROM leaf_alloc");
            let before = max_id();
            assert!(load().is_err(), "for good");
            assert_eq!(before, max_id());
            proxy.redirect(one.server().port());
            proxy.cut();
            load().expect("the first one is back");
        } else {
            assert!(load().expect("above").start >= 1_000);
            load().expect("above");
            assert_eq!(warnings(), usize::from(!is_cluster), "{}", log.text());
        }
    }
}
