//! Stores that are slow, down or wrong, or panic.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::policy::{TakeDecision, TakePolicy};
use uidring::segment::{
    Loaded, LoadedSegment, MemorySegments, SegmentError, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring::{Error, SegmentGenerator};
use uidring_testkit::chain;

use super::table::{LIMIT, Table, assert_accounted, wait_until};

#[test]
fn a_slow_store_makes_takers_wait_and_nothing_else() {
    let table = Table::new(&[("orders", 50)]);
    let generator = table.builder().max_step(50).build().expect("builds");
    table.slow_millis.store(40, Ordering::Relaxed);
    let mut ids: Vec<u64> = thread::scope(|scope| {
        let takers = [(); 4].map(|()| {
            let generator = &generator;
            scope.spawn(move || {
                let ids = (0..100).map(|_| generator.next_id("orders").expect("waits"));
                ids.collect::<Vec<_>>()
            })
        });
        takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect()
    });
    let stats = generator.stats("orders").expect("there");
    assert!(stats.waits > 0 && stats.rejects == 0, "{stats:?}");
    ids.sort_unstable();
    assert_accounted(&generator, &table, "orders", ids);
}

/// Otherwise a thousand tags would keep a processor busy until the store is back.
#[test]
fn tags_that_failed_together_are_retried_together() {
    let names: Vec<String> = (0..100).map(|tag| format!("tag{tag}")).collect();
    let tags: Vec<_> = names.iter().map(|name| (&**name, 1)).collect();
    let table = Table::new(&tags);
    let pause = Duration::from_millis(20);
    let generator = table.builder().retry(pause, pause).build().expect("builds");
    table.set_down(true);
    for tag in &names {
        while generator.try_next_id(tag).is_ok() {}
    }
    wait_until("all are retried", || table.failures() >= 2_000);
    let (loads, failures) = (table.loads.load(Ordering::Relaxed), table.failures());
    assert!(loads * 5 < failures, "{loads} loads, {failures} failures");
    table.set_down(false);
    for tag in &names {
        generator.next_id(tag).expect("the store is back");
    }
}

#[test]
fn the_policy_decides_when_nothing_is_in_memory() {
    let table = Table::new(&[("orders", 10)]);
    let policy = TakePolicy::WaitFor(Duration::from_millis(20));
    let generator = table.builder().take_policy(policy).build().expect("builds");
    table.set_stuck(true);
    let error = generator.next_id("orders").expect_err("slow");
    assert!(matches!(error, SegmentError::DeadlineExceeded), "{error}");
    let error = generator.fill("orders", &mut [0; 3]).expect_err("slow");
    assert!(matches!(error.error, SegmentError::DeadlineExceeded) && error.filled == 0);
    table.set_stuck(false);
    wait_until("it comes in the end", || generator.try_next_id("orders").is_ok());
    assert_eq!(generator.stats("orders").expect("there").rejects, 2);

    let table = Table::new(&[("orders", 10)]);
    let reject = table.builder().take_policy(TakePolicy::Reject).build().expect("builds");
    table.set_stuck(true);
    assert!(matches!(reject.next_id("orders"), Err(SegmentError::Empty)));
    table.set_stuck(false);
    wait_until("it was asked for all the same", || reject.next_id("orders").is_ok());

    let thrice = TakePolicy::handler(|take| match take.attempts {
        ..3 => TakeDecision::Retry,
        _ => TakeDecision::GiveUp,
    });
    let table = Table::new(&[("orders", 10)]);
    let handled = table.builder().take_policy(thrice).build().expect("builds");
    table.set_stuck(true);
    assert!(matches!(handled.next_id("orders"), Err(SegmentError::Empty)));
    table.set_stuck(false);
}

#[test]
fn a_store_that_is_down_gives_its_cause_at_the_deadline_and_comes_back() {
    let table = Table::new(&[("orders", 10)]);
    let policy = TakePolicy::WaitFor(Duration::from_secs(2));
    let generator = table.builder().take_policy(policy).max_step(10).build().expect("builds");
    let mut ids: Vec<u64> = (0..5).map(|_| generator.next_id("orders").expect("waits")).collect();
    wait_until("prefetched", || generator.stats("orders").expect("there").segments == 2);
    let orders = generator.tag("orders").expect("there");
    assert!(orders.problem().is_none(), "{:?}", orders.problem());
    table.set_down(true);
    // What is in memory is served.
    ids.extend((0..15).map(|_| generator.next_id("orders").expect("in memory")));
    wait_until("tried again and again", || table.failures() > 1);
    let start = Instant::now();
    let error = generator.next_id("orders").expect_err("down");
    assert!(matches!(error, SegmentError::StoreDown(_)), "{error:?}");
    assert!(chain(&error).contains("the connection is gone"), "{error}");
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    let problem = orders.problem();
    assert!(matches!(problem, Some(SegmentError::StoreDown(_))), "{problem:?}");
    let stats = generator.stats("orders").expect("there");
    assert!(stats.load_failures > 1, "tried again and again: {stats:?}");
    let error = generator.refresh().expect_err("down");
    assert!(matches!(error, SegmentError::StoreDown(_)), "{error:?}");
    table.set_down(false);
    // By now the pause between tries is longer than the deadline; it is at most a second.
    let start = Instant::now();
    ids.push(loop {
        match generator.next_id("orders") {
            Ok(id) => break id,
            Err(error) => assert!(start.elapsed() < LIMIT, "it comes back by itself: {error}"),
        }
    });
    ids.extend((0..50).map(|_| generator.next_id("orders").expect("up again")));
    assert!(orders.problem().is_none(), "{:?}", orders.problem());
    assert_accounted(&generator, &table, "orders", ids);
}

#[test]
fn who_waits_without_end_waits_out_a_store_that_is_down() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.generator();
    table.set_down(true);
    thread::scope(|scope| {
        let taker = scope.spawn(|| generator.next_id("orders"));
        wait_until("it is tried", || table.failures() > 3);
        assert!(!taker.is_finished());
        table.set_down(false);
        assert_eq!(taker.join().expect("no panic").expect("up again"), 1);
    });
    // One failing tag after another: the pauses limit the load on the store.
    assert!(table.failures() < 100, "{}", table.failures());
}

