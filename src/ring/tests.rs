use std::time::{Duration, Instant};

use super::*;
use crate::policy::{PutDecision, PutPolicy};

/// How many runs pass between threads in a test.
const RUNS: u64 = if cfg!(miri) { 20 } else { 2_000 };

fn ring(capacity_bits: u32, run_bits: u32) -> (Producer, Arc<RingBuffer>) {
    RingBuffer::new(RingOptions::new(capacity_bits).run_bits(run_bits)).expect("possible")
}

fn spaced(capacity_bits: u32, run_bits: u32) -> (Producer, Arc<RingBuffer>) {
    RingBuffer::new(RingOptions::new(capacity_bits).run_bits(run_bits).spaced()).expect("possible")
}

#[test]
fn a_full_ring_refuses_until_a_whole_run_is_taken() {
    for (mut producer, ring) in [ring(2, 1), spaced(2, 1)] {
        producer.put(10).expect("room");
        producer.put(12).expect("room");
        assert_eq!(producer.put(14), Err(PutError::Full { first: 14 }));
        assert_eq!(ring.try_take(), Ok(10));
        assert!(producer.put(14).is_err(), "half a run is no room");
        assert_eq!(ring.try_take(), Ok(11));
        producer.put(14).expect("room");
        let rest: Result<Vec<_>, _> = (0..4).map(|_| ring.try_take()).collect();
        assert_eq!(rest, Ok(vec![12, 13, 14, 15]));
    }
}

#[test]
fn one_publication_fills_the_ring() {
    for (mut producer, ring) in [ring(3, 1), spaced(3, 1)] {
        let mut first = 0;
        for round in 1..5 {
            let runs = producer.publish(|| {
                first += 100;
                Some(first..first + 2)
            });
            assert_eq!((runs, ring.stats().available), (Ok(4), 8), "round {round}");
            (0..8).for_each(|_| assert!(ring.try_take().is_ok()));
        }
    }
}

#[test]
fn runs_of_any_length_are_taken_in_order() {
    for (mut producer, ring) in [ring(6, 3), spaced(6, 3)] {
        let mut expected = Vec::new();
        for run in 1..=8 {
            let numbers = 1_000 * run..1_000 * run + run;
            expected.extend(numbers.clone());
            producer.put_range(numbers).expect("room");
        }
        let stats = ring.stats();
        assert_eq!((stats.available, stats.published, stats.runs), (36, 36, 8));
        let mut filled = [0; 20];
        assert_eq!(ring.try_fill(&mut filled), Ok(20));
        let mut all = filled.to_vec();
        all.extend(ring.try_take_block().expect("the rest of a run"));
        while let Ok(number) = ring.try_take() {
            all.push(number);
        }
        assert_eq!(all, expected);
        assert_eq!(ring.try_take(), Err(TakeError::Empty));
        let stats = ring.stats();
        assert_eq!((stats.available, stats.taken, stats.dropped, stats.dried), (0, 36, 0, 1));
        assert_eq!((ring.capacity(), ring.run_length()), (64, 8));
    }
}

#[test]
fn a_run_that_is_not_above_the_last_or_too_high_is_refused() {
    let top = 1 << 63;
    for (mut producer, ring) in [ring(2, 0), spaced(2, 0)] {
        producer.put(10).expect("room");
        for wrong in [0..1, 9..10, 10..11, 10..20, 20..20, top..top + 1, top - 1..top + 1] {
            let refused = Err(PutError::OutOfOrder { first: wrong.start });
            assert_eq!(producer.put_range(wrong.clone()), refused, "{wrong:?}");
        }
        assert_eq!(producer.put(u64::MAX), Err(PutError::OutOfOrder { first: u64::MAX }));
        assert_eq!(ring.try_take(), Ok(10));
        producer.put_range(top - 3..top).expect("the last three of all");
        let rest: Result<Vec<_>, _> = (0..3).map(|_| ring.try_take()).collect();
        assert_eq!(rest, Ok(vec![top - 3, top - 2, top - 1]));
        assert_eq!(ring.try_take(), Err(TakeError::Empty));
        assert_eq!(ring.try_take(), Err(TakeError::Empty));
        assert_eq!(ring.stats().taken, 4);
        assert_eq!(producer.put(top), Err(PutError::OutOfOrder { first: top }));
        drop(producer);
        assert_eq!(ring.try_take(), Err(TakeError::Closed));
        assert_eq!(ring.end(), Some(top));
    }
}

