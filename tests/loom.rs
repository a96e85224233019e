//! Models of the ring, every interleaving of which a model checker tries, within the bounds that
//! docs/ring-buffer.md states. Run them with `scripts/loom`.
#![cfg(uidring_loom)]

mod baidu_ring;

use std::sync::Arc;

use loom::thread;
use uidring::{Producer, RingBuffer, RingOptions, TakeError};

/// A ring of `2^capacity_bits` numbers in runs of `2^run_bits`.
fn ring(capacity_bits: u32, run_bits: u32) -> (Producer, Arc<RingBuffer>) {
    RingBuffer::new(RingOptions::new(capacity_bits, run_bits)).expect("possible")
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // Three preemptions find all that is known to be wrong with the mutations of
    // docs/ring-buffer.md; more of them take hours. The environment may say otherwise.
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

/// One try; what it got.
fn take(ring: &RingBuffer) -> Option<u64> {
    match ring.try_take() {
        Ok(number) => Some(number),
        Err(TakeError::Empty | TakeError::Closed) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Everything that was issued, by whomever: no number twice, none that was not put.
fn assert_distinct(mut numbers: Vec<u64>, put: std::ops::Range<u64>) {
    assert!(numbers.iter().all(|number| put.contains(number)), "{numbers:?}");
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "a number was issued twice");
}

/// Every ticket that was drawn was issued, abandoned or lapped.
fn assert_accounted(ring: &RingBuffer, first_ticket: u64, issued: usize) {
    let stats = ring.stats();
    let drawn = stats.cursor - first_ticket;
    assert_eq!(drawn, issued as u64 + stats.abandoned + stats.lapped, "{stats:?}");
}

/// Two takers, one number left: exactly one gets it.
#[test]
fn take_against_take_on_the_last_number() {
    check(|| {
        let (mut producer, ring) = ring(1, 0);
        producer.put(10).expect("room");
        let other = Arc::clone(&ring);
        let taker = thread::spawn(move || take(&other));
        let mine = take(&ring);
        let theirs = taker.join().expect("no panic");
        let issued: Vec<u64> = mine.into_iter().chain(theirs).collect();
        assert_eq!(issued, [10]);
        assert_accounted(&ring, 1, 1);
    });
}

/// The same harness on the protocol of Baidu's UidGenerator must find its duplicate.
#[test]
#[should_panic(expected = "both takers got the last uid")]
fn baidus_take_gives_the_last_number_twice() {
    check(|| {
        let ring = Arc::new(baidu_ring::RingBuffer::new(2));
        assert!(ring.put(10));
        let other = Arc::clone(&ring);
        let taker = thread::spawn(move || other.take());
        let mine = ring.take();
        let theirs = taker.join().expect("no panic");
        assert!(mine.is_none() || mine != theirs, "both takers got the last uid");
    });
}

/// Takers meet the producer at its work: what they get is whole, ordered and nobody else's.
#[test]
fn take_against_publish() {
    check(|| {
        let (mut producer, ring) = ring(2, 1);
        let taker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let taken: Vec<u64> = (0..3).filter_map(|_| take(&ring)).collect();
                assert!(taken.is_sorted_by(|a, b| a < b), "{taken:?}");
                taken
            })
        };
        producer.put(10).expect("room");
        producer.put(12).expect("room");
        let mut issued = taker.join().expect("no panic");
        issued.extend(take(&ring));
        let count = issued.len();
        assert_distinct(issued, 10..14);
        assert_accounted(&ring, 2, count);
    });
}

/// A ring of one slot: a taker that sleeps is overtaken by the producer. It never gets a number of
/// one run for a ticket of another.
#[test]
fn a_lapped_taker_gets_nothing_of_a_later_run() {
    check(|| {
        let (mut producer, ring) = ring(0, 0);
        producer.put(10).expect("room");
        let takers = [(); 2].map(|()| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || take(&ring))
        });
        // Room again as soon as the ticket is drawn, read or not.
        for number in 11..13 {
            let _ = producer.put(number);
        }
        let issued: Vec<u64> =
            takers.into_iter().filter_map(|taker| taker.join().expect("no panic")).collect();
        let count = issued.len();
        assert_distinct(issued, 10..13);
        assert_accounted(&ring, 1, count);
    });
}