/// The longest pause applies to loads. Pauses between readings double up to the usual interval.
#[test]
fn readings_that_fail_are_tried_again_less_and_less_often() {
    let table = Table::new(&[]);
    let retry = Duration::from_millis(1);
    let generator = table.builder().retry(retry, retry).build().expect("builds");
    table.set_down(true);
    assert!(matches!(generator.refresh(), Err(SegmentError::StoreDown(_))));
    wait_until("it is tried again", || table.failures() > 2);
    thread::sleep(Duration::from_millis(200));
    assert!(table.failures() < 40, "{}", table.failures());
    table.set_down(false);
    table.rows.create(SegmentTag::new("orders")).expect("positive");
    wait_until("it comes back by itself", || generator.next_id("orders").is_ok());
}

#[test]
fn a_dead_store_is_told_at_construction() {
    let table = Table::new(&[("orders", 10)]);
    table.set_down(true);
    let error = table.builder().build().expect_err("down");
    assert!(matches!(error, Error::Store(_)), "{error}");
}

#[test]
fn a_store_that_panics_closes_the_generator() {
    for at_load in [true, false] {
        let table = Table::new(&[("orders", 10)]);
        let refresh = if at_load { 60_000 } else { 10 };
        let builder = table.builder().refresh(Duration::from_millis(refresh));
        let generator = builder.build().expect("builds");
        let orders = generator.tag("orders").expect("there");
        table.fatal.store(true, Ordering::Relaxed);
        let error = orders.next_id().expect_err("the store has panicked");
        assert!(matches!(error, SegmentError::Closed), "{error}");
        assert!(matches!(generator.refresh(), Err(SegmentError::Closed)));
    }
}

/// A store that holds its own generator: the last reference is dropped in the generator's thread.
#[test]
fn the_last_reference_may_go_in_its_own_thread() {
    struct Owner(Table, Arc<Mutex<Option<SegmentGenerator>>>);
    impl SegmentStore for Owner {
        fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
            self.0.tags()
        }
        fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
            drop(self.1.lock().map(|mut place| place.take()));
            self.0.load(wanted, loaded);
        }
    }
    let place: Arc<Mutex<Option<SegmentGenerator>>> = Arc::default();
    let table = Table::new(&[("orders", 10)]);
    let store = Owner(table, Arc::clone(&place));
    let generator = SegmentGenerator::builder(store).build().expect("builds");
    let handle = generator.tag("orders").expect("there");
    *place.lock().expect("whole") = Some(generator);
    assert!(matches!(handle.next_id(), Err(SegmentError::Closed)));
}

/// A store may answer what it was not asked, answer twice, or not at all.
#[test]
fn a_store_that_answers_wrongly_harms_nobody() {
    struct Confused(MemorySegments, u64);
    impl SegmentStore for Confused {
        fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
            self.0.tags()
        }
        fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
            self.1 += 1;
            if self.1.is_multiple_of(2) {
                let segment = |start, end| LoadedSegment { start, end, table_step: 1 };
                for bad in [segment(9, 9), segment(9, 3), segment(0, 5), segment(1, u64::MAX)] {
                    loaded(wanted.len() + 3, Ok(bad));
                }
                self.0.load(wanted, loaded);
                self.0.load(wanted, loaded);
            }
        }
    }
    let table = MemorySegments::new();
    table.create(SegmentTag::new("orders").step(5)).expect("positive");
    let retry = Duration::from_millis(1);
    let builder = SegmentGenerator::builder(Confused(table, 0)).retry(retry, retry).max_step(5);
    let generator = builder.build().expect("builds");
    let ids: Vec<u64> = (0..50).map(|_| generator.next_id("orders").expect("waits")).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}
