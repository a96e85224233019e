//! Many starts at once: as many as there are worker ids have one each, and the others learn that there are
//! no more. 100 of them, or as many as `UIDRING_HERD` says.

use std::collections::BTreeSet;
use std::env;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::Layout;
use uidring::worker::Lease;

use super::counted::Counted;
use super::setting::{LONG, Setting, assert_none_free, assign};
use super::store::Store;
use crate::chain;

const STARTS: &str = "UIDRING_HERD";

fn starts() -> usize {
    env::var(STARTS).map_or(100, |text| text.parse().expect("a number"))
}

/// Each of them in a thread of its own, as soon as all are there.
fn at_once<T: Send>(start: impl Fn() -> T + Sync) -> Vec<T> {
    let (together, done) = (Barrier::new(starts()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..starts() {
            scope.spawn(|| {
                together.wait();
                let one = start();
                done.lock().expect("no panic").push(one);
            });
        }
    });
    done.into_inner().expect("no panic")
}

/// How many bits have more worker ids than there are starts.
fn bits() -> u8 {
    u8::try_from(usize::BITS - starts().leading_zeros()).expect("few")
}

pub fn each_of_many_starts_has_a_worker_id(store: &'static dyn Store) {
    let setting = Setting::alone(store);
    let counted = Counted::of(&setting);
    let begin = Instant::now();
    let all = at_once(|| assign(store, &counted.place(&setting), Layout::UID_GENERATOR));
    let took = begin.elapsed();
    let mut ids = BTreeSet::new();
    for id in all {
        let id = id.unwrap_or_else(|error| panic!("{}", chain(&error)));
        assert!(ids.insert(id), "{id} twice");
    }
    eprintln!("{} starts: {took:?}, {counted}", starts());
}

/// More than enough are free, all of which were used before: no start fails, or takes what another has.
pub fn each_of_many_starts_has_a_lease_where_more_are_free(store: &'static dyn Store) {
    let setting = Setting::alone(store).worker_bits(bits() + 1);
    let taken = setting.take(starts() + starts() / 4);
    let free: BTreeSet<_> = taken.iter().map(Lease::worker_id).collect();
    drop(taken);
    let counted = Counted::of(&setting);
    let begin = Instant::now();
    let all = at_once(|| setting.lease_at(&counted.place(&setting), LONG, Duration::ZERO));
    let took = begin.elapsed();
    let mut ids = BTreeSet::new();
    for lease in &all {
        let lease = lease.as_ref().unwrap_or_else(|error| panic!("{}", chain(error)));
        assert!(ids.insert(lease.worker_id()), "{lease:?} twice");
    }
    assert!(ids.is_subset(&free), "a new worker id was spent: {ids:?}");
    eprintln!("{} starts: {took:?}, {counted}", starts());
}

/// Half as many as starts are free, and the layout has no others.
pub fn as_many_starts_as_leases_are_free_have_one(store: &'static dyn Store) {
    let setting = Setting::alone(store).worker_bits(bits() - 1);
    let mut given_back = setting.take(usize::MAX);
    let _held = given_back.split_off(given_back.len() / 2);
    let free = given_back.len();
    drop(given_back);
    let counted = Counted::of(&setting);
    let begin = Instant::now();
    let all = at_once(|| setting.lease_at(&counted.place(&setting), LONG, Duration::ZERO));
    let took = begin.elapsed();
    let mut ids = BTreeSet::new();
    let mut refused = 0;
    for lease in &all {
        match lease {
            Ok(lease) => assert!(ids.insert(lease.worker_id()), "{lease:?} twice"),
            Err(error) => {
                assert_none_free(error);
                refused += 1;
            }
        }
    }
    let few = free.min(starts());
    assert_eq!((ids.len(), refused), (few, starts() - few), "no false exhaustion");
    eprintln!("{} starts on {free} free leases: {took:?}, {counted}", starts());
}