#[test]
fn what_is_discarded_is_not_taken() {
    for (mut producer, ring) in [ring(3, 1), spaced(3, 1)] {
        producer.put(10).expect("room");
        producer.put(12).expect("room");
        assert_eq!(ring.try_take(), Ok(10));
        assert_eq!(producer.discard(), 3);
        assert_eq!(producer.discard(), 0);
        assert_eq!(ring.try_take(), Err(TakeError::Empty));
        producer.put(20).expect("room");
        producer.put(22).expect("room");
        assert_eq!((ring.try_take(), ring.try_take()), (Ok(20), Ok(21)));
        let stats = ring.stats();
        assert_eq!((stats.taken, stats.discarded, stats.available), (3, 3, 2), "{stats:?}");
    }
}

#[test]
fn only_what_is_too_old_is_discarded() {
    for (mut producer, ring) in [ring(4, 1), spaced(4, 1)] {
        for run in 1..=8 {
            producer.put(100 * run).expect("room");
        }
        assert_eq!(ring.try_take(), Ok(100));
        assert_eq!(producer.discard_below(100), 0);
        assert_eq!(producer.discard_below(301), 1 + 2 + 1, "in the middle of a run, too");
        assert_eq!(producer.discard_below(300), 0);
        assert_eq!(ring.peek(), Some(301));
        assert_eq!(ring.try_take(), Ok(301));
        assert_eq!(producer.discard_below(402), 2);
        assert_eq!(ring.try_take(), Ok(500));
        let stats = ring.stats();
        assert_eq!((stats.taken, stats.discarded, stats.available), (3, 6, 7), "{stats:?}");
    }
}

#[test]
fn after_a_gap_numbers_go_on_where_the_option_says() {
    let start = RunStart { limit: 4, offset_mask: 15, length: 16, is_random: IsRandom::Never };
    let options = RingOptions::new(6).run_bits(4).spaced().after_gap(start);
    let (mut producer, ring) = RingBuffer::new(options).expect("possible");
    for run in 1..=4 {
        producer.put(1_600 * run).expect("room");
    }
    assert_eq!([(); 3].map(|()| ring.try_take()), [Ok(1_600), Ok(1_601), Ok(1_602)]);
    // 13 of the first run, 3 of the second.
    assert_eq!(producer.discard_below(3_200), 16);
    assert_eq!([(); 2].map(|()| ring.try_take()), [Ok(3_203), Ok(3_204)]);
    assert_eq!(producer.discard_below(1_000_000), 11 + 32);
    assert_eq!(producer.discard_below(1_000_000), 0);
    producer.put(1_000_000).expect("room");
    producer.put(1_001_600).expect("room");
    assert_eq!(ring.try_take(), Ok(1_000_001), "on from 3,204");
    let stats = ring.stats();
    assert_eq!((stats.available, stats.published), (14 + 16, 64 + 15 + 16), "{stats:?}");
    assert_eq!((stats.taken, stats.discarded), (6, 59), "{stats:?}");
    // No gap here.
    let rest: Result<Vec<_>, _> = (0..15).map(|_| ring.try_take()).collect();
    assert_eq!(rest.expect("there")[13..], [1_000_015, 1_001_600]);
}

#[test]
fn the_end_says_what_was_issued() {
    for (mut producer, ring) in [ring(4, 1), spaced(4, 1)] {
        let end = |producer: Producer, ring: &RingBuffer| {
            drop(producer);
            let below = ring.end();
            assert_eq!(ring.try_take(), Err(TakeError::Closed));
            assert_eq!(ring.try_fill(&mut [0]), Err(TakeError::Closed));
            assert_eq!((ring.stats().available, ring.peek()), (0, None));
            // A padder's late refresh changes nothing.
            ring.hot().set_oldest(0);
            assert!(!ring.hot().is_fresh(101));
            assert_eq!(ring.end(), below);
            below
        };
        producer.put(100).expect("room");
        producer.put(200).expect("room");
        producer.put(300).expect("room");
        let taken = 3;
        (0..taken).for_each(|_| assert!(ring.try_take().is_ok()));
        assert_eq!(end(producer, &ring), Some(201));
        let stats = ring.stats();
        assert_eq!((stats.taken, stats.discarded, stats.published), (3, 3, 6));
    }
    for spacing in [RingOptions::new(4).run_bits(1), RingOptions::new(4).run_bits(1).spaced()] {
        let made = || RingBuffer::new(spacing.clone()).expect("possible");
        let (producer, ring) = made();
        drop(producer);
        assert_eq!(ring.end(), None, "nothing was ever there");
        for (taken, below) in [(0, 100), (1, 101), (2, 200), (3, 201), (4, 202)] {
            let (mut producer, ring) = made();
            producer.put(100).expect("room");
            producer.put(200).expect("room");
            (0..taken).for_each(|_| assert!(ring.try_take().is_ok()));
            if taken == 4 {
                // Draws past the end of the last run.
                assert_eq!(ring.try_take(), Err(TakeError::Empty));
            }
            drop(producer);
            assert_eq!(ring.end(), Some(below), "after {taken}");
            assert_eq!(ring.stats().taken, taken);
        }
    }
}

