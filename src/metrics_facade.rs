//! Publishes generators' stats through the `metrics` facade (feature `metrics`), with Prometheus-style names and units.
//! Call [`publish`] before each scrape; a take never touches a metric. `docs/alerts.yml` has alert rules.
//!
#![doc = include_str!("metrics_facade/metrics.md")]

use std::time::Duration;

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, gauge};

use crate::generator::{CachedStats, ClockedStats};
use crate::segment::SegmentStats;
use crate::worker::LeaseStats;

/// The documented metrics, from which they are also described to the recorder.
const TABLES: &str = include_str!("metrics_facade/metrics.md");

/// Publishes the stats of the generator called `generator`.
///
/// ```
/// use uidring::segment::{MemorySegments, SegmentTag};
/// use uidring::{CachedUidGenerator, SegmentGenerator, metrics_facade};
///
/// let orders = CachedUidGenerator::builder().worker_id(7).build()?;
/// // Before each scrape, or every few seconds:
/// metrics_facade::publish("orders", &orders.stats());
///
/// // Those of a segment generator are published tag by tag.
/// let table = MemorySegments::new();
/// table.create(SegmentTag::new("invoices").step(1_000))?;
/// let numbers = SegmentGenerator::builder(table).build()?;
/// for tag in numbers.tags()? {
///     metrics_facade::publish("numbers", &(&*tag, numbers.stats(&tag)?));
/// }
/// # Ok::<(), uidring::Error>(())
/// ```
pub fn publish(generator: &str, stats: &impl Metrics) {
    stats.publish(Labels(vec![Label::new("generator", generator.to_owned())]));
}

/// Stats that can be published: a generator's, or a tag's with its name.
pub trait Metrics {
    /// Publishes them with these labels.
    fn publish(&self, labels: Labels);
}

impl Metrics for CachedStats {
    fn publish(&self, labels: Labels) {
        labels.common(self.worker_id, self.waits, self.rejects, self.lease);
        labels.seconds("uidring_lead_seconds", self.lead);
        labels.seconds("uidring_remaining_life_seconds", self.remaining_life);
        labels.count("uidring_taken_total", self.taken);
        labels.count("uidring_dropped_total", self.ring.dropped);
        labels.count("uidring_dried_total", self.ring.dried);
        labels.count("uidring_discarded_total", self.ring.discarded);
        labels.count("uidring_paddings_total", self.paddings);
        labels.set("uidring_available_uids", self.ring.available as f64);
        labels.set("uidring_capacity_uids", self.ring.capacity as f64);
        labels.seconds("uidring_lag_seconds", self.lag);
        labels.seconds("uidring_clock_behind_seconds", self.clock_behind);
    }
}

impl Metrics for ClockedStats {
    fn publish(&self, labels: Labels) {
        labels.common(self.worker_id, self.waits, self.rejects, self.lease);
        labels.seconds("uidring_lead_seconds", self.lead);
        labels.seconds("uidring_remaining_life_seconds", self.remaining_life);
        labels.count("uidring_clock_refusals_total", self.clock_refusals);
    }
}

impl Metrics for (&str, SegmentStats) {
    fn publish(&self, mut labels: Labels) {
        let (tag, stats) = self;
        labels.0.push(Label::new("tag", (*tag).to_owned()));
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
}

/// Describes the metrics to the recorder. Call this once, after installing it.
pub fn describe() {
    for (name, text) in described() {
        let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        if name.ends_with("_total") {
            describe_counter!(name, unit, text);
        } else {
            describe_gauge!(name, unit, text);
        }
    }
}

/// The name and description of each metric. A counter's name ends in `_total`.
fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLES.lines().filter_map(|row| {
        let (name, rest) = row.strip_prefix("| `")?.split_once("` | ")?;
        let (_kind, text) = rest.strip_suffix(" |")?.split_once(" | ")?;
        Some((name, text))
    })
}

/// The labels of one generator's metrics.
#[derive(Debug)]
pub struct Labels(Vec<Label>);

impl Labels {
    fn count(&self, name: &'static str, value: u64) {
        counter!(name, self.0.clone()).absolute(value);
    }

    fn set(&self, name: &'static str, value: f64) {
        gauge!(name, self.0.clone()).set(value);
    }

    fn seconds(&self, name: &'static str, time: Duration) {
        self.set(name, time.as_secs_f64());
    }

    fn common(&self, worker_id: u64, waits: u64, rejects: u64, lease: Option<LeaseStats>) {
        self.set("uidring_worker_id", worker_id as f64);
        self.count("uidring_waits_total", waits);
        self.count("uidring_rejects_total", rejects);
        let Some(lease) = lease else { return };
        self.set("uidring_lease_lost", f64::from(u8::from(lease.is_lost)));
        if let Some(left) = lease.time_left {
            self.seconds("uidring_lease_deadline_seconds", left);
        }
        self.seconds("uidring_lease_horizon_seconds", lease.horizon_left);
        self.count("uidring_lease_renewals_total", lease.renewals);
        self.count("uidring_lease_renewal_failures_total", lease.renewal_failures);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;
    use crate::generator::CachedUidGenerator;

    /// What `publish` has published, by name. All metrics are described, and `label` is their last label.
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
        let all = published("b", || publish("b", &clocked));
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
        let all = published("orders", || publish("numbers", &("orders", tag)));
        assert_eq!(all["uidring_segment_taken_total"], 7.0);
        assert_eq!(all["uidring_segment_left_ids"], 3.0);
        names.extend(all.into_keys());
        assert!(names == all_names(), "{names:?}");
    }

    fn all_names() -> BTreeSet<String> {
        let names: BTreeSet<_> = described().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names.len(), described().count());
        names
    }

    /// The words of a text that are names of metrics, without the server's own.
    fn names_in(text: &str) -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names = words.filter(|word| word.starts_with("uidring_"));
        names.filter(|name| !name.starts_with("uidring_server_")).map(str::to_owned).collect()
    }

    #[test]
    fn docs_and_alerts_name_metrics_that_exist() {
        for text in [include_str!("../docs/alerts.yml"), include_str!("../docs/operations.md")] {
            let names = names_in(text);
            let unknown: Vec<_> = names.difference(&all_names()).cloned().collect();
            assert!(names.len() > 8 && unknown.is_empty(), "{unknown:?} of {names:?}");
        }
    }
}
