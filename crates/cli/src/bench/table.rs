//! The results of a bench as a table.

use serde_json::Value;

use super::args::Policy;
use super::measure::Figures;
use super::report::Report;
use crate::table::aligned;

/// The columns about throughput, and their places in the JSON of a result.
const THROUGHPUT: [(&str, &str); 4] = [
    ("ns/uid", "/ns_per_uid"),
    ("÷ fetch_add", "/ratios_to_fetch_add/ns_per_uid"),
    ("M uids/s", "/million_uids_per_second"),
    ("rejected", "/rejects"),
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
            aligned(&rows, |column| column > 0).join("\n")
        };
    // Who waits is not rejected.
    let rejects = usize::from(matches!(report.args.policy, Policy::Reject));
    let rounds = format!("median of {} rounds", report.rounds);
    let throughput = section(&rounds, &THROUGHPUT[..3 + rejects]);
    let mut parts = vec![title, throughput, section("latency of a call, ns", &LATENCY)];
    let scaling = json["scaling_million_uids_per_second"].as_array().filter(|at| !at.is_empty());
    if let Some(scaling) = scaling {
        let threads = scaling.iter().map(|at| at["threads"].to_string());
        let mut rows = vec![row("M uids/s by threads", threads)];
        rows.extend(report.measured.main().iter().map(|Figures { name, .. }| {
            row(name, scaling.iter().map(|at| cell(at, &format!("/{name}"))))
        }));
        parts.push(aligned(&rows, |column| column > 0).join("\n"));
    }
    parts.push(report.notes().join("\n"));
    parts.join("\n\n")
}

fn settings(report: &Report<'_>) -> String {
    let idle = if report.args.busy_poll { "polling" } else { "sleeping" };
    let core = match report.args.padder_core.text.as_str() {
        "last" => "on the last core".into(),
        "none" => "on any core".into(),
        number => format!("on core {number}"),
    };
    let layout = &report.layout;
    format!(
        "layout {} in {} from {}, a ring of {} uids, the padder {core}, {idle}",
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
    let number = |place| result.pointer(place).and_then(Value::as_f64);
    match (number(place), number("/calls")) {
        (None, _) => "-".into(),
        // Of all calls, those for latency included.
        (Some(rejects), Some(calls)) if place == "/rejects" => {
            format!("{:.3} %", 100.0 * rejects / calls)
        }
        (Some(ratio), _) if place.starts_with("/ratios") => format!("{ratio:.2}"),
        (Some(count), _) if place.starts_with("/latency") => format!("{count:.0}"),
        (Some(figure), _) => rounded(figure),
    }
}

/// Three digits or a little more.
fn rounded(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.3}"),
        ..100.0 => format!("{value:.2}"),
        ..1_000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
