//! Many starts at once, 100 or `UIDRING_HERD`: each gets its own worker id while there are some, and the others learn
//! that there are no more.

use std::collections::BTreeSet;
use std::env;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::worker::Lease;
use uidring::{Error, Layout};

use super::counted::Counted;
use super::setting::{LONG, Setting, assert_none_free, assign, is_none_free, layout};
use super::store::Store;
use crate::chain;

const STARTS: &str = "UIDRING_HERD";

/// How many tables the starts of two layouts are tried on.
const TABLES: usize = 4;

fn starts() -> usize {
    env::var(STARTS).map_or(100, |text| text.parse().expect("a number"))
}

/// Runs the starts at once, each in its own thread.
fn at_once<T: Send>(start: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (together, done) = (&Barrier::new(starts()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for number in 0..starts() {
            let (start, done) = (&start, &done);
            scope.spawn(move || {
                together.wait();
                let one = start(number);
                done.lock().expect("no panic").push(one);
            });
        }
    });
    done.into_inner().expect("no panic")
}

/// Returns a number of bits with more worker ids than starts.
fn bits() -> u8 {
    u8::try_from(usize::BITS - starts().leading_zeros()).expect("few")
}

pub fn each_of_many_starts_has_a_worker_id(store: &'static dyn Store) {
    let setting = Setting::alone(store);
    let counted = Counted::of(&setting);
    let begin = Instant::now();
    let all = at_once(|_| assign(store, &counted.place(&setting), Layout::UID_GENERATOR));
    let took = begin.elapsed();
    let mut ids = BTreeSet::new();
    for id in all {
        let id = id.unwrap_or_else(|error| panic!("{}", chain(&error)));
        assert!(ids.insert(id), "{id} twice");
    }
    eprintln!("{} starts: {took:?}, {counted}", starts());
}

/// Two herds on one table. The first finds it empty, the second finds a free row for each start.
pub fn each_of_many_starts_has_a_lease_where_enough_are_free(store: &'static dyn Store) {
    let setting = Setting::alone(store).worker_bits(bits());
    // It must outlive the leases, which go back over it.
    let counted = Counted::of(&setting);
    let mut before = None;
    for _ in 0..2 {
        let (leases, errors) = herd(&setting, &counted);
        if let Some(error) = errors.first() {
            panic!("{} errors: {}", errors.len(), chain(error));
        }
        let ids: BTreeSet<_> = leases.iter().map(Lease::worker_id).collect();
        assert_eq!(ids.len(), starts(), "a worker id is held twice");
        let before = before.get_or_insert_with(|| ids.clone());
        assert_eq!(ids, *before, "a new worker id was spent while others were free");
        give_back(leases);
    }
}

/// The layout has fewer worker ids than there are starts. First all of them are free, then half.
pub fn as_many_starts_as_leases_are_free_have_one(store: &'static dyn Store) {
    let setting = Setting::alone(store).worker_bits(bits() - 1);
    let counted = Counted::of(&setting);
    let mut held: Vec<Lease> = Vec::new();
    for free in [None, Some(1), Some(2)] {
        let given_back = free.map_or(0, |part| held.len() / (part + 1));
        give_back(held.drain(..given_back).collect());
        let (leases, errors) = herd(&setting, &counted);
        errors.iter().for_each(assert_none_free);
        let all = leases.len() + held.len();
        assert!(free.is_none() || leases.len() == given_back, "{given_back} were free: {leases:?}");
        held.extend(leases);
        let ids: BTreeSet<_> = held.iter().map(Lease::worker_id).collect();
        assert_eq!(ids.len(), all, "a worker id is held twice");
        // Some stores have no worker id 0.
        let left = setting.layout().workers() - all as u64;
        assert!(left <= 1, "false exhaustion: {left} were left");
    }
    give_back(held);
}

/// Uids of two layouts may be equal, whatever their worker ids. Each round has a new table, because the first lease
/// decides.
pub fn starts_of_two_layouts_at_once_have_leases_of_one(store: &'static dyn Store) {
    for _ in 0..TABLES {
        let setting = Setting::shared(store);
        let layouts = [layout(bits()), layout(bits() + 1)];
        let lease = |of: usize| setting.lease_of(layouts[of]);
        let all = at_once(|number| (number % 2, lease(number % 2)));
        let (had, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, done)| done.is_ok());
        let of: BTreeSet<_> = had.iter().map(|(of, _)| *of).collect();
        assert_eq!(of.len(), 1, "layouts of {} leases; refused: {refused:?}", had.len());
        let ours = had[0].0;
        let error = refused.into_iter().find(|(of, _)| *of == ours);
        assert!(error.is_none(), "of the layout that others have: {error:?}");
        // The layout stays when no lease is held any more.
        give_back(had.into_iter().filter_map(|(_, done)| done.ok()).collect());
        let error = lease(1 - ours).expect_err("the leases are of another layout");
        assert!(!is_none_free(&error), "{}", chain(&error));
        lease(ours).expect("free");
    }
}

/// Starts a herd, and returns what it got.
fn herd(setting: &Setting, counted: &Counted) -> (Vec<Lease>, Vec<Error>) {
    counted.begin();
    let begin = Instant::now();
    let all = at_once(|_| setting.lease_at(&counted.place(setting), LONG, Duration::ZERO));
    let took = begin.elapsed();
    let (mut leases, mut errors) = (Vec::new(), Vec::new());
    for done in all {
        done.map_or_else(|error| errors.push(error), |lease| leases.push(lease));
    }
    eprintln!("{} starts, {} leases: {took:?}, {counted}", starts(), leases.len());
    (leases, errors)
}

/// Gives leases back, several at once, because each takes an operation.
fn give_back(leases: Vec<Lease>) {
    let mut leases: Vec<_> = leases.into_iter().map(Some).collect();
    thread::scope(|scope| {
        for part in leases.chunks_mut(starts().div_ceil(8)) {
            scope.spawn(|| part.fill_with(|| None));
        }
    });
}
