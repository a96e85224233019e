//! The order of the measurement: rounds in which the contestants take turns, and their results.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::contestant::{Contestant, Race, histogram, timer_cost};
use super::threads::Crew;
use crate::failure::Failure;

/// What is measured.
pub struct Lineup<'a> {
    /// Our forms, then the baseline, then others.
    pub contestants: Vec<Contestant<'a>>,
    /// The place of the baseline.
    pub baseline: usize,
}

/// Runs all rounds of all contestants. Calls `progress` before each round.
pub fn measure(
    lineup: &Lineup<'_>,
    crew: &Crew,
    plan: &Plan,
    mut progress: impl FnMut(&'static str),
) -> Result<Measurements, Failure> {
    let timer_ns = timer_cost();
    let Lineup { contestants, baseline } = lineup;
    let mut figures: Vec<Figures> = contestants.iter().map(Figures::new).collect();
    // The first round of all is not counted: caches, branch predictors and clock rates settle.
    for round in 0..=plan.rounds {
        progress("throughput");
        for (which, contestant) in in_turn(contestants, round) {
            let races = crew.work(plan.race, |until| (contestant.race)(until))?;
            let races = races.into_iter().collect::<Result<Vec<_>, _>>()?;
            if round > 0 {
                figures[which].add(&races);
            }
        }
    }
    for slice in 0..SLICES {
        progress("latency");
        for (which, contestant) in in_turn(contestants, slice) {
            for times in crew.work(plan.slice, |until| (contestant.sample)(until))? {
                figures[which].latency += &times?;
            }
        }
    }
    let ours = figures[..*baseline].iter();
    let fewest = ours.map(|figures| figures.ids / plan.rounds as u64).min().unwrap_or(0);
    Ok(Measurements { timer_ns, figures, baseline: *baseline, uids_per_round: fewest })
}

/// How the time is divided: half for the throughput, half for the latency.
pub struct Plan {
    pub rounds: usize,
    race: Duration,
    slice: Duration,
}

impl Plan {
    pub fn new(time: Duration, lineup: &Lineup<'_>) -> Self {
        let contestants = lineup.contestants.len();
        let half = time / 2;
        // An odd number of rounds has a median of its own.
        let races = half.div_duration_f64(ROUND) as usize / contestants;
        let rounds = races.clamp(FEWEST_ROUNDS, MOST_ROUNDS) | 1;
        let part = |parts: usize| half.div_f64(parts as f64);
        Self { rounds, race: part((rounds + 1) * contestants), slice: part(SLICES * contestants) }
    }

    /// How often `progress` will be called.
    pub fn steps(&self) -> usize {
        self.rounds + 1 + SLICES
    }
}

/// A round is long enough that the start of its threads does not matter, and short enough that other
/// load on the machine seldom affects one contestant alone.
const ROUND: Duration = Duration::from_millis(40);
const FEWEST_ROUNDS: usize = 15;
const MOST_ROUNDS: usize = 201;

/// Slices in which each contestant's latencies are sampled.
const SLICES: usize = 8;

/// The results.
pub struct Measurements {
    pub timer_ns: u64,
    /// Of our forms, then of the baseline, then of others.
    pub figures: Vec<Figures>,
    /// The place of the baseline.
    baseline: usize,
    /// The ids of an average round of all threads, of the form that gave the fewest.
    pub uids_per_round: u64,
}

impl Measurements {
    /// The time for an id, divided by the baseline's, round by round: the median.
    pub fn ratio(&self, figures: &Figures) -> f64 {
        let baseline = &self.figures[self.baseline].rounds;
        median(figures.rounds.iter().zip(baseline).map(|(one, baseline)| one / baseline))
    }

    /// The latency at a quantile, divided by the baseline's; `None` if a call takes many ids.
    pub fn latency_ratio(&self, figures: &Figures, quantile: f64) -> Option<f64> {
        // A clock too coarse to see a call says 0.
        let at = |figures: &Figures| figures.latency.value_at_quantile(quantile).max(1) as f64;
        (figures.ids_per_call == 1).then(|| at(figures) / at(&self.figures[self.baseline]))
    }
}

/// The results of one contestant.
pub struct Figures {
    pub name: String,
    pub ids_per_call: u64,
    /// Nanoseconds for an id in each round: by the wall clock, over all threads together.
    rounds: Vec<f64>,
    /// The ids of all rounds.
    ids: u64,
    /// Nanoseconds of the single calls.
    pub latency: Histogram<u64>,
}

impl Figures {
    fn new(contestant: &Contestant<'_>) -> Self {
        Self {
            name: contestant.name.clone(),
            ids_per_call: contestant.ids_per_call,
            rounds: Vec::new(),
            ids: 0,
            latency: histogram(),
        }
    }

    /// Adds a round of all threads, from the first one's start to the last one's end.
    fn add(&mut self, races: &[Race]) {
        let ends = races.iter().map(|race| race.end).max();
        let Some((start, end)) = races.iter().map(|race| race.start).min().zip(ends) else {
            return;
        };
        let ids: u64 = races.iter().map(|race| race.ids).sum();
        self.rounds.push((end - start).as_nanos() as f64 / ids as f64);
        self.ids += ids;
    }

    /// The median over the rounds.
    pub fn ns_per_id(&self) -> f64 {
        median(self.rounds.iter().copied())
    }
}

/// The contestants with their numbers. The order alternates, so that none profits from what always runs
/// before it.
fn in_turn<'c, 'a>(
    contestants: &'c [Contestant<'a>],
    round: usize,
) -> impl Iterator<Item = (usize, &'c Contestant<'a>)> {
    let count = contestants.len();
    (0..count).map(move |turn| {
        let which = if round.is_multiple_of(2) { turn } else { count - 1 - turn };
        (which, &contestants[which])
    })
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
