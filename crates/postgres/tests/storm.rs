//! A primary and its synchronous standby, each in a network namespace of its own: servers are killed, frozen
//! and cut off, and the standby takes the primary's place, even while the primary still answers. See
//! `uidring_testkit::storm`.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::{Bits, Layout, Tick};
use uidring_postgres::PostgresStore;
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable};
use uidring_testkit::network::Network;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::request;
use uidring_testkit::storm::{self, Fault, Servers, Taken};

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

/// Faults are about the primary.
impl Servers for Pair {
    fn choose(&self) -> usize {
        self.primary
    }
}

const FAULTS: [Fault<Pair>; 8] = [
    Fault {
        what: "the primary is killed",
        act: |pair, n| pair.servers[n].kill(),
        undo: |pair, n| pair.servers[n].start_again(),
    },
    Fault {
        what: "the primary stands still",
        act: |pair, n| pair.servers[n].freeze(),
        undo: |pair, n| pair.servers[n].thaw(),
    },
    Fault {
        what: "the primary is cut off from clients and from the standby",
        act: |pair, n| pair.network.unplug(n),
        undo: |pair, n| pair.network.plug_in(n),
    },
    Fault {
        what: "the standby is cut off, so that no commit ends",
        act: |pair, n| pair.network.unplug(1 - n),
        undo: |pair, n| pair.network.plug_in(1 - n),
    },
    Fault {
        what: "the standby is killed",
        act: |pair, n| pair.servers[1 - n].kill(),
        undo: |pair, n| pair.servers[1 - n].start_again(),
    },
    Fault {
        what: "a dead primary is replaced",
        act: |pair, n| {
            pair.servers[n].kill();
            pair.servers[1 - n].promote();
        },
        undo: |pair, _| pair.take_over(),
    },
    // It refuses no connection, and answers nothing.
    Fault {
        what: "a frozen primary is replaced",
        act: |pair, n| {
            pair.servers[n].freeze();
            pair.servers[1 - n].promote();
        },
        undo: |pair, n| {
            pair.servers[n].kill();
            pair.take_over();
        },
    },
    // Clients reach both, and each takes rows; the old one alone can confirm none.
    Fault {
        what: "two primaries",
        act: |pair, n| {
            pair.network.isolate(n);
            pair.servers[1 - n].promote();
        },
        undo: |pair, n| {
            pair.servers[n].kill();
            pair.network.rejoin(n);
            pair.take_over();
        },
    },
];

fn hold(taken: &Taken, holder: usize, store: &PostgresStore) {
    match holder {
        0..LEASES => {
            taken.hold_leases(holder, &store.leases(), layout(), (LASTS, Duration::MAX));
        }
        LEASES => taken.assign(holder, &store.worker_nodes(), Layout::UID_GENERATOR),
        _ => taken.load(holder, &mut store.segments(), "t", 5),
    }
}

#[test]
fn nothing_comes_twice_whatever_becomes_of_primary_and_standby() {
    let mut pair = Pair::new();
    let store = pair.store();
    let taken = storm::run(
        "PostgreSQL",
        (LEASES + 2, BOUND),
        &mut pair,
        &FAULTS,
        |_| FAULT,
        |taken, holder| hold(taken, holder, &store),
    );
    storm::assert_within_horizons(&store.leases(), &taken.last_ticks(layout()));
}
