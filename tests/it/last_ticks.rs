//! The end of a layout's time: its last uids, each once, then the error forever. The clock stands still, so the takers
//! borrow up to the end.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::ManualClock;
use uidring::generator::SequenceStart;
use uidring::policy::TakePolicy;
use uidring::{Bits, CachedUidGenerator, Fields, Layout, TakeError, Tick, Timestamp, Uid};
use uidring_testkit::namespace::fresh;

const THREADS: usize = 8;
const ROUNDS: usize = 10;

const LAYOUT: Bits = Bits { time: 12, worker: 3, sequence: 6 };

/// The tick of the clock.
const NOW: u64 = 1_000;
const REMAINING: u64 = (4_096 - NOW) * 64;

/// More bits, so that takes are additions, which may draw beyond a tick's end. If the system suspends a taker in an
/// addition at a tick's end for a whole lap of the ring, its uid is lost, and counted.
const WIDE: Bits = Bits { time: 12, worker: 13, sequence: 6 };

fn generator(policy: TakePolicy) -> CachedUidGenerator {
    generator_of(LAYOUT, policy)
}

fn generator_of(bits: Bits, policy: TakePolicy) -> CachedUidGenerator {
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let builder = CachedUidGenerator::builder()
        .layout(layout)
        .worker_id(6)
        .namespace(fresh())
        .sequence_start(SequenceStart::Zero)
        .take_policy(policy);
    builder.clock(ManualClock::new(layout.time_of(NOW))).build().expect("builds")
}

/// Takes until time ends.
type Taker = fn(&CachedUidGenerator) -> Vec<Uid>;

fn one_by_one(generator: &CachedUidGenerator) -> Vec<Uid> {
    until_the_end(|uids| {
        uids.push(generator.next_uid()?);
        Ok(())
    })
}

fn by_fill(generator: &CachedUidGenerator) -> Vec<Uid> {
    until_the_end(|uids| {
        let mut portion = [Uid::default(); 23];
        let filled = generator.fill(&mut portion);
        // The uids before the error are valid.
        uids.extend(&portion[..filled.map_or_else(|error| error.filled, |()| portion.len())]);
        filled.map_err(|error| error.error)
    })
}

fn by_local(generator: &CachedUidGenerator) -> Vec<Uid> {
    let mut local = generator.local();
    until_the_end(|uids| {
        uids.push(local.next_uid()?);
        Ok(())
    })
}

fn until_the_end(mut take: impl FnMut(&mut Vec<Uid>) -> Result<(), TakeError>) -> Vec<Uid> {
    let mut uids = Vec::new();
    loop {
        match take(&mut uids) {
            Ok(()) | Err(TakeError::Empty) => {}
            Err(error) => {
                assert_eq!(error, TakeError::TimeExhausted);
                assert_eq!(take(&mut Vec::new()), Err(TakeError::TimeExhausted), "for ever");
                return uids;
            }
        }
    }
}

