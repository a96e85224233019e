//! An earlier version of this program beside this one on one table of leases, and the recovery after a lossy
//! failover; in a SQLite file and on real servers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tempfile::TempDir;
use uidring::clock::{Clock, SystemClock};
use uidring::worker::Lease;
use uidring::{Bits, CachedUidGenerator, Fields, Layout, Tick};
use uidring_mysql::MySqlStore;
use uidring_postgres::PostgresStore;
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseOptions, LeaseTable, WorkerTable};
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::postgres::{self, Postgres};
use uidring_testkit::{docs, namespace, request};

use crate::earlier::Earlier;

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 9, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

fn options() -> LeaseOptions {
    LeaseOptions::default().lasts(Duration::from_secs(120)).owner("herd")
}

fn cached(lease: Lease) -> CachedUidGenerator {
    CachedUidGenerator::builder()
        .layout(layout())
        .worker(lease)
        .namespace(namespace::fresh())
        .build()
        .expect("possible")
}

/// A place with tables, and how else to get at it.
trait Place: Sync {
    fn leases(&self) -> Box<dyn LeaseTable + Send + Sync>;
    fn nodes(&self) -> Box<dyn WorkerTable>;
    fn execute(&self, sql: &str);

    /// Executes what the docs say, in this place's words.
    fn recover(&self, sql: &str) {
        self.execute(sql);
    }

    /// So many free rows, that were used.
    fn add_rows(&self, rows: u64) {
        self.leases().create().expect("made");
        while self.nodes().assign(&layout()).expect("assigned") < rows {}
        let until = "2026-06-01".parse().expect("a time");
        self.leases().reuse(1..=rows, &layout(), until).expect("added");
    }
}

struct File(TempDir);

impl Place for File {
    fn leases(&self) -> Box<dyn LeaseTable + Send + Sync> {
        Box::new(SqliteStore::new(self.0.path().join("workers.db")).create(true).leases())
    }

    fn nodes(&self) -> Box<dyn WorkerTable> {
        Box::new(SqliteStore::new(self.0.path().join("workers.db")).create(true).worker_nodes())
    }

    fn execute(&self, sql: &str) {
        let connection = Connection::open(self.0.path().join("workers.db")).expect("opens");
        connection.busy_timeout(Duration::from_secs(10)).expect("set");
        connection.execute_batch(sql).expect(sql);
    }

    fn recover(&self, sql: &str) {
        self.execute(&sql.replace("GREATEST", "MAX"));
    }
}

struct Server(Database);

impl Server {
    fn server(&self) -> MySqlStore {
        let server = MySqlStore::from_url(&self.0.url()).expect("a URL");
        server.connect_timeout(Duration::from_secs(30)).deadline(Duration::from_secs(60))
    }
}

impl Place for Server {
    fn leases(&self) -> Box<dyn LeaseTable + Send + Sync> {
        Box::new(self.server().leases())
    }

    fn nodes(&self) -> Box<dyn WorkerTable> {
        Box::new(self.server().worker_nodes())
    }

    fn execute(&self, sql: &str) {
        self.0.execute(sql);
    }
}

struct Pg(postgres::Database);

impl Pg {
    fn server(&self) -> PostgresStore {
        let server = PostgresStore::from_url(&self.0.url()).expect("a URL");
        server.connect_timeout(Duration::from_secs(30)).deadline(Duration::from_secs(60))
    }
}

impl Place for Pg {
    fn leases(&self) -> Box<dyn LeaseTable + Send + Sync> {
        Box::new(self.server().leases())
    }

    fn nodes(&self) -> Box<dyn WorkerTable> {
        Box::new(self.server().worker_nodes())
    }

    fn execute(&self, sql: &str) {
        self.0.execute(sql);
    }
}

fn pg() -> Pg {
    Pg(Postgres::shared().database())
}

fn file() -> File {
    File(tempfile::tempdir().expect("a folder"))
}

fn server() -> Server {
    let server = MariaDb::start_with(&["--max-connections=400"]);
    Server(server.database())
}

/// What docs/leases.md says to do after commits were lost, to the letter.
fn recovery(tick: u64) -> String {
    let statement = docs::block("leases.md", "UPDATE UIDRING_LEASE SET TOKEN");
    assert_eq!(statement.matches("TICK_IN_USE").count(), 1);
    statement.trim_end().trim_end_matches(';').replace("TICK_IN_USE", &tick.to_string())
}

fn check_recovery(place: &dyn Place) {
    place.leases().create().expect("made");
    // A row that was used, one that never was, and one whose holder has crashed.
    let [one, two, three] = [0; 3].map(|_| place.leases().lease(&request(layout()), &options()));
    let used = cached(one.expect("free"));
    used.next_uid().expect("ready");
    drop(used);
    drop(two.expect("free"));
    std::mem::forget(three.expect("free"));
    let present = layout().tick_at(SystemClock.now()).expect("in range");
    let in_use = present + 60_000;
    place.recover(&recovery(in_use));
    let rows = place.leases().list().expect("listed");
    assert_eq!(rows.len(), 3);
    for _ in rows {
        let lease = place.leases().lease(&request(layout()), &options()).expect("free");
        let generator = cached(lease);
        let uid = generator.next_uid().expect("it starts above");
        let tick = layout().decode(uid).expect("of the layout").tick;
        assert!(tick > in_use, "{tick} is not above {in_use}");
        std::mem::forget(generator);
    }
}

