//! The lower bound of an id's cost: counters, without time or worker.

use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex as ParkingLotMutex;

use super::{Field, Shape};
use crate::promise::Promise::{Consecutive, Increasing};
use crate::work::{FILL, bulk, pair, single};

pub const FETCH_ADD: &str = "fetch_add";

type Counter = Arc<CachePadded<AtomicU64>>;

#[inline]
fn fetch_add(counter: &Counter) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed)
}

#[inline]
fn std_mutex(counter: &StdMutex<u64>) -> u64 {
    let mut counter = counter.lock().expect("nobody panics with the lock");
    *counter += 1;
    *counter
}

#[inline]
fn parking_lot(counter: &ParkingLotMutex<u64>) -> u64 {
    let mut counter = counter.lock();
    *counter += 1;
    *counter
}

/// Writes numbers from `first` on.
#[inline]
fn store(out: &mut [u64; FILL], first: u64) -> &[u64] {
    for (place, number) in out.iter_mut().zip(first..) {
        *place = number;
    }
    out
}

pub fn enter(shape: Shape, field: &mut Field) {
    const LONE: &str = "baseline: one relaxed addition on a cache line of its own";
    const MUTEX: &str = "a counter, no time and no worker";
    match shape {
        Shape::Single | Shape::Local => {
            field.add("register increment", "baseline: `c += 1`, nothing shared", || {
                single(0_u64, Consecutive, |counter| {
                    *counter += 1;
                    *counter
                })
            });
            field.add(FETCH_ADD, LONE, || {
                single(Counter::default(), Consecutive, |counter| fetch_add(counter))
            });
        }
        Shape::Pair => {
            field.add(FETCH_ADD, LONE, || pair(Counter::default(), Increasing, fetch_add));
            field.skip("register increment", "nothing two threads could share");
        }
        Shape::Bulk => {
            field.add("store loop", "baseline: consecutive numbers into the slice", || {
                bulk((0, Box::new([0; FILL])), Consecutive, |(next, out)| {
                    let first = *next;
                    *next += FILL as u64;
                    store(out, first)
                })
            });
            field.add(FETCH_ADD, "baseline: one relaxed addition per id, no slice", || {
                single(Counter::default(), Consecutive, |counter| fetch_add(counter))
            });
            field.add("fetch_add of 4096 + store loop", "a counter's bulk form", || {
                bulk((Counter::default(), Box::new([0; FILL])), Consecutive, |(counter, out)| {
                    store(out, counter.fetch_add(FILL as u64, Ordering::Relaxed))
                })
            });
        }
    }
    match shape {
        Shape::Single => {
            field.add("std Mutex<u64>", MUTEX, || {
                let counter = Arc::new(CachePadded::new(StdMutex::new(0)));
                single(counter, Consecutive, |counter| std_mutex(counter))
            });
            field.add("parking_lot Mutex<u64>", MUTEX, || {
                let counter = Arc::new(CachePadded::new(ParkingLotMutex::new(0)));
                single(counter, Consecutive, |counter| parking_lot(counter))
            });
        }
        Shape::Pair => {
            field.add("std Mutex<u64>", MUTEX, || {
                let counter = CachePadded::new(StdMutex::new(0));
                pair(counter, Increasing, |counter| std_mutex(counter))
            });
            field.add("parking_lot Mutex<u64>", MUTEX, || {
                let counter = CachePadded::new(ParkingLotMutex::new(0));
                pair(counter, Increasing, |counter| parking_lot(counter))
            });
        }
        Shape::Bulk | Shape::Local => {}
    }
}
