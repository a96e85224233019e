//! Rows that come, go, go back, end or hold nonsense.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use uidring::segment::{SegmentError, SegmentTag};

use super::table::{Table, wait_until};

#[test]
fn tags_come_and_go_and_come_back() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.builder().refresh(Duration::from_millis(20)).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    assert_eq!(orders.next_id().expect("waits"), 1);
    let unknown = generator.next_id("customers").expect_err("not there");
    assert!(matches!(unknown, SegmentError::UnknownTag(_)), "{unknown}");
    assert!(unknown.to_string().contains("`customers`"), "{unknown}");
    table.rows.create(SegmentTag::new("customers").step(10).max_id(500)).expect("positive");
    wait_until("it is found by itself", || generator.next_id("customers").is_ok());

    assert!(table.rows.remove("orders"));
    wait_until("it is missed by itself", || generator.tags().expect("the parent") == ["customers"]);
    for error in [orders.next_id(), generator.next_id("orders")].map(|id| id.expect_err("gone")) {
        assert!(matches!(error, SegmentError::RemovedTag(_)), "{error}");
        assert!(error.to_string().contains("`orders`"), "{error}");
    }
    assert!(matches!(generator.tag("orders"), Err(SegmentError::RemovedTag(_))));
    let stats = orders.stats().expect("known");
    assert_eq!((stats.left, stats.discarded), (0, stats.reserved - 1), "{stats:?}");

    table.rows.create(SegmentTag::new("orders").step(10).max_id(1_000)).expect("positive");
    wait_until("it is back", || orders.try_next_id().is_ok());
    assert_eq!(generator.next_id("orders").expect("in memory"), 1_001);
}

/// A load may be the first to notice that a tag is gone.
#[test]
fn a_tag_that_is_gone_when_it_is_loaded_is_removed_at_once() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.generator();
    table.rows.remove("orders");
    let error = generator.next_id("orders").expect_err("gone");
    assert!(matches!(error, SegmentError::RemovedTag(_)), "{error}");
    table.rows.create(SegmentTag::new("orders").step(10).max_id(7)).expect("positive");
    assert!(matches!(generator.next_id("orders"), Err(SegmentError::RemovedTag(_))));
    generator.refresh().expect("up");
    assert_eq!(generator.next_id("orders").expect("back"), 7);
}

#[test]
fn who_waits_for_a_tag_hears_that_it_is_gone() {
    let table = Table::new(&[("orders", 10)]);
    let generator = Arc::new(table.generator());
    table.set_stuck(true);
    let calls = table.calls.load(Ordering::Relaxed);
    let taker = thread::spawn({
        let generator = Arc::clone(&generator);
        move || generator.next_id("orders")
    });
    wait_until("it is loaded", || table.calls.load(Ordering::Relaxed) > calls);
    // By then it usually sleeps.
    thread::sleep(Duration::from_millis(20));
    table.rows.remove("orders");
    table.set_stuck(false);
    wait_until("it hears", || taker.is_finished());
    let error = taker.join().expect("no panic").expect_err("gone");
    assert!(matches!(error, SegmentError::RemovedTag(_)), "{error}");
}

