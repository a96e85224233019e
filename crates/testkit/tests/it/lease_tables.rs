//! What all tables of leases share but not all stores have: rows, errors, and manual changes. Tested in a SQLite file,
//! on a MariaDB server and on a PostgreSQL server.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use std::{mem, thread};

use rusqlite::Connection;
use tempfile::TempDir;
use uidring::clock::{Clock, SystemClock};
use uidring::worker::Lease;
use uidring::{Bits, CachedUidGenerator, Error, Fields, Layout, TakeError, Tick, Timestamp, Uid};
use uidring_mysql::{MySqlLeases, MySqlStore};
use uidring_postgres::PostgresStore;
use uidring_sqlite::SqliteStore;
use uidring_store::leases::Shortage;
use uidring_store::{LeaseOptions, LeaseRow, LeaseState, LeaseTable, TableError, WorkerTable};
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::namespace::fresh;
use uidring_testkit::postgres::{self, Postgres};
use uidring_testkit::{chain, docs, request};

/// A table of any store, and other ways to access it.
trait Place: Sync {
    fn leases(&self) -> Box<dyn LeaseTable + Send + Sync>;
    fn nodes(&self) -> Box<dyn WorkerTable>;
    /// Executes a statement. `NOW` stands for the store's current time, `SECONDS(n)` for n seconds later.
    fn execute(&self, sql: &str);

    fn acquire(&self) -> Result<Lease, Error> {
        self.leases().lease(&request(small()), &options())
    }

    /// Assigns worker ids up to this one, and drops them.
    fn use_up_to(&self, worker_id: u64) {
        while self.nodes().assign(&Layout::UID_GENERATOR).expect("assigned") < worker_id {}
    }

    fn row(&self, worker_id: u64) -> LeaseRow {
        let rows = self.leases().list().expect("listed");
        rows.into_iter().find(|row| row.worker_id == worker_id).expect("a row")
    }
}

/// Returns the store's error.
fn stored<T>(done: &Result<T, Error>) -> Option<&TableError> {
    done.as_ref().err()?.store()
}

struct File(TempDir);

impl File {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }
}

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
        let sql = sql.replace("NOW", "strftime('%Y-%m-%d %H:%M:%f', 'now')");
        let sql = sql.replace("GREATEST", "MAX");
        connection.execute_batch(&sql).expect(&sql);
    }
}

struct Server(Database);

impl Server {
    fn new() -> Self {
        let server = Self(MariaDb::shared().database());
        server.leases().create().expect("made");
        server
    }

    fn at(url: &str) -> MySqlLeases {
        let server = MySqlStore::from_url(url).expect("a URL");
        server.deadline(Duration::from_secs(20)).leases()
    }
}

impl Place for Server {
    fn leases(&self) -> Box<dyn LeaseTable + Send + Sync> {
        Box::new(Self::at(&self.0.url()))
    }

    fn nodes(&self) -> Box<dyn WorkerTable> {
        let server = MySqlStore::from_url(&self.0.url()).expect("a URL");
        Box::new(server.worker_nodes())
    }

    fn execute(&self, sql: &str) {
        self.0.execute(&sql.replace("NOW", "UTC_TIMESTAMP(3)"));
    }
}

struct Pg(postgres::Database);

impl Pg {
    fn new() -> Self {
        let server = Self(Postgres::shared().database());
        server.leases().create().expect("made");
        server
    }

    fn store(&self) -> PostgresStore {
        PostgresStore::from_url(&self.0.url()).expect("a URL").deadline(Duration::from_secs(20))
    }
}

impl Place for Pg {
    fn leases(&self) -> Box<dyn LeaseTable + Send + Sync> {
        Box::new(self.store().leases())
    }

    fn nodes(&self) -> Box<dyn WorkerTable> {
        Box::new(self.store().worker_nodes())
    }

    fn execute(&self, sql: &str) {
        self.0.execute(&sql.replace("NOW", "CLOCK_TIMESTAMP()"));
    }
}

fn on_each(test: impl Fn(&dyn Place)) {
    test(&File::new());
    test(&Server::new());
    test(&Pg::new());
}

/// A layout with three worker ids: 1, 2 and 3.
fn small() -> Layout {
    layout(2, Tick::Millisecond)
}

fn layout(worker: u8, tick: Tick) -> Layout {
    let bits = Bits { time: 41, worker, sequence: 10 };
    Layout::new(bits, tick, "2026-01-01".parse().expect("a time")).expect("possible")
}

