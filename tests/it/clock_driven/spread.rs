//! How evenly uids spread over shards, depending on where a tick's sequence starts.

use std::time::Duration;

use uidring::clock::ManualClock;
use uidring::generator::SequenceStart;
use uidring::{Bits, ClockedUidGenerator, TakeError, Timestamp, UidGenerator};
use uidring_testkit::namespace::fresh;

use super::{EPOCH, clock, layout, rejecting};

/// Returns the share of the fullest shard, relative to an even one, for ids some milliseconds apart.
fn fullest(start: SequenceStart, shards: u64) -> f64 {
    const IDS: u64 = 64 * 300;
    let clock = clock();
    let generator = ClockedUidGenerator::snowflake()
        .worker_id(1)
        .namespace(fresh())
        .sequence_start(start)
        .clock(clock.clone())
        .build()
        .expect("possible");
    let mut counts = vec![0_u64; shards as usize];
    let mut gaps = fastrand::Rng::with_seed(shards);
    for _ in 0..IDS {
        let uid = generator.next_uid().expect("room");
        counts[(uid.get() % shards) as usize] += 1;
        clock.advance(Duration::from_millis(gaps.u64(1..20)));
    }
    let most = *counts.iter().max().expect("shards") as f64;
    most / (IDS as f64 / shards as f64)
}

/// Ids at a low rate, over 2 to 64 shards. From 0, all go to one shard if the number of shards is a power of two.
/// Random numbers below 100 favour the remainders up to 100 % 64: in theory 64 shards get 1.28 times their share, plus
/// noise.
#[test]
fn low_rates_spread_over_shards() {
    for shards in 2..=64_u64 {
        if shards.is_power_of_two() {
            let all = fullest(SequenceStart::Zero, shards);
            assert!((all - shards as f64).abs() < 1e-9, "all in one of {shards}");
            let even = fullest(SequenceStart::Continue { modulo: 64 }, shards);
            assert!((even - 1.0).abs() < 1e-9, "{shards}: {even}");
        }
        let random = fullest(SequenceStart::RandomBelow(100), shards);
        assert!(random < 1.7, "{shards}: {random}");
        let counted = fullest(SequenceStart::Continue { modulo: 100 }, shards);
        assert!(counted < 1.7, "{shards}: {counted}");
    }
}

/// A generator that takes at given times of its own clock. If its tick is used up, it waits for the next.
struct Taker<G> {
    generator: G,
    clock: ManualClock,
    /// Nanoseconds since the start.
    time: u64,
}

impl<G: UidGenerator> Taker<G> {
    fn new(build: impl Fn(ManualClock) -> G) -> Self {
        // Seeds the start of the first tick, so that the test is reproducible.
        fastrand::seed(7);
        let clock = clock();
        Self { generator: build(clock.clone()), clock, time: 0 }
    }

