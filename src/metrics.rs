//! A generator's stats through the `metrics` facade, with names and units after the conventions of
//! Prometheus. Whoever scrapes calls [`publish`] before; a take never touches a metric.
//!
//! | name | kind | what it is |
//! |---|---|---|
//! | `uidring_taken_total` | counter | uids taken, all of each lease included |
//! | `uidring_waits_total` | counter | takes and fills that had to sleep |
//! | `uidring_rejects_total` | counter | takes and fills that the take policy gave up |
//! | `uidring_dropped_total` | counter | draws that gave nothing, most of them behind a tick's end |
//! | `uidring_dried_total` | counter | times that takers used up all that was ready |
//! | `uidring_discarded_total` | counter | uids that became stale and were discarded |
//! | `uidring_paddings_total` | counter | times that the padder has filled the ring |
//! | `uidring_available_uids` | gauge | uids ready to be taken |
//! | `uidring_capacity_uids` | gauge | uids that the ring holds when full |
//! | `uidring_lead_seconds` | gauge | how far the next uid is ahead of the clock |
//! | `uidring_lag_seconds` | gauge | how far the next uid is behind the clock |
//! | `uidring_remaining_life_seconds` | gauge | how long the layout lasts at the present rate |
//! | `uidring_worker_id` | gauge | the worker id in the uids |
//!
//! Each has the label `generator`. Those of a tag of segments, by [`publish_segment`], have the label
//! `tag` as well:
//!
//! | name | kind | what it is |
//! |---|---|---|
//! | `uidring_segment_taken_total` | counter | ids taken |
//! | `uidring_segment_reserved_total` | counter | ids reserved in the table |
//! | `uidring_segment_loads_total` | counter | segments loaded |
//! | `uidring_segment_load_failures_total` | counter | loads that failed |
//! | `uidring_segment_waits_total` | counter | takes and fills that had to sleep |
//! | `uidring_segment_rejects_total` | counter | takes and fills that the take policy gave up |
//! | `uidring_segment_dried_total` | counter | times that takers used up all that was in memory |
//! | `uidring_segment_left_ids` | gauge | ids in memory, which the end of the process would waste |
//! | `uidring_segment_step_ids` | gauge | ids that the next load asks for |

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::generator::CachedStats;
use crate::segment::SegmentStats;

/// Publishes the stats of the generator that is called `generator`.
///
/// ```
/// use uidring::CachedUidGenerator;
///
/// let orders = CachedUidGenerator::builder().worker_id(7).build()?;
/// // Before each scrape, or every few seconds:
/// uidring::metrics::publish("orders", &orders.stats());
/// # Ok::<(), uidring::Error>(())
/// ```
pub fn publish(generator: &str, stats: &CachedStats) {
    let count = |name: &'static str, value| {
        counter!(name, "generator" => generator.to_owned()).absolute(value);
    };
    count("uidring_taken_total", stats.taken);
    count("uidring_waits_total", stats.waits);
    count("uidring_rejects_total", stats.rejects);
    count("uidring_dropped_total", stats.ring.dropped);
    count("uidring_dried_total", stats.ring.dried);
    count("uidring_discarded_total", stats.ring.discarded);
    count("uidring_paddings_total", stats.paddings);
    let set = |name: &'static str, value| {
        gauge!(name, "generator" => generator.to_owned()).set(value);
    };
    set("uidring_available_uids", stats.ring.available as f64);
    set("uidring_capacity_uids", stats.ring.capacity as f64);
    set("uidring_lead_seconds", stats.lead.as_secs_f64());
    set("uidring_lag_seconds", stats.lag.as_secs_f64());
    set("uidring_remaining_life_seconds", stats.remaining_life.as_secs_f64());
    set("uidring_worker_id", stats.worker_id as f64);
}

/// Publishes the stats of a tag of the generator that is called `generator`.
///
/// ```
/// use uidring::SegmentGenerator;
/// use uidring::segment::{MemorySegments, SegmentTag};
///
/// let table = MemorySegments::new();
/// table.create(SegmentTag::new("orders").step(1_000))?;
/// let numbers = SegmentGenerator::builder(table).build()?;
/// for tag in numbers.tags()? {
///     uidring::metrics::publish_segment("numbers", &tag, &numbers.stats(&tag)?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn publish_segment(generator: &str, tag: &str, stats: &SegmentStats) {
    let count = |name: &'static str, value| {
        counter!(name, "generator" => generator.to_owned(), "tag" => tag.to_owned())
            .absolute(value);
    };
    count("uidring_segment_taken_total", stats.taken);
    count("uidring_segment_reserved_total", stats.reserved);
    count("uidring_segment_loads_total", stats.loads);
    count("uidring_segment_load_failures_total", stats.load_failures);
    count("uidring_segment_waits_total", stats.waits);
    count("uidring_segment_rejects_total", stats.rejects);
    count("uidring_segment_dried_total", stats.dried);
    let set = |name: &'static str, value: u64| {
        gauge!(name, "generator" => generator.to_owned(), "tag" => tag.to_owned())
            .set(value as f64);
    };
    set("uidring_segment_left_ids", stats.left);
    set("uidring_segment_step_ids", stats.step);
}

