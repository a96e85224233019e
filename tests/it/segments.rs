//! What a segment generator guarantees on tables that are slow, fail, recover or hold nonsense.

mod ahead;
mod outages;
mod rows;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use uidring::segment::{MemorySegments, SegmentBuilder, SegmentError, SegmentTag};
use uidring::{Error, SegmentGenerator};

use table::{Table, assert_accounted, wait_until};

#[test]
fn every_id_of_every_tag_is_given_out_once() {
    let tags = [("one", 1), ("three", 3), ("ten", 10), ("many", 777), ("more", 10_000)];
    let table = Table::new(&tags);
    let generator = table.builder().max_step(2_000).build().expect("builds");
    const SHARE: usize = 6_000;
    let lists: Vec<Vec<Vec<u64>>> = thread::scope(|scope| {
        let takers: Vec<_> = (0..8)
            .map(|taker| {
                let generator = &generator;
                scope.spawn(move || {
                    let handles = tags.map(|(tag, _)| generator.tag(tag).expect("there"));
                    let mut lists = vec![Vec::new(); tags.len()];
                    let mut batch = [0; 37];
                    for round in 0..SHARE {
                        let place = (round * 7 + taker) % tags.len();
                        let (handle, list) = (&handles[place], &mut lists[place]);
                        match round % 16 {
                            0 => {
                                handle.fill(&mut batch).expect("waits");
                                list.extend(batch);
                            }
                            1..4 => list.push(generator.next_id(handle.name()).expect("waits")),
                            _ => list.push(handle.next_id().expect("waits")),
                        }
                    }
                    for list in &lists {
                        assert!(list.is_sorted_by(|a, b| a < b), "increasing in each thread");
                    }
                    lists
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().expect("no panic")).collect()
    });
    for (place, (tag, _)) in tags.iter().enumerate() {
        let ids = lists.iter().flat_map(|lists| lists[place].iter().copied()).collect();
        assert_accounted(&generator, &table, tag, ids);
    }
    assert_eq!(table.log.lock().expect("whole").at_once, 1, "one load of a tag at a time");
}

/// Ids also increase between threads: a take that begins later gets a greater id.
#[test]
fn ids_increase_from_taker_to_taker() {
    let table = Table::new(&[("orders", 5)]);
    let generator = table.builder().max_step(5).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    let last = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    let before = last.load(Ordering::Acquire);
                    let id = orders.next_id().expect("waits");
                    assert!(before < id, "{id} after {before}");
                    last.fetch_max(id, Ordering::AcqRel);
                }
            });
        }
    });
}

#[test]
fn steps_and_starts_that_are_not_positive_are_refused() {
    let table = MemorySegments::new();
    let refused =
        |result: Result<bool, Error>| matches!(result, Err(Error::OptionOutOfRange { .. }));
    assert!(refused(table.create(SegmentTag::new("orders").step(0))));
    assert!(refused(table.create(SegmentTag::new("orders").step(1).max_id(0))));
    assert!(refused(table.create(SegmentTag::new("orders").step(i64::MIN))));
    assert!(table.create(SegmentTag::new("orders").step(10).max_id(5)).expect("possible"));
    assert!(
        !table.create(SegmentTag::new("orders").step(20).max_id(9)).expect("possible"),
        "it is there"
    );
    assert!(refused(table.set_step("orders", 0)));
    let generator = SegmentGenerator::builder(table).build().expect("builds");
    assert_eq!(generator.next_id("orders").expect("waits"), 5);
}

#[test]
fn settings_that_are_not_possible_are_refused() {
    let refused = |set: fn(SegmentBuilder) -> SegmentBuilder| {
        let built = set(Table::new(&[]).builder()).build();
        matches!(built, Err(Error::OptionOutOfRange { .. }))
    };
    assert!(refused(|builder| builder.prefetch(0)));
    assert!(refused(|builder| builder.prefetch(100)));
    assert!(refused(|builder| builder.depth(0)));
    assert!(refused(|builder| builder.max_depth(65)));
    assert!(refused(|builder| builder.step_factor(0)));
    assert!(refused(|builder| builder.max_step(0)));
    assert!(refused(|builder| builder.segment_duration(Duration::ZERO)));
    assert!(refused(|builder| builder.refresh(Duration::ZERO)));
    assert!(refused(|builder| builder.retry(Duration::ZERO, Duration::ZERO)));
    assert!(!refused(|builder| builder.depth(64).prefetch(99).step_factor(1)));
    // Up to a day, and up to an hour.
    const LONGER: Duration = Duration::from_millis(1);
    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);
    assert!(!refused(|builder| builder.segment_duration(DAY).refresh(DAY).retry(HOUR, HOUR)));
    assert!(refused(|builder| builder.segment_duration(DAY + LONGER)));
    assert!(refused(|builder| builder.refresh(DAY + LONGER)));
    assert!(refused(|builder| builder.retry(HOUR + LONGER, HOUR)));
    assert!(refused(|builder| builder.retry(HOUR, HOUR + LONGER)));
}

