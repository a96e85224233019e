//! Three servers of a Galera cluster, each of which takes writes and all of which come and go: nothing that
//! they hand out comes twice.
//!
//! Each fault comes once, or for as many seconds as UIDRING_STORM_SECONDS says; `scripts/storm` runs it for long.
#![cfg(target_os = "linux")]

use std::collections::HashSet;
use std::sync::{Barrier, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::{Bits, Layout, StoreErrorKind, Tick};
use uidring_mysql::{MySqlError, MySqlStore};
use uidring_store::{LeaseTable, NewSegmentTag, SegmentTable, WorkerRange, WorkerTable};
use uidring_testkit::chain;
use uidring_testkit::log::Log;
use uidring_testkit::mariadb::{Database, Galera};
use uidring_testkit::storm::{self, Fault};

const NODES: usize = 3;

const STEP: u64 = 5;

const LASTS: Duration = Duration::from_secs(2);

/// How long a generator lives: starts are many.
const LIFE: Duration = Duration::from_millis(500);

/// For nodes that find each other again on a busy machine.
const BOUND: Duration = Duration::from_secs(120);

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

const FAULTS: [Fault<Galera>; 5] = [
    Fault {
        what: "a node is killed",
        act: |cluster, n| cluster.node(n).kill(),
        undo: |cluster, n| cluster.restart(n),
    },
    Fault {
        what: "a node stands still",
        act: |cluster, n| cluster.node(n).freeze(),
        undo: |cluster, n| cluster.node(n).thaw(),
    },
    Fault {
        what: "a node is cut off from the others, and not from clients",
        act: |cluster, n| cluster.network().isolate(n),
        undo: |cluster, n| cluster.network().rejoin(n),
    },
    Fault {
        what: "a node's link is down",
        act: |cluster, n| cluster.network().unplug(n),
        undo: |cluster, n| cluster.network().plug_in(n),
    },
    // The last, which only a long storm has: what such a crash may lose is not up to this program.
    Fault {
        what: "all nodes are killed at once",
        act: |cluster, _| {
            thread::scope(|scope| {
                for node in (0..NODES).map(|node| cluster.node(node)) {
                    scope.spawn(|| node.kill());
                }
            });
        },
        undo: |cluster, _| cluster.restart_all(),
    },
];

#[test]
fn nothing_comes_twice_while_nodes_come_and_go() {
    let _alone = alone();
    log().clear();
    let (mut cluster, database) = start();
    let stores: Vec<_> = (0..NODES).map(|node| store(&cluster, &database, node)).collect();
    let taken = storm::run(
        "Galera",
        (3 * NODES, BOUND),
        &mut cluster,
        if storm::is_long() { &FAULTS } else { &FAULTS[..4] },
        |_| Duration::from_millis(fastrand::u64(200..4_000)),
        |taken, holder| {
            let store = &stores[holder / 3];
            match holder % 3 {
                0 => taken.assign(holder, &store.worker_nodes(), layout()),
                1 => taken.hold_leases(holder, &store.leases(), layout(), (LASTS, LIFE)),
                _ => taken.load(holder, &mut store.segments(), "t", STEP),
            }
        },
    );
    eprintln!("undone without a word: {}", log().lines("undone a transaction"));
    // Each node serves, and has all that any of them has handed out.
    for store in stores {
        let store = store.deadline(Duration::from_secs(60));
        WorkerTable::assign(&store.worker_nodes(), &layout()).expect("served");
        let rows: HashSet<u64> =
            store.worker_nodes().list().expect("listed").iter().map(|row| row.id).collect();
        for (id, by) in taken.numbers("worker ids") {
            assert!(rows.contains(&id), "{store} has lost worker id {id} of {by}");
        }
        let max_id = store.segments().list_tags().expect("listed")[0].max_id.expect("a number");
        let last = taken.numbers("segment ids").iter().map(|(id, _)| *id).max();
        assert!(last < u64::try_from(max_id).ok(), "{last:?} {max_id}");
        storm::assert_within_horizons(&store.leases(), &taken.last_ticks(layout()));
    }
}

/// No lock of one node's holds on another: what a start has not seen of the range, its recording sees of the start.
#[test]
fn a_start_on_another_node_beside_the_recording_is_noticed() {
    let _alone = alone();
    let (cluster, _first) = start();
    let range: WorkerRange = "100-199".parse().expect("a range");
    for round in 0..8 {
        let database = cluster.node(0).database();
        let nodes = |node| {
            let store = store(&cluster, &database, node).deadline(Duration::from_secs(60));
            store.worker_nodes()
        };
        nodes(0).create().expect("made");
        let together = Barrier::new(5);
        let (recorded, ids) = thread::scope(|scope| {
            let starts = [1, 1, 2, 2].map(|node| {
                let (nodes, together) = (&nodes, &together);
                scope.spawn(move || {
                    together.wait();
                    thread::sleep(Duration::from_millis(2 * round));
                    let id = nodes(node).assign(&layout());
                    id.unwrap_or_else(|error| panic!("{}", chain(&error)))
                })
            });
            together.wait();
            let recorded = nodes(0).record_range(range);
            (recorded, starts.map(|start| start.join().expect("no panic")))
        });
        let is_inside = ids.iter().all(|id| range.contains(*id));
        assert_eq!(recorded.is_ok(), is_inside, "{ids:?}, {recorded:?}");
        assert_eq!(HashSet::from(ids).len(), ids.len(), "{ids:?}");
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
        let Some(MySqlError::Server { kind, .. }) = error.store() else { panic!("{error:?}") };
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