/// Tells the recorder what the metrics mean; to be called once, after it is installed.
pub fn describe() {
    let count = |name: &'static str, text: &'static str| {
        describe_counter!(name, Unit::Count, text);
    };
    count("uidring_taken_total", "uids taken, all of each lease included");
    count("uidring_waits_total", "takes and fills that had to sleep");
    count("uidring_rejects_total", "takes and fills that the take policy gave up");
    count("uidring_dropped_total", "draws that gave nothing, most of them behind a tick's end");
    count("uidring_dried_total", "times that takers used up all that was ready");
    count("uidring_discarded_total", "uids that became stale and were discarded");
    count("uidring_paddings_total", "times that the padder has filled the ring");
    count("uidring_segment_taken_total", "ids of a tag taken");
    count("uidring_segment_reserved_total", "ids of a tag reserved in the table");
    count("uidring_segment_loads_total", "segments of a tag loaded");
    count("uidring_segment_load_failures_total", "loads of a tag that failed");
    count("uidring_segment_waits_total", "takes and fills of a tag that had to sleep");
    count("uidring_segment_rejects_total", "takes and fills of a tag that the policy gave up");
    count("uidring_segment_dried_total", "times that a tag's takers used up all in memory");
    let set = |name: &'static str, unit, text: &'static str| {
        describe_gauge!(name, unit, text);
    };
    set("uidring_available_uids", Unit::Count, "uids ready to be taken");
    set("uidring_capacity_uids", Unit::Count, "uids that the ring holds when full");
    set("uidring_lead_seconds", Unit::Seconds, "how far the next uid is ahead of the clock");
    set("uidring_lag_seconds", Unit::Seconds, "how far the next uid is behind the clock");
    set(
        "uidring_remaining_life_seconds",
        Unit::Seconds,
        "how long the layout lasts at the present rate",
    );
    set("uidring_worker_id", Unit::Count, "the worker id in the uids");
    set("uidring_segment_left_ids", Unit::Count, "ids of a tag in memory");
    set("uidring_segment_step_ids", Unit::Count, "ids that a tag's next load asks for");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::CachedUidGenerator;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    #[test]
    fn what_is_published_is_described_and_right() {
        let generator = CachedUidGenerator::builder().worker_id(7).build().expect("possible");
        for uid in generator.uids().take(100) {
            uid.expect("a uid");
        }
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            describe();
            publish("orders", &generator.stats());
        });
        let all = snapshotter.snapshot().into_vec();
        assert_eq!(all.len(), 13);
        let mut found = 0;
        for (key, unit, description, value) in all {
            let (name, labels) = key.key().clone().into_parts();
            assert!(unit.is_some() && description.is_some(), "{name:?} is described");
            assert_eq!(labels.first().map(|label| label.value()), Some("orders"));
            match (name.as_str(), value) {
                ("uidring_taken_total", DebugValue::Counter(taken)) => {
                    assert_eq!(taken, 100);
                    found += 1;
                }
                ("uidring_worker_id", DebugValue::Gauge(id)) => {
                    assert!((id.into_inner() - 7.0).abs() < f64::EPSILON);
                    found += 1;
                }
                (name, DebugValue::Counter(_)) => assert!(name.ends_with("_total"), "{name}"),
                (name, _) => assert!(!name.ends_with("_total"), "{name}"),
            }
        }
        assert_eq!(found, 2);
    }

    #[test]
    fn a_tags_stats_are_published_with_its_name() {
        let stats = SegmentStats { taken: 7, left: 3, ..SegmentStats::default() };
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            describe();
            publish_segment("numbers", "orders", &stats);
        });
        let all = snapshotter.snapshot().into_vec();
        assert_eq!(all.len(), 9);
        for (key, unit, description, value) in all {
            let (name, labels) = key.key().clone().into_parts();
            assert!(unit.is_some() && description.is_some(), "{name:?} is described");
            assert_eq!(labels.last().map(|label| label.value()), Some("orders"));
            match name.as_str() {
                "uidring_segment_taken_total" => assert_eq!(value, DebugValue::Counter(7)),
                "uidring_segment_left_ids" => assert_eq!(value, DebugValue::Gauge(3.0.into())),
                _ => {}
            }
        }
    }
}
