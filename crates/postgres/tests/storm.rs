//! A primary and its synchronous standby, each in a network namespace of its own: servers are killed, frozen
//! and cut off, and the standby takes the primary's place, even while the primary still answers. See
//! `uidring_testkit::storm`.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::{Bits, Layout, Tick};
use uidring_postgres::PostgresStore;
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::network::Network;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::request;
use uidring_testkit::storm::{self, Taken};

/// Holders of leases; two more take worker ids and segments.
const LEASES: usize = 3;

/// Longer than the lease.
const FAULT: Duration = Duration::from_secs(3);

const LASTS: Duration = Duration::from_secs(2);

/// For the deadlines of operations, a server's recovery, and a busy machine.
const BOUND: Duration = Duration::from_secs(30);

/// Those of a server that finds out soon that another is away.
const SETTINGS: &[&str] =
    &["wal_receiver_timeout=2s", "wal_sender_timeout=20s", "wal_retrieve_retry_interval=200ms"];

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 2, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

struct Pair {
    network: Arc<Network>,
    servers: [Arc<Postgres>; 2],
    primary: usize,
    database: Database,
}

impl Pair {
    fn new() -> Self {
        let network = Network::new(2);
        let host = |number| Some(network.host(number));
        let primary = Postgres::start_on(host(0), SETTINGS);
        let database = primary.database();
        let store = PostgresStore::from_url(&database.url()).expect("a URL");
        store.leases().create().expect("made");
        // Before others use up the counter that they come from.
        let lease = |_| store.leases().lease(&request(layout()), &LeaseOptions::default());
        let all: Vec<_> = (0..LEASES).map(lease).collect();
        all.into_iter().for_each(|lease| lease.expect("free").release().expect("released"));
        let segments = store.segments().create_table_if_missing(true);
        segments.create_tag(&NewSegmentTag::new("t", 5).expect("allowed")).expect("created");
        let standby = primary.standby_on(host(1), SETTINGS);
        let pair = Self { network, servers: [primary, standby], primary: 0, database };
        pair.follow();
        pair
    }

    fn primary(&self) -> &Arc<Postgres> {
        &self.servers[self.primary]
    }

    fn standby(&self) -> &Arc<Postgres> {
        &self.servers[1 - self.primary]
    }

    /// From now on, the primary commits nothing without its standby.
    fn follow(&self) {
        self.primary().set("synchronous_standby_names", "standby");
        let begin = Instant::now();
        while self.primary().query("SELECT sync_state FROM pg_stat_replication") != [["sync"]] {
            assert!(begin.elapsed() < BOUND, "the standby does not follow");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Both servers, of which the one that takes rows is used.
    fn store(&self) -> PostgresStore {
        let hosts = [0, 1].map(|number| format!("{}:5432", self.network.address(number)));
        let url = self.database.url_at(&hosts.join(","));
        let store = PostgresStore::from_url(&url).expect("a URL").synchronous_cluster();
        store.deadline(Duration::from_secs(4)).connect_timeout(Duration::from_secs(2))
    }

    /// The standby takes the place of a primary that is down, whose host gets a new standby.
    fn take_over(&mut self) {
        self.primary = 1 - self.primary;
        let number = 1 - self.primary;
        let host = self.network.host(number);
        self.servers[number] = self.primary().standby_on(Some(host), SETTINGS);
        self.follow();
    }
}

fn primary_is_killed(pair: &mut Pair) {
    pair.primary().kill();
    thread::sleep(FAULT);
    pair.primary().start_again();
}

fn primary_stands_still(pair: &mut Pair) {
    pair.primary().freeze();
    thread::sleep(FAULT);
    pair.primary().thaw();
}

/// For clients and for the standby.
fn primary_is_cut_off(pair: &mut Pair) {
    pair.network.unplug(pair.primary);
    thread::sleep(FAULT);
    pair.network.plug_in(pair.primary);
}

/// No commit ends.
fn standby_is_cut_off(pair: &mut Pair) {
    pair.network.unplug(1 - pair.primary);
    thread::sleep(FAULT);
    pair.network.plug_in(1 - pair.primary);
}

fn standby_is_killed(pair: &mut Pair) {
    pair.standby().kill();
    thread::sleep(FAULT);
    pair.standby().start_again();
}

fn standby_takes_over_from_a_dead_primary(pair: &mut Pair) {
    pair.primary().kill();
    pair.standby().promote();
    pair.take_over();
}

/// It refuses no connection, and answers nothing.
fn standby_takes_over_from_a_frozen_primary(pair: &mut Pair) {
    pair.primary().freeze();
    pair.standby().promote();
    thread::sleep(FAULT);
    pair.primary().kill();
    pair.take_over();
}

/// Clients reach both, and each takes rows; the old one alone can confirm none.
fn two_primaries(pair: &mut Pair) {
    pair.network.isolate(pair.primary);
    pair.standby().promote();
    thread::sleep(FAULT);
    pair.primary().kill();
    pair.network.rejoin(pair.primary);
    pair.take_over();
}

fn hold(taken: &Taken, holder: usize, store: &PostgresStore) {
    match holder {
        0..LEASES => taken.hold_leases(holder, &store.leases(), layout(), LASTS),
        LEASES => {
            while !taken.is_over() {
                if let Ok(worker_id) = store.worker_nodes().assign(&Layout::UID_GENERATOR) {
                    taken.note(holder, "worker ids", [worker_id]);
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
        _ => {
            let mut segments = store.segments();
            let wanted = [SegmentRequest { tag: "t".into(), step: 5 }];
            while !taken.is_over() {
                segments.load(&wanted, &mut |_, loaded| {
                    if let Ok(range) = loaded {
                        taken.note(holder, "segment ids", range.start..range.end);
                    }
                });
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

#[test]
fn nothing_comes_twice_whatever_becomes_of_primary_and_standby() {
    let mut pair = Pair::new();
    let store = pair.store();
    let last = storm::run(
        "PostgreSQL",
        layout(),
        (LEASES + 2, BOUND),
        &mut pair,
        &[
            ("the primary is killed", &primary_is_killed),
            ("the primary stands still", &primary_stands_still),
            ("the primary is cut off", &primary_is_cut_off),
            ("the standby is cut off", &standby_is_cut_off),
            ("the standby is killed", &standby_is_killed),
            ("a dead primary is replaced", &standby_takes_over_from_a_dead_primary),
            ("a frozen primary is replaced", &standby_takes_over_from_a_frozen_primary),
            ("two primaries", &two_primaries),
        ],
        |taken, holder| hold(taken, holder, &store),
    );
    storm::assert_within_horizons(&store.leases(), &last);
}
