//! A report as a table.

use std::fmt::Display;

use super::args::Policy;
use super::contestant::Tally;
use super::measure::Measured;
use super::report::{QUANTILES, Report};

pub fn table(report: &Report<'_>) -> String {
    let mut lines = vec![
        format!("uidring {}: what an id costs, {}", env!("CARGO_PKG_VERSION"), report.title()),
        report.machine(),
        settings(report),
        String::new(),
    ];
    lines.extend(throughput(report));
    lines.push(String::new());
    lines.extend(latency(report));
    if !report.measured.scaling.is_empty() {
        lines.push(String::new());
        lines.extend(scaling(report));
    }
    lines.push(String::new());
    lines.extend(report.notes());
    lines.join("\n")
}

fn settings(report: &Report<'_>) -> String {
    let idle = if report.args.busy_poll { "polling" } else { "sleeping" };
    let core = match report.args.padder_core.to_string().as_str() {
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

fn throughput(report: &Report<'_>) -> Vec<String> {
    let rejects = matches!(report.args.policy, Policy::Reject);
    let mut heading = vec!["ns/uid", "÷ fetch_add", "M uids/s"];
    heading.extend(rejects.then_some("rejected"));
    let mut lines = vec![row(&format!("median of {} rounds", report.rounds), heading)];
    lines.extend(report.measured.figures.iter().map(|figures| {
        let ratio = ratio(report.measured.ratio(figures));
        let mut cells =
            vec![rounded(figures.ns_per_id()), ratio, rounded(figures.millions_a_second())];
        // The calls for latency included.
        let Tally { calls, rejects: rejected, .. } = figures.tally;
        cells.extend(rejects.then(|| format!("{:.3} %", 100.0 * rejected as f64 / calls as f64)));
        row(figures.name, cells)
    }));
    lines
}

fn latency(report: &Report<'_>) -> Vec<String> {
    let names = QUANTILES.iter().map(|(_, name, _)| *name);
    let heading = names.chain(["max", "÷ at p99.99", "calls timed"]).collect();
    let mut lines = vec![row("latency of a call, ns", heading)];
    let (tail, ..) = QUANTILES[QUANTILES.len() - 1];
    lines.extend(report.measured.figures.iter().map(|figures| {
        let times = &figures.latency;
        let quantiles = QUANTILES.iter().map(|(quantile, ..)| times.value_at_quantile(*quantile));
        let mut cells: Vec<_> = quantiles.chain([times.max()]).map(|ns| ns.to_string()).collect();
        cells.push(report.measured.latency_ratio(figures, tail).map_or("-".into(), ratio));
        cells.push(times.len().to_string());
        row(figures.name, cells)
    }));
    lines
}

fn scaling(report: &Report<'_>) -> Vec<String> {
    let Measured { scaling, .. } = &report.measured;
    let threads = scaling.iter().map(|at| at.threads.to_string()).collect();
    let mut lines = vec![row("M uids/s by threads", threads)];
    lines.extend(report.measured.main().iter().enumerate().map(|(which, figures)| {
        row(figures.name, scaling.iter().map(|at| rounded(at.rates[which])).collect())
    }));
    lines
}

/// Widths of a table's columns.
const NAME: usize = 22;
const CELL: usize = 13;

fn row(name: &str, cells: Vec<impl Display>) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>CELL$}")).collect();
    format!("{name:<NAME$}{cells}").trim_end().to_owned()
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
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
