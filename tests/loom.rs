//! Models of the ring. A model checker tries every interleaving, within the bounds in docs/ring-buffer.md. Run them
//! with `scripts/loom`. Models that need internals are in `src/ring/models.rs`.
#![cfg(uidring_loom)]

mod baidu_ring;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use loom::thread::{self, JoinHandle};
use uidring::clock::ManualClock;
use uidring::generator::ClockPolicy;
use uidring::policy::{PutPolicy, TakePolicy};
use uidring::ring::{Producer, RingBuffer, RingOptions};
use uidring::{Bits, ClockedUidGenerator, Layout, TakeError, Tick, Timestamp, Uid, UidGenerator};

/// A ring of `2^capacity_bits` numbers in runs of `2^run_bits`. Its takers only draw numbers that they know to be
/// published.
fn exact(capacity_bits: u32, run_bits: u32) -> (Producer, Arc<RingBuffer>) {
    RingBuffer::new(RingOptions::new(capacity_bits).run_bits(run_bits)).expect("possible")
}

/// The same, for takers that draw by addition.
fn spaced(capacity_bits: u32, run_bits: u32) -> (Producer, Arc<RingBuffer>) {
    RingBuffer::new(RingOptions::new(capacity_bits).run_bits(run_bits).spaced()).expect("possible")
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // Three preemptions find every known fault among the mutations of scripts/mutations/ring; more take hours. The
    // environment can override this.
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

/// Tries once. Returns what it got.
fn take(ring: &RingBuffer) -> Option<u64> {
    match ring.try_take() {
        Ok(number) => Some(number),
        Err(TakeError::Empty | TakeError::Closed) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Tries several times. Returns what it got, in order.
fn take_often(ring: &RingBuffer, times: usize) -> Vec<u64> {
    let taken: Vec<u64> = (0..times).filter_map(|_| take(ring)).collect();
    assert!(taken.is_sorted_by(|a, b| a < b), "in order: {taken:?}");
    taken
}

fn taker(ring: &Arc<RingBuffer>, times: usize) -> JoinHandle<Vec<u64>> {
    let ring = Arc::clone(ring);
    thread::spawn(move || take_often(&ring, times))
}

/// Checks that what was issued was put, without repeats, and that the stats agree. Returns how many numbers were lost.
fn account(ring: &RingBuffer, put: &[Range<u64>], mut issued: Vec<u64>) -> u64 {
    let is_put = |number: &u64| put.iter().any(|run| run.contains(number));
    assert!(issued.iter().all(is_put), "{issued:?} of {put:?}");
    let count = issued.len() as u64;
    issued.sort_unstable();
    assert!(issued.is_sorted_by(|a, b| a < b), "a number was issued twice: {issued:?}");
    let stats = ring.stats();
    assert_eq!(stats.taken, count, "{stats:?}");
    assert_eq!(stats.published, put.iter().map(|run| run.end - run.start).sum::<u64>());
    let lost = stats.published - stats.taken - stats.discarded - stats.available;
    assert!(lost <= stats.dropped, "{stats:?}");
    lost
}

fn joined(takers: impl IntoIterator<Item = JoinHandle<Vec<u64>>>) -> Vec<u64> {
    takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect()
}

/// Two takers, one number left: exactly one gets it.
fn the_last_number((mut producer, ring): (Producer, Arc<RingBuffer>)) {
    producer.put(10).expect("room");
    let other = taker(&ring, 1);
    let mut issued = take_often(&ring, 1);
    issued.extend(joined([other]));
    assert_eq!(issued, [10]);
    assert_eq!(account(&ring, &[10..11], issued), 0);
}

#[test]
fn take_against_take_on_the_last_number() {
    check(|| the_last_number(exact(1, 0)));
    check(|| the_last_number(spaced(1, 0)));
}

/// The same harness must find the duplicate in the protocol of Baidu's UidGenerator.
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

/// Takers race with the producer. What they get is whole, ordered and their own; what they do not get is still there.
fn takes_and_publications(ring: (Producer, Arc<RingBuffer>), second: u64) {
    let (mut producer, ring) = ring;
    let other = taker(&ring, 3);
    producer.put(10).expect("room");
    producer.put(second).expect("room");
    let mut issued = take_often(&ring, 1);
    issued.extend(joined([other]));
    let lost = account(&ring, &[10..12, second..second + 2], issued);
    assert!(lost == 0 || second == 12);
}

#[test]
fn take_against_publish() {
    check(|| takes_and_publications(exact(2, 1), 12));
}

#[test]
fn take_by_addition_against_publish() {
    check(|| takes_and_publications(spaced(2, 1), 100));
}

/// Runs that are neighbours, in a ring that was promised gaps.
#[test]
fn neighbours_in_a_spaced_ring_are_issued_once() {
    check(|| takes_and_publications(spaced(2, 1), 12));
}

/// Two takers reach the end of a run while the next is published. Nobody gets a number from the gap, no number is lost,
/// and nobody finds the ring empty while it is not.
#[test]
fn two_takers_at_the_end_of_a_run_against_publish() {
    check(|| {
        let (mut producer, ring) = spaced(2, 1);
        producer.put(10).expect("room");
        let takers = [(); 2].map(|()| taker(&ring, 2));
        producer.put(100).expect("room");
        let mut issued = joined(takers);
        while let Some(number) = take(&ring) {
            issued.push(number);
        }
        assert_eq!(issued.len(), 4, "{:?}", ring.stats());
        assert_eq!(account(&ring, &[10..12, 100..102], issued), 0);
    });
}

/// Both runs are there: two takers pass from one to the other without help.
#[test]
fn two_takers_open_a_run() {
    check(|| {
        let (mut producer, ring) = spaced(3, 1);
        [10, 100, 200].into_iter().for_each(|first| producer.put(first).expect("room"));
        let takers = [(); 2].map(|()| taker(&ring, 2));
        let mut issued = take_often(&ring, 1);
        issued.extend(joined(takers));
        assert_eq!(issued.len(), 5, "nobody may find nothing");
        assert_eq!(account(&ring, &[10..12, 100..102, 200..202], issued), 0);
    });
}

/// A number drawn by addition after another taker opened its run is not mistaken for one beyond the end.
#[test]
fn who_draws_from_a_run_sees_it_published() {
    check(|| {
        let (mut producer, ring) = spaced(2, 1);
        producer.put(10).expect("room");
        assert_eq!(take(&ring), Some(10));
        let takers = [(); 2].map(|()| taker(&ring, 1));
        producer.put(12).expect("room");
        let mut issued = joined(takers);
        issued.push(10);
        let lost = account(&ring, &[10..12, 12..14], issued.clone());
        // A taker that dropped a number found the ring empty.
        assert!(lost == 0 || issued.len() < 3, "{issued:?} {:?}", ring.stats());
    });
}

/// A ring of two runs. The producer overtakes a sleeping taker, which never takes one run's number for another's. There
/// is room again as soon as the last number of a run is drawn.
fn overtaking((mut producer, ring): (Producer, Arc<RingBuffer>), stride: u64) {
    producer.put(10).expect("room");
    let takers = [(); 2].map(|()| taker(&ring, 1));
    let mut put = vec![10..11];
    for number in [10 + stride, 10 + 2 * stride] {
        if producer.put(number).is_ok() {
            put.push(number..number + 1);
        }
    }
    let mut issued = joined(takers);
    while let Some(number) = take(&ring) {
        issued.push(number);
    }
    producer.put(1_000).expect("room in a ring that was emptied");
    assert_eq!(take(&ring), Some(1_000));
    put.push(1_000..1_001);
    issued.push(1_000);
    account(&ring, &put, issued);
}

#[test]
fn the_producer_overtakes_a_taker() {
    check(|| overtaking(exact(1, 0), 1));
}

#[test]
fn the_producer_overtakes_a_taker_by_addition() {
    check(|| overtaking(spaced(1, 0), 100));
}

#[test]
fn the_producer_overtakes_a_taker_with_neighbours() {
    check(|| overtaking(spaced(1, 0), 1));
}

/// A fill races with takes. In the model, a fill gives up after one lost race.
fn fill((mut producer, ring): (Producer, Arc<RingBuffer>), second: u64) {
    producer.put(10).expect("room");
    let taker = taker(&ring, 1);
    let filler = {
        let ring = Arc::clone(&ring);
        thread::spawn(move || {
            let mut batch = [0; 3];
            let filled = ring.try_fill(&mut batch).unwrap_or(0);
            assert!(batch[..filled].is_sorted_by(|a, b| a < b));
            batch[..filled].to_vec()
        })
    };
    producer.put(second).expect("room");
    let issued = joined([taker, filler]);
    assert_eq!(account(&ring, &[10..12, second..second + 2], issued), 0);
}

#[test]
fn fill_against_takes() {
    check(|| fill(exact(2, 1), 12));
}

#[test]
fn fill_against_takes_by_addition() {
    check(|| fill(spaced(2, 1), 100));
}

/// Blocks of several numbers race with takes.
fn blocks((mut producer, ring): (Producer, Arc<RingBuffer>), second: u64) {
    producer.put(10).expect("room");
    let taker = taker(&ring, 2);
    let block_taker = {
        let ring = Arc::clone(&ring);
        thread::spawn(move || ring.try_take_block().unwrap_or(0..0).collect::<Vec<u64>>())
    };
    producer.put(second).expect("room");
    let issued = joined([taker, block_taker]);
    assert_eq!(account(&ring, &[10..14, second..second + 4], issued), 0);
}

#[test]
fn block_against_takes() {
    check(|| blocks(exact(3, 2), 14));
}

#[test]
fn block_against_takes_by_addition() {
    check(|| blocks(spaced(3, 2), 100));
}

/// The wake-up of waiting takers is not lost, and they do not sleep while there is a number. The model checker would
/// report the deadlock.
fn waiting((mut producer, ring): (Producer, Arc<RingBuffer>)) {
    assert_eq!(take(&ring), None);
    let takers = [(); 2].map(|()| {
        let ring = Arc::clone(&ring);
        thread::spawn(move || {
            ring.wait(None);
            take_often(&ring, 1)
        })
    });
    // Enough for both.
    producer.put_range(10..12).expect("room");
    let mut issued = joined(takers);
    issued.sort_unstable();
    assert_eq!(issued, [10, 11]);
    assert_eq!(account(&ring, &[Range { start: 10, end: 12 }], issued), 0);
}

#[test]
fn waiting_takers_are_woken_by_a_publication() {
    check(|| waiting(exact(2, 1)));
}

#[test]
fn waiting_takers_by_addition_are_woken_by_a_publication() {
    check(|| waiting(spaced(2, 1)));
}

/// A taker that reaches the end, waits and retries while another takes.
#[test]
fn who_waits_after_a_try_does_not_sleep_on_a_number() {
    check(|| {
        let (mut producer, ring) = spaced(1, 0);
        let waiter = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                loop {
                    match ring.try_take() {
                        Err(TakeError::Empty) => ring.wait(None),
                        done => return done,
                    }
                }
            })
        };
        producer.put(10).expect("room");
        assert_eq!(waiter.join().expect("no panic"), Ok(10));
    });
}

