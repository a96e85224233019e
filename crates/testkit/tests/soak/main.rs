//! A soak: one long-lived process and many short-lived ones take ids of all kinds of generators from three stores.
//! Meanwhile clocks are set, processes are killed and forked, and servers are killed, frozen and restarted. Every id is
//! accounted for, as ranges, so that there can be very many. The long-lived process must not grow.
//!
//! It takes 20 s, or UIDRING_SOAK_SECONDS; `scripts/soak` runs it for an hour.
#![cfg(target_os = "linux")]

mod lives;

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, thread};

use uidring_mysql::MySqlStore;
use uidring_postgres::PostgresStore;
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::child::{Child, this_test};
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::plan::{Counts, Fault, Plan};
use uidring_testkit::postgres::Postgres;
use uidring_testkit::record::Account;
use uidring_testkit::suite::Server;

use crate::lives::{ORDERS, Orders};

const SECONDS: &str = "UIDRING_SOAK_SECONDS";

/// Many ids per range, so that there are few ranges.
const STEP: u64 = 1_000_000;

/// How long a process may take to end on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Faults of each server.
const SERVERS: Plan<'_> = Plan {
    calm: 2_000..20_000,
    faults: &[(1, Fault::Freeze(50..3_000)), (1, Fault::Kill(50..3_000))],
};

/// The process's body: does nothing unless the soak started it.
#[test]
fn process() {
    if let Some(orders) = Orders::read() {
        lives::live(&orders);
    }
}

fn create(store: (impl WorkerTable, impl LeaseTable, impl SegmentTable)) {
    let (nodes, leases, segments) = store;
    nodes.create().expect("made");
    leases.create().expect("made");
    segments.create_tag(&NewSegmentTag::new("soak", STEP).expect("allowed")).expect("made");
}

struct Soak {
    folder: PathBuf,
    mysql: String,
    postgres: String,
    end: Instant,
    counts: Counts,
}

impl Soak {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn spawn(&self, lives: Duration, lives_long: bool) -> Child {
        self.counts.add("processes");
        let Self { folder, mysql, postgres, .. } = self;
        let folder = folder.to_str().expect("UTF-8");
        let millis = lives.as_millis();
        let orders = format!("{folder}\n{mysql}\n{postgres}\n{millis}\n{lives_long}");
        let mut command = this_test("process");
        let log = OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("a file");
        command.env(ORDERS, orders).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Child::spawn(&mut command)
    }

    /// Runs short lives one after another, and kills every second process on average.
    fn lives(&self) {
        while !self.is_over() {
            let mut life = Duration::from_millis(fastrand::u64(100..5_000));
            life = life.min(self.end.saturating_duration_since(Instant::now()));
            let mut process = self.spawn(life, false);
            if fastrand::bool() {
                thread::sleep(life.mul_f64(fastrand::f64()));
                self.counts.add("killed");
                drop(process);
            } else {
                let status = process.wait(LIMIT).expect("it ends");
                assert!(status.success(), "a process ended with {status}: {}", self.log());
            }
        }
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| !line.contains("WARN")).collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    fn trouble(&self, server: &dyn Server) {
        SERVERS.trouble(server, &self.counts, || !self.is_over(), |_, _| ());
    }

    /// Returns memory in KiB and open files of a process: the maximum in each part of its life.
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
        counts: Counts::default(),
    };
    let store = SqliteStore::new(folder.path().join("sqlite.db")).create(true);
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
        scope.spawn(|| soak.trouble(&*mariadb));
        scope.spawn(|| soak.trouble(&*postgres));
        *parts.lock().expect("whole") = soak.watch(long.id(), begin);
    });
    let status = long.wait(LIMIT).expect("it ends");
    assert!(status.success(), "the long process ended with {status}: {}", soak.log());

    let account = Account::read(&folder.path().join("records"));
    let counts = account.spaces;
    let ids: u64 = counts.values().map(|count| count.0).sum();
    let parts = parts.into_inner().expect("whole");
    eprintln!("soak of {seconds} s: {ids} ids, {} twice; {}", account.twice.len(), soak.counts);
    assert!(account.twice.is_empty(), "ids that came twice: {:#?}", account.twice);
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
    // Threads come and go with lost leases, and allocators keep some memory.
    let [_, early, .., late] = parts[..] else { unreachable!("six parts") };
    assert!(late.0 <= early.0 + early.0 / 4 + 8 * 1024, "memory grows: {parts:?}");
    assert!(late.1 <= early.1 + 16, "open files grow: {parts:?}");
}
