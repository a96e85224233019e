//! The measurement: rounds in which the contestants take turns, and the results.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::contestant::{BASELINE, Contestant, Race, histogram, timer_cost};
use super::threads::Crew;
use crate::failure::Failure;

/// Runs all rounds of all contestants: our forms, then the baseline, then others. Calls `progress` before each round.
pub fn measure<'a>(
    contestants: &'a [Contestant<'a>],
    crew: &Crew,
    plan: &Plan,
    mut progress: impl FnMut(&'static str),
) -> Result<Measurements<'a>, Failure> {
    let timer_ns = timer_cost();
    let is_baseline = |contestant: &Contestant<'_>| contestant.name == BASELINE;
    let baseline = contestants.iter().position(is_baseline).unwrap_or(0);
    let new = |of| Figures { of, rounds: Vec::new(), ids: 0, latency: histogram() };
    let mut figures: Vec<Figures<'_>> = contestants.iter().map(new).collect();
    // The order alternates, so that no contestant always runs after the same one.
    let mut turns: Vec<usize> = (0..contestants.len()).collect();
    // Round 0 is not counted: in it, caches, branch predictors and clock rates settle.
    for round in 0..=plan.rounds {
        progress("throughput");
        for &which in &turns {
            let races = crew.work(plan.race, &contestants[which].race)?;
            if round > 0 {
                figures[which].add(&races);
            }
        }
        turns.reverse();
    }
    for _ in 0..SLICES {
        progress("latency");
        for &which in &turns {
            for times in crew.work(plan.slice, &contestants[which].sample)? {
                figures[which].latency += &times;
            }
        }
        turns.reverse();
    }
    let ours = figures[..baseline].iter();
    let fewest = ours.map(|figures| figures.ids / plan.rounds as u64).min().unwrap_or(0);
    Ok(Measurements { timer_ns, figures, baseline, uids_per_round: fewest })
}

/// Division of the time: half for throughput, half for latency.
pub struct Plan {
    pub rounds: usize,
    race: Duration,
    slice: Duration,
}

impl Plan {
    pub fn new(time: Duration, contestants: usize) -> Self {
        let half = time / 2;
        // An odd number of rounds, so that the median is one of them.
        let races = half.div_duration_f64(ROUND) as usize / contestants;
        let rounds = races.clamp(FEWEST_ROUNDS, MOST_ROUNDS) | 1;
        let part = |parts: usize| half.div_f64(parts as f64);
        Self { rounds, race: part((rounds + 1) * contestants), slice: part(SLICES * contestants) }
    }

    /// Returns how often [`measure`] calls `progress`.
    pub fn steps(&self) -> usize {
        self.rounds + 1 + SLICES
    }
}

/// Duration of a round: long enough that starting its threads does not matter, short enough that other load seldom
/// affects one contestant alone.
const ROUND: Duration = Duration::from_millis(40);
const FEWEST_ROUNDS: usize = 15;
const MOST_ROUNDS: usize = 201;

/// Slices in which each contestant's latencies are sampled.
const SLICES: usize = 8;

pub struct Measurements<'a> {
    pub timer_ns: u64,
    /// In the order of the contestants.
    pub figures: Vec<Figures<'a>>,
    /// Index of the baseline.
    baseline: usize,
    /// Ids of an average round, over all threads, of the form that gave the fewest.
    pub uids_per_round: u64,
}

impl Measurements<'_> {
    /// Returns the time per id, divided by the baseline's: the median of the rounds' ratios.
    pub fn ratio(&self, figures: &Figures<'_>) -> f64 {
        let baseline = &self.figures[self.baseline].rounds;
        median(figures.rounds.iter().zip(baseline).map(|(one, baseline)| one / baseline))
    }

    /// Returns the latency at a quantile, divided by the baseline's; `None` if a call takes many ids.
    pub fn latency_ratio(&self, figures: &Figures<'_>, quantile: f64) -> Option<f64> {
        // With a coarse clock, a call may take 0.
        let at = |figures: &Figures<'_>| figures.latency.value_at_quantile(quantile).max(1) as f64;
        (figures.of.ids_per_call == 1).then(|| at(figures) / at(&self.figures[self.baseline]))
    }
}

pub struct Figures<'a> {
    pub of: &'a Contestant<'a>,
    /// Nanoseconds per id in each round: wall-clock time over the ids of all threads.
    rounds: Vec<f64>,
    ids: u64,
    /// Nanoseconds per call.
    pub latency: Histogram<u64>,
}

impl Figures<'_> {
    /// Adds a round, timed from the first thread's start to the last one's end.
    fn add(&mut self, races: &[Race]) {
        let start = races.iter().map(|race| race.start).min();
        let end = races.iter().map(|race| race.end).max();
        let time = end.zip(start).map_or(Duration::ZERO, |(end, start)| end - start);
        let ids: u64 = races.iter().map(|race| race.ids).sum();
        self.rounds.push(time.as_nanos() as f64 / ids as f64);
        self.ids += ids;
    }

    pub fn ns_per_id(&self) -> f64 {
        median(self.rounds.iter().copied())
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
