//! The processes' work: generators of all kinds, whose clocks are set.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, SystemClock};
use uidring::policy::TakePolicy;
use uidring::segment::SegmentError;
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Layout, SegmentGenerator, TakeError,
    Tick, Timestamp, Uid, UidGenerator,
};
use uidring_mysql::MySqlStore;
use uidring_postgres::PostgresStore;
use uidring_sqlite::SqliteStore;
use uidring_testkit::record::Record;
use uidring_testkit::{chain, fork};

/// A process's orders: the folder for records, the URLs, its lifetime, and whether it is the long-lived one.
pub const ORDERS: &str = "UIDRING_SOAK_ORDERS";

fn layout() -> Layout {
    let bits = Bits { time: 31, worker: 16, sequence: 16 };
    Layout::new(bits, Tick::Second, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// The store of worker ids or segments.
#[derive(Clone, Copy, Debug)]
enum Store {
    Sqlite,
    MySql,
    Postgres,
}

/// The system's clock, but set now and then.
#[derive(Clone, Copy, Debug)]
struct Unsteady;

/// In milliseconds.
static OFFSET: AtomicI64 = AtomicI64::new(0);

impl Unsteady {
    /// Sets the clock of this process again and again, to random errors.
    fn set_now_and_then() {
        thread::spawn(|| {
            loop {
                thread::sleep(Duration::from_millis(fastrand::u64(20..500)));
                let far = if fastrand::u8(..8) == 0 { 3_600_000 } else { 3_000 };
                OFFSET.store(fastrand::i64(-far..far), Ordering::Relaxed);
            }
        });
    }
}

impl Clock for Unsteady {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(SystemClock.now().as_millis() + OFFSET.load(Ordering::Relaxed))
    }
}

pub struct Orders {
    folder: PathBuf,
    mysql: String,
    postgres: String,
    end: Instant,
    lives_long: bool,
}

impl Orders {
    /// Returns the orders if the soak started this process.
    pub fn read() -> Option<Self> {
        let words = env::var(ORDERS).ok()?;
        let words: Vec<&str> = words.split('\n').collect();
        let [folder, mysql, postgres, millis, lives_long] = words[..] else { panic!("{words:?}") };
        Some(Self {
            folder: folder.into(),
            mysql: mysql.into(),
            postgres: postgres.into(),
            end: Instant::now() + Duration::from_millis(millis.parse().expect("a time")),
            lives_long: lives_long == "true",
        })
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn sqlite(&self) -> SqliteStore {
        SqliteStore::new(self.folder.join("sqlite.db")).create(true)
    }

    fn mysql(&self) -> MySqlStore {
        MySqlStore::from_url(&self.mysql).expect("a URL")
    }

    fn postgres(&self) -> PostgresStore {
        PostgresStore::from_url(&self.postgres).expect("a URL")
    }

    fn cached(&self, store: Store, is_leased: bool) -> Result<CachedUidGenerator, Error> {
        let builder = CachedUidGenerator::builder().layout(layout()).clock(Unsteady);
        // Stores are independent of each other.
        let builder = builder.namespace(format!("{store:?}"));
        match (store, is_leased) {
            (Store::Sqlite, false) => builder.worker_from(self.sqlite().worker_nodes()),
            (Store::Sqlite, true) => builder.worker_from(self.sqlite().leases()),
            (Store::MySql, false) => builder.worker_from(self.mysql().worker_nodes()),
            (Store::MySql, true) => builder.worker_from(self.mysql().leases()),
            (Store::Postgres, false) => builder.worker_from(self.postgres().worker_nodes()),
            (Store::Postgres, true) => builder.worker_from(self.postgres().leases()),
        }
        .take_policy(TakePolicy::WaitFor(Duration::from_secs(1)))
        .build()
    }

    fn by_the_clock(&self, store: Store) -> Result<ClockedUidGenerator<Unsteady>, Error> {
        let builder = ClockedUidGenerator::builder().layout(layout()).clock(Unsteady);
        let builder = builder.namespace(format!("{store:?}"));
        match store {
            Store::Sqlite => builder.worker_from(self.sqlite().worker_nodes()),
            Store::MySql => builder.worker_from(self.mysql().leases()),
            Store::Postgres => builder.worker_from(self.postgres().worker_nodes()),
        }
        .take_policy(TakePolicy::WaitFor(Duration::from_secs(1)))
        .build()
    }

    fn segments(&self, store: Store) -> Result<SegmentGenerator, Error> {
        match store {
            Store::Sqlite => SegmentGenerator::builder(self.sqlite().segments()),
            Store::MySql => SegmentGenerator::builder(self.mysql().segments()),
            Store::Postgres => SegmentGenerator::builder(self.postgres().segments()),
        }
        .take_policy(TakePolicy::WaitFor(Duration::from_secs(1)))
        .build()
    }

    fn record(&self, store: Store, kind: &str) -> Record {
        Record::begin(&self.folder.join("records"), &format!("{store:?}-{kind}"), self.lives_long)
    }

    /// Notes a permanent error.
    fn complain(&self, error: &(dyn std::error::Error + 'static)) {
        let path = self.folder.join("errors");
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
        writeln!(file, "{}", chain(error)).expect("written");
    }

    /// Returns the result, unless a temporary failure prevents it.
    fn attempt<T>(&self, build: impl FnOnce() -> Result<T, Error>) -> Option<T> {
        match build() {
            Ok(built) => return Some(built),
            Err(error) if error.may_pass() => {}
            Err(error) => self.complain(&error),
        }
        thread::sleep(Duration::from_millis(50));
        None
    }
}

/// Fills a buffer repeatedly until the end or a permanent error.
fn take(
    orders: &Orders,
    generator: &impl UidGenerator,
    record: &mut Record,
    (batch, rest): (usize, Duration),
) {
    let mut uids = vec![Uid::default(); batch];
    while !orders.is_over() {
        let (filled, error) = match generator.fill(&mut uids) {
            Ok(()) => (batch, None),
            Err(failed) => (failed.filled, Some(failed.error)),
        };
        record.note(uids[..filled].iter().map(|uid| uid.get()));
        match error {
            Some(TakeError::LeaseLost) => return,
            // The clock is set again, or the padder gets time.
            None | Some(TakeError::ClockBackwards { .. } | TakeError::DeadlineExceeded) => {
                thread::sleep(rest);
            }
            Some(error) if !error.may_pass() => {
                orders.complain(&error);
                return;
            }
            Some(_) => thread::sleep(rest),
        }
    }
}

fn take_segments(orders: &Orders, store: Store) {
    let Some(generator) = orders.attempt(|| orders.segments(store)) else { return };
    let mut record = orders.record(store, "segments");
    let mut ids = vec![0; 10_000];
    while !orders.is_over() {
        let filled = match generator.fill("soak", &mut ids) {
            Ok(()) => ids.len(),
            Err(failed)
                if failed.error.may_pass()
                    || matches!(failed.error, SegmentError::DeadlineExceeded) =>
            {
                failed.filled
            }
            Err(failed) => return orders.complain(&failed.error),
        };
        record.note(ids[..filled].iter().copied());
        thread::sleep(Duration::from_millis(1));
    }
}

/// The child gets no uid of the parent's.
fn fork_amid(generator: &CachedUidGenerator) {
    let said = fork::in_child(|report| {
        report.take(generator.next_uid());
        report.fill(generator);
    });
    assert!(said.iter().all(|word| *word == fork::FORKED), "{said:x?}");
}

pub fn live(orders: &Orders) {
    Unsteady::set_now_and_then();
    if orders.lives_long { live_long(orders) } else { live_for_a_moment(orders) }
}

fn live_long(orders: &Orders) {
    let all = (8_192, Duration::ZERO);
    let some = (512, Duration::from_millis(2));
    let until_the_end = |work: &dyn Fn()| {
        while !orders.is_over() {
            work();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            until_the_end(&|| {
                let built = orders.attempt(|| orders.cached(Store::Sqlite, false));
                let Some(generator) = built else { return };
                take(orders, &generator, &mut orders.record(Store::Sqlite, "uids"), all);
            });
        });
        scope.spawn(|| {
            until_the_end(&|| {
                let built = orders.attempt(|| orders.cached(Store::Postgres, false));
                let Some(generator) = built else { return };
                let handle = generator.per_thread();
                thread::scope(|scope| {
                    for _ in 0..2 {
                        let mut record = orders.record(Store::Postgres, "uids");
                        let handle = &handle;
                        scope.spawn(move || {
                            let mut uids = [Uid::default(); 512];
                            while !orders.is_over() && handle.fill(&mut uids).is_ok() {
                                record.note(uids.iter().map(|uid| uid.get()));
                                thread::sleep(some.1);
                            }
                        });
                    }
                });
            });
        });
        for store in [Store::Sqlite, Store::MySql, Store::Postgres] {
            scope.spawn(move || {
                until_the_end(&|| {
                    let built = orders.attempt(|| orders.cached(store, true));
                    let Some(generator) = built else { return };
                    take(orders, &generator, &mut orders.record(store, "uids"), some);
                });
            });
            scope.spawn(move || until_the_end(&|| take_segments(orders, store)));
        }
        scope.spawn(|| {
            until_the_end(&|| {
                let Some(generator) = orders.attempt(|| orders.by_the_clock(Store::MySql)) else {
                    return;
                };
                take(orders, &generator, &mut orders.record(Store::MySql, "uids"), some);
            });
        });
    });
}

fn live_for_a_moment(orders: &Orders) {
    let store = [Store::Sqlite, Store::MySql, Store::Postgres][fastrand::usize(..3)];
    let pace = (fastrand::usize(1..2_000), Duration::from_micros(fastrand::u64(..3_000)));
    match fastrand::u8(..6) {
        0 => {
            let Some(generator) = orders.attempt(|| orders.by_the_clock(store)) else { return };
            take(orders, &generator, &mut orders.record(store, "uids"), pace);
        }
        1 => take_segments(orders, store),
        2 => {
            let built = orders.attempt(|| orders.cached(store, false));
            let Some(generator) = built else { return };
            let mut record = orders.record(store, "uids");
            let mut local = generator.local();
            while !orders.is_over() {
                let taken: Vec<_> = (0..100).map_while(|_| local.next_uid().ok()).collect();
                record.note(taken.iter().map(|uid| uid.get()));
                thread::sleep(pace.1);
            }
        }
        3 => {
            let built = orders.attempt(|| orders.cached(store, fastrand::bool()));
            let Some(generator) = built else { return };
            let mut record = orders.record(store, "uids");
            while !orders.is_over() {
                fork_amid(&generator);
                record.note((0..100).filter_map(|_| Some(generator.next_uid().ok()?.get())));
                thread::sleep(Duration::from_millis(20));
            }
        }
        _ => {
            let built = orders.attempt(|| orders.cached(store, fastrand::bool()));
            let Some(generator) = built else { return };
            take(orders, &generator, &mut orders.record(store, "uids"), pace);
        }
    }
}