/// Each taker abandons one ticket at the most each time the ring dries: it dries twice here, before
/// the one number and after it. And once there is something again, the mark hides it from nobody.
#[test]
fn the_dry_mark_bounds_abandoned_tickets_and_does_not_stay() {
    check(|| {
        let (mut producer, ring) = ring(2, 0);
        let one_take = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || take(&ring))
        };
        let four_takes = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (0..4).filter_map(|_| take(&ring)).collect::<Vec<u64>>())
        };
        producer.put(10).expect("room");
        let mut issued = four_takes.join().expect("no panic");
        issued.extend(one_take.join().expect("no panic"));
        assert!(ring.stats().abandoned <= 1 + 2, "{:?}", ring.stats());
        // Nobody else is there now: what is put next must be taken next.
        producer.put(11).expect("room");
        let last = take(&ring);
        assert!(last.is_some(), "hidden by a stale mark: {:?}", ring.stats());
        issued.extend(last);
        let count = issued.len();
        assert_distinct(issued, 10..12);
        assert_accounted(&ring, 1, count);
    });
}

/// The taker that takes the mark down and the one that sees it down: there is enough for both, so
/// neither draws a ticket in vain. In runs of two, for the last ticket of a run passes a fence.
#[test]
fn who_sees_the_dry_mark_gone_sees_the_runs() {
    check(|| {
        let (mut producer, ring) = ring(3, 1);
        assert_eq!(take(&ring), None, "dry, and marked so");
        let takers = [(); 2].map(|()| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || take(&ring))
        });
        let mut runs = [10, 12].into_iter();
        assert_eq!(producer.publish(|| runs.next()), 2);
        let issued: Vec<u64> =
            takers.into_iter().filter_map(|taker| taker.join().expect("no panic")).collect();
        assert_eq!(ring.stats().abandoned, 1, "the first one");
        let count = issued.len();
        assert_distinct(issued, 11..14);
        assert_accounted(&ring, 2, count);
    });
}

/// Two takers meet a mark that is out of date. Who takes it down must not take down the mark of
/// the next drying: each abandons one ticket at the most.
#[test]
fn a_stale_mark_is_taken_down_without_a_newer_one() {
    check(|| {
        let (mut producer, ring) = ring(2, 0);
        assert_eq!(take(&ring), None, "dry, and marked so");
        producer.put(10).expect("room");
        let one_take = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || take(&ring))
        };
        let mut issued: Vec<u64> = (0..3).filter_map(|_| take(&ring)).collect();
        issued.extend(one_take.join().expect("no panic"));
        assert!(ring.stats().abandoned <= 1 + 2, "{:?}", ring.stats());
        assert_eq!(issued, [10]);
    });
}

/// A fill and takes share the ring; a fill loses nothing.
#[test]
fn fill_against_takes() {
    check(|| {
        let (mut producer, ring) = ring(2, 1);
        producer.put(10).expect("room");
        let taker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || take(&ring))
        };
        let filler = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut batch = [0; 3];
                let filled = ring.try_fill(&mut batch).unwrap_or(0);
                assert!(batch[..filled].is_sorted_by(|a, b| a < b));
                batch[..filled].to_vec()
            })
        };
        producer.put(12).expect("room");
        let mut issued = filler.join().expect("no panic");
        issued.extend(taker.join().expect("no panic"));
        let count = issued.len();
        assert_distinct(issued, 10..14);
        assert_accounted(&ring, 2, count);
    });
}

/// A leased run and takes share the ring.
#[test]
fn lease_against_takes() {
    check(|| {
        let (mut producer, ring) = ring(2, 1);
        producer.put(10).expect("room");
        let taker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || take(&ring))
        };
        let lease = ring.try_lease().unwrap_or(0..0);
        let _ = producer.put(12);
        let mut issued: Vec<u64> = lease.collect();
        issued.extend(taker.join().expect("no panic"));
        let count = issued.len();
        assert_distinct(issued, 10..14);
        assert_accounted(&ring, 2, count);
    });
}

/// Takers that wait hold no ticket, and their wake-up is not lost: the model checker would report
/// the deadlock.
#[test]
fn waiting_takers_are_woken_by_a_publication() {
    check(|| {
        let (mut producer, ring) = ring(1, 0);
        assert_eq!(take(&ring), None, "dry, and marked so");
        let takers = [(); 2].map(|()| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                ring.wait(None);
                take(&ring)
            })
        });
        // In one batch: the takers are let go when there is enough for both.
        let mut numbers = 10..12;
        assert_eq!(producer.publish(|| numbers.next()), 2);
        let mut issued = takers.map(|taker| taker.join().expect("no panic"));
        issued.sort_unstable();
        assert_eq!(issued, [Some(10), Some(11)]);
        assert_eq!(ring.stats().abandoned, 1, "waiting costs no ticket");
    });
}

/// The producer sleeps when there is enough, and is woken by the taker that makes it too little.
#[test]
fn the_producers_wake_up_is_not_lost() {
    check(|| {
        let (mut producer, ring) = ring(1, 0);
        producer.put(10).expect("room");
        producer.put(11).expect("room");
        let sleeper = thread::spawn(move || {
            producer.wait_for_demand(None);
            producer.put(12).expect("there was demand, so there is room");
            producer
        });
        assert_eq!(take(&ring), Some(10));
        assert_eq!(take(&ring), Some(11));
        drop(sleeper.join().expect("no panic"));
        assert_eq!(take(&ring), Some(12));
    });
}

