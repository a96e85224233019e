//! The contract of a recorded range of worker ids.

use std::collections::BTreeSet;
use std::env;
use std::io;
use std::process::Stdio;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use uidring::worker::Lease;
use uidring::{Error, Layout, StoreErrorKind};

use super::setting::{
    LONG, Setting, assert_none_free, assert_used_up, assign, kind, layout, place,
};
use super::store::Store;
use crate::chain;
use crate::child::{Child, this_test};

/// The store's address, for a process that takes all worker ids.
const ADDRESS: &str = "UIDRING_SUITE_RANGE";

/// Threads of a process that start at once.
const THREADS: usize = 6;

/// A layout with room for every range here.
fn wide() -> Layout {
    layout(8)
}

fn with_range(store: &'static dyn Store, first: u64, last: u64) -> Setting {
    let setting = Setting::shared(store).worker_bits(8);
    record(&setting, first, last).expect("recorded");
    setting
}

fn record(setting: &Setting, first: u64, last: u64) -> Result<(), Error> {
    setting.site().record_range(first, last)
}

#[track_caller]
fn refusal(setting: &Setting, first: u64, last: u64) -> String {
    let error = record(setting, first, last).expect_err("refused");
    assert_eq!(kind(&error), Some(StoreErrorKind::Conflict), "{}", chain(&error));
    chain(&error)
}

/// Takes worker ids until the range ends. Returns them and the error.
fn assign_all(store: &dyn Store, address: &str) -> (Vec<u64>, Error) {
    let mut all = Vec::new();
    loop {
        match assign(store, &place(address.to_owned()), wide()) {
            Ok(id) => all.push(id),
            Err(error) => return (all, error),
        }
    }
}

fn lease_all(setting: &Setting) -> Vec<Lease> {
    let mut all = Vec::new();
    loop {
        match setting.lease_for(LONG, Duration::ZERO) {
            Ok(lease) => all.push(lease),
            Err(error) => {
                assert_none_free(&error);
                return all;
            }
        }
    }
}

pub fn starts_begin_at_the_first_and_end_at_the_last(store: &'static dyn Store) {
    let setting = with_range(store, 100, 104);
    let (all, error) = assign_all(store, &setting.site().address(0));
    assert_eq!(all, [100, 101, 102, 103, 104]);
    assert_used_up(&error);
    for words in ["105", "100-104", "another range"] {
        assert!(chain(&error).contains(words), "{words}: {}", chain(&error));
    }
    setting.site().prune();
    assert_used_up(&setting.assign(wide()).expect_err("pruning frees none"));
}

pub fn leases_are_of_the_range(store: &'static dyn Store) {
    let setting = with_range(store, 100, 104);
    for _ in 0..2 {
        let ids: Vec<_> = lease_all(&setting).iter().map(Lease::worker_id).collect();
        let ids: BTreeSet<_> = ids.into_iter().collect();
        assert_eq!(ids, (100..=104).collect());
    }
    let held = lease_all(&setting);
    let text = chain(&setting.lease_for(LONG, Duration::ZERO).expect_err("all are held"));
    assert!(text.contains("of the 5 worker ids 100-104") && text.contains("5 are held"), "{text}");
    drop(held);
}

pub fn two_stores_have_no_worker_id_in_common(store: &'static dyn Store) {
    let settings = [with_range(store, 1, 5), with_range(store, 6, 10)];
    let mut starts = BTreeSet::new();
    let mut leases = BTreeSet::new();
    for setting in &settings {
        let held = lease_all(setting);
        for id in held.iter().map(Lease::worker_id) {
            assert!(leases.insert(id), "{id} is leased twice");
        }
        for id in assign_all(store, &setting.site().address(0)).0 {
            assert!(starts.insert(id), "{id} twice");
        }
    }
    assert_eq!(leases, (1..=10).collect());
    assert!(starts.is_empty() || starts == leases, "{starts:?}");
}

pub fn one_range_is_recorded_and_no_other(store: &'static dyn Store) {
    let setting = with_range(store, 100, 104);
    for _ in 0..2 {
        record(&setting, 100, 104).expect("the same");
        let text = refusal(&setting, 100, 105);
        assert!(text.contains("100-104") && text.contains("100-105"), "{text}");
        setting.assign(wide()).expect("left");
    }
    assert_eq!(setting.assign(wide()).expect("left"), 102);
}

