//! Stats of generators through the `metrics` facade (feature `metrics`), with names and units after the
//! conventions of Prometheus. Whoever scrapes calls [`publish`], [`publish_clocked`] or [`publish_segment`]
//! before; a take never touches a metric. `docs/alerts.yml` has alert rules for them.
//!
//! Each metric has the label `generator`:
//!
//! | name | kind | what it is |
//! |---|---|---|
//! | `uidring_worker_id` | gauge | the worker id in the uids |
//! | `uidring_waits_total` | counter | takes and fills that had to sleep |
//! | `uidring_rejects_total` | counter | takes and fills that the take policy gave up |
//! | `uidring_lead_seconds` | gauge | how far uids are ahead of the clock |
//! | `uidring_remaining_life_seconds` | gauge | how long the layout lasts, at the present rate if that is known |
//!
//! A `CachedUidGenerator` adds:
//!
//! | name | kind | what it is |
//! |---|---|---|
//! | `uidring_taken_total` | counter | uids taken, all of each block included |
//! | `uidring_dropped_total` | counter | draws that gave nothing, most of them from behind a tick's end |
//! | `uidring_dried_total` | counter | times that takers used up all that was ready |
//! | `uidring_discarded_total` | counter | uids that became stale and were discarded |
//! | `uidring_paddings_total` | counter | times that the padder has filled the ring |
//! | `uidring_available_uids` | gauge | uids ready to be taken |
//! | `uidring_capacity_uids` | gauge | uids that the ring holds when full |
//! | `uidring_lag_seconds` | gauge | how far the next uid is behind the clock |
//! | `uidring_clock_behind_seconds` | gauge | how far the clock is behind the latest time that it said |
//!
//! A generator on the clock adds:
//!
//! | name | kind | what it is |
//! |---|---|---|
//! | `uidring_clock_refusals_total` | counter | takes and fills that the clock policy refused because the clock was behind |
//!
//! A leased worker id adds:
//!
//! | name | kind | what it is |
//! |---|---|---|
//! | `uidring_lease_lost` | gauge | 1 once the lease is lost or has run out, or else 0 |
//! | `uidring_lease_deadline_seconds` | gauge | time until the lease ends unless renewed; absent without limit |
//! | `uidring_lease_horizon_seconds` | gauge | how far the stored horizon is ahead |
//! | `uidring_lease_renewals_total` | counter | renewals of the lease |
//! | `uidring_lease_renewal_failures_total` | counter | renewals that failed, and were tried again |
//!
//! A tag of a `SegmentGenerator` has these alone, with the label `tag` as well:
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

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, gauge};

use crate::generator::{CachedStats, ClockedStats};
use crate::segment::SegmentStats;
use crate::worker::LeaseStats;

/// Publishes the stats of the generator that is called `generator`.
///
/// ```
/// use uidring::CachedUidGenerator;
///
/// let orders = CachedUidGenerator::builder().worker_id(7).build()?;
/// // Before each scrape, or every few seconds:
/// uidring::metrics_facade::publish("orders", &orders.stats());
/// # Ok::<(), uidring::Error>(())
/// ```
pub fn publish(generator: &str, stats: &CachedStats) {
    let labels = Labels::new(generator);
    labels.common(stats.worker_id, stats.waits, stats.rejects);
    labels.set("uidring_lead_seconds", stats.lead.as_secs_f64());
    labels.set("uidring_remaining_life_seconds", stats.remaining_life.as_secs_f64());
    labels.count("uidring_taken_total", stats.taken);
    labels.count("uidring_dropped_total", stats.ring.dropped);
    labels.count("uidring_dried_total", stats.ring.dried);
    labels.count("uidring_discarded_total", stats.ring.discarded);
    labels.count("uidring_paddings_total", stats.paddings);
    labels.set("uidring_available_uids", stats.ring.available as f64);
    labels.set("uidring_capacity_uids", stats.ring.capacity as f64);
    labels.set("uidring_lag_seconds", stats.lag.as_secs_f64());
    labels.set("uidring_clock_behind_seconds", stats.clock_behind.as_secs_f64());
    labels.lease(stats.lease);
}