/// A put that waits for room is woken by the take that makes it.
#[test]
fn a_waiting_put_is_woken_by_a_take() {
    check(|| {
        let options = RingOptions::new(0, 0).put_policy(uidring::PutPolicy::Wait);
        let (mut producer, ring) = RingBuffer::new(options).expect("possible");
        producer.put(10).expect("room");
        let putter = thread::spawn(move || {
            producer.put(11).expect("waits for room");
            producer
        });
        // In a ring of one slot the number may be overwritten between its ticket and its reading,
        // and the new ticket may come too early. That the put returned is what counts.
        let mut issued: Vec<u64> = take(&ring).into_iter().collect();
        drop(putter.join().expect("no panic"));
        issued.extend(take(&ring));
        let count = issued.len();
        assert_distinct(issued, 10..12);
        assert_accounted(&ring, 1, count);
    });
}

/// Stale runs are thrown away while others take: order holds, nothing of them comes later, and the
/// cursor, which may be ahead already, does not go back.
#[test]
fn discard_against_takes() {
    check(|| {
        let (mut producer, ring) = ring(2, 0);
        producer.put(10).expect("room");
        let taker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let taken: Vec<u64> = (0..2).filter_map(|_| take(&ring)).collect();
                assert!(taken.is_sorted_by(|a, b| a < b), "{taken:?}");
                taken
            })
        };
        let discarded = producer.discard();
        producer.put(20).expect("room");
        let mut issued: Vec<u64> = take(&ring).into_iter().collect();
        assert!(issued.is_empty() || issued == [20], "all that was stale is gone: {issued:?}");
        issued.extend(taker.join().expect("no panic"));
        let stats = ring.stats();
        let drawn = stats.cursor - 1;
        let accounted = issued.len() as u64 + stats.abandoned + stats.lapped + discarded;
        assert_eq!(drawn, accounted, "{stats:?}, {discarded} discarded");
        assert_distinct(issued, 10..21);
    });
}

/// Takers that keep the tickets of a run that is not there yet get its numbers later: with room for
/// all, none is lost.
#[test]
fn kept_tickets_get_their_numbers() {
    check(|| {
        let (mut producer, ring) = ring(2, 1);
        let takers = [(); 2].map(|()| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut kept = None;
                let taken = ring.try_take_keeping(&mut kept).ok();
                (taken, kept)
            })
        });
        producer.put(10).expect("room");
        let mut issued = Vec::new();
        for taker in takers {
            let (taken, mut kept) = taker.join().expect("no panic");
            issued.extend(taken);
            if taken.is_none() {
                issued.extend(ring.try_take_keeping(&mut kept));
            }
            assert_eq!(kept, None, "what was published is there");
        }
        assert_distinct(issued.clone(), 10..12);
        assert_eq!(issued.len(), 2, "{:?}", ring.stats());
        assert_accounted(&ring, 2, 2);
    });
}

/// Only what is too old goes: the run with numbers that a taker may hold tickets of, too.
#[test]
fn discarding_old_runs_against_takes() {
    check(|| {
        let (mut producer, ring) = ring(2, 1);
        producer.put(10).expect("room");
        producer.put(20).expect("room");
        let taker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let taken: Vec<u64> = (0..2).filter_map(|_| take(&ring)).collect();
                assert!(taken.is_sorted_by(|a, b| a < b), "{taken:?}");
                taken
            })
        };
        let discarded = producer.discard_below(20);
        let mine = take(&ring);
        assert!(mine.is_none_or(|number| number >= 20), "what is old is gone: {mine:?}");
        let mut issued: Vec<u64> = mine.into_iter().collect();
        issued.extend(taker.join().expect("no panic"));
        let stats = ring.stats();
        assert_eq!(stats.discarded, discarded);
        assert_eq!(stats.taken(), issued.len() as u64, "{stats:?}");
        assert!(stats.abandoned > 0 || issued.len() as u64 + discarded >= 3, "{stats:?}");
        assert_distinct(issued, 10..22);
    });
}

/// Takers that wait when the producer goes are released, with the error that says so; what was
/// published before is not withheld.
#[test]
fn dropping_the_producer_releases_waiting_takers() {
    check(|| {
        let (mut producer, ring) = ring(1, 0);
        let takers = [(); 2].map(|()| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                loop {
                    match ring.try_take() {
                        Err(TakeError::Empty) => ring.wait(None),
                        done => return done,
                    }
                }
            })
        });
        producer.put(10).expect("room");
        drop(producer);
        let done = takers.map(|taker| taker.join().expect("no panic"));
        assert!(done.iter().all(|end| matches!(end, Ok(10) | Err(TakeError::Closed))), "{done:?}");
        assert!(done[0] != done[1] || done[0].is_err(), "{done:?}");
    });
}