/// The producer sleeps while there is enough. The taker that leaves too little wakes it.
fn wake_up((mut producer, ring): (Producer, Arc<RingBuffer>)) {
    producer.put(10).expect("room");
    producer.put(100).expect("room");
    let sleeper = thread::spawn(move || {
        producer.wait_for_demand(None);
        producer.put(200).expect("there was demand, so there is room");
        producer
    });
    assert_eq!(take(&ring), Some(10));
    assert_eq!(take(&ring), Some(100));
    drop(sleeper.join().expect("no panic"));
    assert_eq!(take(&ring), Some(200));
}

#[test]
fn the_producers_wake_up_is_not_lost() {
    check(|| wake_up(exact(1, 0)));
    check(|| wake_up(spaced(1, 0)));
}

/// The take that makes room wakes a waiting put.
fn waiting_put(options: RingOptions) {
    let (mut producer, ring) =
        RingBuffer::new(options.put_policy(PutPolicy::Wait)).expect("possible");
    [10, 50].into_iter().for_each(|number| producer.put(number).expect("room"));
    let putter = thread::spawn(move || {
        producer.put(100).expect("waits for room");
        producer
    });
    let mut issued = take_often(&ring, 1);
    assert_eq!(issued, [10]);
    let producer = putter.join().expect("no panic");
    issued.extend(take(&ring));
    assert_eq!(account(&ring, &[10..11, 50..51, 100..101], issued), 0);
    drop(producer);
}

