//! Layouts, decoded uids and stats with serde. src/serde_forms.rs tests uids.

use std::fmt::Debug;
use std::time::Duration;

use serde_json::{Value, from_value, json, to_value};
use uidring::clock::ManualClock;
use uidring::generator::{CachedStats, ClockedStats};
use uidring::segment::{MemorySegments, SegmentStats, SegmentTag};
use uidring::worker::LeaseStats;
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Decoded, Fields, Layout, SegmentGenerator, Tick,
    Timestamp, Uid,
};
use uidring_testkit::namespace::fresh;

/// Asserts that a value serializes to this JSON, and reads back from it.
fn assert_json<T>(value: &T, json: &Value)
where
    T: Debug + PartialEq + serde::Serialize + serde::de::DeserializeOwned,
{
    assert_eq!(&to_value(value).expect("serializes"), json);
    assert_eq!(&from_value::<T>(json.clone()).expect("reads"), value);
}

#[test]
fn layouts_and_times_are_texts() {
    assert_json(&Layout::UID_GENERATOR, &json!("28/22/13 in s since 2026-01-01T00:00:00Z"));
    assert_json(&Bits { time: 41, worker: 10, sequence: 12 }, &json!("41/10/12"));
    assert_json(&Tick::Millisecond, &json!("ms"));
    assert_json(&Timestamp::from_millis(1), &json!("1970-01-01T00:00:00.001Z"));
    for wrong in [json!("28/22"), json!("m"), json!("yesterday"), json!(5), json!(null)] {
        assert!(from_value::<Layout>(wrong.clone()).is_err(), "{wrong}");
        assert!(from_value::<Bits>(wrong.clone()).is_err(), "{wrong}");
        assert!(from_value::<Tick>(wrong.clone()).is_err(), "{wrong}");
        assert!(from_value::<Timestamp>(wrong.clone()).is_err(), "{wrong}");
    }
    let error = from_value::<Layout>(json!("28/22/14 in s since 2026-01-01"));
    assert!(error.expect_err("64 bits").to_string().contains("at most 63"));
}

#[test]
fn fields_have_their_names() {
    let fields = Fields { tick: 60, worker_id: 7, sequence: 5 };
    assert_json(&fields, &json!({"tick": 60, "worker_id": 7, "sequence": 5}));
    let uid = Layout::UID_GENERATOR.compose(fields).expect("in range");
    let decoded: Decoded = Layout::UID_GENERATOR.decode(uid).expect("of the layout");
    let json = json!(
        {"tick": 60, "timestamp": "2026-01-01T00:01:00Z", "worker_id": 7, "sequence": 5}
    );
    assert_json(&decoded, &json);
}

#[test]
fn stats_are_read_as_they_are_written() {
    let clock = ManualClock::new("2026-06-01T00:00:00.400Z".parse().expect("a time"));
    let cached = CachedUidGenerator::builder()
        .worker_id(7)
        .namespace(fresh())
        .clock(clock.clone())
        .build()
        .expect("possible");
    cached.fill(&mut [Uid::default(); 100]).expect("ready");
    let stats: CachedStats = cached.stats();
    let json = to_value(stats).expect("serializes");
    assert_json(&stats, &json);
    assert_eq!((&json["taken"], &json["ring"]["taken"]), (&json!(100), &json!(100)));
    assert_eq!((&json["lag_millis"], &json["lease"]), (&json!(400), &json!(null)));

    let clocked = ClockedUidGenerator::snowflake()
        .worker_id(7)
        .namespace(fresh())
        .clock(clock)
        .build()
        .expect("possible");
    let json = json!({
        "worker_id": 7,
        "waits": 0,
        "rejects": 0,
        "clock_refusals": 0,
        "lead_millis": 0,
        "remaining_life_millis": clocked.stats().remaining_life.as_millis() as u64,
        "lease": null,
    });
    assert_json(&clocked.stats(), &json);

    let table = MemorySegments::new();
    table.create(SegmentTag::new("orders").step(10)).expect("created");
    let numbers = SegmentGenerator::builder(table).build().expect("possible");
    numbers.next_id("orders").expect("loaded");
    let stats: SegmentStats = numbers.stats("orders").expect("there");
    let json = to_value(stats).expect("serializes");
    assert_json(&stats, &json);
    assert_eq!(json["taken"], json!(1));
}

/// Stats from an older version lack newer fields.
#[test]
fn what_stats_lack_is_zero() {
    let lease = json!({"time_left_millis": 1_500, "horizon_left_millis": 20_000, "is_lost": true});
    let stats: ClockedStats = from_value(json!({"waits": 3, "lease": lease})).expect("reads");
    let lease: LeaseStats = stats.lease.expect("it has one");
    assert_eq!((stats.waits, stats.rejects, lease.renewals), (3, 0, 0));
    assert_eq!(lease.time_left, Some(Duration::from_millis(1_500)));
    assert!(lease.is_lost && lease.horizon_left == Duration::from_secs(20));
}
