//! A cluster of three, each member in a network namespace of its own: members are killed, frozen and cut
//! off, while several holders take uids. Nothing comes twice, nothing is above the stored horizon, and soon
//! after each fault all holders go on.
//!
//! It takes each fault once, or as often as fits into the seconds of UIDRING_ETCD_STORM.

use std::collections::{HashMap, HashSet};
use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::{CachedUidGenerator, Error, Layout, TakeError};
use uidring_etcd::{EtcdStore, LeaseOptions, LeaseTable, WorkerTable};
use uidring_testkit::etcd::Etcd;
use uidring_testkit::{chain, namespace, request};

use crate::support::{small, tick};

/// As many as there are worker ids.
const HOLDERS: usize = 3;

const LASTS: Duration = Duration::from_secs(1);

/// Longer than the lease, so that all holders lose theirs if nobody renews it.
const FAULT: Duration = Duration::from_secs(2);

/// An election, the time that others have to watch a lost lease, and as much for a busy machine.
const BOUND: Duration = Duration::from_secs(10);

/// What is done to a cluster, and undone. Returns the member that it was done to.
type Fault = (&'static str, fn(&Etcd, usize), fn(&Etcd, usize));

const FAULTS: [Fault; 6] = [
    ("the leader is killed", Etcd::kill_member, Etcd::start_member),
    ("the leader is cut off from the members, and not from clients", Etcd::isolate, Etcd::rejoin),
    ("the leader's link is down", Etcd::unplug, Etcd::plug_in),
    ("the leader stands still", |c, n| c.signal(n, "STOP"), |c, n| c.signal(n, "CONT")),
    ("a follower's link is down", |c, n| c.unplug((n + 1) % 3), |c, n| c.plug_in((n + 1) % 3)),
    ("a majority is killed", kill_two, start_two),
];

fn kill_two(cluster: &Etcd, leader: usize) {
    cluster.kill_member(leader);
    cluster.kill_member((leader + 1) % 3);
}

fn start_two(cluster: &Etcd, leader: usize) {
    cluster.start_member(leader);
    cluster.start_member((leader + 1) % 3);
}

/// What all holders have taken.
#[derive(Default)]
struct Taken {
    uids: Mutex<Vec<u64>>,
    counts: [AtomicU64; HOLDERS],
    lost: AtomicU64,
    is_over: AtomicBool,
}

impl Taken {
    /// Takes uids with one lease after another.
    fn take(&self, holder: usize, store: &EtcdStore) {
        let options = LeaseOptions::default().lasts(LASTS).wait_for(Duration::from_secs(5));
        while !self.is_over.load(Ordering::Relaxed) {
            let build = || {
                let lease = store.leases().lease(&request(small()), &options)?;
                let builder = CachedUidGenerator::builder().layout(small()).worker(lease);
                // Holders stand for processes of different hosts.
                builder.namespace(namespace::fresh()).build()
            };
            match build() {
                Ok(generator) => self.hold(holder, &generator),
                Err(error) => assert!(may_pass(&error), "{}", chain(&error)),
            }
        }
    }

    fn hold(&self, holder: usize, generator: &CachedUidGenerator) {
        while !self.is_over.load(Ordering::Relaxed) {
            match generator.try_next_uid() {
                Ok(uid) => {
                    self.uids.lock().expect("no panic").push(uid.get());
                    self.counts[holder].fetch_add(1, Ordering::Relaxed);
                }
                Err(TakeError::LeaseLost) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(_) => {}
            }
            thread::sleep(Duration::from_micros(500));
        }
    }

    fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Waits until every holder has taken some more, and returns how long that took.
    fn progress(&self, what: &str) -> Duration {
        let (start, before) = (Instant::now(), self.counts());
        while self.counts().iter().zip(&before).any(|(now, before)| now <= before) {
            let took = start.elapsed();
            assert!(took < BOUND, "{what}: no progress, {before:?} to {:?}", self.counts());
            thread::sleep(Duration::from_millis(10));
        }
        start.elapsed()
    }
}

/// While a fault lasts, starts fail with errors that say so.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Store(error) => error.may_pass(),
        Error::LeaseLost { .. } => true,
        _ => false,
    }
}

#[test]
fn nothing_comes_twice_whatever_becomes_of_the_members() {
    let cluster = Etcd::cluster_in_namespaces();
    let store = EtcdStore::new(&cluster.endpoints()).expect("endpoints");
    let store = store.attempt_timeout(Duration::from_secs(1)).deadline(Duration::from_secs(3));
    let storm = env::var("UIDRING_ETCD_STORM").map(|text| text.parse().expect("seconds"));
    let end = Instant::now() + Duration::from_secs(storm.unwrap_or(0));
    let taken = Taken::default();
    thread::scope(|scope| {
        for holder in 0..HOLDERS {
            let (taken, store) = (&taken, &store);
            scope.spawn(move || taken.take(holder, store));
        }
        // A panic must not leave the holders.
        let _over = Over(&taken.is_over);
        taken.progress("at first");
        loop {
            for (what, act, undo) in FAULTS {
                let leader = cluster.leader();
                act(&cluster, leader);
                thread::sleep(FAULT);
                undo(&cluster, leader);
                let took = taken.progress(what);
                eprintln!("{what}: all go on after {took:?}; leases lost so far: {:?}", taken.lost);
            }
            if Instant::now() >= end {
                break;
            }
        }
    });
    let uids = taken.uids.into_inner().expect("no panic");
    let mut known = HashSet::new();
    let mut last: HashMap<u64, u64> = HashMap::new();
    for uid in &uids {
        assert!(known.insert(uid), "{uid} twice");
        let uid = uidring::Uid::try_from(*uid).expect("a uid");
        let fields = small().decode(uid).expect("of the layout");
        let last = last.entry(fields.worker_id).or_default();
        *last = (*last).max(tick(uid));
    }
    // A clean end has lowered the horizon to the last uid.
    for row in store.leases().list().expect("listed") {
        let horizon = row.horizon.map(|(tick, _)| tick);
        assert!(horizon >= last.get(&row.worker_id).copied(), "{row:?}: {last:?}");
    }
    eprintln!("uids: {}, twice: 0, leases lost: {:?}", uids.len(), taken.lost);
}

/// Ends the holders when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_client_with_the_minority_gets_an_error_that_may_pass_and_others_go_on() {
    let cluster = Etcd::cluster_in_namespaces();
    let deadline = Duration::from_secs(2);
    let leader = cluster.leader();
    let minority = EtcdStore::new(&cluster.endpoint(leader)).expect("endpoints").deadline(deadline);
    minority.worker_ids().assign(&Layout::UID_GENERATOR).expect("all is well");
    cluster.isolate(leader);
    let start = Instant::now();
    let error = minority.worker_ids().assign(&Layout::UID_GENERATOR).expect_err("a minority");
    let Error::Store(said) = &error else { panic!("{error:?}") };
    assert!(said.may_pass(), "{error:?}");
    assert!(error.to_string().contains("majority"), "{error}");
    assert!(start.elapsed() < deadline * 2, "{:?}", start.elapsed());
    let all = EtcdStore::new(&cluster.endpoints()).expect("endpoints");
    let id = all.worker_ids().assign(&Layout::UID_GENERATOR).expect("a majority");
    assert!(id > 1, "{id}");
    cluster.rejoin(leader);
    // What the minority was asked for may be executed now; it was spent.
    let later = minority.deadline(BOUND).worker_ids().assign(&Layout::UID_GENERATOR);
    assert!(later.expect("a majority again") > id);
}
