//! The results of a bench, also as JSON.

use serde_json::{Map, Value, json};
use uidring::Layout;

use super::args::{BenchArgs, name};
use super::machine::Machine;
use super::measure::{Figures, Measurements};
use super::takers::BATCH;

/// Quantiles and their names in JSON.
const QUANTILES: [(f64, &str); 4] =
    [(0.5, "p50"), (0.99, "p99"), (0.999, "p99_9"), (0.9999, "p99_99")];

/// The quantile whose ratio is reported for the tail.
const TAIL: f64 = 0.9999;

pub struct Report<'a> {
    pub args: &'a BenchArgs,
    pub layout: Layout,
    /// The ring's capacity in uids.
    pub ring: u64,
    pub machine: Machine,
    pub rounds: usize,
    pub measured: Measurements,
}

impl Report<'_> {
    pub fn title(&self) -> String {
        let BenchArgs { threads, pin, .. } = self.args;
        let (plural, pinned) =
            (if *threads == 1 { "" } else { "s" }, if *pin { ", pinned" } else { "" });
        format!("{threads} thread{plural}{pinned}")
    }

    pub fn machine(&self) -> String {
        let Machine { cpu, cores, os } = &self.machine;
        let cpu = cpu.as_deref().unwrap_or("unknown processor");
        format!("{cpu}, {cores} cores, {os}")
    }

    pub fn json(&self) -> Value {
        let BenchArgs { threads, seconds, pin, .. } = self.args;
        let Machine { cpu, cores, os } = &self.machine;
        let Measurements { timer_ns, figures, .. } = &self.measured;
        let results: Map<_, _> =
            figures.iter().map(|one| (one.name.clone(), self.result(one))).collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "machine": { "cpu": cpu, "cores": cores, "os": os },
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
            "notes": self.notes(),
        })
    }

    /// Returns what a reader of the figures must know.
    pub fn notes(&self) -> Vec<String> {
        let Measurements { timer_ns, uids_per_round, .. } = self.measured;
        let mut notes = vec![
            "ns/uid is wall-clock time over the uids of all threads; its ratio is the median of the \
             rounds' ratios"
                .into(),
            format!(
                "every latency includes a pair of clock readings, {timer_ns} ns (median); differences \
                 of a few tens of ns may be the steps of the clock"
            ),
        ];
        let has = |name| self.measured.figures.iter().any(|figures| figures.name == name);
        if has("increment") {
            notes.push(
                "increment is c += 1 in a register: the lowest cost of ids of a thread's own"
                    .into(),
            );
        }
        if has("store_loop") {
            notes.push(format!(
                "a call of fill takes {BATCH} uids; store_loop stores as many numbers without an \
                 atomic: the lowest cost of filling"
            ));
        }
        if self.args.threads > 1 && !self.args.pin {
            notes.push(
                "threads were not pinned: two that the system runs on one core for a while do not \
                 contend; see --pin"
                    .into(),
            );
        }
        if usize::from(self.args.threads) > self.machine.cores {
            notes.push(
                "there are more threads than cores: in a short round not all of them run; use more \
                 --seconds"
                    .into(),
            );
        }
        // The padder fills the ring during other contestants' rounds.
        if self.ring * 10 > uids_per_round {
            notes.push(format!(
                "a round begins with a full ring of {} uids and takes about {uids_per_round}: to \
                 include the work of the padder, use more --seconds",
                self.ring
            ));
        }
        notes
    }

    fn result(&self, figures: &Figures) -> Value {
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
            "uids_per_call": figures.ids_per_call,
            "latency_ns": latency,
        })
    }
}
