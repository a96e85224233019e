//! A soak: one process that lives all the time, and others that live for seconds, take ids of all kinds of
//! generators from three stores, while clocks are set, processes are killed and forked, and servers are killed,
//! frozen and started again. Every id is accounted for, by ranges, so that there can be very many; the long
//! process may not grow.
//!
//! It takes 20 s, or as many as UIDRING_SOAK_SECONDS says; `scripts/soak` runs it for an hour.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use uidring::clock::{Clock, SystemClock};
use uidring::policy::TakePolicy;
use uidring::segment::SegmentError;
use uidring::{
    Bits, CachedUidGenerator, DefaultUidGenerator, Error, Layout, SegmentGenerator, TakeError,
    Tick, Timestamp, Uid, UidGenerator,
};
use uidring_mysql::MySqlStore;
use uidring_postgres::PostgresStore;
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::postgres::Postgres;
use uidring_testkit::{chain, fork};

const SECONDS: &str = "UIDRING_SOAK_SECONDS";

/// Where records go, the URLs, how long the process lives, and whether it is the long one.
const ORDERS: &str = "UIDRING_SOAK_ORDERS";

/// Ranges of many ids, so that there are few.
const STEP: u64 = 1_000_000;

fn layout() -> Layout {
    let bits = Bits { time: 31, worker: 16, sequence: 16 };
    Layout::new(bits, Tick::Second, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// Names the store whose worker ids, or segments, ids come from.
#[derive(Clone, Copy, Debug)]
enum Store {
    Sqlite,
    MySql,
    Postgres,
}

/// The system's clock, which others set.
#[derive(Clone, Copy, Debug)]
struct Unsteady;

/// In milliseconds.
static OFFSET: AtomicI64 = AtomicI64::new(0);

impl Unsteady {
    /// Sets the clocks of this process until it ends, each time by another error.
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

/// What a process was told.
struct Orders {
    folder: PathBuf,
    mysql: String,
    postgres: String,
    end: Instant,
    lives_long: bool,
}

impl Orders {
    fn read() -> Option<Self> {
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
        SqliteStore::new(self.folder.join("sqlite.db"))
    }

    fn mysql(&self) -> MySqlStore {
        MySqlStore::from_url(&self.mysql).expect("a URL")
    }

    fn postgres(&self) -> PostgresStore {
        PostgresStore::from_url(&self.postgres).expect("a URL")
    }

    fn cached(&self, store: Store, is_leased: bool) -> Result<CachedUidGenerator, Error> {
        let builder = CachedUidGenerator::builder().layout(layout()).clock(Unsteady);
        // Stores know nothing of each other.
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

    fn by_the_clock(&self, store: Store) -> Result<DefaultUidGenerator<Unsteady>, Error> {
        let builder = DefaultUidGenerator::builder().layout(layout()).clock(Unsteady);
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

    /// Ids of this space are in no two ranges.
    fn record(&self, store: Store, kind: &str) -> Record {
        // Numbers of processes come again within an hour.
        let name = format!("{store:?}-{kind}.{:032x}", fastrand::u128(..));
        let options = OpenOptions::new().create_new(true).append(true).to_owned();
        let file = options.open(self.folder.join("records").join(name)).expect("a file");
        Record { file, open: (0, 0), keeps: self.lives_long }
    }

    /// Notes an error that does not pass.
    fn complain(&self, error: &(dyn std::error::Error + 'static)) {
        let path = self.folder.join("errors");
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
        writeln!(file, "{}", chain(error)).expect("written");
    }

    /// What is built, unless a failure that may pass prevents it.
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

/// A file of ranges: the first id and how many there are.
struct Record {
    file: File,
    open: (u64, u64),
    /// Whether ranges may wait until others begin: nobody kills the process.
    keeps: bool,
}

impl Record {
    fn note(&mut self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            let (first, count) = self.open;
            if count > 0 && first + count == id {
                self.open.1 += 1;
            } else {
                self.write();
                self.open = (id, 1);
            }
        }
        if !self.keeps {
            self.write();
        }
    }

    /// With one call, which a kill does not divide.
    fn write(&mut self) {
        let (first, count) = std::mem::take(&mut self.open);
        if count > 0 {
            let bytes = [first.to_le_bytes(), count.to_le_bytes()].concat();
            assert_eq!(self.file.write(&bytes).expect("written"), bytes.len());
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.write();
    }
}

/// Fills a buffer again and again, until the end or an error that does not pass.
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

/// Nothing of the parent's.
fn fork_amid(generator: &CachedUidGenerator) {
    let said = fork::in_child(|report| {
        report.take(generator.next_uid());
        report.fill(generator);
    });
    assert!(said.iter().all(|word| *word == fork::FORKED), "{said:x?}");
}

/// What a process does: nothing, unless it was started by the soak.
#[test]
fn process() {
    let Some(orders) = Orders::read() else { return };
    Unsteady::set_now_and_then();
    if orders.lives_long { live_long(&orders) } else { live_for_a_moment(&orders) }
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

/// Tables of all kinds.
fn create(store: (impl WorkerTable, impl LeaseTable, impl SegmentTable)) {
    let (nodes, leases, segments) = store;
    nodes.create().expect("made");
    leases.create().expect("made");
    segments.create_tag(&NewSegmentTag::new("soak", STEP).expect("allowed")).expect("made");
}

/// A process, which does not outlive the soak.
struct Living(Child);

impl Drop for Living {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Soak {
    folder: PathBuf,
    mysql: String,
    postgres: String,
    end: Instant,
    processes: AtomicU64,
    kills: AtomicU64,
    outages: AtomicU64,
}

impl Soak {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn spawn(&self, lives: Duration, lives_long: bool) -> Living {
        self.processes.fetch_add(1, Ordering::Relaxed);
        let Self { folder, mysql, postgres, .. } = self;
        let folder = folder.to_str().expect("UTF-8");
        let millis = lives.as_millis();
        let orders = format!("{folder}\n{mysql}\n{postgres}\n{millis}\n{lives_long}");
        let mut command = Command::new(env::current_exe().expect("this test"));
        command.args(["process", "--exact", "--nocapture", "--test-threads=1"]);
        let log = OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("a file");
        command.env(ORDERS, orders).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Living(command.spawn().expect("starts"))
    }

    /// One short life after the other, of which every other is ended by force.
    fn lives(&self) {
        while !self.is_over() {
            let mut life = Duration::from_millis(fastrand::u64(100..5_000));
            life = life.min(self.end.saturating_duration_since(Instant::now()));
            let mut process = self.spawn(life, false);
            if fastrand::bool() {
                thread::sleep(life.mul_f64(fastrand::f64()));
                self.kills.fetch_add(1, Ordering::Relaxed);
                drop(process);
            } else {
                let status = process.0.wait().expect("ours");
                assert!(status.success(), "a process ended with {status}: {}", self.log());
            }
        }
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| !line.contains("WARN")).collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    fn trouble(&self, freeze: impl Fn(bool), kill: impl Fn(), start_again: impl Fn()) {
        while !self.is_over() {
            let calm = Instant::now() + Duration::from_millis(fastrand::u64(2_000..20_000));
            while Instant::now() < calm && !self.is_over() {
                thread::sleep(Duration::from_millis(50));
            }
            let outage = Duration::from_millis(fastrand::u64(50..3_000));
            self.outages.fetch_add(1, Ordering::Relaxed);
            if fastrand::bool() {
                freeze(true);
                thread::sleep(outage);
                freeze(false);
            } else {
                kill();
                thread::sleep(outage);
                start_again();
            }
        }
    }

    /// Memory in KiB and open files of a process: the greatest in each part of its life.
    fn watch(&self, pid: u32, begin: Instant) -> Vec<(u64, u64)> {
        const PARTS: usize = 6;
        let mut parts = vec![(0, 0); PARTS];
        let whole = self.end.saturating_duration_since(begin).as_secs_f64();
        while !self.is_over() {
            thread::sleep(Duration::from_millis(200));
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let memory = memory.map_or("0", |line| line.trim().trim_end_matches(" kB"));
            let files = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count) as u64;
            let part = (begin.elapsed().as_secs_f64() / whole * PARTS as f64) as usize;
            let (most_memory, most_files) = &mut parts[part.min(PARTS - 1)];
            *most_memory = (*most_memory).max(memory.parse().expect("KiB"));
            *most_files = (*most_files).max(files);
        }
        parts
    }
}

/// The ranges of each space, none of which has an id of another; with how many ids there are.
fn account(records: &Path) -> BTreeMap<String, (u64, usize)> {
    let mut spaces: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for entry in fs::read_dir(records).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("UTF-8");
        let (space, _) = name.split_once('.').expect("a space");
        let bytes = fs::read(entry.path()).expect("read");
        let ranges = bytes.chunks_exact(16).map(|pair| {
            let word = |at: usize| u64::from_le_bytes(pair[at..at + 8].try_into().expect("8"));
            (word(0), word(8))
        });
        spaces.entry(space.into()).or_default().extend(ranges);
    }
    let mut counts = BTreeMap::new();
    for (space, mut ranges) in spaces {
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            let [(first, count), (next, more)] = pair else { unreachable!("two") };
            assert!(
                first + count <= *next,
                "{space}: {count} ids from {first} and {more} from {next}: some came twice"
            );
        }
        counts.insert(space, (ranges.iter().map(|range| range.1).sum(), ranges.len()));
    }
    counts
}

#[test]
fn every_id_is_accounted_for() {
    if env::var(ORDERS).is_ok() {
        return;
    }
    let seconds = env::var(SECONDS).map_or(20, |text| text.parse().expect("seconds"));
    let folder = tempfile::Builder::new().prefix("uidring-soak-").tempdir().expect("a folder");
    fs::create_dir(folder.path().join("records")).expect("made");
    let mariadb = MariaDb::start_with(&["--innodb-flush-log-at-trx-commit=1"]);
    let postgres = Postgres::start();
    let (databases, begin) = ((mariadb.database(), postgres.database()), Instant::now());
    let soak = Soak {
        folder: folder.path().into(),
        mysql: databases.0.url(),
        postgres: databases.1.url(),
        end: begin + Duration::from_secs(seconds),
        processes: AtomicU64::new(0),
        kills: AtomicU64::new(0),
        outages: AtomicU64::new(0),
    };
    let store = SqliteStore::new(folder.path().join("sqlite.db"));
    create((store.worker_nodes(), store.leases(), store.segments()));
    let store = MySqlStore::from_url(&soak.mysql).expect("a URL");
    let segments = store.segments().create_table_if_missing(true);
    create((store.worker_nodes(), store.leases(), segments));
    let store = PostgresStore::from_url(&soak.postgres).expect("a URL");
    let segments = store.segments().create_table_if_missing(true);
    create((store.worker_nodes(), store.leases(), segments));

    let mut long = soak.spawn(Duration::from_secs(seconds), true);
    let parts = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| soak.lives());
        }
        scope.spawn(|| {
            let freeze = |freezes| if freezes { mariadb.freeze() } else { mariadb.thaw() };
            soak.trouble(freeze, || mariadb.kill(), || mariadb.start_again());
        });
        scope.spawn(|| {
            let freeze = |freezes| if freezes { postgres.freeze() } else { postgres.thaw() };
            soak.trouble(freeze, || postgres.kill(), || postgres.start_again());
        });
        *parts.lock().expect("whole") = soak.watch(long.0.id(), begin);
    });
    let status = long.0.wait().expect("ours");
    assert!(status.success(), "the long process ended with {status}: {}", soak.log());

    let counts = account(&folder.path().join("records"));
    let ids: u64 = counts.values().map(|count| count.0).sum();
    let parts = parts.into_inner().expect("whole");
    eprintln!(
        "soak of {seconds} s: {ids} ids, 0 twice; {:?} processes, {:?} killed, {:?} outages of servers",
        soak.processes, soak.kills, soak.outages
    );
    for (space, (ids, ranges)) in &counts {
        eprintln!("| {space} | {ids} | {ranges} |");
    }
    eprintln!("memory (KiB) and open files in each sixth of the time: {parts:?}");
    let errors = fs::read_to_string(folder.path().join("errors")).unwrap_or_default();
    assert!(errors.is_empty(), "errors that do not pass:\n{errors}");
    for kind in ["uids", "segments"] {
        for store in ["Sqlite", "MySql", "Postgres"] {
            let (ids, _) = counts.get(&format!("{store}-{kind}")).copied().unwrap_or_default();
            assert!(ids > 0, "no {kind} from {store}: {counts:?}");
        }
    }
    // Threads come and go with leases that are lost, and allocators keep some of what they had.
    let [_, early, .., late] = parts[..] else { unreachable!("six parts") };
    assert!(late.0 <= early.0 + early.0 / 4 + 8 * 1024, "memory grows: {parts:?}");
    assert!(late.1 <= early.1 + 16, "open files grow: {parts:?}");
}
