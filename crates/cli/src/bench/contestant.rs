//! A way to take ids, and the two loops that measure it: a race counts ids, sampling times single calls.

use std::hint::black_box;
use std::time::Instant;

use hdrhistogram::Histogram;
use uidring::TakeError;

use crate::failure::Failure;

/// The contestant that others are compared with.
pub const BASELINE: &str = "fetch_add";

/// Ids per call of contestants that fill a slice.
pub const BATCH: usize = 4_096;

/// Ids between two readings of the clock: so many that the readings cost next to nothing.
const PORTION: u64 = 16_384;

/// One thread's result of a race.
pub struct Race {
    pub start: Instant,
    pub end: Instant,
    pub ids: u64,
}

pub struct Contestant<'a> {
    pub name: String,
    pub ids_per_call: u64,
    /// Takes ids as fast as possible until the given time, and counts them.
    pub race: Box<Work<'a, Race>>,
    /// Times single calls until the given time, in nanoseconds.
    pub sample: Box<Work<'a, Histogram<u64>>>,
}

type Work<'a, R> = dyn Fn(Instant) -> Result<R, Failure> + Sync + 'a;

impl<'a> Contestant<'a> {
    /// Gives each thread its own taker, whose calls return their last id. Both loops are compiled for this type of
    /// taker, so that its call is inlined, as it would be elsewhere.
    pub fn new<T: FnMut() -> Result<u64, TakeError>>(
        name: impl Into<String>,
        ids_per_call: usize,
        taker: impl Fn() -> T + Copy + Sync + 'a,
    ) -> Self {
        let ids_per_call = ids_per_call as u64;
        Self {
            name: name.into(),
            ids_per_call,
            race: Box::new(move |until| race(taker(), ids_per_call, until)),
            sample: Box::new(move |until| sample(taker(), until)),
        }
    }
}

/// Returns an empty histogram. All have the same bounds and digits, so that they can be added. With three digits, the
/// few latencies that occur use little of the takers' cache.
pub fn histogram() -> Histogram<u64> {
    const SECOND: u64 = 1_000_000_000;
    // Fails only if bounds or digits are out of range.
    Histogram::new_with_bounds(1, 60 * SECOND, 3).expect("bounds in range")
}

/// Measures the cost of reading the clock: the median time between two readings, in nanoseconds.
pub fn timer_cost() -> u64 {
    let mut times = histogram();
    for _ in 0..100_000 {
        let start = Instant::now();
        times.saturating_record(start.elapsed().as_nanos() as u64);
    }
    times.value_at_quantile(0.5)
}

fn race(
    mut call: impl FnMut() -> Result<u64, TakeError>,
    ids_per_call: u64,
    until: Instant,
) -> Result<Race, Failure> {
    let start = Instant::now();
    let (mut ids, mut last, mut end) = (0, 0, start);
    while ids == 0 || end < until {
        let before = last;
        for _ in 0..PORTION / ids_per_call {
            last = black_box(call().map_err(stopped)?);
        }
        ids += PORTION;
        if last <= before {
            return Err(disorder());
        }
        end = Instant::now();
    }
    Ok(Race { start, end, ids })
}

fn sample(
    mut call: impl FnMut() -> Result<u64, TakeError>,
    until: Instant,
) -> Result<Histogram<u64>, Failure> {
    let (mut times, mut last, mut end) = (histogram(), 0, Instant::now());
    while times.is_empty() || end < until {
        let start = Instant::now();
        let got = black_box(call());
        end = Instant::now();
        let id = got.map_err(stopped)?;
        if id <= last {
            return Err(disorder());
        }
        last = id;
        times.saturating_record((end - start).as_nanos() as u64);
    }
    Ok(times)
}

#[cold]
fn stopped(error: TakeError) -> Failure {
    match error {
        TakeError::TimeExhausted => Failure::Failed(
            "the layout ran out of timestamps, because a bench takes uids faster than the clock allows: \
             use --layout 45/5/13/s/1970-01-01, which lasts, or fewer --seconds"
                .into(),
        ),
        error => uidring::Error::from(error).into(),
    }
}

#[cold]
fn disorder() -> Failure {
    Failure::Failed("uids of one thread did not increase; please report this".into())
}
