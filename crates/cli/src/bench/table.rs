//! The results of a bench as a table.

use serde_json::Value;

use super::report::Report;
use crate::table::aligned;

/// The columns about throughput, each with its place in the JSON of a result.
const THROUGHPUT: [(&str, &str); 3] = [
    ("ns/uid", "/ns_per_uid"),
    ("÷ fetch_add", "/ratios_to_fetch_add/ns_per_uid"),
    ("M uids/s", "/million_uids_per_second"),
];

const LATENCY: [(&str, &str); 7] = [
    ("p50", "/latency_ns/p50"),
    ("p99", "/latency_ns/p99"),
    ("p99.9", "/latency_ns/p99_9"),
    ("p99.99", "/latency_ns/p99_99"),
    ("max", "/latency_ns/max"),
    ("÷ at p99.99", "/ratios_to_fetch_add/p99_99"),
    ("calls timed", "/latency_ns/calls"),
];

pub fn table(report: &Report<'_>) -> String {
    let title = format!(
        "uidring {}: what an id costs, {}\n{}\n{}",
        env!("CARGO_PKG_VERSION"),
        report.title(),
        report.machine(),
        settings(report)
    );
    let json = report.json();
    let section =
        |head: &str, columns: &[(&str, &str)]| {
            let mut rows = vec![row(head, columns.iter().map(|(name, _)| (*name).to_owned()))];
            rows.extend(json["results"].as_object().into_iter().flatten().map(|(name, result)| {
                row(name, columns.iter().map(|(_, place)| cell(result, place)))
            }));
            aligned(&rows, |column| column > 0)
        };
    let rounds = format!("median of {} rounds", report.rounds);
    let (throughput, latency) =
        (section(&rounds, &THROUGHPUT), section("latency of a call, ns", &LATENCY));
    [title, throughput, latency, report.notes().join("\n")].join("\n\n")
}

fn settings(report: &Report<'_>) -> String {
    let layout = &report.layout;
    format!(
        "layout {} in {} from {}, a ring of {} uids",
        layout.bits(),
        layout.tick(),
        layout.epoch().date(),
        report.ring
    )
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    [name.to_owned()].into_iter().chain(cells).collect()
}

fn cell(result: &Value, place: &str) -> String {
    match result.pointer(place).and_then(Value::as_f64) {
        None => "-".into(),
        Some(ratio) if place.starts_with("/ratios") => format!("{ratio:.2}"),
        Some(count) if place.starts_with("/latency") => format!("{count:.0}"),
        Some(figure) => rounded(figure),
    }
}

/// Rounds to three or four digits.
fn rounded(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.3}"),
        ..100.0 => format!("{value:.2}"),
        ..1_000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
