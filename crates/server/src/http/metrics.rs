//! `/metrics`, for Prometheus: the generators' own, and what the server has done.

use std::fmt::{Display, Write};
use std::sync::Arc;

use hyper::{Response, StatusCode};
use metrics_exporter_prometheus::PrometheusBuilder;
use uidring::metrics_facade::{describe, publish, publish_segment};
use uidring::segment::SegmentStats;

use super::answer;
use super::body::{Body, Room};
use super::kind;
use super::request::Asked;
use crate::issuer::Issuer;
use crate::listener::Protocol;
use crate::names::{Name, Names};
use crate::shared::Shared;
use crate::stats::ProtocolStats;

pub fn answer(shared: &Shared, asked: Asked, room: Room) -> Response<Body> {
    let names = Shown::of(&shared.names);
    let mut text = of_generators(&names);
    of_server(shared, &names, &mut Metrics(&mut text));
    answer::with(
        asked,
        StatusCode::OK,
        kind::PROMETHEUS,
        Body::Bytes { bytes: text.into(), _room: Some(room) },
    )
}

/// So many names have series of their own, the first that the server knew. The others share one, so that a scrape ends.
/// Generators of uids are few, and always keep their series of the core's metrics.
const OWN_SERIES: usize = 1_000;

/// What these are called.
const OTHERS: &str = "(others)";

/// Names, and in which series they are: for as long as the server runs in the same.
struct Shown {
    own: Vec<Arc<Name>>,
    others: Vec<Arc<Name>>,
    /// Others that were deleted: a counter goes on with what they had counted.
    deleted: Vec<Arc<Name>>,
}

impl Shown {
    fn of(names: &Names) -> Self {
        // A tag may be called as the others are: it is one of them.
        let has_own = |name: &Arc<Name>| name.rank < OWN_SERIES && name.text() != OTHERS;
        let (names, mut deleted) = names.list_with_deleted();
        let (own, others) = names.into_iter().partition(has_own);
        deleted.retain(|name| !has_own(name));
        Self { own, others, deleted }
    }

    /// Whether there is a series of the others.
    fn have_others(&self) -> bool {
        !self.others.is_empty() || !self.deleted.is_empty()
    }

    /// All others since the start.
    fn others(&self) -> impl Iterator<Item = &Arc<Name>> {
        self.others.iter().chain(&self.deleted)
    }
}

/// The core's metrics. The recorder is of this scrape alone, so that tags that are gone leave nothing.
fn of_generators(names: &Shown) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        describe();
        for name in names.own.iter().chain(&names.others) {
            if let Some(generator) = name.issuer().generator() {
                publish(&escaped(name.text()), &generator.stats());
            }
        }
        for name in &names.own {
            if let Some(stats) = of_segments(name) {
                publish_segment("segments", &escaped(name.text()), &stats);
            }
        }
        let present = names.others.iter().filter_map(of_segments);
        // What a tag had is discarded with it, and no load of it will come.
        let deleted = names.deleted.iter().filter_map(of_segments);
        let deleted = deleted.map(|mut stats| {
            (stats.left, stats.step) = (0, 0);
            stats
        });
        if let Some(others) = present.chain(deleted).reduce(sum) {
            publish_segment("segments", OTHERS, &others);
        }
    });
    recorder.handle().render()
}

fn of_segments(name: &Arc<Name>) -> Option<SegmentStats> {
    match name.issuer() {
        Issuer::Segment(handle) => handle.stats().ok(),
        _ => None,
    }
}

/// A label's value for the exporter, which takes a backslash before a quote or another one for an escape that is there
/// already: without these, two names would be one.
fn escaped(name: &str) -> String {
    name.replace('\\', r"\\")
}

fn sum(mut sum: SegmentStats, stats: SegmentStats) -> SegmentStats {
    sum.left += stats.left;
    sum.taken += stats.taken;
    sum.reserved += stats.reserved;
    sum.loads += stats.loads;
    sum.load_failures += stats.load_failures;
    sum.step += stats.step;
    sum.waits += stats.waits;
    sum.rejects += stats.rejects;
    sum.dried += stats.dried;
    sum
}