#[test]
fn a_waiting_put_is_woken_by_a_take() {
    check(|| waiting_put(RingOptions::new(1).run_bits(0)));
    check(|| waiting_put(RingOptions::new(1).run_bits(0).spaced()));
}

/// Stale runs are discarded during takes. Order holds, no stale number comes later, and the word, which may be ahead
/// already, does not go back.
fn discarding((mut producer, ring): (Producer, Arc<RingBuffer>)) {
    producer.put(10).expect("room");
    let other = taker(&ring, 2);
    let discarded = producer.discard();
    producer.put(100).expect("room");
    let mut issued = take_often(&ring, 1);
    assert!(issued.is_empty() || issued[0] >= 100, "all that was stale is gone: {issued:?}");
    issued.extend(joined([other]));
    assert_eq!(ring.stats().discarded, discarded);
    assert_eq!(account(&ring, &[10..12, 100..102], issued), 0);
}

#[test]
fn discard_against_takes() {
    check(|| discarding(exact(2, 1)));
}

#[test]
fn discard_against_takes_by_addition() {
    check(|| discarding(spaced(2, 1)));
}

/// Discards only what is too old, also in the middle of a run.
fn discarding_old((mut producer, ring): (Producer, Arc<RingBuffer>), oldest: u64) {
    [10, 100].into_iter().for_each(|first| producer.put(first).expect("room"));
    let other = taker(&ring, 3);
    let discarded = producer.discard_below(oldest);
    let mut issued = take_often(&ring, 1);
    assert!(issued.iter().all(|number| *number >= oldest), "what is old is gone: {issued:?}");
    issued.extend(joined([other]));
    assert_eq!(ring.stats().discarded, discarded);
    assert_eq!(account(&ring, &[10..12, 100..102], issued), 0);
}

