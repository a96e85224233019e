//! `/metrics` for Prometheus: metrics of the generators and of the server.

use std::fmt::Write;
use std::sync::Arc;

use metrics::{counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::PrometheusBuilder;
use uidring::metrics_facade::{describe, publish};
use uidring::segment::SegmentStats;

use super::answer::Answer;
use super::body::{Body, Room};
use crate::issuer::Issuer;
use crate::listener::Protocol;
use crate::names::{Name, Names};
use crate::shared::Shared;

pub fn answer(shared: &Shared, room: Room) -> Answer {
    let names = Shown::of(&shared.names);
    // A new recorder per scrape, so that removed tags leave nothing.
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        publish_generators(&names);
        publish_server(shared, &names);
    });
    let mut text = recorder.handle().render();
    histograms(shared, &mut text);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Answer::new(kind, Body::with_room(text, Some(room)))
}

/// How many names have their own series, in the order in which the server learned of them. The others share one, so
/// that scrapes stay bounded. Uid generators are few, and always keep their own series of the core's metrics.
const OWN_SERIES: usize = 1_000;

/// The name of the shared series.
const OTHERS: &str = "(others)";

/// Names, by series. A name keeps its series as long as the server runs.
struct Shown {
    own: Vec<Arc<Name>>,
    others: Vec<Arc<Name>>,
    /// Deleted names of the shared series, which keep counting in it.
    deleted: Vec<Arc<Name>>,
}

impl Shown {
    fn of(names: &Names) -> Self {
        // A tag with the name of the shared series belongs to it.
        let has_own = |name: &Arc<Name>| name.rank < OWN_SERIES && name.text() != OTHERS;
        let (names, mut deleted) = names.list_with_deleted();
        let (own, others) = names.into_iter().partition(has_own);
        deleted.retain(|name| !has_own(name));
        Self { own, others, deleted }
    }
}

fn publish_generators(names: &Shown) {
    describe();
    for name in names.own.iter().chain(&names.others) {
        if let Some(generator) = name.issuer().generator() {
            publish(&escaped(name.text()), &generator.stats());
        }
    }
    for name in &names.own {
        if let Some(stats) = of_segments(name) {
            publish("segments", &(&*escaped(name.text()), stats));
        }
    }
    let present = names.others.iter().filter_map(of_segments);
    // A deleted tag's ids are discarded, and it loads no more.
    let deleted = names.deleted.iter().filter_map(of_segments);
    let deleted = deleted.map(|mut stats| {
        (stats.left, stats.step) = (0, 0);
        stats
    });
    if let Some(others) = present.chain(deleted).reduce(sum) {
        publish("segments", &(OTHERS, others));
    }
}

fn of_segments(name: &Arc<Name>) -> Option<SegmentStats> {
    match name.issuer() {
        Issuer::Segment(handle) => handle.stats().ok(),
        _ => None,
    }
}

/// Escapes a label's value. The exporter takes a backslash before a quote or a backslash for an existing escape.
/// Without this, two names could become one.
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

/// The server's own metrics with their descriptions. Counters end in `_total`.
const METRICS: [(&str, &str); 9] = [
    ("uidring_server_uptime_seconds", "time since the server started"),
    ("uidring_server_connections", "connections that are open"),
    ("uidring_server_accepted_connections_total", "connections accepted"),
    ("uidring_server_refused_connections_total", "connections refused for lack of room"),
    ("uidring_server_requests_total", "requests answered"),
    ("uidring_server_request_errors_total", "requests answered with an error"),
    ("uidring_server_ids_total", "ids issued"),
    ("uidring_server_issue_errors_total", "requests for ids that failed"),
    ("uidring_server_ready", "1 if the name issues ids, or else 0"),
];

fn publish_server(shared: &Shared, names: &Shown) {
    for (metric, text) in METRICS {
        if metric.ends_with("_total") {
            describe_counter!(metric, text);
        } else {
            describe_gauge!(metric, text);
        }
    }
    gauge!("uidring_server_uptime_seconds").set(shared.start.elapsed().as_secs_f64());
    gauge!("uidring_server_connections").set(shared.seats.count() as f64);
    for protocol in Protocol::ALL {
        let stats = shared.counters(protocol).stats();
        for (metric, value) in [
            ("uidring_server_accepted_connections_total", stats.connections),
            ("uidring_server_refused_connections_total", stats.refused),
            ("uidring_server_requests_total", stats.requests),
            ("uidring_server_request_errors_total", stats.errors),
        ] {
            counter!(metric, "protocol" => protocol.name()).absolute(value);
        }
    }
    for name in &names.own {
        publish_name(&escaped(name.text()), &[name], name.problem().is_none());
    }
    let others: Vec<_> = names.others.iter().chain(&names.deleted).collect();
    if !others.is_empty() {
        let is_ready = names.others.iter().all(|name| name.problem().is_none());
        publish_name(OTHERS, &others, is_ready);
    }
}

/// Publishes the series of these names together.
fn publish_name(text: &str, names: &[&Arc<Name>], is_ready: bool) {
    for protocol in Protocol::ALL {
        let counts = names.iter().map(|name| name.counters.get(protocol));
        let (ids, errors) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        let labels = [("name", text.to_owned()), ("protocol", protocol.name().to_owned())];
        counter!("uidring_server_ids_total", &labels).absolute(ids);
        counter!("uidring_server_issue_errors_total", &labels).absolute(errors);
    }
    gauge!("uidring_server_ready", "name" => text.to_owned()).set(f64::from(u8::from(is_ready)));
}

/// Writes how long answers took. The exporter's histograms take single values, but the server keeps counts.
fn histograms(shared: &Shared, out: &mut String) {
    let metric = "uidring_server_request_duration_seconds";
    let text = "time from a request's bytes to its answer's";
    // Writing to a string cannot fail.
    let _ = write!(out, "# HELP {metric} {text}\n# TYPE {metric} histogram\n");
    for protocol in Protocol::ALL {
        let stats = shared.counters(protocol).stats();
        let label = format!("protocol=\"{protocol}\"");
        let mut all = 0;
        for (limit, count) in stats.cumulative_times() {
            let limit = limit.map_or_else(|| "+Inf".into(), |time| time.as_secs_f64().to_string());
            let _ = writeln!(out, "{metric}_bucket{{{label},le=\"{limit}\"}} {count}");
            all = count;
        }
        let _ = writeln!(out, "{metric}_sum{{{label}}} {}", stats.total_time.as_secs_f64());
        let _ = writeln!(out, "{metric}_count{{{label}}} {all}");
    }
}