    fn take_after(&mut self, nanos: u64) -> u64 {
        let start = "2026-06-01".parse::<Timestamp>().expect("a time").as_millis();
        self.time += nanos;
        loop {
            self.clock.set(Timestamp::from_millis(start + (self.time / 1_000_000) as i64));
            match self.generator.next_uid() {
                Ok(uid) => return uid.get(),
                Err(TakeError::Empty) => self.time = (self.time / 1_000_000 + 1) * 1_000_000,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn spread_default(clock: ManualClock) -> ClockedUidGenerator<ManualClock> {
    let builder = ClockedUidGenerator::builder().worker_id(7);
    rejecting(builder.sequence_start(SequenceStart::Spread), &clock)
}

fn spread_snowflake(clock: ManualClock) -> ClockedUidGenerator<ManualClock> {
    let builder = ClockedUidGenerator::snowflake().worker_id(7);
    rejecting(builder.sequence_start(SequenceStart::Spread), &clock)
}

/// Counts the uids of each shard.
fn shares(uids: &[u64], shards: u64) -> Vec<f64> {
    let mut counts = vec![0.0; shards as usize];
    uids.iter().for_each(|uid| counts[(uid % shards) as usize] += 1.0);
    counts
}

/// Returns the greatest deviation of a shard from its share, relative to that.
fn furthest_off(uids: &[u64], shards: u64) -> f64 {
    let share = uids.len() as f64 / shards as f64;
    shares(uids, shards).iter().map(|count| (count - share).abs() / share).fold(0.0, f64::max)
}

/// Whether chance alone is as uneven as this in at least one of a thousand cases. Uses the cube root of χ², which is
/// nearly normal (Wilson and Hilferty).
fn may_be_chance(uids: &[u64], shards: u64) -> bool {
    let share = uids.len() as f64 / shards as f64;
    let chi2: f64 = shares(uids, shards).iter().map(|n| (n - share).powi(2) / share).sum();
    let freedom = (shards - 1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    ((chi2 / freedom).cbrt() - (1.0 - spread)) / spread.sqrt() < 3.09
}

const TAKES: usize = 100_000;

/// Uids a second. None is in step with a number of shards, as one a second is with 11.
const RATES: [f64; 14] = [
    0.0113, 0.113, 0.29, 0.8696, 1.37, 2.3, 7.7, 13.0, 37.0, 113.0, 317.0, 1_100.0, 3_163.0,
    9_973.0,
];

/// Uids a second in step with ticks, and so with some numbers of shards.
const STEADY: [f64; 12] =
    [0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 10.0, 100.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0];

const POWERS: [u64; 10] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];

fn check_constant_rates<G: UidGenerator>(build: impl Fn(ManualClock) -> G) {
    for rate in RATES.into_iter().chain(STEADY) {
        let mut taker = Taker::new(&build);
        let gap = (1e9 / rate) as u64;
        let uids: Vec<u64> = (0..TAKES).map(|_| taker.take_after(gap)).collect();
        assert!(uids.is_sorted_by(|a, b| a < b));
        for shards in POWERS {
            let off = furthest_off(&uids, shards);
            assert!(off < 0.1, "{rate} a second, {shards} shards: {off}");
        }
        for shards in [3, 5, 6, 7, 9, 10] {
            // In step with the shards, 1,024 uids in a row go to one shard. 98 such rows do not divide evenly, so
            // chance cannot explain them.
            let off = furthest_off(&uids, shards);
            assert!(off < 0.1, "{rate} a second, {shards} shards: {off}");
            if RATES.contains(&rate) {
                assert!(may_be_chance(&uids, shards), "{rate} a second, {shards} shards: {off}");
            }
        }
    }
}

#[test]
fn seconds_are_spread_at_constant_rates() {
    check_constant_rates(spread_default);
}

#[test]
fn milliseconds_are_spread_at_constant_rates() {
    check_constant_rates(spread_snowflake);
}

fn check_random_gaps<G: UidGenerator>(build: impl Fn(ManualClock) -> G) {
    for (seed, rate) in RATES.into_iter().enumerate() {
        let mut taker = Taker::new(&build);
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        // As from independent callers.
        let uids: Vec<u64> = (0..TAKES)
            .map(|_| taker.take_after((-(1.0 - rng.f64()).ln() * 1e9 / rate) as u64))
            .collect();
        for shards in POWERS.into_iter().chain([3, 5, 6, 7, 9, 10]) {
            let off = furthest_off(&uids, shards);
            assert!(may_be_chance(&uids, shards), "{rate} a second, {shards} shards: {off}");
        }
    }
}

#[test]
fn seconds_are_spread_at_random_gaps() {
    check_random_gaps(spread_default);
}

#[test]
fn milliseconds_are_spread_at_random_gaps() {
    check_random_gaps(spread_snowflake);
}

/// Processes that start, issue a few uids and end spread as well, because each start is random.
#[test]
fn short_lives_are_spread() {
    let clock = clock();
    fastrand::seed(7);
    let namespace = fresh();
    let uids: Vec<u64> = (0..20_000)
        .map(|_| {
            clock.advance(Duration::from_secs(60));
            let generator = ClockedUidGenerator::snowflake()
                .worker_id(7)
                .namespace(&namespace)
                .sequence_start(SequenceStart::Spread)
                .clock(clock.clone())
                .build()
                .expect("possible");
            generator.next_uid().expect("ready").get()
        })
        .collect();
    for shards in [2, 3, 8, 64, 256, 1_024] {
        assert!(may_be_chance(&uids, shards), "{shards} shards: {}", furthest_off(&uids, shards));
    }
}

/// A tick starts one above the last sequence, below 1,024 and below a quarter of the tick. After a full tick it starts
/// at 0, so that full load skips none.
#[test]
fn a_tick_goes_on_where_the_last_one_was() {
    for (bits, limit) in [((41, 10, 12), 1_024), ((41, 10, 8), 64), ((41, 10, 2), 1)] {
        let (time, worker, sequence) = bits;
        let clock = clock();
        let generator = rejecting(
            ClockedUidGenerator::snowflake()
                .layout(layout(Bits { time, worker, sequence }, EPOCH))
                .worker_id(3)
                .sequence_start(SequenceStart::Spread),
            &clock,
        );
        let sequence = |uid| generator.decode(uid).expect("ours").sequence;
        let mut rng = fastrand::Rng::with_seed(limit);
        let mut last = None;
        for _ in 0..5_000 {
            clock.advance(Duration::from_millis(rng.u64(1..5)));
            let first = sequence(generator.next_uid().expect("a new tick"));
            assert!(first < limit);
            if let Some(last) = last {
                assert_eq!(first, (last + 1) % limit);
            }
            let more = (0..rng.u64(0..10)).map_while(|_| generator.next_uid().ok()).last();
            last = Some(more.map_or(first, sequence));
        }
        while generator.next_uid().is_ok() {}
        clock.advance(Duration::from_millis(1));
        assert_eq!(sequence(generator.next_uid().expect("a new tick")), 0, "the last was used up");
    }
}
