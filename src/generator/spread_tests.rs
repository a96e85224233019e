//! Over how many shards uids spread, and how evenly, if each tick gives only a few. Single-threaded, with a manual
//! clock.

use std::time::Duration;

use fastrand::Rng;

use super::local::LocalGenerator;
use super::register::ELSEWHERE;
use super::{CachedUidGenerator, SequenceStart};
use crate::clock::ManualClock;
use crate::padding::Padder;
use crate::timestamp::Timestamp;
use crate::uid::Uid;

const TAKES: usize = 100_000;

/// Takes per second. If nearly all takes are the same number of ticks apart, tick and sequence advance in step. If the
/// number of shards divides the sum of both steps, and is no power of two, a shard then gets many uids in a row: of 3
/// shards at exactly one take per second. So no rate is that.
const RATES: [f64; 11] =
    [0.01, 0.107, 1.0 / 1.15, 1.13, 3.3, 10.7, 33.0, 107.0, 1_030.0, 3_300.0, 10_000.0];

const POWERS: [u64; 10] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
const OTHERS: [u64; 6] = [3, 5, 6, 7, 10, 12];

fn generator(clock: &ManualClock, start: Option<SequenceStart>) -> CachedUidGenerator {
    // The random start must be the same in each run of the tests.
    fastrand::seed(14);
    let builder =
        CachedUidGenerator::builder().worker_id(7).namespace(ELSEWHERE).clock(clock.clone());
    let builder = match start {
        Some(start) => builder.sequence_start(start),
        None => builder,
    };
    builder.padder(&Padder::by_hand()).build().expect("possible")
}

/// Takes uids one by one at these intervals, with a padder that keeps up.
fn uids_after(
    clock: &ManualClock,
    generator: &CachedUidGenerator,
    mut gap: impl FnMut() -> f64,
    mut take: impl FnMut() -> Uid,
) -> Vec<u64> {
    let start = clock.now_millis();
    let (mut now, mut looked) = (0.0, 0.0);
    let set = |seconds: f64| {
        clock.set(Timestamp::from_millis(start + (seconds * 1_000.0) as i64));
    };
    (0..TAKES)
        .map(|_| {
            let next = now + gap();
            // The padder's refreshes. Of a long pause, the first ones and the last are enough.
            for _ in 0..4 {
                if looked + 0.1 < next {
                    looked += 0.1;
                    set(looked);
                    generator.service();
                }
            }
            if looked + 0.1 < next {
                looked = next - 0.05;
                set(looked);
                generator.service();
            }
            now = next;
            set(now);
            take().get()
        })
        .collect()
}

impl ManualClock {
    fn now_millis(&self) -> i64 {
        crate::clock::Clock::now(self).as_millis()
    }
}

fn clock() -> ManualClock {
    ManualClock::new("2026-09-01T10:20:30.4Z".parse().expect("a time"))
}

fn counts(uids: &[u64], shards: u64) -> Vec<f64> {
    let mut counts = vec![0.0; shards as usize];
    for uid in uids {
        counts[(uid % shards) as usize] += 1.0;
    }
    counts
}

/// Returns the largest deviation of a shard from its share, relative to that share.
fn unevenness(uids: &[u64], shards: u64) -> f64 {
    let share = uids.len() as f64 / shards as f64;
    let far = |count: f64| (count - share).abs() / share;
    counts(uids, shards).into_iter().map(far).fold(0.0, f64::max)
}

/// Returns whether the counts may be random: χ² with p > 0.001, by Wilson and Hilferty's approximation.
fn may_be_random(uids: &[u64], shards: u64) -> bool {
    let share = uids.len() as f64 / shards as f64;
    let sum: f64 =
        counts(uids, shards).into_iter().map(|count| (count - share).powi(2) / share).sum();
    let degrees = (shards - 1) as f64;
    let part = 2.0 / (9.0 * degrees);
    ((sum / degrees).cbrt() - (1.0 - part)) / part.sqrt() < 3.09
}

