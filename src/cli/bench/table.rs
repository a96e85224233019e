//! A report as a table.

use super::args::Policy;
use super::contestant::Tally;
use super::measure::Figures;
use super::report::{QUANTILES, Report};

pub fn table(report: &Report<'_>) -> String {
    let mut lines = vec![
        format!("uidring {}: {}", env!("CARGO_PKG_VERSION"), report.title()),
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
    let figures = &report.measured.figures;
    let (ours, others) = (&figures[0], &figures[1..]);
    let heading = format!("throughput, median of {} rounds", report.rounds);
    let mut lines = vec![row(&heading, names(report))];
    let ratios = others.iter().map(|other| ratio(report.measured.ratio(other)));
    let costs = others.iter().map(|other| rounded(other.ns_per_id()));
    lines.push(row("ns/uid", cells(rounded(ours.ns_per_id()), costs, ratios)));
    let rates = others.iter().map(|other| rounded(other.millions_a_second()));
    let blanks = others.iter().map(|_| String::new());
    lines.push(row("M uids/s", cells(rounded(ours.millions_a_second()), rates, blanks)));
    if matches!(report.args.policy, Policy::Reject) {
        let Tally { calls, rejects, .. } = ours.tally;
        let share = 100.0 * rejects as f64 / calls as f64;
        let line = row("rejects", vec![rejects.to_string()]);
        lines.push(format!("{line} of {calls} calls ({share:.3} %), those for latency included"));
    }
    lines
}

fn latency(report: &Report<'_>) -> Vec<String> {
    let figures = &report.measured.figures;
    let (ours, others) = (&figures[0], &figures[1..]);
    let heading = match report.uids_per_call() {
        1 => "latency of a call, ns".to_owned(),
        many => format!("latency of a call ({many} uids), ns"),
    };
    let mut lines = vec![row(&heading, names(report))];
    for (quantile, name, _) in QUANTILES {
        let at = |figures: &Figures| figures.latency.value_at_quantile(quantile).to_string();
        let ratios =
            others.iter().map(|other| ratio(report.measured.latency_ratio(other, quantile)));
        lines.push(row(name, cells(at(ours), others.iter().map(at), ratios)));
    }
    let blanks = || others.iter().map(|_| String::new());
    let max = |figures: &Figures| figures.latency.max().to_string();
    lines.push(row("max", cells(max(ours), others.iter().map(max), blanks())));
    let calls = |figures: &Figures| figures.latency.len().to_string();
    lines.push(row("calls timed", cells(calls(ours), others.iter().map(calls), blanks())));
    lines
}

fn scaling(report: &Report<'_>) -> Vec<String> {
    let heading = vec!["uidring".into(), "fetch_add".into()];
    let mut lines = vec![row("M uids/s by threads", heading)];
    lines.extend(
        report
            .measured
            .scaling
            .iter()
            .map(|at| row(&at.threads.to_string(), vec![rounded(at.ours), rounded(at.fetch_add)])),
    );
    lines
}

fn names(report: &Report<'_>) -> Vec<String> {
    let figures = &report.measured.figures;
    let names = figures[1..].iter().map(|other| other.name.into());
    cells(figures[0].name.into(), names, figures[1..].iter().map(|_| "ratio".into()))
}

/// Widths of a table's columns.
const NAME: usize = 34;
const CELL: usize = 12;

fn row(name: &str, cells: Vec<String>) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>CELL$}")).collect();
    format!("{name:<NAME$}{cells}").trim_end().to_owned()
}

/// Ours, then each of the others with the ratio to it.
fn cells(
    ours: String,
    others: impl Iterator<Item = String>,
    ratios: impl Iterator<Item = String>,
) -> Vec<String> {
    [ours].into_iter().chain(others.zip(ratios).flat_map(|(other, ratio)| [other, ratio])).collect()
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