#[test]
fn a_put_that_waits_gets_room_from_the_last_take_of_a_run() {
    for options in [RingOptions::new(1).run_bits(0), RingOptions::new(4).run_bits(3).spaced()] {
        let (mut producer, ring) =
            RingBuffer::new(options.put_policy(PutPolicy::Wait)).expect("possible");
        // So many that the producer finds the ring full. If it gives up, its drop closes the ring.
        let firsts = || (1..RUNS).map(|run| 100 * run);
        std::thread::scope(|scope| {
            scope.spawn(move || firsts().for_each(|first| producer.put(first).expect("waits")));
            for first in firsts() {
                for place in 0..ring.run_length() {
                    while !ring.has_next() && ring.why_closed().is_none() {
                        ring.wait(None);
                    }
                    assert_eq!(ring.try_take(), Ok(first + place));
                }
            }
        });
    }
}

#[test]
fn takers_that_sleep_after_their_draw_get_numbers_of_runs_alone() {
    let (mut producer, ring) = spaced(4, 1);
    producer.put(100).expect("room");
    assert_eq!(ring.try_take(), Ok(100));
    // The last number of the run, and three past its end.
    let draw = || ring.hot().draw().expect_err("behind the limit");
    let [last, first_of_next, last_of_next, of_no_run] = [(); 4].map(|()| draw());
    assert_eq!(of_no_run.map(|drawn| (drawn.number, drawn.last)), Some((104, 101)));
    producer.put(102).expect("room");
    assert_eq!(ring.take_slowly(first_of_next), Ok(102), "opens the run for itself");
    producer.put(200).expect("room");
    assert_eq!(ring.try_take(), Ok(200));
    assert_eq!(ring.take_slowly(last_of_next), Ok(103), "the others are further");
    assert_eq!(ring.take_slowly(last), Ok(101));
    assert_eq!(ring.take_slowly(of_no_run), Ok(201), "another one in its place");
    let stats = ring.stats();
    assert_eq!((stats.taken, stats.dropped), (6, 2), "{stats:?}");
    // Whoever takes the last number of a run opens the next one, so that nobody draws past the end.
    for first in [300, 400] {
        producer.put(first).expect("room");
    }
    let rest: Result<Vec<_>, _> = (0..4).map(|_| ring.try_take()).collect();
    assert_eq!(rest, Ok(vec![300, 301, 400, 401]));
    assert_eq!((ring.try_take(), ring.stats().dropped), (Err(TakeError::Empty), 2));
}

#[test]
fn a_long_run_is_taken_at_once() {
    for (mut producer, ring) in [ring(9, 8), spaced(9, 8)] {
        producer.put(1_000).expect("room");
        let mut filled = [0; 100];
        assert_eq!(ring.try_fill(&mut filled), Ok(100));
        assert!(filled.into_iter().eq(1_000..1_100), "{filled:?}");
        assert_eq!(ring.try_take_block(), Ok(1_100..1_256));
    }
}

#[test]
fn a_ring_tells_why_it_takes_or_gives_nothing() {
    for (mut producer, ring) in [ring(2, 1), spaced(2, 1)] {
        let mut firsts = [10, 12, 14].into_iter().map(|first| first..first + 2);
        assert_eq!(producer.publish_up_to(1, || firsts.next()), Ok(1));
        let why = |error: Result<(), PutError>| error.expect_err("refused").to_string();
        assert!(why(producer.put(10)).starts_with("a run must have numbers, all above"));
        producer.put(12).expect("room");
        assert!(why(producer.put(14)).starts_with("the ring is full; the run from 14"));
        assert!(!producer.is_closed());
        producer.finish();
        assert!(producer.is_closed());
        assert!(why(producer.put(14)).starts_with("the ring is closed"));
        (0..4).for_each(|_| assert!(ring.try_take().is_ok()));
        assert_eq!(producer.publish(|| firsts.next()), Ok(0));
        assert_eq!(ring.try_take(), Err(TakeError::TimeExhausted));
    }
}