#[test]
#[cfg_attr(miri, ignore = "takes very long")]
fn at_constant_rates_uids_are_even_over_shards() {
    for rate in RATES {
        let clock = clock();
        let generator = generator(&clock, None);
        let take = || generator.try_next_uid().expect("ready");
        let uids = uids_after(&clock, &generator, || 1.0 / rate, take);
        for shards in POWERS {
            let worst = unevenness(&uids, shards);
            assert!(worst < 0.1, "{rate} a second over {shards} shards: {worst}");
        }
        for shards in OTHERS {
            // At one take in a hundred ticks they advance in step; see `RATES`.
            if rate > 0.05 {
                assert!(may_be_random(&uids, shards), "{rate} a second over {shards} shards");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes very long")]
fn at_random_times_uids_are_even_over_shards() {
    let mut rng = Rng::with_seed(14);
    for rate in RATES {
        let clock = clock();
        let generator = generator(&clock, None);
        let gap = || -(1.0 - rng.f64()).ln() / rate;
        let take = || generator.try_next_uid().expect("ready");
        let uids = uids_after(&clock, &generator, gap, take);
        for shards in POWERS.into_iter().chain(OTHERS) {
            assert!(may_be_random(&uids, shards), "{rate} a second over {shards} shards");
        }
    }
}

/// With one handle for all uids, and with a new handle for each.
#[test]
#[cfg_attr(miri, ignore = "takes very long")]
fn local_takers_are_even_over_shards() {
    for rate in [0.01, 1.0 / 1.15, 10.7, 107.0] {
        let clock = clock();
        let shared = generator(&clock, None);
        let mut kept = LocalGenerator::new(&shared);
        let take = || kept.next_uid().expect("ready");
        let uids = uids_after(&clock, &shared, || 1.0 / rate, take);
        for shards in POWERS.into_iter().filter(|shards| *shards <= 256) {
            let worst = unevenness(&uids, shards);
            assert!(worst < 0.1, "{rate} a second over {shards} shards: {worst}");
        }
    }
    for rate in [0.01, 1.0 / 1.15, 10.7] {
        let clock = clock();
        let shared = generator(&clock, None);
        let take = || shared.local().next_uid().expect("ready");
        let uids = uids_after(&clock, &shared, || 1.0 / rate, take);
        for shards in POWERS.into_iter().filter(|shards| *shards <= 256) {
            let worst = unevenness(&uids, shards);
            assert!(worst < 0.1, "a handle each, {rate} a second over {shards} shards: {worst}");
        }
    }
}

/// Shows what the default start is for.
#[test]
#[cfg_attr(miri, ignore = "takes very long")]
fn sequences_that_start_at_zero_put_all_into_one_shard_at_low_rates() {
    let clock = clock();
    let generator = generator(&clock, Some(SequenceStart::Zero));
    let take = || generator.try_next_uid().expect("ready");
    let uids = uids_after(&clock, &generator, || 2.3, take);
    assert_eq!(counts(&uids, 8)[0] as usize, TAKES);
}

#[test]
fn generators_start_at_different_places() {
    let clock = clock();
    let sequences: Vec<_> = (0..50)
        .map(|seed| {
            fastrand::seed(seed);
            let builder = CachedUidGenerator::builder()
                .worker_id(7)
                .namespace(ELSEWHERE)
                .clock(clock.clone());
            let generator = builder.padder(&Padder::by_hand()).build().expect("possible");
            let first = generator.try_next_uid().expect("ready");
            generator.decode(first).expect("its own").sequence
        })
        .collect();
    assert!(sequences.iter().all(|sequence| *sequence < 1_024), "{sequences:?}");
    assert!(sequences.iter().any(|sequence| *sequence != sequences[0]), "{sequences:?}");
}

/// The sequences below the start are skipped; the rest of the tick is complete.
#[test]
fn after_a_gap_a_tick_goes_on_where_the_last_one_ended() {
    let clock = clock();
    let generator = generator(&clock, Some(SequenceStart::Continue { modulo: 16 }));
    let next = || generator.decode(generator.try_next_uid().expect("ready")).expect("its own");
    let mut last = next();
    for _ in 0..100 {
        clock.advance(Duration::from_secs(3));
        generator.service();
        let fields = next();
        assert!(fields.tick > last.tick);
        assert_eq!(fields.sequence, (last.sequence + 1) % 16);
        last = fields;
    }
    let used_up = (last.sequence + 1..8_192).all(|sequence| {
        let fields = next();
        fields.sequence == sequence && fields.tick == last.tick
    });
    assert!(used_up);
    assert_eq!(next().sequence, 0, "no gap, no offset");
}
