//! Three servers of a Galera cluster, each of which takes writes and all of which come and go: nothing that
//! they hand out comes twice.
//!
//! They come and go for 10 s, or as many as UIDRING_STORM_SECONDS says; `scripts/storm` runs it for long.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::{Bits, CachedUidGenerator, Error, Layout, StoreErrorKind, Tick};
use uidring_mysql::{MySqlError, MySqlStore};
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::log::Log;
use uidring_testkit::mariadb::{Database, Galera};
use uidring_testkit::{chain, namespace, request, storm};

const NODES: usize = 3;

const STEP: u64 = 5;

const SECONDS: &str = "UIDRING_STORM_SECONDS";

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 16, sequence: 6 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// The tables by way of one node.
fn store(cluster: &Galera, database: &Database, node: usize) -> MySqlStore {
    let store = MySqlStore::from_url(&database.url_at(&cluster.address(node))).expect("a URL");
    store.connect_timeout(Duration::from_secs(2)).deadline(Duration::from_secs(5))
}

/// A cluster with all tables and a tag.
fn start() -> (Galera, Database) {
    let cluster = Galera::start();
    let database = cluster.node(0).database();
    let store = store(&cluster, &database, 0).deadline(Duration::from_secs(60));
    store.leases().create().expect("made");
    let segments = store.segments().create_table_if_missing(true);
    segments.create_tag(&NewSegmentTag::new("t", STEP).expect("allowed")).expect("made");
    (cluster, database)
}

/// The processors are few for two clusters at once.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process has one.
fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(Log::start)
}

/// By which node something was handed out, when, and what went on as it was asked for.
#[derive(Clone)]
struct Handed {
    node: usize,
    asked: Duration,
    got: Duration,
    fault: String,
}

impl fmt::Display for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, asked, got, fault } = self;
        write!(f, "node {node}, {asked:?} to {got:?} ({fault})")
    }
}

/// All that was handed out of one kind.
struct History(Mutex<Vec<(u64, Handed)>>);

impl History {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn add(&self, ids: impl IntoIterator<Item = u64>, handed: &Handed) {
        let ids = ids.into_iter().map(|id| (id, handed.clone()));
        self.0.lock().expect("no panic").extend(ids);
    }

    fn assert_once(&self, what: &str) {
        let all = self.0.lock().expect("no panic");
        storm::assert_once(what, &all);
        assert!(!all.is_empty(), "no {what} at all");
        let nodes: HashSet<_> = all.iter().map(|(_, handed)| handed.node).collect();
        eprintln!("{what}: {}, none twice, from {} nodes", all.len(), nodes.len());
    }
}

/// What the clients do, until it is over.
struct Storm {
    begin: Instant,
    is_over: AtomicBool,
    fault: Mutex<String>,
    faults: Mutex<BTreeMap<String, u32>>,
    workers: History,
    uids: History,
    ranges: History,
    errors: Mutex<BTreeMap<String, u32>>,
}

