//! The results of a bench as a table.

use super::args::Policy;
use super::contestant::Tally;
use super::measure::Measured;
use super::report::{QUANTILES, Report, TAIL};
use crate::table::aligned;

pub fn table(report: &Report<'_>) -> String {
    let title = format!(
        "uidring {}: what an id costs, {}\n{}\n{}",
        env!("CARGO_PKG_VERSION"),
        report.title(),
        report.machine(),
        settings(report)
    );
    let mut parts = vec![title];
    let mut sections = vec![throughput(report), latency(report)];
    if !report.measured.scaling.is_empty() {
        sections.push(scaling(report));
    }
    for rows in sections {
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

fn throughput(report: &Report<'_>) -> Vec<Vec<String>> {
    let rejects = matches!(report.args.policy, Policy::Reject);
    let head = format!("median of {} rounds", report.rounds);
    let mut rows = vec![row(&head, ["ns/uid", "÷ fetch_add", "M uids/s"])];
    rows[0].extend(rejects.then(|| "rejected".into()));
    for figures in &report.measured.figures {
        let ratio = ratio(report.measured.ratio(figures));
        let mut row = row(
            &figures.name,
            [rounded(figures.ns_per_id()), ratio, rounded(figures.millions_a_second())],
        );
        // The calls for latency included.
        let Tally { calls, rejects: rejected, .. } = figures.tally;
        row.extend(rejects.then(|| format!("{:.3} %", 100.0 * rejected as f64 / calls as f64)));
        rows.push(row);
    }
    rows
}

fn latency(report: &Report<'_>) -> Vec<Vec<String>> {
    let names = QUANTILES.iter().map(|(_, name, _)| *name);
    let head = names.chain(["max", "÷ at p99.99", "calls timed"]);
    let mut rows = vec![row("latency of a call, ns", head)];
    rows.extend(report.measured.figures.iter().map(|figures| {
        let times = &figures.latency;
        let quantiles = QUANTILES.iter().map(|(quantile, ..)| times.value_at_quantile(*quantile));
        let ratio = report.measured.latency_ratio(figures, TAIL).map_or("-".into(), ratio);
        let times = quantiles.chain([times.max()]).map(|ns| ns.to_string());
        row(&figures.name, times.chain([ratio, figures.latency.len().to_string()]))
    }));
    rows
}

fn scaling(report: &Report<'_>) -> Vec<Vec<String>> {
    let Measured { scaling, .. } = &report.measured;
    let threads = scaling.iter().map(|at| at.threads.to_string());
    let mut rows = vec![row("M uids/s by threads", threads)];
    rows.extend(report.measured.main().iter().enumerate().map(|(which, figures)| {
        row(&figures.name, scaling.iter().map(|at| rounded(at.rates[which])))
    }));
    rows
}

fn row<T: Into<String>>(name: &str, cells: impl IntoIterator<Item = T>) -> Vec<String> {
    let cells = cells.into_iter().map(Into::into);
    [name.to_owned()].into_iter().chain(cells).collect()
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