/// Publishes the stats of a generator on the clock that is called `generator`.
///
/// ```
/// use uidring::ClockedUidGenerator;
///
/// let events = ClockedUidGenerator::snowflake().worker_id(7).build()?;
/// uidring::metrics_facade::publish_clocked("events", &events.stats());
/// # Ok::<(), uidring::Error>(())
/// ```
pub fn publish_clocked(generator: &str, stats: &ClockedStats) {
    let labels = Labels::new(generator);
    labels.common(stats.worker_id, stats.waits, stats.rejects);
    labels.set("uidring_lead_seconds", stats.lead.as_secs_f64());
    labels.set("uidring_remaining_life_seconds", stats.remaining_life.as_secs_f64());
    labels.count("uidring_clock_refusals_total", stats.clock_refusals);
    labels.lease(stats.lease);
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
///     uidring::metrics_facade::publish_segment("numbers", &tag, &numbers.stats(&tag)?);
/// }
/// # Ok::<(), uidring::Error>(())
/// ```
pub fn publish_segment(generator: &str, tag: &str, stats: &SegmentStats) {
    let mut labels = Labels::new(generator);
    labels.0.push(Label::new("tag", tag.to_owned()));
    labels.count("uidring_segment_taken_total", stats.taken);
    labels.count("uidring_segment_reserved_total", stats.reserved);
    labels.count("uidring_segment_loads_total", stats.loads);
    labels.count("uidring_segment_load_failures_total", stats.load_failures);
    labels.count("uidring_segment_waits_total", stats.waits);
    labels.count("uidring_segment_rejects_total", stats.rejects);
    labels.count("uidring_segment_dried_total", stats.dried);
    labels.set("uidring_segment_left_ids", stats.left as f64);
    labels.set("uidring_segment_step_ids", stats.step as f64);
}

/// Describes the metrics to the recorder; to be called once, after it is installed.
pub fn describe() {
    for &(name, text) in METRICS {
        let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        if name.ends_with("_total") {
            describe_counter!(name, unit, text);
        } else {
            describe_gauge!(name, unit, text);
        }
    }
}

/// Each metric, and what it is. A counter's name ends in `_total`.
const METRICS: &[(&str, &str)] = &[
    ("uidring_worker_id", "the worker id in the uids"),
    ("uidring_waits_total", "takes and fills that had to sleep"),
    ("uidring_rejects_total", "takes and fills that the take policy gave up"),
    ("uidring_lead_seconds", "how far uids are ahead of the clock"),
    ("uidring_remaining_life_seconds", "how long the layout lasts"),
    ("uidring_taken_total", "uids taken, all of each block included"),
    ("uidring_dropped_total", "draws that gave nothing, most of them from behind a tick's end"),
    ("uidring_dried_total", "times that takers used up all that was ready"),
    ("uidring_discarded_total", "uids that became stale and were discarded"),
    ("uidring_paddings_total", "times that the padder has filled the ring"),
    ("uidring_available_uids", "uids ready to be taken"),
    ("uidring_capacity_uids", "uids that the ring holds when full"),
    ("uidring_lag_seconds", "how far the next uid is behind the clock"),
    ("uidring_clock_behind_seconds", "how far the clock is behind the latest time that it said"),
    ("uidring_clock_refusals_total", "takes and fills refused because the clock was behind"),
    ("uidring_lease_lost", "1 once the lease is lost or has run out, or else 0"),
    ("uidring_lease_deadline_seconds", "time until the lease ends unless renewed"),
    ("uidring_lease_horizon_seconds", "how far the stored horizon is ahead"),
    ("uidring_lease_renewals_total", "renewals of the lease"),
    ("uidring_lease_renewal_failures_total", "renewals that failed, and were tried again"),
    ("uidring_segment_taken_total", "ids of a tag taken"),
    ("uidring_segment_reserved_total", "ids of a tag reserved in the table"),
    ("uidring_segment_loads_total", "segments of a tag loaded"),
    ("uidring_segment_load_failures_total", "loads of a tag that failed"),
    ("uidring_segment_waits_total", "takes and fills of a tag that had to sleep"),
    ("uidring_segment_rejects_total", "takes and fills of a tag that the policy gave up"),
    ("uidring_segment_dried_total", "times that a tag's takers used up all in memory"),
    ("uidring_segment_left_ids", "ids of a tag in memory"),
    ("uidring_segment_step_ids", "ids that a tag's next load asks for"),
];

/// The labels of one generator's metrics.
struct Labels(Vec<Label>);

impl Labels {
    fn new(generator: &str) -> Self {
        Self(vec![Label::new("generator", generator.to_owned())])
    }

    fn count(&self, name: &'static str, value: u64) {
        counter!(name, self.0.clone()).absolute(value);
    }

    fn set(&self, name: &'static str, value: f64) {
        gauge!(name, self.0.clone()).set(value);
    }

    fn common(&self, worker_id: u64, waits: u64, rejects: u64) {
        self.set("uidring_worker_id", worker_id as f64);
        self.count("uidring_waits_total", waits);
        self.count("uidring_rejects_total", rejects);
    }

    fn lease(&self, stats: Option<LeaseStats>) {
        let Some(stats) = stats else { return };
        self.set("uidring_lease_lost", f64::from(u8::from(stats.is_lost)));
        if let Some(left) = stats.time_left {
            self.set("uidring_lease_deadline_seconds", left.as_secs_f64());
        }
        self.set("uidring_lease_horizon_seconds", stats.horizon_left.as_secs_f64());
        self.count("uidring_lease_renewals_total", stats.renewals);
        self.count("uidring_lease_renewal_failures_total", stats.renewal_failures);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;
    use crate::generator::CachedUidGenerator;

    /// What `publish` has published: values by name. All are described, and `label` is the last of their
    /// labels.
    fn published(label: &str, publish: impl FnOnce()) -> BTreeMap<String, f64> {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            describe();
            publish();
        });
        let all = snapshotter.snapshot().into_vec().into_iter();
        all.map(|(key, unit, description, value)| {
            let (name, labels) = key.key().clone().into_parts();
            let name = name.as_str().to_owned();
            assert!(unit.is_some() && description.is_some(), "{name} is described");
            assert_eq!(labels.last().map(|label| label.value()), Some(label));
            let (is_counter, value) = match value {
                DebugValue::Counter(count) => (true, count as f64),
                DebugValue::Gauge(value) => (false, value.into_inner()),
                DebugValue::Histogram(_) => panic!("{name} is a histogram"),
            };
            assert_eq!(is_counter, name.ends_with("_total"), "{name}");
            (name, value)
        })
        .collect()
    }

    fn lease() -> Option<LeaseStats> {
        Some(LeaseStats {
            time_left: Some(Duration::from_millis(1_500)),
            horizon_left: Duration::from_secs(20),
            renewals: 7,
            renewal_failures: 2,
            is_lost: true,
        })
    }

    #[test]
    fn what_is_published_is_described_and_right() {
        let generator = CachedUidGenerator::builder().worker_id(7).build().expect("possible");
        for uid in generator.uids().take(100) {
            uid.expect("a uid");
        }
        let all = published("orders", || publish("orders", &generator.stats()));
        assert_eq!((all["uidring_taken_total"], all["uidring_worker_id"]), (100.0, 7.0));
        assert!(!all.contains_key("uidring_lease_lost"), "it has no lease");
    }

    #[test]
    fn each_metric_is_published_by_a_kind_of_generator() {
        let mut names = BTreeSet::new();
        let cached = CachedStats { lease: lease(), ..CachedStats::default() };
        names.extend(published("a", || publish("a", &cached)).into_keys());
        let clocked = ClockedStats { clock_refusals: 3, lease: lease(), ..ClockedStats::default() };
        let all = published("b", || publish_clocked("b", &clocked));
        for (name, value) in [
            ("uidring_clock_refusals_total", 3.0),
            ("uidring_lease_lost", 1.0),
            ("uidring_lease_deadline_seconds", 1.5),
            ("uidring_lease_horizon_seconds", 20.0),
            ("uidring_lease_renewals_total", 7.0),
            ("uidring_lease_renewal_failures_total", 2.0),
        ] {
            assert_eq!(all[name], value, "{name}");
        }
        names.extend(all.into_keys());
        let tag = SegmentStats { taken: 7, left: 3, ..SegmentStats::default() };
        let all = published("orders", || publish_segment("numbers", "orders", &tag));
        assert_eq!(all["uidring_segment_taken_total"], 7.0);
        assert_eq!(all["uidring_segment_left_ids"], 3.0);
        names.extend(all.into_keys());
        assert!(names.iter().eq(&described()), "{names:?}");
    }

    fn described() -> BTreeSet<String> {
        let names: BTreeSet<_> = METRICS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(names.len(), METRICS.len());
        names
    }

    /// The words of a text that are names of metrics.
    fn names_in(text: &str) -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("uidring_")).map(str::to_owned).collect()
    }

    #[test]
    fn docs_and_alerts_name_metrics_that_exist() {
        let docs: String = include_str!("metrics_facade.rs")
            .lines()
            .filter(|line| line.starts_with("//! |"))
            .collect();
        assert_eq!(names_in(&docs), described());
        for text in [include_str!("../docs/alerts.yml"), include_str!("../docs/operations.md")] {
            let names = names_in(text);
            let unknown: Vec<_> = names.difference(&described()).cloned().collect();
            assert!(names.len() > 8 && unknown.is_empty(), "{unknown:?} of {names:?}");
        }
    }
}