#[test]
fn close_releases_who_waits() {
    for _ in 0..10 {
        let table = Table::new(&[("orders", 10)]);
        let generator = table.generator();
        table.set_down(true);
        let handle = generator.tag("orders").expect("there");
        thread::scope(|scope| {
            let takers = [(); 3].map(|()| scope.spawn(|| handle.next_id()));
            let reader = scope.spawn(|| handle.fill(&mut [0; 3]));
            wait_until("they wait", || table.failures() > 2);
            generator.close();
            wait_until("released", || takers.iter().all(|taker| taker.is_finished()));
            for taker in takers {
                let error = taker.join().expect("no panic").expect_err("closed");
                assert!(matches!(error, SegmentError::Closed), "{error}");
            }
            assert!(reader.join().expect("no panic").is_err());
        });
        generator.close();
        assert!(matches!(generator.next_id("orders"), Err(SegmentError::Closed)));
        assert!(matches!(generator.next_id("no such"), Err(SegmentError::Closed)));
        assert!(matches!(generator.refresh(), Err(SegmentError::Closed)));
        assert!(matches!(generator.tag("orders"), Err(SegmentError::Closed)));
        drop(generator);
        assert!(matches!(handle.next_id(), Err(SegmentError::Closed)), "handles outlive it");
    }
}

#[test]
fn after_close_nothing_in_memory_is_given_out() {
    let table = Table::new(&[("orders", 1_000)]);
    let generator = table.generator();
    let orders = generator.tag("orders").expect("there");
    orders.fill(&mut [0; 500]).expect("waits");
    generator.close();
    assert!(matches!(orders.try_next_id(), Err(SegmentError::Closed)));
    assert!(matches!(orders.try_fill(&mut [0; 5]), Err(SegmentError::Closed)));
    let tried = generator.try_fill("orders", &mut [0; 5]);
    assert!(matches!(tried, Err(SegmentError::Closed)));
    let stats = orders.stats().expect("known");
    assert_eq!((stats.left, stats.discarded, stats.taken), (0, stats.reserved - 500, 500));
}

/// Dropped while the store is asked: the takers end at once, the thread when it can.
#[test]
fn a_generator_that_is_dropped_takes_its_thread_and_store_along() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.generator();
    generator.next_id("orders").expect("waits");
    let rows = Arc::clone(&table.by_hand);
    drop((table, generator));
    assert_eq!(Arc::strong_count(&rows), 1, "the store is gone with the generator");

    let table = Table::new(&[("orders", 10)]);
    let generator = table.generator();
    let calls = table.calls.load(Ordering::Relaxed);
    table.set_stuck(true);
    assert!(generator.try_next_id("orders").is_err());
    wait_until("it is being asked", || table.calls.load(Ordering::Relaxed) > calls);
    let dropper = thread::spawn(move || drop(generator));
    wait_until("nobody waits for the store", || dropper.is_finished());
    table.set_stuck(false);
    dropper.join().expect("no panic");
}

#[test]
fn ten_thousand_tags_share_one_thread() {
    let table = MemorySegments::new();
    let names: Vec<String> = (0..10_000).map(|number| format!("tag-{number}")).collect();
    for (name, start) in names.iter().zip(1..) {
        table.create(SegmentTag::new(name).step(100).max_id(start * 1_000)).expect("positive");
    }
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    let generator = SegmentGenerator::builder(table).build().expect("builds");
    for round in 0..3 {
        for (name, start) in names.iter().zip(1..) {
            assert_eq!(generator.next_id(name).expect("waits"), start * 1_000 + round);
        }
    }
    // Other tests of this program have threads.
    assert!(threads() < before + 100, "{before} threads before, {} with it", threads());
    assert_eq!(generator.tags().expect("the parent").len(), 10_000);
}