#[test]
fn the_documented_recovery_lets_every_row_of_a_server_start() {
    check_recovery(&server());
}

#[test]
fn the_documented_recovery_lets_every_row_of_postgresql_start() {
    check_recovery(&pg());
}

#[test]
fn the_documented_recovery_lets_every_row_of_a_file_start() {
    check_recovery(&file());
}

/// Rows that somebody raised by hand, without a thought of the sequence.
#[test]
fn a_horizon_without_a_sequence_is_a_whole_tick() {
    for place in [&file() as &dyn Place, &server(), &pg()] {
        place.leases().create().expect("made");
        drop(place.leases().lease(&request(layout()), &options()).expect("free"));
        let tick = layout().tick_at(SystemClock.now()).expect("in range") + 5_000;
        place.execute(&format!("UPDATE UIDRING_LEASE SET HORIZON_TICK = {tick}"));
        let lease = place.leases().lease(&request(layout()), &options()).expect("free");
        let last = layout()
            .compose(Fields { tick, worker_id: 1, sequence: layout().max_sequence() })
            .expect("in range");
        assert_eq!(lease.after(), Some(last));
        assert!(cached(lease).next_uid().expect("ready") > last);
    }
}

/// The program as it was, and as it is: on the same rows, each the other's successor.
#[test]
fn an_earlier_program_beside_this_one_shares_the_rows() {
    let place = server();
    place.add_rows(6);
    let holders: [AtomicU64; 16] = Default::default();
    let last: [AtomicU64; 16] = Default::default();
    let over = AtomicBool::new(false);
    let counts = [AtomicU64::new(0), AtomicU64::new(0)];
    let begin = Instant::now();
    thread::scope(|scope| {
        for number in 1..=4_u64 {
            let (place, holders, last, over, counts) = (&place, &holders, &last, &over, &counts);
            scope.spawn(move || {
                let mut earlier = Earlier::new(&place.0, &layout());
                while !over.load(Ordering::SeqCst) {
                    // While it is held: nobody else is there, and all is above what was before.
                    let note = |id: usize, first: u64, end: u64| {
                        let before = last[id].fetch_max(end, Ordering::SeqCst);
                        assert!(first >= before, "{id}: {first} after {before}");
                        assert_eq!(holders[id].swap(0, Ordering::SeqCst), number, "{id} was lost");
                    };
                    let enter = |id: usize| {
                        assert_eq!(holders[id].swap(number, Ordering::SeqCst), 0, "{id} is held");
                    };
                    if number % 2 == 0 {
                        let Some(held) = earlier.acquire() else { continue };
                        enter(held.worker_id);
                        let horizon = earlier.renew(&held);
                        note(held.worker_id, held.before.map_or(0, |tick| tick + 1), horizon);
                        earlier.release(&held, horizon);
                    } else {
                        let lease =
                            place.leases().lease(&request(layout()), &options()).expect("free");
                        let id = usize::try_from(lease.worker_id()).expect("small");
                        enter(id);
                        let generator = cached(lease);
                        let tick = |uid| layout().decode(uid).expect("of the layout").tick;
                        let first = tick(generator.next_uid().expect("ready"));
                        let end = tick(generator.next_uid().expect("ready"));
                        note(id, first, end);
                        drop(generator);
                    }
                    counts[(number % 2) as usize].fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let enough = || counts.iter().all(|count| count.load(Ordering::SeqCst) >= 50);
        while !enough() && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(10));
        }
        over.store(true, Ordering::SeqCst);
        assert!(enough(), "{counts:?} in {:?}", begin.elapsed());
    });
    assert_eq!(place.nodes().usage().expect("counted").newest, Some(6), "no id was spent");
}

/// Both draw on one counter, and on one row of a tag.
#[test]
fn an_earlier_program_beside_this_one_shares_the_counters() {
    use uidring::segment::{SegmentRequest, SegmentStore};
    use uidring_store::{NewSegmentTag, SegmentTable};
    let place = server();
    place.leases().create().expect("made");
    let mut segments = place.server().segments().create_table_if_missing(true);
    segments.create_tag(&NewSegmentTag::new("t", 10).expect("allowed")).expect("created");
    let mut earlier = Earlier::new(&place.0, &layout());
    let nodes = place.server().worker_nodes();
    for round in 0..5 {
        assert_eq!(earlier.assign(), round * 2 + 1);
        assert_eq!(nodes.assign(&layout()).expect("assigned"), round * 2 + 2);
        assert_eq!(earlier.load("t", 10), (round * 20 + 1, round * 20 + 11));
        let wanted = [SegmentRequest { tag: "t".into(), step: 10 }];
        segments.load(&wanted, &mut |_, loaded| {
            let loaded = loaded.expect("loaded");
            assert_eq!((loaded.start, loaded.end), (round * 20 + 11, round * 20 + 21));
        });
    }
}
