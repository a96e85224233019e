//! Leases of worker ids on a real MySQL-compatible server: what a start locks, and what becomes of a
//! lease when the server fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use uidring::clock::{Clock, SystemClock};
use uidring::worker::Lease;
use uidring::{Bits, CachedUidGenerator, Layout, TakeError, Tick};
use uidring_mysql::{MySqlLeases, MySqlStore};
use uidring_store::{LeaseOptions, LeaseRow, LeaseState, LeaseTable, TableError, WorkerTable};
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::namespace::fresh;
use uidring_testkit::proxy::{Chunk, Proxy, Verdict};
use uidring_testkit::{chain, docs, request};

/// Longer than anything here takes, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 4, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

fn options(millis: u64) -> LeaseOptions {
    LeaseOptions::default().lasts(Duration::from_millis(millis)).owner("tests")
}

fn at(url: &str) -> MySqlLeases {
    let server = MySqlStore::from_url(url).expect("a URL");
    server.deadline(Duration::from_secs(20)).leases()
}

fn database(server: &Arc<MariaDb>) -> Database {
    let database = server.database();
    at(&database.url()).create().expect("made");
    database
}

fn through(database: &Database, proxy: &Proxy) -> MySqlLeases {
    at(&database.url_at(&format!("127.0.0.1:{}", proxy.port())))
}

fn acquire(database: &Database) -> Lease {
    at(&database.url()).lease(&request(layout()), &options(5_000)).expect("free")
}

fn cached(lease: Lease) -> CachedUidGenerator {
    CachedUidGenerator::builder()
        .layout(layout())
        .worker(lease)
        .namespace(fresh())
        .build()
        .expect("possible")
}

fn rows(database: &Database) -> Vec<LeaseRow> {
    at(&database.url()).list().expect("listed")
}

/// So many rows, which are free, and a session that has locked the first of them.
async fn locked_row(database: &Database, count: usize) -> Conn {
    drop((0..count).map(|_| acquire(database)).collect::<Vec<_>>());
    let opts = mysql_async::Opts::from_url(&database.url()).expect("a URL");
    let opts = OptsBuilder::from_opts(opts).prefer_socket(false);
    let mut conn = Conn::new(opts).await.expect("connects");
    conn.query_drop("START TRANSACTION").await.expect("begins");
    let lock = "SELECT * FROM UIDRING_LEASE WHERE WORKER_ID = 1 FOR UPDATE";
    conn.query_drop(lock).await.expect("locks");
    conn
}

fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

/// It works within a runtime, too.
#[test]
fn a_start_passes_over_what_another_has_locked() {
    let database = database(&MariaDb::shared());
    on_a_runtime(async {
        let conn = locked_row(&database, 2).await;
        // It is locked all the time, so that a start that waited for it would fail.
        assert_eq!(acquire(&database).worker_id(), 2);
        drop(conn);
    });
}

/// Who keeps many rows locked has locked the table: a start waits for that, and spends nothing.
#[test]
fn a_start_waits_where_everything_is_locked() {
    let database = database(&MariaDb::shared());
    on_a_runtime(async {
        let mut conn = locked_row(&database, 5).await;
        conn.query_drop("SELECT * FROM UIDRING_LEASE FOR UPDATE").await.expect("locks");
        let leases = at(&database.url());
        let waiter = thread::spawn(move || leases.lease(&request(layout()), &options(5_000)));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(!waiter.is_finished(), "it waits for the rows");
        conn.query_drop("COMMIT").await.expect("commits");
        let lease = waiter.join().expect("no panic").expect("free");
        assert!(lease.worker_id() <= 5, "{}", lease.worker_id());
    });
    assert_eq!(rows(&database).len(), 5);
}

/// Somebody has changed the table by hand.
#[test]
fn a_row_that_cannot_be_read_is_lost() {
    let database = database(&MariaDb::shared());
    let lease = acquire(&database);
    database.execute("ALTER TABLE UIDRING_LEASE MODIFY TOKEN BIGINT NULL");
    database.execute("UPDATE UIDRING_LEASE SET TOKEN = NULL");
    let builder = CachedUidGenerator::builder().layout(layout()).namespace(fresh());
    let error = chain(&builder.worker(lease).build().expect_err("lost"));
    assert!(error.contains("worker id 1 is lost"), "{error}");
    assert!(error.contains("its row cannot be read: ") && error.contains("`TOKEN`"), "{error}");
}