#[test]
fn waits_end_when_there_is_something_to_do() {
    let pause = Duration::from_millis(20);
    let lasts = |wait: &mut dyn FnMut()| {
        let end = Instant::now() + pause;
        wait();
        Instant::now() >= end
    };
    for (mut producer, ring) in [ring(2, 1), spaced(2, 1)] {
        assert!(lasts(&mut || ring.wait(Some(pause))), "empty");
        producer.put(10).expect("room");
        producer.put(12).expect("room");
        ring.wait(None);
        assert_eq!(ring.try_take(), Ok(10));
        assert!(lasts(&mut || producer.wait_for_demand(Some(pause))), "full");
        (0..3).for_each(|_| assert!(ring.try_take().is_ok()));
        producer.wait_for_demand(None);
        drop(producer);
        ring.wait(None);
    }
}

#[test]
fn takes_wake_a_producer_that_waits_for_demand() {
    for (mut producer, ring) in [ring(2, 1), spaced(2, 1)] {
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut runs = (1..RUNS).map(|run| 10 * run..10 * run + 2).peekable();
                while runs.peek().is_some() {
                    producer.publish(|| runs.next()).expect("in order");
                    producer.wait_for_demand(None);
                }
            });
            let mut taken = 0;
            while taken < 2 * (RUNS - 1) {
                match ring.try_take() {
                    Ok(_) => taken += 1,
                    Err(TakeError::Empty) => ring.wait(None),
                    Err(error) => panic!("{error} after {taken}"),
                }
            }
        });
    }
}

#[test]
fn a_ring_is_low_at_its_threshold_unless_its_producer_is_source_paused() {
    let full = |options: RingOptions| {
        let (mut producer, ring) = RingBuffer::new(options).expect("possible");
        let mut runs = (1..).map(|run| 100 * run..100 * run + 2);
        producer.publish(|| runs.next()).expect("in order");
        assert!(ring.try_take().is_ok());
        (producer, ring)
    };
    // 8 runs. The ring is low at the open run and 3 more, or at the open run and 1 more if the
    // padding is foreseen.
    let (producer, ring) = full(RingOptions::new(4).run_bits(1));
    let mut demanded = Vec::new();
    for _ in 0..7 {
        ring.set_forecast(true);
        let early = ring.wants_runs();
        ring.set_forecast(false);
        demanded.push((early, ring.wants_runs()));
        (0..2).for_each(|_| assert!(ring.try_take().is_ok()));
    }
    let [full, low, very_low] = [(false, false), (false, true), (true, true)];
    assert_eq!(demanded, [full, full, full, full, low, low, very_low]);
    ring.set_source_paused(true);
    assert!(ring.is_source_paused() && !ring.wants_runs());
    ring.set_source_paused(false);
    assert!(!ring.is_source_paused() && ring.wants_runs());
    drop(producer);
}

#[test]
fn a_ring_whose_producer_waits_for_room_is_low_when_there_is_room() {
    let options = RingOptions::new(2).run_bits(1).put_policy(PutPolicy::Wait);
    let (mut producer, ring) = RingBuffer::new(options).expect("possible");
    producer.put(10).expect("room");
    producer.put(12).expect("room");
    assert_eq!(ring.try_take(), Ok(10));
    assert!(!ring.wants_runs());
    assert_eq!(ring.try_take(), Ok(11));
    assert!(ring.wants_runs());
}

#[test]
fn paddings_are_foreseen_half_way_between_the_thresholds() {
    let runs =
        |options: RingOptions| RingBuffer::new(options).expect("possible").1.runs_until_forecast();
    // 32 runs, low at 16, and at 8 if that is foreseen.
    assert_eq!(runs(RingOptions::new(6).run_bits(1)), Some(20));
    assert_eq!(runs(RingOptions::new(6).run_bits(1).put_policy(PutPolicy::Wait)), None);
    assert_eq!(runs(RingOptions::new(1).run_bits(0)), None, "low at 1");
}

#[test]
fn a_handler_decides_about_the_end_of_a_padding() {
    let retry = PutPolicy::handler(|_| PutDecision::Retry);
    for (policy, again) in [(PutPolicy::Discard, false), (PutPolicy::Wait, false), (retry, true)] {
        let (_producer, ring) =
            RingBuffer::new(RingOptions::new(1).put_policy(policy)).expect("possible");
        assert_eq!(ring.retry_when_full().is_some(), again);
    }
}

#[test]
fn numbers_below_the_oldest_are_stale() {
    let (_producer, ring) = ring(1, 0);
    let hot = ring.hot();
    assert_eq!(hot.oldest(), 0);
    for oldest in [100, 50] {
        hot.set_oldest(oldest);
        assert_eq!(hot.oldest(), oldest);
        assert!(hot.is_fresh(oldest) && !hot.is_fresh(oldest - 1));
    }
}
