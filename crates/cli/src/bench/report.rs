//! The results of a bench, as a table or as JSON.

use serde_json::{Map, Value, json};
use uidring::Layout;

use super::args::{BenchArgs, name};
use super::contestant::BATCH;
use super::machine::Machine;
use super::measure::{Figures, Measurements};
use crate::table::aligned;

/// Quantiles and their names in JSON.
const QUANTILES: [(f64, &str); 4] =
    [(0.5, "p50"), (0.99, "p99"), (0.999, "p99_9"), (0.9999, "p99_99")];

/// The quantile whose ratio is reported for the tail.
const TAIL: f64 = 0.9999;

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

pub struct Report<'a> {
    pub args: &'a BenchArgs,
    pub layout: Layout,
    /// The ring's capacity in uids.
    pub ring: u64,
    pub machine: Machine,
    pub rounds: usize,
    pub measured: Measurements<'a>,
}

impl Report<'_> {
    pub fn table(&self) -> String {
        let Report { args, layout, ring, machine: Machine { cpu, cores, os }, .. } = self;
        let plural = if args.threads == 1 { "" } else { "s" };
        let pinned = if args.pin { ", pinned" } else { "" };
        let title = format!(
            "uidring {}: what an id costs, {} thread{plural}{pinned}\n{}, {cores} cores, {os}\n\
             layout {} in {} from {}, a ring of {ring} uids",
            env!("CARGO_PKG_VERSION"),
            args.threads,
            cpu.as_deref().unwrap_or("unknown processor"),
            layout.bits(),
            layout.tick(),
            layout.epoch().date(),
        );
        let json = self.json();
        let section = |head: &str, columns: &[(&str, &str)]| {
            let mut rows = vec![row(head, columns.iter().map(|(name, _)| (*name).to_owned()))];
            rows.extend(json["results"].as_object().into_iter().flatten().map(|(name, result)| {
                row(name, columns.iter().map(|(_, place)| cell(result, place)))
            }));
            aligned(&rows, |column| column > 0)
        };
        let rounds = format!("median of {} rounds", self.rounds);
        let (throughput, latency) =
            (section(&rounds, &THROUGHPUT), section("latency of a call, ns", &LATENCY));
        [title, throughput, latency, self.notes()].join("\n\n")
    }

    pub fn json(&self) -> Value {
        let BenchArgs { threads, seconds, pin, .. } = self.args;
        let Measurements { timer_ns, figures, .. } = &self.measured;
        let results: Map<_, _> =
            figures.iter().map(|one| (one.of.name.clone(), self.result(one))).collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "machine": self.machine,
            "settings": {
                "forms": self.args.forms().map(name).collect::<Vec<_>>(),
                "threads": threads,
                "seconds": seconds.as_secs_f64(),
                "layout": self.layout.bits().to_string(),
                "tick": self.layout.tick().to_string(),
                "epoch": self.layout.epoch().to_string(),
                "ring_uids": self.ring,
                "pin": pin,
            },
            "timer_ns": timer_ns,
            "rounds": self.rounds,
            "results": results,
            "notes": self.notes().lines().collect::<Vec<_>>(),
        })
    }

    /// Returns what a reader of the figures must know, a line for each note.
    fn notes(&self) -> String {
        let Measurements { timer_ns, uids_per_round, .. } = self.measured;
        let mut notes = format!(
            "ns/uid is wall-clock time over the uids of all threads; its ratio is the median of the rounds' ratios\n\
             every latency includes a pair of clock readings, {timer_ns} ns (median); differences of a few tens of ns \
             may be the steps of the clock"
        );
        let has = |name| self.measured.figures.iter().any(|figures| figures.of.name == name);
        if has("increment") {
            notes +=
                "\nincrement is c += 1 in a register: the lowest cost of ids of a thread's own";
        }
        if has("store_loop") {
            notes += &format!(
                "\na call of fill takes {BATCH} uids; store_loop stores as many numbers without an atomic: the lowest \
                 cost of filling"
            );
        }
        if self.args.threads > 1 && !self.args.pin {
            notes += "\nthreads were not pinned: two that the system runs on one core for a while do not contend; see \
                      --pin";
        }
        if usize::from(self.args.threads) > self.machine.cores {
            notes += "\nthere are more threads than cores: in a short round not all of them run; use more --seconds";
        }
        // The padder fills the ring during other contestants' rounds.
        if self.ring * 10 > uids_per_round {
            notes += &format!(
                "\na round begins with a full ring of {} uids and takes about {uids_per_round}: to include the work of \
                 the padder, use more --seconds",
                self.ring
            );
        }
        notes
    }

    fn result(&self, figures: &Figures<'_>) -> Value {
        let times = &figures.latency;
        let mut latency: Map<_, _> = QUANTILES
            .iter()
            .map(|(quantile, key)| ((*key).into(), times.value_at_quantile(*quantile).into()))
            .collect();
        latency.insert("max".into(), times.max().into());
        latency.insert("calls".into(), times.len().into());
        let tail = self.measured.latency_ratio(figures, TAIL);
        json!({
            "ns_per_uid": figures.ns_per_id(),
            "million_uids_per_second": 1_000.0 / figures.ns_per_id(),
            "ratios_to_fetch_add": { "ns_per_uid": self.measured.ratio(figures), "p99_99": tail },
            "uids_per_call": figures.of.ids_per_call,
            "latency_ns": latency,
        })
    }
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
