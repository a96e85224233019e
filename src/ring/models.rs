//! Models of the ring's inner steps: see tests/loom.rs. Run with `scripts/loom`.

use loom::thread;

use super::*;
use crate::sync::become_forked_child;

fn check(model: impl Fn() + Send + Sync + 'static) {
    check_within(3, model);
}

fn check_within(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

fn ring(options: RingOptions) -> (Producer, Arc<RingBuffer>) {
    RingBuffer::new(options).expect("possible")
}

/// A reader of a slot gets a whole run or nothing, even without any other synchronization.
#[test]
fn models_a_slot_against_its_reader() {
    check(|| {
        let slot = Arc::new(Slot::default());
        let run = |index| Run { index, first: 10 * index, end: 10 * index + 1, before: index };
        let reader = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || [2, 3].map(|index| (index, slot.read(index))))
        };
        for index in [2, 3] {
            slot.write(run(index));
        }
        for (index, found) in reader.join().expect("no panic") {
            assert!(found.is_none_or(|found| found == run(index)), "{index}: {found:?}");
        }
    });
}

/// Ends a ring while others take numbers and blocks. All numbers issued are below the end's result, and
/// takes that begin after it get nothing.
fn ending(options: RingOptions, by_block: bool) {
    let (mut producer, ring) = ring(options);
    producer.put(10).expect("room");
    producer.put(100).expect("room");
    let takers = [by_block, false].map(|by_block| {
        let ring = Arc::clone(&ring);
        thread::spawn(move || match by_block {
            true => ring.try_take_block().map_or(Vec::new(), |block| block.collect()),
            false => ring.try_take().into_iter().collect(),
        })
    });
    ring.close();
    drop(producer);
    let below = ring.end().expect("something was published");
    assert_eq!(ring.try_take(), Err(TakeError::Closed));
    assert_eq!(ring.try_take_block(), Err(TakeError::Closed));
    let mut issued: Vec<u64> =
        takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect();
    assert!(issued.iter().all(|number| *number < below), "{issued:?} below {below}");
    let stats = ring.stats();
    assert_eq!(stats.taken, issued.len() as u64, "{stats:?}");
    assert_eq!(stats.available, 0);
    let lost = stats.published - stats.taken - stats.discarded;
    assert!(lost <= stats.dropped, "{stats:?}");
    issued.sort_unstable();
    assert!(issued.is_sorted_by(|a, b| a < b), "{issued:?}");
    assert_eq!(ring.try_take(), Err(TakeError::Closed), "nobody has revived it");
}

#[test]
fn models_the_end_against_takes() {
    check(|| ending(RingOptions::new(2).run_bits(1), false));
}

#[test]
fn models_the_end_against_takes_by_addition() {
    check(|| ending(RingOptions::new(2).run_bits(1).spaced(), false));
}

#[test]
fn models_the_end_against_blocks() {
    check(|| ending(RingOptions::new(2).run_bits(1).spaced(), true));
}

/// Ends a ring while its producer puts another run, which begins where the last one ends, and a taker
/// draws from it. What the taker gets is below the end's result, and the run does not revive the ring.
#[test]
fn models_the_end_against_a_producer() {
    check(|| {
        let (mut producer, ring) = ring(RingOptions::new(1).run_bits(0).spaced());
        producer.put(10).expect("room");
        let producer = thread::spawn(move || {
            let mut run = Some(11..12);
            let _ = producer.publish(|| run.take());
            producer
        });
        let taker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.try_take().ok())
        };
        let mine = ring.try_take().ok();
        ring.close();
        let below = ring.end().expect("something was published");
        let producer = producer.join().expect("no panic");
        let taken = taker.join().expect("no panic");
        let issued: Vec<u64> = taken.into_iter().chain(mine).collect();
        assert!(issued.iter().all(|number| *number < below), "{issued:?} below {below}");
        assert_eq!(ring.try_take(), Err(TakeError::Closed), "nobody has revived it");
        assert_eq!(ring.end(), Some(below));
        let stats = ring.stats();
        assert_eq!((stats.taken, stats.available), (issued.len() as u64, 0), "{stats:?}");
        let lost = stats.published - stats.taken - stats.discarded;
        assert!(lost <= stats.dropped, "{stats:?}");
        drop(producer);
    });
}

/// A taker that sleeps while there is nothing, as a generator's takers do.
fn sleeper(ring: &Arc<RingBuffer>) -> thread::JoinHandle<Result<u64, TakeError>> {
    let ring = Arc::clone(ring);
    thread::spawn(move || {
        loop {
            match ring.try_take() {
                Err(TakeError::Empty) => {
                    ring.park(None);
                }
                taken => {
                    ring.call_next_taker();
                    return taken;
                }
            }
        }
    })
}

/// A publication wakes one sleeper, which wakes the other. loom reports a deadlock if one of them sleeps
/// forever.
#[test]
fn models_sleepers_call_each_other() {
    // Three threads wait for each other, so a third preemption would take too long.
    check_within(2, || {
        let (mut producer, ring) = ring(RingOptions::new(2).run_bits(1));
        let sleepers = [(); 2].map(|()| sleeper(&ring));
        producer.put(10).expect("room");
        let taken = sleepers.map(|sleeper| sleeper.join().expect("no panic").expect("there"));
        assert!(taken == [10, 11] || taken == [11, 10], "{taken:?}");
    });
}

#[test]
fn models_a_close_releases_all_sleepers() {
    check(|| {
        let (_producer, ring) = ring(RingOptions::new(1).run_bits(0));
        let sleepers = [(); 2].map(|()| sleeper(&ring));
        ring.close();
        for sleeper in sleepers {
            assert_eq!(sleeper.join().expect("no panic"), Err(TakeError::Closed));
        }
    });
}