/// Nobody is told that the ring is closed while there is something that no ticket was drawn for.
#[test]
fn an_end_comes_after_the_last_number() {
    check(|| {
        let (mut producer, ring) = ring(1, 0);
        let taker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.try_take())
        };
        producer.put(10).expect("room");
        producer.finish();
        match taker.join().expect("no panic") {
            Ok(10) => assert_eq!(ring.try_take(), Err(TakeError::TimeExhausted)),
            // It came before the number.
            Err(TakeError::Empty) => assert_eq!(ring.stats().abandoned, 1),
            other => panic!("{other:?}"),
        }
    });
}

/// The generators on the clock share a word: claims of two threads, while the clock goes on and
/// back, never overlap.
#[test]
fn claims_by_the_clock() {
    use std::time::Duration;
    use uidring::{
        Bits, ClockPolicy, Layout, ManualClock, SnowflakeGenerator, TakePolicy, Tick, Timestamp,
        Uid, UidGenerator,
    };
    check(|| {
        let bits = Bits { time: 4, worker: 1, sequence: 1 };
        let layout = Layout::new(bits, Tick::Millisecond, Timestamp::default()).expect("possible");
        let clock = ManualClock::new(Timestamp::from_millis(3));
        let generator = SnowflakeGenerator::builder()
            .layout(layout)
            .worker_id(1)
            .clock_policy(ClockPolicy::StandStill(Duration::from_millis(1)))
            .take_policy(TakePolicy::Reject)
            .clock(clock.clone())
            .build()
            .expect("possible");
        let generator = Arc::new(generator);
        let other = Arc::clone(&generator);
        let taker = thread::spawn(move || {
            let mut two = [Uid::default(); 2];
            let filled = other.try_fill(&mut two).unwrap_or(0);
            assert!(two[..filled].is_sorted_by(|a, b| a < b));
            two[..filled].to_vec()
        });
        let mut mine: Vec<Uid> = generator.try_next_uid().into_iter().collect();
        clock.set(Timestamp::from_millis(4));
        mine.extend(generator.try_next_uid());
        clock.set(Timestamp::from_millis(3));
        mine.extend(generator.try_next_uid());
        assert!(mine.is_sorted_by(|a, b| a < b), "{mine:?}");
        let theirs = taker.join().expect("no panic");
        let count = mine.len() + theirs.len();
        mine.extend(theirs);
        mine.sort_unstable();
        mine.dedup();
        assert_eq!(mine.len(), count, "a uid was issued twice");
        assert!((1..=4).contains(&count), "two ticks of two: {count}");
    });
}

/// Additions in the middle of a tick, while the clock goes on to the next one and the generator is
/// closed: no uid twice, none of a tick that is not there yet, and none once it is closed.
#[test]
fn additions_by_the_clock() {
    use uidring::{
        Bits, Layout, ManualClock, SnowflakeGenerator, TakePolicy, Tick, Timestamp, Uid,
        UidGenerator,
    };
    check(|| {
        let bits = Bits { time: 4, worker: 1, sequence: 3 };
        let layout = Layout::new(bits, Tick::Millisecond, Timestamp::default()).expect("possible");
        let clock = ManualClock::new(Timestamp::from_millis(3));
        let generator = SnowflakeGenerator::builder()
            .layout(layout)
            .worker_id(1)
            .take_policy(TakePolicy::Reject)
            .clock(clock.clone())
            .build()
            .expect("possible");
        let first = generator.try_next_uid().expect("ready");
        let generator = Arc::new(generator);
        let (other, theirs) = (Arc::clone(&generator), clock.clone());
        let taker = thread::spawn(move || {
            let mut taken: Vec<Uid> = other.try_next_uid().into_iter().collect();
            theirs.set(Timestamp::from_millis(4));
            taken.extend(other.try_next_uid());
            taken.extend(other.try_next_uid());
            assert!(taken.is_sorted_by(|a, b| a < b), "{taken:?}");
            taken
        });
        let mut mine = vec![first];
        mine.extend(generator.try_next_uid());
        generator.close();
        assert!(generator.try_next_uid().is_err(), "closed");
        assert!(mine.is_sorted_by(|a, b| a < b), "{mine:?}");
        let theirs = taker.join().expect("no panic");
        let count = mine.len() + theirs.len();
        mine.extend(theirs);
        assert!(mine.iter().all(|uid| (3..=4).contains(&(uid.get() >> 4))), "{mine:?}");
        mine.sort_unstable();
        mine.dedup();
        assert_eq!(mine.len(), count, "a uid was issued twice");
    });
}