/// A tag that was created again lower, or a row that was set back, would repeat ids.
#[test]
fn a_row_that_went_back_is_refused() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.generator();
    for id in 1..=3 {
        assert_eq!(generator.next_id("orders").expect("waits"), id);
    }
    wait_until("prefetched", || generator.stats("orders").expect("there").reserved == 20);
    table.rows.remove("orders");
    generator.refresh().expect("up");
    table.rows.create(SegmentTag::new("orders").step(10).max_id(11)).expect("positive");
    generator.refresh().expect("up");
    let error = generator.next_id("orders").expect_err("11 to 20 were reserved");
    assert!(matches!(error, SegmentError::InvalidRow(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("went back to 11") && text.contains("up to 20,"), "{text}");
    // That load moved the row, but nobody has confirmed that the following ids are free.
    for _ in 0..2 {
        generator.refresh().expect("up");
        let error = generator.next_id("orders").expect_err("others may have 21");
        assert!(matches!(error, SegmentError::InvalidRow(_)), "{error}");
    }
    table.put_by_hand("orders", 500, 10);
    generator.refresh().expect("up");
    assert_eq!(generator.next_id("orders").expect("raised"), 500);
}

/// After a restore, others may reserve what is still in memory here.
#[test]
fn a_reading_that_finds_a_row_gone_back_ends_what_is_in_memory() {
    let table = Table::new(&[]);
    table.put_by_hand("orders", 1, 1_000);
    let generator = table.generator();
    assert_eq!(generator.next_id("orders").expect("loaded"), 1);
    table.put_by_hand("orders", 1, 1_000);
    generator.refresh().expect("up");
    wait_until("it is refused", || generator.try_next_id("orders").is_err());
    let error = generator.next_id("orders").expect_err("refused").to_string();
    assert!(error.contains("went back to 1,") && error.contains("up to 1000,"), "{error}");
    let stats = generator.stats("orders").expect("known");
    assert_eq!((stats.left, stats.loads, stats.load_failures), (0, 1, 1), "{stats:?}");
}

/// The reading may come from a replica. A load, which locks the row, finds it correct.
#[test]
fn a_reading_that_is_old_costs_a_load_and_nothing_else() {
    let table = Table::new(&[("orders", 1_000)]);
    let generator = table.generator();
    assert_eq!(generator.next_id("orders").expect("loaded"), 1);
    *table.shown.lock().expect("whole") = Some(SegmentTag::new("orders"));
    generator.refresh().expect("up");
    wait_until("it is loaded", || generator.stats("orders").expect("known").loads == 2);
    let taken: Vec<_> = (0..1_500).map(|_| generator.next_id("orders").expect("taken")).collect();
    assert!(taken.into_iter().eq(2..1_502));
}

#[test]
fn rows_that_cannot_be_served_are_refused_until_they_are_set_right() {
    let table = Table::new(&[]);
    for (tag, max_id, step) in
        [("zero", 1, 0), ("minus", 1, -5), ("below", -3, 10), ("start", 0, 1)]
    {
        table.put_by_hand(tag, max_id, step);
    }
    let generator = table.generator();
    for tag in ["zero", "minus", "below", "start"] {
        let error = generator.next_id(tag).expect_err("refused");
        assert!(matches!(error, SegmentError::InvalidRow(_)), "{error}");
        assert!(error.to_string().contains(&format!("`{tag}`")), "{error}");
    }
    assert_eq!(table.steps(), [0; 0], "nothing was reserved");
    table.put_by_hand("zero", 1, 2);
    generator.refresh().expect("up");
    assert_eq!(generator.next_id("zero").expect("set right"), 1);
    // A row in use becomes invalid: what is in memory is served, then takes fail.
    wait_until("prefetched", || generator.stats("zero").expect("there").left == 3);
    table.put_by_hand("zero", 5, 0);
    generator.refresh().expect("up");
    assert_eq!((0..3).map(|_| generator.next_id("zero").expect("left")).sum::<u64>(), 2 + 3 + 4);
    let error = generator.next_id("zero").expect_err("refused");
    assert!(matches!(error, SegmentError::InvalidRow(_)), "{error}");
}

#[test]
fn the_last_ids_of_a_bigint_are_given_out_and_none_wraps() {
    let table = Table::new(&[]);
    table.put_by_hand("orders", i64::MAX - 25, 10);
    let generator = table.generator();
    let orders = generator.tag("orders").expect("there");
    let ids: Vec<u64> = (0..20).map(|_| orders.next_id().expect("there")).collect();
    let first = i64::MAX.unsigned_abs() - 25;
    assert!(ids.iter().copied().eq(first..first + 20), "{ids:?}");
    // Fewer than the step.
    let mut batch = [0; 9];
    let error = orders.fill(&mut batch).expect_err("5 are left");
    assert!(matches!(error.error, SegmentError::UsedUp(_)) && error.filled == 5, "{error}");
    assert_eq!(batch[..5], [20, 21, 22, 23, 24].map(|more| first + more));
    for _ in 0..3 {
        let error = orders.next_id().expect_err("none is left");
        assert!(matches!(error, SegmentError::UsedUp(_)), "{error}");
        assert!(error.to_string().contains("2^63 - 2"), "{error}");
    }
}

/// The longest possible step.
#[test]
fn one_segment_may_hold_all_numbers() {
    let table = Table::new(&[]);
    table.put_by_hand("orders", 1, i64::MAX - 1);
    let generator = table.generator();
    let mut batch = [0; 1_000];
    generator.fill("orders", &mut batch).expect("plenty");
    assert!(batch.iter().copied().eq(1..=1_000));
    table.by_hand.lock().expect("whole").clear();
    generator.refresh().expect("up");
    assert!(matches!(generator.next_id("orders"), Err(SegmentError::RemovedTag(_))));
    let stats = generator.stats("orders").expect("known");
    assert_eq!(stats.discarded, i64::MAX.unsigned_abs() - 1 - 1_000);
}