impl Storm {
    fn new() -> Self {
        Self {
            begin: Instant::now(),
            is_over: AtomicBool::new(false),
            fault: Mutex::default(),
            faults: Mutex::default(),
            workers: History::new(),
            uids: History::new(),
            ranges: History::new(),
            errors: Mutex::default(),
        }
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn asked(&self, node: usize) -> Handed {
        let fault = self.fault.lock().expect("no panic").clone();
        let asked = self.begin.elapsed();
        Handed { node, asked, got: asked, fault }
    }

    fn got(&self, handed: Handed) -> Handed {
        Handed { got: self.begin.elapsed(), ..handed }
    }

    /// Whatever becomes of the nodes, waiting would help.
    fn refused(&self, error: &Error) {
        let may_pass = match error {
            Error::Store(error) => error.may_pass(),
            Error::LeaseLost { .. } => true,
            _ => false,
        };
        assert!(may_pass, "{error:?}");
        *self.errors.lock().expect("no panic").entry(said(error)).or_default() += 1;
    }

    fn assign(&self, store: &MySqlStore, node: usize) {
        while self.goes_on() {
            let asked = self.asked(node);
            match store.worker_nodes().assign(&layout()) {
                Ok(id) => self.workers.add([id], &self.got(asked)),
                Err(error) => self.refused(&error),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn lease(&self, store: &MySqlStore, node: usize) {
        let options = LeaseOptions::default().lasts(Duration::from_secs(2));
        while self.goes_on() {
            let asked = self.asked(node);
            let lease = match store.leases().lease(&request(layout()), &options) {
                Ok(lease) => lease,
                Err(error) => {
                    self.refused(&error);
                    continue;
                }
            };
            let builder = CachedUidGenerator::builder().layout(layout()).worker(lease);
            let generator = match builder.namespace(namespace::fresh()).build() {
                Ok(generator) => generator,
                Err(error) => {
                    self.refused(&error);
                    continue;
                }
            };
            let until = Instant::now() + Duration::from_millis(500);
            while Instant::now() < until {
                let taken = (0..20).map_while(|_| generator.next_uid().ok().map(u64::from));
                self.uids.add(taken, &self.got(asked.clone()));
                thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn load(&self, store: &MySqlStore, node: usize) {
        let mut segments = store.segments();
        while self.goes_on() {
            let asked = self.asked(node);
            let wanted = [SegmentRequest { tag: "t".into(), step: STEP }];
            segments.load(&wanted, &mut |_, loaded| match loaded {
                Ok(loaded) => self.ranges.add(loaded.start..loaded.end, &self.got(asked.clone())),
                Err(error) => {
                    // That the row is behind what this client has had is one of the errors.
                    let text = said(&error);
                    *self.errors.lock().expect("no panic").entry(text).or_default() += 1;
                }
            });
        }
    }

    /// Lets one node, or all, go and come back, in a way of several, and waits until all have found each other.
    fn fault(&self, cluster: &Galera, random: &mut fastrand::Rng) {
        let (node, pause) = (random.usize(0..NODES), Duration::from_millis(random.u64(200..4_000)));
        // What a crash of all may lose is not up to this program.
        let kinds = ["kill", "freeze", "isolate", "unplug", "crash"];
        let count = if env::var(SECONDS).is_ok() { kinds.len() } else { kinds.len() - 1 };
        let kind = random.choice(&kinds[..count]).copied().expect("some");
        let say = |text: String| *self.fault.lock().expect("no panic") = text;
        say(format!("{kind} {node}"));
        *self.faults.lock().expect("no panic").entry(kind.into()).or_default() += 1;
        match kind {
            "kill" => cluster.node(node).kill(),
            "crash" => thread::scope(|scope| {
                for node in 0..NODES {
                    scope.spawn(move || cluster.node(node).kill());
                }
            }),
            "freeze" => cluster.node(node).freeze(),
            "isolate" => cluster.network().isolate(node),
            _ => cluster.network().unplug(node),
        }
        thread::sleep(pause);
        say(format!("end of {kind} {node}"));
        match kind {
            "kill" => cluster.restart(node),
            "crash" => cluster.restart_all(),
            "freeze" => cluster.node(node).thaw(),
            "isolate" => cluster.network().rejoin(node),
            _ => cluster.network().plug_in(node),
        }
        (0..NODES).for_each(|node| cluster.wait_for(node, NODES));
        say("after it".into());
    }
}

/// Ends the clients when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An error without what differs each time.
fn said(error: &(dyn std::error::Error + 'static)) -> String {
    let text = chain(error);
    text.split(" (given up").next().unwrap_or_default().to_owned()
}

#[test]
fn nothing_comes_twice_while_nodes_come_and_go() {
    let _alone = alone();
    let seconds = env::var(SECONDS);
    let seconds = seconds.map_or(10, |text| text.parse().expect("seconds"));
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}, {seconds} s");
    let mut random = fastrand::Rng::with_seed(seed);
    log().clear();
    let (cluster, database) = start();
    let stores: Vec<_> = (0..NODES).map(|node| store(&cluster, &database, node)).collect();
    let storm = Storm::new();
    thread::scope(|scope| {
        for (node, store) in stores.iter().enumerate() {
            let storm = &storm;
            scope.spawn(move || storm.assign(store, node));
            scope.spawn(move || storm.lease(store, node));
            scope.spawn(move || storm.load(store, node));
        }
        // A panic must not leave the clients.
        let _over = Over(&storm.is_over);
        while storm.begin.elapsed() < Duration::from_secs(seconds) {
            thread::sleep(Duration::from_millis(random.u64(200..1_000)));
            storm.fault(&cluster, &mut random);
        }
    });
    eprintln!("faults: {:?}", storm.faults.lock().expect("no panic"));
    for (text, count) in &*storm.errors.lock().expect("no panic") {
        eprintln!("{count} times: {text}");
    }
    eprintln!("undone without a word: {}", log().lines("undone a transaction"));
    storm.workers.assert_once("worker ids");
    storm.uids.assert_once("uids");
    storm.ranges.assert_once("numbers of segments");
    // Each node serves, and has all that any of them has handed out.
    for store in stores {
        let store = store.deadline(Duration::from_secs(60));
        WorkerTable::assign(&store.worker_nodes(), &layout()).expect("served");
        let rows: HashSet<u64> =
            store.worker_nodes().list().expect("listed").iter().map(|row| row.id).collect();
        let workers = storm.workers.0.lock().expect("no panic");
        for (id, handed) in &*workers {
            assert!(rows.contains(id), "{store} has lost worker id {id}: {handed}");
        }
        let max_id = store.segments().list_tags().expect("listed")[0].max_id.expect("a number");
        let ranges = storm.ranges.0.lock().expect("no panic");
        let last = ranges.iter().map(|(id, _)| *id).max().unwrap_or_default();
        assert!(u64::try_from(max_id).is_ok_and(|max_id| last < max_id), "{last} {max_id}");
    }
}

/// What a cluster does to a client that names one of its nodes.
#[test]
fn a_cluster_is_a_risk_and_a_node_without_a_majority_refuses() {
    let _alone = alone();
    log().clear();
    let (cluster, database) = start();
    let log = log();
    assert_eq!(log.lines("a node of a Galera cluster"), 1, "{}", log.text());
    let patient = |node| store(&cluster, &database, node).deadline(Duration::from_secs(60));
    let refusal = |store: &MySqlStore| {
        let error = WorkerTable::assign(&store.worker_nodes(), &layout()).expect_err("refused");
        let Some(MySqlError::Database { kind, .. }) = error.store() else { panic!("{error:?}") };
        (*kind, chain(&error))
    };
    let (_, text) = refusal(&patient(1).require_durability());
    assert!(text.contains("several crash at about the same time"), "{text}");

    // The cluster does not have what such an engine stores, and the server confirms it.
    let alter = |engine: &str| {
        let table = format!("{}.leaf_alloc", database.name());
        cluster.node(0).execute(&format!("ALTER TABLE {table} ENGINE = {engine}"));
    };
    alter("Aria");
    let mut segments = store(&cluster, &database, 0).segments();
    let wanted = [SegmentRequest { tag: "t".into(), step: STEP }];
    segments.load(&wanted, &mut |_, loaded| {
        let text = chain(&loaded.expect_err("not in the cluster"));
        assert!(text.contains("undone a transaction"), "{text}");
    });
    alter("InnoDB");
    segments.load(&wanted, &mut |_, loaded| {
        loaded.expect("in the cluster");
    });

    cluster.network().isolate(2);
    cluster.wait_for(2, 1);
    let (kind, text) = refusal(&store(&cluster, &database, 2).deadline(Duration::from_secs(2)));
    assert!(text.contains("a node of the majority") && text.contains("1047"), "{text}");
    assert_eq!(kind, StoreErrorKind::Unreachable);
    let before = WorkerTable::assign(&patient(0).worker_nodes(), &layout()).expect("a majority");
    cluster.network().rejoin(2);
    let after = WorkerTable::assign(&patient(2).worker_nodes(), &layout()).expect("back");
    assert!(after > before, "{after} {before}");

    for option in ["pc.ignore_sb", "pc.ignore_quorum"] {
        let set = |value| {
            let options = format!("SET GLOBAL wsrep_provider_options = '{option}={value}'");
            cluster.node(0).execute(&options);
        };
        set(true);
        log.clear();
        WorkerTable::assign(&patient(0).worker_nodes(), &layout()).expect("only a warning");
        assert_eq!(log.lines(&format!("{option} is on")), 1, "{}", log.text());
        set(false);
    }
}
