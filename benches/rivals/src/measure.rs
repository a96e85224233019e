//! Rounds with every contestant of a shape, in rotating order.

use std::time::Duration;

use crate::contestants::{Contestant, REFERENCE};
use crate::work::{Run, Work};

/// A contestant's runs, one per round.
pub struct Measured {
    pub name: &'static str,
    pub note: &'static str,
    pub runs: Vec<Run>,
}

/// A contestant's row of the table.
pub struct Summary {
    pub nanos_per_id: f64,
    /// The time per id as a multiple of a bare atomic addition's and of uidring's.
    pub to_reference: f64,
    pub to_uidring: f64,
}

pub fn measure(contestants: Vec<Contestant>, rounds: usize, slice: Duration) -> Vec<Measured> {
    let mut field: Vec<_> = contestants
        .into_iter()
        .map(|Contestant { name, note, make }| {
            let mut work = make();
            let ids = calibrate(&mut work, slice);
            (work, ids, Measured { name, note, runs: Vec::with_capacity(rounds) })
        })
        .collect();
    let count = field.len();
    for round in 0..rounds {
        for turn in 0..count {
            // Rotate, so that no contestant always runs after the same neighbour.
            let (work, ids, measured) = &mut field[(turn + round) % count];
            measured.runs.push(work(*ids));
        }
    }
    field.into_iter().map(|(_, _, measured)| measured).collect()
}

/// Returns how many ids fill a slice. Also warms the contestant up.
fn calibrate(work: &mut Work, slice: Duration) -> u64 {
    let mut ids = 4096;
    loop {
        let run = work(ids);
        if run.elapsed >= slice / 4 {
            return (ids as f64 * slice.as_secs_f64() / run.elapsed.as_secs_f64()).ceil() as u64;
        }
        ids *= 2;
    }
}

/// Computes the medians. Ratios are taken within each round first, because what slows a whole round slows both sides.
pub fn summarise(all: &[Measured], one: &Measured, uidring: &str) -> Summary {
    Summary {
        nanos_per_id: median(one.runs.iter().map(nanos)),
        to_reference: median(ratios(all, one, REFERENCE)),
        to_uidring: median(ratios(all, one, uidring)),
    }
}

/// Returns each round's time per id as a multiple of that of the contestant with this name.
pub fn ratios(all: &[Measured], one: &Measured, name: &str) -> impl Iterator<Item = f64> {
    let other = all.iter().find(|other| other.name == name).expect("always measured");
    one.runs.iter().zip(&other.runs).map(|(run, other)| nanos(run) / nanos(other))
}

pub fn nanos(run: &Run) -> f64 {
    run.elapsed.as_nanos() as f64 / run.ids as f64
}

pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// Returns the value below which this share lies, between two values if need be.
pub fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let place = (values.len() - 1) as f64 * share;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}
