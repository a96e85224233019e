//! The order of the measurement: rounds in which the contestants take turns, and their results.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::contestant::{Contestant, Tally, histogram, timer_cost};
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
            let (ns, tally) = race(contestant, crew, plan.race)?;
            if round > 0 {
                figures[which].rounds.push(ns);
                figures[which].tally.add(tally);
            }
        }
    }
    let ours = figures[..*baseline].iter();
    let fewest = ours.map(|figures| figures.tally.ids / plan.rounds as u64).min().unwrap_or(0);
    for slice in 0..SLICES {
        progress("latency");
        for (which, contestant) in in_turn(contestants, slice) {
            for samples in crew.work(plan.slice, |until| (contestant.sample)(until))? {
                let samples = samples?;
                figures[which].tally.add(samples.tally);
                figures[which].latency += &samples.times;
            }
        }
    }
    let mut scaling = Vec::new();
    for threads in &plan.scaling {
        let crew = Crew { threads: *threads, ..crew.clone() };
        let mut rounds = vec![Vec::new(); baseline + 1];
        for round in 0..SCALING_ROUNDS {
            progress("scaling");
            for (which, contestant) in in_turn(&contestants[..=*baseline], round) {
                rounds[which].push(race(contestant, &crew, plan.scaling_race)?.0);
            }
        }
        let rates = rounds.into_iter().map(|rounds| millions_a_second(median(rounds))).collect();
        scaling.push(Scaling { threads: *threads, rates });
    }
    if figures.iter().any(|figures| figures.latency.is_empty()) {
        return Err(nothing_taken());
    }
    Ok(Measurements { timer_ns, figures, baseline: *baseline, uids_per_round: fewest, scaling })
}

/// How the time is divided.
pub struct Plan {
    pub rounds: usize,
    race: Duration,
    slice: Duration,
    /// The numbers of threads to measure for the chart.
    scaling: Vec<usize>,
    scaling_race: Duration,
}

impl Plan {
    pub fn new(time: Duration, lineup: &Lineup<'_>, scaling: Vec<usize>) -> Self {
        let contestants = lineup.contestants.len();
        // Shares of ten: the throughput, the latency, the scaling.
        let shares = if scaling.is_empty() { [5, 5, 0] } else { [4, 4, 2] };
        let [throughput, latency, scaled] = shares.map(|share| time * share / 10);
        // An odd number of rounds has a median of its own.
        let races = throughput.div_duration_f64(ROUND) as usize / contestants;
        let rounds = races.clamp(FEWEST_ROUNDS, MOST_ROUNDS) | 1;
        let part = |time: Duration, parts: usize| time.div_f64(parts.max(1) as f64);
        Self {
            rounds,
            race: part(throughput, (rounds + 1) * contestants),
            slice: part(latency, SLICES * contestants),
            scaling_race: part(scaled, scaling.len() * SCALING_ROUNDS * (lineup.baseline + 1)),
            scaling,
        }
    }

    /// How often `progress` will be called.
    pub fn steps(&self) -> usize {
        self.rounds + 1 + SLICES + self.scaling.len() * SCALING_ROUNDS
    }
}

/// A round is long enough that the start of its threads does not matter, and short enough that other
/// load on the machine seldom affects one contestant alone.
const ROUND: Duration = Duration::from_millis(40);
/// If there was no id for so long, there will be none.
const LONGEST_ROUND: Duration = Duration::from_secs(10);
const FEWEST_ROUNDS: usize = 15;
const MOST_ROUNDS: usize = 201;

/// Slices in which each contestant's latencies are sampled.
const SLICES: usize = 8;

const SCALING_ROUNDS: usize = 3;

/// The results.
pub struct Measurements {
    pub timer_ns: u64,
    /// Of our forms, then of the baseline, then of others.
    pub figures: Vec<Figures>,
    /// The place of the baseline.
    pub baseline: usize,
    /// The ids of an average round of all threads, of the form that gave the fewest.
    pub uids_per_round: u64,
    pub scaling: Vec<Scaling>,
}

impl Measurements {
    /// Our forms and the baseline.
    pub fn main(&self) -> &[Figures] {
        &self.figures[..=self.baseline]
    }

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
    /// Nanoseconds of the single calls.
    pub latency: Histogram<u64>,
    pub tally: Tally,
}

impl Figures {
    fn new(contestant: &Contestant<'_>) -> Self {
        Self {
            name: contestant.name.clone(),
            ids_per_call: contestant.ids_per_call,
            rounds: Vec::new(),
            latency: histogram(),
            tally: Tally::default(),
        }
    }

    /// The median over the rounds.
    pub fn ns_per_id(&self) -> f64 {
        median(self.rounds.iter().copied())
    }

    pub fn millions_a_second(&self) -> f64 {
        millions_a_second(self.ns_per_id())
    }
}

/// Millions of ids a second, by the number of threads.
pub struct Scaling {
    pub threads: usize,
    /// Of our forms and of the baseline.
    pub rates: Vec<f64>,
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

/// One round of one contestant: the nanoseconds for an id, and the counts.
///
/// A short round may have only rejects while the padder waits for a core: then it goes on for longer.
fn race(contestant: &Contestant<'_>, crew: &Crew, time: Duration) -> Result<(f64, Tally), Failure> {
    let mut tally = Tally::default();
    let (mut time, mut raced) = (time, Duration::ZERO);
    while raced < LONGEST_ROUND {
        let mut span = None;
        for race in crew.work(time, |until| (contestant.race)(until))? {
            let race = race?;
            tally.add(race.tally);
            let (start, end) = span.unwrap_or((race.start, race.end));
            span = Some((race.start.min(start), race.end.max(end)));
        }
        let Some((start, end)) = span else { break };
        raced += end - start;
        if tally.ids > 0 {
            return Ok((raced.as_nanos() as f64 / tally.ids as f64, tally));
        }
        time *= 2;
    }
    Err(nothing_taken())
}

fn nothing_taken() -> Failure {
    Failure::Failed(
        "every take of a round was rejected: take more --seconds or --policy wait".into(),
    )
}

fn millions_a_second(ns_per_id: f64) -> f64 {
    1_000.0 / ns_per_id
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests;