/// A padder whose source resumes after a pause, against a taker that uses up what was put: either the
/// taker wakes the padder, or the padder sees for itself that the ring is low. Without the fences, each
/// could store its own word, read an old value of the other's, and miss the other.
#[test]
fn models_a_paused_source_against_demand() {
    check(|| {
        let (mut producer, ring) = ring(RingOptions::new(1).run_bits(0));
        ring.set_source_paused(true);
        let taker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.try_take().ok())
        };
        producer.put(10).expect("room");
        ring.set_source_paused(false);
        let taken = taker.join();
        assert!(taken.expect("no panic").is_none_or(|number| number == 10));
        drop(producer);
    });
    check(|| {
        let (mut producer, ring) = ring(RingOptions::new(1).run_bits(0));
        [10, 11].into_iter().for_each(|number| producer.put(number).expect("room"));
        ring.set_source_paused(true);
        let padder = thread::spawn(move || {
            // The source has something again.
            producer.ring().set_source_paused(false);
            producer.wait_for_demand(None);
            producer.put(12).expect("there was demand, so there is room");
            producer
        });
        assert_eq!(ring.try_take(), Ok(10));
        drop(padder.join().expect("no panic"));
        assert_eq!([(); 2].map(|()| ring.try_take()), [Ok(11), Ok(12)]);
    });
}

/// A padder finds that the ring is not low at the time it had foreseen, and sleeps until takers wake it. A
/// taker that makes the ring low meanwhile wakes it, whichever threshold it saw. Takers that are faster than
/// foreseen wake it as well.
#[test]
fn models_a_foreseen_padding_against_demand() {
    for (was_wrong, takes) in [(true, 2), (false, 3)] {
        check(move || {
            let (mut producer, ring) = ring(RingOptions::new(2).run_bits(0));
            (10..14).for_each(|number| producer.put(number).expect("room"));
            ring.set_forecast(true);
            let padder = thread::spawn(move || {
                if was_wrong {
                    producer.ring().set_forecast(false);
                }
                producer.wait_for_demand(None);
                producer.put(14).expect("there was demand, so there is room");
                producer
            });
            (10..10 + takes).for_each(|number| assert_eq!(ring.try_take(), Ok(number)));
            drop(padder.join().expect("no panic"));
        });
    }
}

/// A local taker checks whether its block is fresh. If it is not, the next block that it takes is above
/// that one. What is stale stays stale.
#[test]
fn models_freshness_against_a_local_taker() {
    check(|| {
        let (mut producer, ring) = ring(RingOptions::new(3).run_bits(1).spaced());
        producer.put(10).expect("room");
        producer.put(100).expect("room");
        let local = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let block = ring.try_take_block().expect("there");
                let fresh = ring.hot().is_fresh(block.start);
                if fresh {
                    return (block.collect::<Vec<u64>>(), Vec::new());
                }
                let next = ring.try_take_block().expect("there");
                assert!(next.start >= block.end);
                (Vec::new(), next.collect())
            })
        };
        ring.hot().set_oldest(100);
        producer.discard_below(100);
        assert_eq!(ring.peek().filter(|number| *number < 100), None);
        let (_, later) = local.join().expect("no panic");
        assert!(later.iter().all(|number| *number >= 10));
        assert!(!ring.hot().is_fresh(99));
        assert!(ring.hot().is_fresh(100));
    });
}

/// A number that was drawn before its run was discarded, and is checked after that, is dropped.
#[test]
fn models_a_stale_number_that_was_drawn_is_dropped() {
    check(|| {
        let (mut producer, ring) = ring(RingOptions::new(1).run_bits(0).spaced());
        producer.put(10).expect("room");
        producer.put(100).expect("room");
        let taker = {
            let ring = Arc::clone(&ring);
            // Each is the last number of its run, so both takes use the slow path.
            thread::spawn(move || [(); 2].map(|()| ring.try_take().ok()))
        };
        ring.hot().set_oldest(100);
        producer.discard_below(100);
        let mine = ring.try_take().ok();
        assert!(mine.is_none_or(|number| number == 100));
        let theirs = taker.join().expect("no panic");
        let issued = theirs.into_iter().chain([mine]).flatten().count() as u64;
        let stats = ring.stats();
        assert_eq!(stats.taken, issued, "{stats:?}");
        assert!(stats.published - issued - stats.discarded - stats.available <= stats.dropped);
    });
}

/// A forked child takes nothing, waits for nothing, and changes nothing in its parent.
#[test]
fn models_a_child_takes_nothing() {
    for options in [RingOptions::new(2).run_bits(1), RingOptions::new(2).run_bits(1).spaced()] {
        check(move || {
            let (mut producer, ring) = ring(options.clone());
            producer.put(10).expect("room");
            let child = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    let before = ring.try_take();
                    become_forked_child();
                    assert_eq!(ring.try_take(), Err(TakeError::Forked));
                    assert_eq!(ring.try_fill(&mut [0]), Err(TakeError::Forked));
                    assert_eq!(ring.try_take_block(), Err(TakeError::Forked));
                    ring.wait(None);
                    before
                })
            };
            producer.put(100).expect("room");
            let mine = [(); 2].map(|()| ring.try_take().ok());
            let theirs = child.join().expect("no panic").ok();
            let mut issued: Vec<u64> = mine.into_iter().chain([theirs]).flatten().collect();
            issued.extend([(); 4].map(|()| ring.try_take()).into_iter().flatten());
            issued.sort_unstable();
            assert_eq!(issued, [10, 11, 100, 101]);
        });
    }
}