fn of_server(shared: &Shared, names: &Shown, out: &mut Metrics<'_>) {
    let all: Vec<_> = Protocol::ALL
        .iter()
        .map(|protocol| (protocol.name(), shared.counters(*protocol).stats()))
        .collect();
    out.head("uidring_server_uptime_seconds", "gauge", "time since the server started");
    out.line("uidring_server_uptime_seconds", &[], shared.start.elapsed().as_secs_f64());
    out.head("uidring_server_connections", "gauge", "connections that are open");
    out.line("uidring_server_connections", &[], shared.seats.count());
    for (metric, text, value) in [
        (
            "uidring_server_accepted_connections_total",
            "connections accepted",
            all.iter().map(|(_, stats)| stats.connections).collect::<Vec<_>>(),
        ),
        (
            "uidring_server_refused_connections_total",
            "connections refused for lack of room",
            all.iter().map(|(_, stats)| stats.refused).collect(),
        ),
        (
            "uidring_server_requests_total",
            "requests answered",
            all.iter().map(|(_, stats)| stats.requests).collect(),
        ),
        (
            "uidring_server_request_errors_total",
            "requests answered with an error",
            all.iter().map(|(_, stats)| stats.errors).collect(),
        ),
    ] {
        out.head(metric, "counter", text);
        for ((protocol, _), value) in all.iter().zip(value) {
            out.line(metric, &[("protocol", protocol)], value);
        }
    }
    let metric = "uidring_server_request_duration_seconds";
    out.head(metric, "histogram", "time from a request's bytes to its answer's");
    for (protocol, stats) in &all {
        out.histogram(metric, protocol, stats);
    }
    of_names(names, out);
}

fn of_names(names: &Shown, out: &mut Metrics<'_>) {
    let (ids, errors) = ("uidring_server_ids_total", "uidring_server_issue_errors_total");
    for (metric, text) in [(ids, "ids issued"), (errors, "requests for ids that failed")] {
        out.head(metric, "counter", text);
        for name in &names.own {
            for protocol in Protocol::ALL {
                let (issued, failed) = name.counters.get(protocol);
                let value = if metric == ids { issued } else { failed };
                let labels = [("name", name.text()), ("protocol", protocol.name())];
                out.line(metric, &labels, value);
            }
        }
        for protocol in Protocol::ALL.into_iter().filter(|_| names.have_others()) {
            let counts = names.others().map(|name| name.counters.get(protocol));
            let value: u64 =
                counts.map(|(issued, failed)| if metric == ids { issued } else { failed }).sum();
            out.line(metric, &[("name", OTHERS), ("protocol", protocol.name())], value);
        }
    }
    let metric = "uidring_server_ready";
    out.head(metric, "gauge", "1 if the name issues ids, or else 0");
    for name in &names.own {
        let is_ready = u8::from(name.problem().is_none());
        out.line(metric, &[("name", name.text())], is_ready);
    }
    if names.have_others() {
        let is_ready = u8::from(names.others.iter().all(|name| name.problem().is_none()));
        out.line(metric, &[("name", OTHERS)], is_ready);
    }
}

/// Text in Prometheus's format. Writing into a string does not fail.
struct Metrics<'a>(&'a mut String);

impl Metrics<'_> {
    fn head(&mut self, metric: &str, kind: &str, text: &str) {
        let _ = write!(self.0, "# HELP {metric} {text}\n# TYPE {metric} {kind}\n");
    }

    fn line(&mut self, metric: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(metric);
        for (index, (key, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{key}=\"");
            for char in text.chars() {
                match char {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    char => self.0.push(char),
                }
            }
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn histogram(&mut self, metric: &str, protocol: &str, stats: &ProtocolStats) {
        let (bucket, mut all) = (format!("{metric}_bucket"), 0);
        for (limit, count) in stats.cumulative_times() {
            let limit = limit.map_or_else(|| "+Inf".into(), |time| time.as_secs_f64().to_string());
            self.line(&bucket, &[("protocol", protocol), ("le", &limit)], count);
            all = count;
        }
        let labels = [("protocol", protocol)];
        self.line(&format!("{metric}_sum"), &labels, stats.total_time.as_secs_f64());
        self.line(&format!("{metric}_count"), &labels, all);
    }
}
