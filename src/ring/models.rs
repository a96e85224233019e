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

/// Whoever reads a slot gets a run whole, or nothing, whatever else it knows of the ring.
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

/// A ring is ended while others take numbers and blocks. Nothing is issued that is not below what the end
/// tells, and nothing at all to takes that begin after it.
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

/// A ring is ended while its producer puts a further run, which goes on where the last one ends, and
/// a taker draws there: what it gets is below what the end tells, and the run does not revive the ring.
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

/// A taker that sleeps when there is nothing, as a generator's does.
fn sleeper(ring: &Arc<RingBuffer>) -> thread::JoinHandle<Result<u64, TakeError>> {
    let ring = Arc::clone(ring);
    thread::spawn(move || {
        loop {
            match ring.try_take() {
                Err(TakeError::Empty) => ring.park(None),
                taken => {
                    ring.call_next_taker();
                    return taken;
                }
            }
        }
    })
}

/// A publication calls one of those who sleep, who calls the other. The model checker would report who sleeps
/// for ever.
#[test]
fn models_sleepers_call_each_other() {
    // Three threads that wait for each other: with one more preemption, it takes long.
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

/// A padder whose source was paused, and goes on, against the taker that uses up what it has put: either the
/// taker wakes it, or it sees for itself that there is too little. Where the two only wrote a flag
/// and a word, and read the other's, each could miss the other.
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

/// A padder that had foreseen the ring to be low by now, finds that it is not, and sleeps until takers wake
/// it: the taker that makes the ring low meanwhile does so, whichever threshold it saw. Takers that come
/// sooner than foreseen wake it as well.
#[test]
fn models_a_foreseen_padding_against_demand() {
    for (was_wrong, takes) in [(true, 2), (false, 3)] {
        check(move || {
            let (mut producer, ring) = ring(RingOptions::new(2).run_bits(0));
            (10..14).for_each(|number| producer.put(number).expect("room"));
            ring.foresee(true);
            let padder = thread::spawn(move || {
                if was_wrong {
                    producer.ring().foresee(false);
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

/// A taker that counts for itself looks at the freshness of each number. Once it has seen that
/// nothing is fresh it stays so; and whatever it takes later is above what was thrown away.
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

/// A number that was drawn before its run was thrown away, and is looked at after: not handed out.
#[test]
fn models_a_stale_number_that_was_drawn_is_dropped() {
    check(|| {
        let (mut producer, ring) = ring(RingOptions::new(1).run_bits(0).spaced());
        producer.put(10).expect("room");
        producer.put(100).expect("room");
        let taker = {
            let ring = Arc::clone(&ring);
            // Both are last numbers of their runs, which pass the slow path.
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

/// A child of a fork takes nothing, waits for nothing, and changes nothing of its parent's.
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