fn options() -> LeaseOptions {
    // Longer than any test takes on a busy machine.
    LeaseOptions::default().lasts(Duration::from_secs(120)).owner("tests")
}

fn cached(lease: Lease) -> CachedUidGenerator {
    CachedUidGenerator::builder()
        .layout(small())
        .worker(lease)
        .namespace(fresh())
        .build()
        .expect("possible")
}

fn tick(uid: Uid) -> u64 {
    small().decode(uid).expect("of the layout").tick
}

fn present() -> u64 {
    small().tick_at(SystemClock.now()).expect("in range")
}

#[test]
fn the_lowest_free_row_is_taken_and_given_back_to_the_uid() {
    on_each(|place| {
        let leases = [0; 3].map(|_| place.acquire().expect("free"));
        assert_eq!([0, 1, 2].map(|i| leases[i].worker_id()), [1, 2, 3]);
        let [one, two, three] = leases;
        assert!(two.after().is_none());
        let before = present();
        let generator = cached(two);
        let last = generator.next_uid().expect("ready");
        let row = place.row(2);
        let (horizon, sequence) = row.horizon.expect("stored");
        // Two renewals ahead, which is two thirds of the lease.
        assert!(tick(last) <= horizon && sequence == 1_023, "{row:?}");
        assert!(horizon >= before + 80_000 && horizon < before + 240_000, "{horizon} at {before}");
        assert!(matches!(row.state, LeaseState::Held(_)), "{row:?}");
        assert!(row.owner.starts_with("tests/"), "{row:?}");
        assert_eq!(row.layout, "41/2/10 in ms since 2026-01-01T00:00:00Z");
        drop(generator);
        let row = place.row(2);
        assert_eq!(row.state, LeaseState::Free);
        let decoded = small().decode(last).expect("of the layout");
        let exact = (decoded.tick, decoded.sequence);
        assert_eq!(row.horizon, Some(exact), "the last uid");
        assert_eq!((row.token, place.row(1).token), (2, 1), "it has grown");

        // The lowest free one, above what was issued.
        three.release().expect("given back");
        assert_eq!(place.row(3).horizon, None, "never used");
        let two = place.acquire().expect("free");
        assert_eq!((two.worker_id(), two.after()), (2, Some(last)));
        let generator = cached(two);
        assert!(generator.next_uid().expect("ready") > last);
        assert_eq!(place.acquire().expect("free").worker_id(), 3);
        drop(one);
    });
}

#[test]
fn when_all_are_held_it_says_how_many_and_for_how_long() {
    on_each(|place| {
        let _held: Vec<_> = (0..3).map(|_| place.acquire().expect("free")).collect();
        let error = place.acquire().expect_err("none is free");
        let Some(TableError::NoFreeWorkerId { shortage, .. }) = error.store() else {
            panic!("{error}")
        };
        let Shortage { held: 3, ends_in: Some(ends_in), .. } = *shortage else { panic!("{error}") };
        assert!(ends_in <= Duration::from_secs(120) && ends_in > Duration::from_secs(60));
        let text = chain(&error);
        assert!(text.contains("3 are held, the first for") && !text.contains("p@ss"), "{text}");
    });
}

#[test]
fn who_lost_the_row_is_told_by_whom() {
    let _kept = (MariaDb::shared(), Postgres::shared());
    for (change, text) in [
        ("TOKEN = TOKEN + 1", "fenced or released (token 2, and not 1"),
        ("TOKEN = 3, OWNER = 'other/1'", "other/1 has it (token 3"),
        // A store that lost commits and gave the same token twice.
        ("OWNER = 'twin/1'", "twin/1 has it"),
        ("WORKER_ID = 2", "its row is gone"),
    ] {
        on_each(|place| {
            let lease = place.acquire().expect("free");
            place.execute(&format!("UPDATE UIDRING_LEASE SET {change} WHERE WORKER_ID = 1"));
            let error = CachedUidGenerator::builder()
                .layout(small())
                .worker(lease)
                .namespace(fresh())
                .build();
            let error = chain(&error.expect_err("lost"));
            assert!(error.contains("worker id 1 is lost") && error.contains(text), "{error}");
            let row = &place.leases().list().expect("listed")[0];
            assert!(matches!(row.state, LeaseState::Held(_)), "left as it is: {row:?}");
            assert_eq!(row.horizon, None);
        });
    }
}