/// Takes everything in many threads. Returns it in order, after checking that each uid is unique and in a future tick.
fn take_all(generator: &CachedUidGenerator, takers: &[Taker]) -> Vec<Uid> {
    let together = Barrier::new(THREADS);
    let lists: Vec<_> = thread::scope(|scope| {
        let takers: Vec<_> = takers
            .iter()
            .cycle()
            .take(THREADS)
            .map(|taker| {
                scope.spawn(|| {
                    together.wait();
                    taker(generator)
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().expect("no panic")).collect()
    });
    assert!(lists.iter().all(|uids| uids.is_sorted_by(|a, b| a < b)), "in order");
    let mut all = lists.concat();
    all.sort_unstable();
    assert!(all.is_sorted_by(|a, b| a < b), "none twice");
    for uid in &all {
        let fields = generator.decode(*uid).expect("its own");
        assert_eq!(fields.worker_id, 6);
        assert!(fields.tick >= NOW);
    }
    for _ in 0..3 {
        // Also when the padder has long noticed.
        assert_eq!(generator.next_uid(), Err(TakeError::TimeExhausted));
        assert_eq!(generator.try_fill(&mut [Uid::default()]), Err(TakeError::TimeExhausted));
        assert_eq!(generator.local().next_uid(), Err(TakeError::TimeExhausted));
    }
    all
}

/// The ring holds all that remains.
#[test]
fn whoever_waits_gets_every_uid_once() {
    for _ in 0..ROUNDS * 10 {
        let bits = Bits { time: 3, worker: 13, sequence: 8 };
        let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
        let clock = ManualClock::new(Timestamp::default());
        let builder = CachedUidGenerator::builder()
            .layout(layout)
            .worker_id(6)
            .namespace(fresh())
            .sequence_start(SequenceStart::Zero)
            .clock(clock);
        let generator = builder.build().expect("builds");
        let lists: Vec<_> = thread::scope(|scope| {
            let takers = [(); THREADS].map(|()| scope.spawn(|| one_by_one(&generator)));
            takers.into_iter().map(|taker| taker.join().expect("no panic")).collect()
        });
        let mut all = lists.concat();
        all.sort_unstable();
        let every = (0..8).flat_map(|tick| {
            (0..256).map(move |sequence| {
                layout.compose(Fields { tick, worker_id: 6, sequence }).expect("in range")
            })
        });
        assert!(all.into_iter().eq(every), "{:?}", generator.stats().ring);
        assert_eq!(generator.next_uid(), Err(TakeError::TimeExhausted));
    }
}

/// Many laps of a small ring, which keeps running dry.
#[test]
fn whoever_waits_loses_nothing_by_waiting() {
    for bits in [LAYOUT, WIDE] {
        for _ in 0..ROUNDS {
            let generator = generator_of(bits, TakePolicy::Wait);
            let all = take_all(&generator, &[one_by_one]);
            let stats = generator.stats();
            let lost = REMAINING - all.len() as u64;
            assert!(lost == 0 || bits == WIDE && lost <= stats.ring.dropped, "{stats:?}");
            assert_eq!((stats.taken, stats.ring.available), (REMAINING - lost, 0), "{stats:?}");
        }
    }
}

#[test]
fn fills_and_local_takers_that_wait_get_every_uid_once() {
    let mixes: [&[Taker]; 3] = [&[by_fill], &[by_local], &[by_fill, by_local]];
    for takers in mixes {
        for _ in 0..ROUNDS {
            let generator = generator(TakePolicy::Wait);
            let all = take_all(&generator, takers);
            assert_eq!(all.len() as u64, REMAINING, "{:?}", generator.stats().ring);
        }
    }
}

#[test]
fn with_reject_what_is_not_issued_is_counted() {
    let mixes: [&[Taker]; 4] =
        [&[one_by_one], &[by_fill], &[by_local], &[one_by_one, by_fill, by_local]];
    for takers in mixes {
        for round in 0..ROUNDS {
            let bits = if round % 2 == 0 { LAYOUT } else { WIDE };
            let generator = generator_of(bits, TakePolicy::Reject);
            let issued = take_all(&generator, takers).len() as u64;
            let stats = generator.stats();
            let lost = REMAINING - issued;
            assert!(lost == 0 || bits == WIDE && lost <= stats.ring.dropped, "{stats:?}");
            assert_eq!((stats.taken, stats.ring.discarded), (issued, 0), "{stats:?}");
        }
    }
}

/// One after another, so that their blocks are known.
#[test]
fn what_dropped_local_takers_had_left_is_missing_and_nothing_else() {
    let generator = generator(TakePolicy::Wait);
    let (mut issued, mut dropped) = (0, 0);
    for number in (0..).step_by(7) {
        let (wanted, before) = (1 + number % 100, issued);
        let uids = generator.local().take(wanted).map_while(Result::ok);
        let last = uids.inspect(|_| issued += 1).last();
        // A block is the rest of a tick of 64 uids.
        dropped += last.map_or(0, |uid| 63 - generator.decode(uid).expect("its own").sequence);
        if issued - before < wanted as u64 {
            break;
        }
    }
    assert!(dropped > 0);
    assert_eq!(issued + dropped, REMAINING, "{:?}", generator.stats().ring);
    assert_eq!(generator.stats().taken, issued + dropped);
}

/// As documented at `TimeExhausted`.
#[test]
fn a_clock_that_jumps_past_the_end_ends_the_generator() {
    let layout = Layout::UID_GENERATOR;
    let now = layout.epoch().saturating_add(Duration::from_secs(60));
    let clock = ManualClock::new(now);
    let builder = CachedUidGenerator::builder().layout(layout).worker_id(6).namespace(fresh());
    let builder = builder.clock(clock.clone()).refresh(Duration::from_millis(1));
    let generator = builder.take_policy(TakePolicy::Reject).build().expect("builds");
    clock.set(layout.last_instant().saturating_add(Duration::from_secs(1)));
    let begin = Instant::now();
    let end = loop {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not end");
        match generator.next_uid() {
            Ok(_) | Err(TakeError::Empty) => thread::sleep(Duration::from_millis(1)),
            Err(error) => break error,
        }
    };
    assert_eq!(end, TakeError::TimeExhausted);
    clock.set(now);
    assert_eq!(generator.next_uid(), Err(TakeError::TimeExhausted), "for good");
}

/// A handle left alone with part of a tick when time ends. What it holds grows stale like everything else.
#[test]
fn the_end_of_time_comes_for_what_a_local_taker_holds() {
    let bits = Bits { time: 2, worker: 3, sequence: 13 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let clock = ManualClock::new(Timestamp::default());
    let builder = CachedUidGenerator::builder().layout(layout).worker_id(6).clock(clock.clone());
    let generator = builder.refresh(Duration::from_millis(1)).build().expect("builds");
    let mut local = generator.local();
    local.next_uid().expect("the first of many");
    assert_eq!(generator.uids().find_map(Result::err), Some(TakeError::TimeExhausted));
    local.next_uid().expect("its tick is the present one");
    clock.set(layout.last_instant().saturating_add(Duration::from_secs(60)));
    // Far fewer than it holds.
    let end = (0..200).find_map(|_| {
        thread::sleep(Duration::from_millis(25));
        local.next_uid().err()
    });
    assert_eq!(end, Some(TakeError::TimeExhausted));
}