#[test]
fn discarding_old_runs_against_takes() {
    check(|| discarding_old(exact(2, 1), 100));
    check(|| discarding_old(exact(2, 1), 101));
}

#[test]
fn discarding_old_runs_against_takes_by_addition() {
    check(|| discarding_old(spaced(2, 1), 100));
    check(|| discarding_old(spaced(2, 1), 11));
}

/// A block whose run is discarded meanwhile.
#[test]
fn discard_against_a_block() {
    check(|| {
        let (mut producer, ring) = spaced(3, 2);
        producer.put(10).expect("room");
        producer.put(100).expect("room");
        let block_taker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.try_take_block().expect("there").collect::<Vec<u64>>())
        };
        let other = taker(&ring, 1);
        producer.discard_below(100);
        let issued = joined([block_taker, other]);
        assert_eq!(account(&ring, &[10..14, 100..104], issued), 0);
    });
}

/// A taker that waits when the producer is dropped gets the error. What was published before is still delivered.
#[test]
fn dropping_the_producer_releases_waiting_takers() {
    check(|| {
        let (mut producer, ring) = exact(1, 0);
        let waiter = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                loop {
                    match ring.try_take() {
                        Err(TakeError::Empty) => ring.wait(None),
                        done => return done,
                    }
                }
            })
        };
        producer.put(10).expect("room");
        let mine = ring.try_take();
        drop(producer);
        let theirs = waiter.join().expect("no panic");
        assert!(theirs == Ok(10) || theirs == Err(TakeError::Closed), "{theirs:?}");
        assert!((mine == Ok(10)) != (theirs == Ok(10)), "{mine:?} {theirs:?}");
    });
}