#[test]
fn a_fenced_holder_stops_at_its_next_renewal() {
    on_each(|place| {
        let options = options().lasts(Duration::from_secs(4));
        let lease = place.leases().lease(&request(small()), &options).expect("free");
        let held = cached(lease);
        let last = held.next_uid().expect("ready");
        let error = place.leases().release(1).expect_err("it is held");
        assert!(
            matches!(error.store(), Some(TableError::LeaseHeld { worker_id: 1, .. })),
            "{error}"
        );
        assert!(chain(&error).contains("tests/"), "{error}");
        let fenced = place.leases().fence(1).expect("fenced");
        assert!(matches!(fenced.state, LeaseState::Expired(_)) && fenced.token == 2, "{fenced:?}");
        let begin = Instant::now();
        let next = place.acquire().expect("at once");
        assert_eq!(next.worker_id(), 1);
        let horizon = next.after().expect("used before");
        assert!(horizon >= last);
        let next = cached(next);
        let first = next.next_uid().expect("ready");
        let mut seen = HashSet::new();
        let error = loop {
            match held.next_uid() {
                Ok(uid) => assert!(uid <= horizon && uid < first && seen.insert(uid)),
                Err(error) => break error,
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "it stops");
            thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(error, TakeError::LeaseLost);
        drop(held);
        assert!(matches!(place.row(1).state, LeaseState::Held(_)), "the other's");
        assert!(next.next_uid().is_ok());
        drop(next);

        let freed = place.leases().release(1).expect("free already");
        assert_eq!((freed.state, freed.token), (LeaseState::Free, 5));
        let fenced = place.leases().fence(1).expect("nobody to stop");
        assert_eq!(fenced.state, LeaseState::Free);
        for done in [place.leases().fence(7), place.leases().release(7)] {
            assert!(
                matches!(stored(&done), Some(TableError::NoSuchLease { worker_id: 7, .. })),
                "{done:?}"
            );
        }
    });
}

#[test]
fn a_row_that_was_fenced_can_be_released() {
    on_each(|place| {
        mem::forget(place.acquire().expect("free"));
        place.leases().fence(1).expect("fenced");
        let row = place.leases().release(1).expect("released");
        assert_eq!((row.state, row.token), (LeaseState::Free, 3));
    });
}

#[test]
fn two_layouts_on_one_table_are_an_error_that_shows_both() {
    on_each(|place| {
        mem::forget(place.acquire().expect("free"));
        place.leases().fence(1).expect("fenced");
        let before = place.leases().list().expect("listed");
        let later = "2026-01-02".parse().expect("a time");
        for other in [
            layout(3, Tick::Millisecond),
            layout(2, Tick::Second),
            Layout::new(small().bits(), Tick::Millisecond, later).expect("possible"),
        ] {
            let error =
                place.leases().lease(&request(other), &options()).expect_err("another layout");
            assert!(matches!(error.store(), Some(TableError::LeaseTableLayout { .. })), "{error}");
            let text = chain(&error);
            assert!(text.contains(&small().to_string()) && text.contains(&other.to_string()));
        }
        assert_eq!(place.leases().list().expect("listed"), before, "nothing was taken");
    });
}

/// A worker id used far ahead of the clock must not block every start.
#[test]
fn what_was_used_far_ahead_is_passed_over() {
    on_each(|place| {
        drop(place.acquire().expect("free"));
        let ahead = present() + 3_600_000;
        place.execute(&format!(
            "UPDATE UIDRING_LEASE SET HORIZON_TICK = {ahead}, HORIZON_SEQUENCE = 5"
        ));
        let two = place.acquire().expect("a new one");
        assert_eq!(two.worker_id(), 2);
        let _three = place.acquire().expect("a new one");
        let error = place.acquire().expect_err("only the one far ahead");
        assert!(matches!(error, Error::UsedAhead { worker_id: 1, .. }), "{error}");
        let far = request(small()).with_max_ahead(Duration::from_secs(7_200));
        let lease = place.leases().lease(&far, &options()).expect("allowed");
        assert_eq!(lease.after().map(tick), Some(ahead));
        let error =
            CachedUidGenerator::builder().layout(small()).worker(lease).namespace(fresh()).build();
        assert!(matches!(error, Err(Error::UsedAhead { .. })), "the generator knows better");
        assert_eq!(
            (place.row(1).state, place.row(1).horizon),
            (LeaseState::Free, Some((ahead, 5)))
        );
    });
}

#[test]
fn a_start_that_can_add_none_leases_what_was_used_ahead() {
    let place = Pg::new();
    drop([0; 2].map(|_| place.acquire().expect("free")));
    let ahead = present() + 300_000;
    place
        .execute(&format!("UPDATE UIDRING_LEASE SET HORIZON_TICK = {ahead}, HORIZON_SEQUENCE = 5"));
    place.execute("ALTER TABLE WORKER_NODE ALTER COLUMN ID SET MAXVALUE 2");
    let leases = [0; 2].map(|_| place.acquire().expect("used ahead of the clock"));
    assert_eq!(leases.each_ref().map(Lease::worker_id), [1, 2]);
    let error = chain(&place.acquire().expect_err("all are held"));
    assert!(error.contains("reached maximum value"), "{error}");
}

/// Starts skip a damaged row, and the error names it.
#[test]
fn a_damaged_row_is_passed_over_and_named() {
    on_each(|place| {
        for (column, value, within) in [
            ("HORIZON_TICK", "-1", "0 to 9223372036854775807"),
            ("HORIZON_SEQUENCE", "99999", "0 to 1023"),
            ("TOKEN", "9223372036854775807", "0 to 9223372036854775805"),
            // A trigger may leave this after a release.
            ("HORIZON_TICK", "NULL", "0 to 9223372036854775807"),
        ] {
            cached(place.acquire().expect("free")).next_uid().expect("a uid");
            let set = |value: &str| {
                let row = "WHERE WORKER_ID = 1";
                place.execute(&format!("UPDATE UIDRING_LEASE SET {column} = {value} {row}"));
            };
            set(value);
            let others = [0; 2].map(|_| place.acquire().expect("another"));
            assert_eq!([0, 1].map(|i| others[i].worker_id()), [2, 3]);
            let named = |text: String| {
                let row = format!("UIDRING_LEASE, row with WORKER_ID 1: {column} is {value}");
                assert!(text.contains(&row) && text.contains(within), "{text}");
            };
            let error = place.acquire().expect_err("no other is left");
            assert!(matches!(
                error.store(),
                Some(TableError::NoFreeWorkerId { shortage, .. })
                    if shortage.held == 2 && shortage.flaw.is_some()
            ));
            named(chain(&error));
            named(chain(&place.leases().fence(1).expect_err("damaged")));
            named(chain(&place.leases().release(1).expect_err("damaged")));
            let rows = place.leases().list().expect("listed");
            assert_eq!(rows.iter().map(|row| row.worker_id).collect::<Vec<_>>(), [2, 3]);
            set("5");
        }
    });
}

/// Such times do not prevent listing the leases or ending that one.
#[test]
fn a_lease_with_times_that_are_none_is_listed_and_fenced() {
    for (place, sets) in [
        (&Server::new() as &dyn Place, &["CREATED = '0000-00-00', RENEWED = '0000-00-00'"][..]),
        (&Pg::new(), &["CREATED = '-infinity', RENEWED = 'infinity'", "LEASE_END = 'infinity'"]),
    ] {
        let leases = [0; 2].map(|_| place.acquire().expect("free"));
        for set in sets {
            place.execute(&format!("UPDATE UIDRING_LEASE SET {set} WHERE WORKER_ID = 1"));
            let rows = place.leases().list().expect("listed");
            assert!(rows.iter().all(|row| matches!(row.state, LeaseState::Held(_))), "{rows:?}");
            assert_eq!(rows.len(), 2);
        }
        let fenced = place.leases().fence(1).expect("fenced");
        assert!(matches!(fenced.state, LeaseState::Expired(_)), "{fenced:?}");
        drop(leases);
    }
}

#[test]
fn a_worker_id_beyond_the_layout_is_passed_over_and_named() {
    on_each(|place| {
        place.acquire().expect("free").release().expect("given back");
        place.execute("UPDATE UIDRING_LEASE SET WORKER_ID = 99999999 WHERE WORKER_ID = 1");
        let others = [0; 2].map(|_| place.acquire().expect("another"));
        assert_eq!([0, 1].map(|i| others[i].worker_id()), [2, 3]);
        let error = chain(&place.acquire().expect_err("no other is left"));
        let row = "UIDRING_LEASE, row with WORKER_ID 99999999: WORKER_ID is 99999999, and has to be 0 to 3";
        assert!(error.contains(row), "{error}");
    });
}

#[test]
fn leased_worker_ids_and_those_of_one_start_never_meet() {
    on_each(|place| {
        let wide = layout(10, Tick::Millisecond);
        let mut leases = Vec::new();
        let mut ids = Vec::new();
        for round in 0..20 {
            if round % 3 == 0 {
                ids.push(place.nodes().assign(&wide).expect("assigned"));
            } else {
                let lease = place.leases().lease(&request(wide), &options()).expect("a new one");
                ids.push(lease.worker_id());
                leases.push(lease);
            }
        }
        let expected: Vec<u64> = (1..=20).collect();
        assert_eq!(ids, expected);
        // Only what was given back is leased again.
        drop(leases);
        let lease = place.leases().lease(&request(wide), &options()).expect("free");
        assert_eq!(lease.worker_id(), 2);
        place.execute("DELETE FROM WORKER_NODE WHERE ID < 20");
        assert_eq!(place.nodes().assign(&wide).expect("assigned"), 21);
    });
}

#[test]
fn worker_ids_of_starts_that_have_ended_can_be_leased() {
    on_each(|place| {
        place.use_up_to(3);
        place.leases().create().expect("made");
        assert!(matches!(
            stored(&place.acquire()),
            Some(TableError::NoFreeWorkerId { shortage, .. }) if shortage.held == 0
        ));
        let used_until: Timestamp = SystemClock.now().saturating_add(Duration::from_secs(60));
        let reuse = |ids| place.leases().reuse(ids, &small(), used_until);
        for (ids, wrong) in [(0..=2, 0), (2..=4, 4)] {
            let layout = layout(4, Tick::Millisecond);
            let error = place.leases().reuse(ids, &layout, used_until).expect_err("no such start");
            assert!(
                matches!(error.store(), Some(TableError::NotReusable { worker_id, .. }) if *worker_id == wrong)
            );
        }
        assert!(place.leases().list().expect("listed").is_empty(), "all or nothing");
        reuse(2..=3).expect("added");
        let error = reuse(1..=2).expect_err("leased");
        assert!(
            matches!(error.store(), Some(TableError::NotReusable { worker_id: 2, .. })),
            "{error}"
        );
        let error = place.leases().reuse(1..=1, &layout(3, Tick::Millisecond), used_until);
        assert!(matches!(stored(&error), Some(TableError::LeaseTableLayout { .. })), "{error:?}");
        let lease = place.acquire().expect("free");
        assert_eq!(lease.worker_id(), 2);
        let limit = small().tick_at(used_until).expect("in range");
        assert_eq!(lease.after().map(tick), Some(limit));
        assert!(tick(cached(lease).next_uid().expect("ready")) > limit);
        assert_eq!(place.leases().list().expect("listed").len(), 2, "1 is still nobody's");
    });
}

/// Returns the statement that docs/leases.md recommends after commits were lost.
fn recovery(tick: u64) -> String {
    let statement = docs::block("leases.md", "UPDATE UIDRING_LEASE SET TOKEN");
    assert_eq!(statement.matches("TICK_IN_USE").count(), 1);
    statement.trim_end().trim_end_matches(';').replace("TICK_IN_USE", &tick.to_string())
}

#[test]
fn the_documented_recovery_lets_every_row_start() {
    on_each(|place| {
        // A used row, a row that was never used, and one whose holder crashed.
        let [one, two, three] = [0; 3].map(|_| place.acquire());
        let used = cached(one.expect("free"));
        used.next_uid().expect("ready");
        drop(used);
        drop(two.expect("free"));
        mem::forget(three.expect("free"));
        let in_use = present() + 60_000;
        place.execute(&recovery(in_use));
        assert_eq!(place.leases().list().expect("listed").len(), 3);
        for _ in 1..=3 {
            let generator = cached(place.acquire().expect("free"));
            let tick = tick(generator.next_uid().expect("it starts above"));
            assert!(tick > in_use, "{tick} is not above {in_use}");
            mem::forget(generator);
        }
    });
}

/// People may raise rows without setting the sequence.
#[test]
fn a_horizon_without_a_sequence_is_a_whole_tick() {
    on_each(|place| {
        drop(place.acquire().expect("free"));
        let tick = present() + 5_000;
        place.execute(&format!("UPDATE UIDRING_LEASE SET HORIZON_TICK = {tick}"));
        let lease = place.acquire().expect("free");
        let sequence = small().max_sequence();
        let last = small().compose(Fields { tick, worker_id: 1, sequence }).expect("in range");
        assert_eq!(lease.after(), Some(last));
        assert!(cached(lease).next_uid().expect("ready") > last);
    });
}
