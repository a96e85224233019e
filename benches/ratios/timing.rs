//! Timing of work.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

/// The baseline of all takes, on its own cache line.
static COUNTER: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));

/// The size of a fill.
pub const BATCH: usize = 4_096;

pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn per_id(time: Duration, ids: u64) -> f64 {
    time.as_nanos() as f64 / ids as f64
}

/// Takes ids one by one. `last` returns an id, to check that ids were taken.
pub fn takes(threads: u64, ids: u64, take: impl Fn() -> u64 + Sync, last: impl Fn() -> u64) -> f64 {
    let before = last();
    let cost = by_threads(threads, ids, |count| {
        for _ in 0..count {
            black_box(take());
        }
    });
    assert!(last() > before + ids / threads - SLACK);
    cost
}

/// Per-thread blocks may have left-over ids.
const SLACK: u64 = 1_000;

/// Shares all ids out among the threads, and times from the common start to the last end. The work is a whole loop, so
/// that its body can be inlined as usual.
pub fn by_threads(threads: u64, ids: u64, work: impl Fn(u64) + Sync) -> f64 {
    let share = ids / threads;
    if threads == 1 {
        let start = Instant::now();
        work(share);
        return per_id(start.elapsed(), share);
    }
    let barrier = Barrier::new(threads as usize + 1);
    let mut start = Instant::now();
    let (starting, work) = (&barrier, &work);
    thread::scope(|scope| {
        for taker in 0..threads as usize {
            scope.spawn(move || {
                pin(taker);
                starting.wait();
                work(share);
            });
        }
        start = Instant::now();
        barrier.wait();
    });
    per_id(start.elapsed(), share * threads)
}

/// Pins takers to cores in turn. Otherwise two could share a core for a while, and not contend.
pub fn pin(taker: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if !cores.is_empty() {
        core_affinity::set_for_current(cores[taker % cores.len()]);
    }
}

pub fn additions(threads: u64, ids: u64) -> f64 {
    by_threads(threads, ids, |count| {
        for _ in 0..count {
            add();
        }
    })
}

#[inline(always)]
pub fn add() -> u64 {
    black_box(COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// Stores consecutive numbers into a slice, repeatedly.
pub fn stores(ids: u64) -> f64 {
    let mut numbers = [0_u64; BATCH];
    let mut next = 0;
    let batches = batches(ids);
    let start = Instant::now();
    for _ in 0..batches {
        store(&mut numbers, &mut next);
    }
    per_id(start.elapsed(), batches * BATCH as u64)
}

// Not inlined, so that all callers run the same code.
#[inline(never)]
pub fn store(numbers: &mut [u64; BATCH], next: &mut u64) {
    for number in numbers.iter_mut() {
        *number = *next;
        *next += 1;
    }
    black_box(numbers);
}

pub fn batches(ids: u64) -> u64 {
    (ids / BATCH as u64).max(1)
}

/// Returns the 99.99th percentile of single calls, timer included.
pub fn tail_latency<T>(ids: u64, mut call: impl FnMut() -> T) -> f64 {
    let mut samples: Vec<u32> = (0..ids.min(2_000_000))
        .map(|_| {
            let start = Instant::now();
            call();
            u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX)
        })
        .collect();
    samples.sort_unstable();
    f64::from(samples[samples.len() - 1 - samples.len() / 10_000])
}