/// Nobody finds the ring closed while it holds a number that was not drawn.
#[test]
fn an_end_comes_after_the_last_number() {
    check(|| {
        let (mut producer, ring) = spaced(1, 0);
        let taker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.try_take())
        };
        producer.put(10).expect("room");
        producer.finish();
        match taker.join().expect("no panic") {
            Ok(10) | Err(TakeError::Empty) => {}
            other => panic!("{other:?}"),
        }
        while ring.try_take().is_ok() {}
        assert_eq!(ring.try_take(), Err(TakeError::TimeExhausted));
        assert_eq!(ring.stats().taken, 1);
    });
}

/// A clock-driven generator that begins in tick 3, and stands still when the clock goes back.
fn by_the_clock(bits: Bits) -> (Arc<ClockedUidGenerator<ManualClock>>, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_millis(3));
    let layout = Layout::new(bits, Tick::Millisecond, Timestamp::default()).expect("possible");
    let generator = ClockedUidGenerator::snowflake()
        .layout(layout)
        .worker_id(1)
        .clock_policy(ClockPolicy::StandStill(Duration::from_millis(1)))
        .take_policy(TakePolicy::Reject)
        .clock(clock.clone())
        .build()
        .expect("possible");
    (Arc::new(generator), clock)
}

/// Clock-driven generators share a word. Claims of two threads never overlap while the clock goes on and back.
#[test]
fn claims_by_the_clock() {
    check(|| {
        let (generator, clock) = by_the_clock(Bits { time: 4, worker: 1, sequence: 1 });
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

/// Takers draw beyond the end of a tick while the clock goes on. Each draw is a uid of one of the two ticks, or is
/// dropped.
#[test]
fn the_end_of_a_tick_by_the_clock() {
    check(|| {
        let (generator, clock) = by_the_clock(Bits { time: 4, worker: 2, sequence: 2 });
        let mut two = [Uid::default(); 2];
        generator.fill(&mut two).expect("ready");
        let takers = [true, false].map(|moves_the_clock| {
            let (generator, clock) = (Arc::clone(&generator), clock.clone());
            thread::spawn(move || {
                let mut taken: Vec<Uid> = generator.try_next_uid().into_iter().collect();
                if moves_the_clock {
                    clock.set(Timestamp::from_millis(4));
                }
                taken.extend(generator.try_next_uid());
                taken
            })
        });
        let mut all = two.to_vec();
        for taker in takers {
            let taken = taker.join().expect("no panic");
            assert!(taken.is_sorted_by(|a, b| a < b), "{taken:?}");
            assert!(taken.iter().all(|uid| *uid > two[1]), "{taken:?}");
            all.extend(taken);
        }
        all.extend(generator.try_next_uid());
        let of_this_worker =
            |uid: &Uid| uid.get() >> 2 & 3 == 1 && (3..=4).contains(&(uid.get() >> 4));
        assert!(all.iter().all(of_this_worker), "{all:?}");
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a uid was issued twice");
    });
}

/// Takes in the middle of a tick while the clock reaches the next and the generator closes. No uid repeats, none is in
/// a tick to come, and none comes after the close.
#[test]
fn the_middle_of_a_tick_by_the_clock() {
    check(|| {
        let (generator, clock) = by_the_clock(Bits { time: 4, worker: 1, sequence: 3 });
        let first = generator.try_next_uid().expect("ready");
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
