//! Millions of uids, serially and in many threads, under every take policy: unique, positive, within the ticks that the
//! generator used, and increasing in each thread.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::generator::CachedBuilder;
use uidring::policy::{TakeDecision, TakePolicy};
use uidring::{Bits, CachedUidGenerator, Layout, TakeError, Tick, Timestamp, Uid};
use uidring_testkit::namespace::fresh;

const COUNT: usize = 7_000_000;

/// A layout whose smallest ring holds two uids: with boost power 0 it is always running dry.
fn smallest() -> Layout {
    let bits = Bits { time: 40, worker: 10, sequence: 1 };
    Layout::new(bits, Tick::Second, "2026-01-01".parse().expect("a date")).expect("possible")
}

fn threads() -> usize {
    2 * thread::available_parallelism().map_or(2, NonZero::get)
}

/// Returns the next uid; retries if the policy does not wait.
fn insist(generator: &CachedUidGenerator) -> Uid {
    loop {
        match generator.next_uid() {
            Ok(uid) => return uid,
            Err(TakeError::Empty | TakeError::DeadlineExceeded) => thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
    }
}

fn take_serially(builder: CachedBuilder, count: usize) {
    let started = SystemClock.now();
    let generator = builder.build().expect("builds");
    let uids: Vec<Uid> = (0..count).map(|_| insist(&generator)).collect();
    assert!(uids.is_sorted_by(|a, b| a < b), "increasing");
    check(&generator, uids, started);
}

fn take_by_threads(builder: CachedBuilder, count: usize) {
    let started = SystemClock.now();
    let generator = Arc::new(builder.build().expect("builds"));
    let share = count / threads();
    let takers: Vec<_> = (0..threads())
        .map(|_| {
            let generator = Arc::clone(&generator);
            thread::spawn(move || (0..share).map(|_| insist(&generator)).collect::<Vec<_>>())
        })
        .collect();
    let mut all = Vec::with_capacity(count);
    for taker in takers {
        let uids = taker.join().expect("no panic");
        assert!(uids.is_sorted_by(|a, b| a < b), "increasing in each thread");
        all.extend(uids);
    }
    assert_eq!(all.len(), share * threads());
    check(&generator, all, started);
}

fn check(generator: &CachedUidGenerator, mut uids: Vec<Uid>, started: Timestamp) {
    uids.sort_unstable();
    let count = uids.len();
    uids.dedup();
    assert_eq!(uids.len(), count, "unique");
    let layout = generator.layout();
    // The last tick that can have begun: each run is a tick.
    let walked = generator.stats().ring.runs + 1;
    let first_tick = layout.tick_at(started).expect("in the layout");
    let now = layout.tick_at(SystemClock.now()).expect("in the layout");
    for uid in uids {
        assert!(i64::from(uid) > 0, "positive");
        let fields = generator.decode(uid).expect("decodes");
        assert_eq!(fields.worker_id, generator.worker_id());
        assert!((first_tick..=now + walked).contains(&fields.tick), "{fields:?}");
    }
}

fn default_ring() -> CachedBuilder {
    CachedUidGenerator::builder().worker_id(1).namespace(fresh())
}

fn smallest_ring(policy: TakePolicy) -> CachedBuilder {
    default_ring().layout(smallest()).boost_power(1).take_policy(policy)
}

#[test]
fn seven_million_serially() {
    take_serially(default_ring(), COUNT);
}

#[test]
fn seven_million_by_threads() {
    take_by_threads(default_ring(), COUNT);
}

#[test]
fn smallest_ring_waiting() {
    take_serially(smallest_ring(TakePolicy::Wait), 1_000_000);
    take_by_threads(smallest_ring(TakePolicy::Wait), 1_000_000);
}

#[test]
fn smallest_ring_with_a_deadline() {
    let policy = TakePolicy::WaitFor(Duration::from_micros(50));
    take_serially(smallest_ring(policy.clone()), 1_000_000);
    take_by_threads(smallest_ring(policy), 1_000_000);
}

#[test]
fn smallest_ring_rejecting() {
    take_serially(smallest_ring(TakePolicy::Reject), 1_000_000);
    take_by_threads(smallest_ring(TakePolicy::Reject), 1_000_000);
}

#[test]
fn smallest_ring_with_a_handler() {
    let policy = TakePolicy::handler(|take| match take.attempts {
        ..100 => TakeDecision::Retry,
        _ => TakeDecision::GiveUp,
    });
    take_serially(smallest_ring(policy.clone()), 1_000_000);
    take_by_threads(smallest_ring(policy), 1_000_000);
}