#[test]
fn the_rights_of_the_docs_are_enough() {
    let database = database(&MariaDb::shared());
    database.grant_as_docs_say("mysql.md", "GRANT SELECT, INSERT, UPDATE ON ids.UIDRING_LEASE");
    let leases = at(&database.url());
    let generator = cached(acquire(&database));
    let first = generator.next_uid().expect("ready");
    drop(generator);
    // The same row again, above what it was used for.
    let again = cached(acquire(&database));
    assert!(again.next_uid().expect("ready") > first);
    assert_eq!(leases.list().expect("listed")[0].worker_id, 1);
    leases.fence(1).expect("fenced");
    leases.release(1).expect("freed");
    let nodes = MySqlStore::from_url(&database.url()).expect("a URL").worker_nodes();
    let ended = nodes.assign(&layout()).expect("assigned");
    leases.reuse(ended..=ended, &layout(), SystemClock.now()).expect("reused");
    let begin = Instant::now();
    while again.next_uid() != Err(TakeError::LeaseLost) {
        assert!(begin.elapsed() < LIMIT, "it was fenced");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The statement of the docs that lets the counter begin above another table's.
#[test]
fn leases_begin_above_a_row_that_was_put_there() {
    let statement = docs::block("leases.md", "INSERT INTO WORKER_NODE (ID,");
    let database = database(&MariaDb::shared());
    let begin = format!("INSERT INTO {}.", database.name());
    let statement = statement.trim_end().trim_end_matches(';');
    database.server().execute(&statement.replacen("INSERT INTO ", &begin, 1));
    let bits = Bits { time: 38, worker: 13, sequence: 12 };
    let layout = Layout::new(bits, Tick::Millisecond, layout().epoch()).expect("possible");
    let lease = at(&database.url()).lease(&request(layout), &options(5_000)).expect("free");
    assert_eq!(lease.worker_id(), 5_001);
}

/// What a paused start has read is old when it goes on, and its row another's: it takes another one.
#[test]
fn a_paused_start_keeps_no_row_from_others() {
    let database = database(&MariaDb::shared());
    drop(acquire(&database));
    let (held, paused) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let proxy = Proxy::with(database.server().port(), {
        let paused = Arc::clone(&paused);
        move |chunk: Chunk<'_>| {
            if chunk.asks("UPDATE UIDRING_LEASE SET OWNER")
                && held.fetch_add(1, Ordering::SeqCst) == 0
            {
                paused.store(1, Ordering::SeqCst);
                while paused.load(Ordering::SeqCst) == 1 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Verdict::Forward
        }
    });
    let through = through(&database, &proxy);
    thread::scope(|scope| {
        let start = scope.spawn(move || through.lease(&request(layout()), &options(20_000)));
        while paused.load(Ordering::SeqCst) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        // It has read the row, and not yet taken it.
        let other = acquire(&database);
        assert_eq!(other.worker_id(), 1);
        paused.store(2, Ordering::SeqCst);
        let lease = start.join().expect("no panic").expect("free");
        assert_eq!(lease.worker_id(), 2);
        assert_eq!(rows(&database)[0].token, 3, "nothing was changed of the other's row");
    });
}

#[test]
fn a_server_that_does_not_commit_by_itself_is_told_to() {
    let server = MariaDb::start_with(&["--autocommit=0", "--transaction-isolation=SERIALIZABLE"]);
    let database = database(&server);
    let lease = acquire(&database);
    let generator = cached(lease);
    let last = generator.next_uid().expect("ready");
    let leases = at(&database.url());
    assert_eq!(leases.fence(1).expect("fenced").token, 2);
    let next = acquire(&database);
    assert_eq!((next.worker_id(), rows(&database)[0].token), (1, 3));
    assert!(next.after() >= Some(last));
    let error = leases.release(1).expect_err("held");
    assert!(matches!(error.store(), Some(TableError::LeaseHeld { .. })), "{error}");
    drop(next);
    assert_eq!(rows(&database)[0].state, LeaseState::Free);
}

#[test]
fn a_table_that_cannot_hold_the_horizon_is_refused() {
    let database = database(&MariaDb::shared());
    // Where the server is lenient it would cut the tick.
    database.execute("ALTER TABLE UIDRING_LEASE MODIFY HORIZON_TICK INT NULL");
    let lease = acquire(&database);
    let trigger = "CREATE TRIGGER cut BEFORE UPDATE ON UIDRING_LEASE FOR EACH ROW
                   SET NEW.HORIZON_TICK = 5";
    database.execute("ALTER TABLE UIDRING_LEASE MODIFY HORIZON_TICK BIGINT NULL");
    database.execute(trigger);
    let error =
        CachedUidGenerator::builder().layout(layout()).worker(lease).namespace(fresh()).build();
    let text = chain(&error.expect_err("not stored"));
    assert!(text.contains("reads 5 and 1023") && text.contains("without triggers"), "{text}");
}

#[test]
fn the_lack_of_the_tables_names_the_command_or_is_made_good() {
    let database = MariaDb::shared().database();
    let leases = at(&database.url());
    let text = chain(&leases.lease(&request(layout()), &options(5_000)).expect_err("no table"));
    assert!(text.contains("1146") && text.contains("uidring worker init --leases"), "{text}");
    assert!(!text.contains("p@ss"), "{text}");
    let leases = leases.create_tables_if_missing(true);
    assert_eq!(leases.lease(&request(layout()), &options(5_000)).expect("made").worker_id(), 1);
    let server = MySqlStore::from_url(&database.url()).expect("a URL");
    let nodes = server.worker_nodes();
    assert_eq!(nodes.assign(&layout()).expect("assigned"), 2, "the counter is shared");
}

#[test]
fn a_counter_that_went_backwards_is_refused() {
    let database = database(&MariaDb::shared());
    std::mem::forget(acquire(&database));
    database.execute("DELETE FROM WORKER_NODE");
    database.execute("ALTER TABLE WORKER_NODE AUTO_INCREMENT = 1");
    database.execute("UPDATE UIDRING_LEASE SET WORKER_ID = 2 WHERE WORKER_ID = 1");
    let error =
        at(&database.url()).lease(&request(layout()), &options(5_000)).expect_err("backwards");
    assert!(chain(&error).contains("went backwards"), "{error}");
}
