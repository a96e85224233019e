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
    let ratio_to = |name: &str| {
        let other = all.iter().find(|other| other.name == name).expect("always measured");
        median(one.runs.iter().zip(&other.runs).map(|(run, other)| nanos(run) / nanos(other)))
    };
    Summary {
        nanos_per_id: median(one.runs.iter().map(nanos)),
        to_reference: ratio_to(REFERENCE),
        to_uidring: ratio_to(uidring),
    }
}

fn nanos(run: &Run) -> f64 {
    run.elapsed.as_nanos() as f64 / run.ids as f64
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}