pub fn a_range_without_what_was_handed_out_is_refused(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(8);
    assert_eq!(setting.assign(wide()).expect("left"), 1);
    let text = refusal(&setting, 100, 104);
    assert!(text.contains("up to 1 ") && text.contains("100-104"), "{text}");
    assert_eq!(setting.assign(wide()).expect("left"), 2);
    // Rows of earlier starts may be gone while their processes live.
    setting.site().prune();
    refusal(&setting, 2, 104);
    record(&setting, 1, 3).expect("it has all");
    assert_eq!(setting.assign(wide()).expect("left"), 3);
    assert_used_up(&setting.assign(wide()).expect_err("the end"));
}

pub fn a_range_that_the_layout_does_not_hold_is_used_up(store: &'static dyn Store) {
    let setting = with_range(store, 255, 300);
    assert_eq!(setting.assign(wide()).expect("the layout's last"), 255);
    let error = setting.assign(wide()).expect_err("beyond the layout");
    assert!(chain(&error).contains("over the layout's greatest, 255"), "{}", chain(&error));
    let setting = with_range(store, 300, 400);
    assert_used_up(&setting.assign(wide()).expect_err("beyond the layout"));
    assert_used_up(&setting.lease_for(LONG, Duration::ZERO).expect_err("beyond the layout"));
}

/// A start during the recording gets a worker id of the range or none, or the recording reports a conflict.
pub fn a_start_beside_the_recording_is_noticed(store: &'static dyn Store) {
    for round in 0..24 {
        let (first, last) = if round % 2 == 0 { (100, 199) } else { (1, 3) };
        let setting = Setting::shared(store).worker_bits(8);
        let together = Barrier::new(THREADS + 1);
        let (recorded, started) = thread::scope(|scope| {
            let start = |number| {
                let (setting, together) = (&setting, &together);
                scope.spawn(move || {
                    together.wait();
                    thread::sleep(Duration::from_millis(number * (round % 5)));
                    setting.assign(wide())
                })
            };
            let starts: Vec<_> = (0..THREADS as u64).map(start).collect();
            together.wait();
            let recorded = record(&setting, first, last);
            let started = starts.into_iter().map(|start| start.join().expect("no panic"));
            (recorded, started.collect::<Vec<_>>())
        });
        let mut ids = BTreeSet::new();
        for start in started {
            match start {
                Ok(id) => assert!(ids.insert(id), "{id} twice"),
                Err(error) => assert_used_up(&error),
            }
        }
        let is_inside = ids.iter().all(|id| (first..=last).contains(id));
        match recorded {
            Ok(()) => assert!(is_inside, "not noticed: {ids:?}"),
            Err(error) => {
                assert_eq!(kind(&error), Some(StoreErrorKind::Conflict), "{}", chain(&error));
                assert!(!is_inside, "{}: {ids:?}", chain(&error));
            }
        }
    }
}

/// Not a test by itself: a process whose threads take all worker ids. Returns whether it was ordered to.
pub fn child(store: &'static dyn Store) -> bool {
    let Ok(address) = env::var(ADDRESS) else { return false };
    for id in assign_together(store, &address) {
        println!("\nassigned {id}");
    }
    println!("\nended");
    true
}

fn assign_together(store: &'static dyn Store, address: &str) -> Vec<u64> {
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let (ids, error) = assign_all(store, address);
                assert_used_up(&error);
                all.lock().expect("no panic").extend(ids);
            });
        }
    });
    all.into_inner().expect("no panic")
}

/// `test` is the path of the test that calls [`child`].
pub fn herds_of_several_processes_have_each_once(store: &'static dyn Store, test: &str) {
    let setting = with_range(store, 100, 139);
    let (_, test) = test.split_once("::").expect("a crate and more");
    let address = setting.site().address(0);
    let mut children: Vec<_> = (0..3)
        .map(|_| {
            let mut command = this_test(test);
            Child::spawn(command.env(ADDRESS, &address).stdout(Stdio::piped()))
        })
        .collect();
    let mut all = assign_together(store, &address);
    for child in &mut children {
        let output = io::read_to_string(child.stdout().expect("piped")).expect("a text");
        assert!(output.contains("ended"), "{output}");
        let ids = output.lines().filter_map(|line| line.strip_prefix("assigned "));
        all.extend(ids.map(|id| id.parse::<u64>().expect("a number")));
    }
    all.sort_unstable();
    assert_eq!(all, (100..=139).collect::<Vec<_>>(), "each once");
}
