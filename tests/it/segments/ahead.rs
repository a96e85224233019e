//! When segments are prefetched, how many, and how long.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use uidring::Timestamp;
use uidring::clock::ManualClock;
use uidring::segment::SegmentBuilder;

use super::table::{LIMIT, Table, wait_until};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_segment_is_prefetched_at_the_mark_and_not_before() {
    let table = Table::new(&[("orders", 1_000)]);
    let generator = table.builder().prefetch(30).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    assert_eq!(table.steps().len(), 0, "nothing is loaded before it is needed");
    for id in 1..=300 {
        assert_eq!(orders.next_id().expect("waits"), id);
    }
    thread::sleep(Duration::from_millis(30));
    assert_eq!(table.steps().len(), 1);
    assert_eq!(orders.stats().expect("there").segments, 1);
    orders.next_id().expect("in memory");
    wait_until("the second one comes", || orders.stats().expect("there").segments == 2);
    // Without takes there is no third one.
    thread::sleep(Duration::from_millis(30));
    let stats = orders.stats().expect("there");
    assert_eq!((stats.loads, stats.left, stats.position), (2, 1_699, Some(302)));
    let mut rest = vec![0; 1_699];
    assert_eq!(orders.try_fill(&mut rest[..1_000]).expect("in memory"), 1_000);
    assert!(rest[..1_000].iter().copied().eq(302..1_302), "across the end of a segment");
}

/// The waste of a restart that docs/segments.md states.
#[test]
fn by_default_a_tag_has_two_segments_and_four_at_the_most() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.builder().max_step(10).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    orders.next_id().expect("waits");
    assert_eq!(orders.stats().expect("there").depth, 2);
    for round in 0..8 {
        table.set_stuck(true);
        wait_until("it runs dry", || orders.try_next_id().is_err());
        table.set_stuck(false);
        orders.next_id().expect("waits");
        let stats = orders.stats().expect("there");
        assert!(stats.dried > round && stats.left <= 40, "{stats:?}");
    }
    assert_eq!(orders.stats().expect("there").depth, 4);
}

#[test]
fn takers_who_run_dry_deepen_the_chain() {
    let table = Table::new(&[("orders", 10)]);
    let builder = table.builder().max_step(10).depth(2).max_depth(5);
    let generator = builder.build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    assert_eq!(orders.stats().expect("there").depth, 2);
    orders.next_id().expect("waits");
    assert_eq!(orders.stats().expect("there").dried, 0, "a first load is no drying");
    table.slow_millis.store(2, Ordering::Relaxed);
    let start = Instant::now();
    while orders.stats().expect("there").depth < 5 {
        orders.next_id().expect("waits");
        assert!(start.elapsed() < LIMIT, "{:?}", orders.stats());
    }
    for _ in 0..100 {
        orders.next_id().expect("waits");
    }
    let stats = orders.stats().expect("there");
    assert_eq!(stats.depth, 5, "no further");
    assert!(stats.dried >= 3, "{stats:?}");
    table.slow_millis.store(0, Ordering::Relaxed);
    orders.next_id().expect("waits");
    orders.next_id().expect("waits");
    orders.next_id().expect("waits");
    wait_until("all five are there", || {
        let stats = orders.stats().expect("there");
        assert!(stats.segments <= 5 && stats.left <= 50, "{stats:?}");
        // One more take crosses the mark of the current segment.
        stats.segments == 5 || orders.next_id().is_err()
    });
}

/// Uses up one segment after another while the clock advances by these minutes each. Returns the steps of the loads.
fn steps_by_clock(table: &Table, builder: SegmentBuilder, minutes: &[u32]) -> Vec<u64> {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    // With `max_depth` 1, takers that wait, as on a busy machine, do not cause more prefetching.
    let generator = builder.max_depth(1).clock(clock.clone()).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    // Almost to the end of a segment, so that the next one is loaded.
    let near_the_end = |segment: usize| {
        let last = table.ranges("orders")[segment].end - 10;
        while orders.next_id().expect("waits") < last {}
        wait_until("the next one", || table.ranges("orders").len() == segment + 2);
    };
    assert_eq!(orders.next_id().expect("waits"), 1);
    for (segment, minutes) in minutes.iter().enumerate() {
        near_the_end(segment);
        clock.advance(MINUTE.saturating_mul(*minutes));
        // The first id of the next segment finds this one used up.
        let end = table.ranges("orders")[segment].end;
        while orders.next_id().expect("in memory") < end {}
    }
    near_the_end(minutes.len());
    table.steps()
}

#[test]
fn the_step_follows_the_time_that_segments_last() {
    let table = Table::new(&[("orders", 100)]);
    let minutes = [1, 14, 15, 29, 30, 200, 200, 0];
    let steps = steps_by_clock(&table, table.builder(), &minutes);
    assert_eq!(steps, [100, 100, 200, 400, 400, 400, 200, 100, 100, 200]);
}

#[test]
fn the_step_has_a_cap_and_other_settings() {
    let table = Table::new(&[("orders", 400_000)]);
    let steps = steps_by_clock(&table, table.builder(), &[0, 0, 0]);
    assert_eq!(steps, [400_000, 400_000, 800_000, 1_000_000, 1_000_000]);

    let table = Table::new(&[("orders", 100)]);
    let builder = table.builder().segment_duration(2 * MINUTE).step_factor(10).max_step(5_000);
    let steps = steps_by_clock(&table, builder, &[1, 1, 3, 5, 5]);
    assert_eq!(steps, [100, 100, 1_000, 5_000, 5_000, 500, 100]);

    let table = Table::new(&[("orders", 1_500_000)]);
    let steps = steps_by_clock(&table, table.builder(), &[0, 0]);
    assert_eq!(steps, [1_500_000; 4], "a table that asks for more than the cap gets it");
}

#[test]
fn a_step_that_is_changed_in_the_table_takes_effect() {
    let table = Table::new(&[("orders", 100)]);
    let clock = ManualClock::new(Timestamp::from_millis(0));
    let generator = table.builder().max_depth(1).clock(clock.clone()).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    let take_to = |last: u64, loads: usize| {
        while orders.next_id().expect("waits") < last {}
        wait_until("a load", || table.steps().len() == loads);
    };
    take_to(50, 2);
    take_to(150, 3);
    assert_eq!(table.steps(), [100, 100, 200], "it has grown");
    table.rows.set_step("orders", 30).expect("positive");
    generator.refresh().expect("up");
    assert_eq!(orders.stats().expect("there").table_step, 30);
    // The rule makes it neither longer nor shorter.
    clock.advance(20 * MINUTE);
    take_to(300, 4);
    assert_eq!(table.steps()[3], 30, "shorter at once");
    table.rows.set_step("orders", 5_000).expect("positive");
    clock.advance(20 * MINUTE);
    // The load reports the step, without a refresh.
    take_to(420, 5);
    assert_eq!(table.ranges("orders")[4], 431..5_431);
    let stats = orders.stats().expect("there");
    assert_eq!((stats.table_step, stats.step), (5_000, 5_000));
}
