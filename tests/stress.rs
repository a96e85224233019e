//! Many more threads than cores, tiny rings, and random sleeps in takers and producer. Every number is accounted for,
//! and each issued number was put and is unique. In half of the rounds the rings are large, so that takes overlap.
//!
//! A program without the test harness, so that it also runs under ThreadSanitizer (`scripts/tsan`) and for any time
//! (`scripts/stress`): `stress [SECONDS [SEED]]`.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, process};

use uidring::padding::{Padder, PadderOptions};
use uidring::policy::{PutPolicy, TakeDecision, TakePolicy};
use uidring::ring::{Producer, RingBuffer, RingOptions};
use uidring::segment::{MemorySegments, SegmentError, SegmentTag};
use uidring::{
    Bits, CachedUidGenerator, Layout, LocalGenerator, PerThreadGenerator, SegmentGenerator,
    TakeError, Tick, Timestamp, Uid,
};
use uidring_testkit::namespace::fresh;

/// Takes of a taker in a round, from a small ring that keeps running dry.
const SHARE: usize = 2_000;
/// From a large ring: enough that takers run at the same time.
const LARGE_SHARE: usize = 30_000;
/// How long threads take from a handle with a block for each: several slices of the scheduler, which must stop a thread
/// within the few nanoseconds of a take.
const PER_THREAD: Duration = Duration::from_millis(100);
/// Maximum takes of one kind in a row.
const BURST: usize = 300;

fn main() {
    // Test runners ask for a list of tests; there is none.
    if env::args().any(|word| word == "--list") {
        return;
    }
    let mut numbers = env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let seconds = numbers.next().unwrap_or(2);
    let seed = numbers.next().unwrap_or_else(|| fastrand::u64(..));
    println!("stress: {seconds} s, {} takers, seed {seed}", takers());
    let start = Instant::now();
    let mut rounds = 0;
    while rounds < 2 || start.elapsed() < Duration::from_secs(seconds) {
        // Printed first, so that a failure can be repeated as far as the scheduler allows.
        let seed = seed.wrapping_add(rounds);
        let round = thread::spawn(move || {
            stress_ring(&mut fastrand::Rng::with_seed(seed));
            stress_generator(&mut fastrand::Rng::with_seed(seed));
            stress_per_thread(&mut fastrand::Rng::with_seed(seed));
            stress_segments(&mut fastrand::Rng::with_seed(seed));
        });
        if round.join().is_err() {
            eprintln!("failed in round {rounds} after {:.1?}, seed {seed}", start.elapsed());
            println!("{rounds} passed, 1 failed");
            process::exit(1);
        }
        rounds += 1;
    }
    println!("{rounds} passed, 0 failed");
}

fn takers() -> usize {
    8 * thread::available_parallelism().map_or(2, NonZero::get)
}

/// A ring with everything that takes from it, and a producer that sometimes discards.
fn stress_ring(random: &mut fastrand::Rng) {
    let large = random.bool();
    let run_bits = random.u32(if large { 8..13 } else { 0..4 });
    let share = if large { LARGE_SHARE } else { SHARE };
    let mut options = RingOptions::new(run_bits + random.u32(1..4))
        .run_bits(run_bits)
        .padding_factor(random.u32(1..100))
        .put_policy(if random.bool() { PutPolicy::Wait } else { PutPolicy::Discard });
    // Neighbouring runs in a ring for spaced runs waste numbers, but do nothing else.
    let (spaced, stride) = (random.bool(), if random.bool() { 1 << 20 } else { 0 });
    if spaced {
        options = options.spaced();
    }
    let (producer, ring) = RingBuffer::new(options).expect("possible");
    let done = Arc::new(AtomicBool::new(false));
    let producing = {
        let (done, random) = (Arc::clone(&done), random.fork());
        thread::spawn(move || produce(producer, stride, &done, random))
    };
    let start = Arc::new(Barrier::new(takers()));
    let taking: Vec<_> = (0..takers())
        .map(|_| {
            let (ring, random, start) = (Arc::clone(&ring), random.fork(), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                take_numbers(&ring, share, random)
            })
        })
        .collect();
    let mut issued = Vec::new();
    for taker in taking {
        let numbers = taker.join().expect("a taker");
        assert!(numbers.is_sorted_by(|a, b| a < b), "increasing in each thread");
        issued.extend(numbers);
    }
    done.store(true, Ordering::Relaxed);
    ring.close();
    let (put, discarded) = producing.join().expect("the producer");

    let stats = ring.stats();
    assert_distinct(&mut issued);
    let is_put = |number: &u64| {
        let place = put.partition_point(|run| run.end <= *number);
        put.get(place).is_some_and(|run| run.contains(number))
    };
    assert!(issued.iter().all(is_put), "issued only what was put");
    let count: u64 = put.iter().map(|run| run.end - run.start).sum();
    assert_eq!(stats.published, count, "{stats:?}");
    assert_eq!(stats.taken, issued.len() as u64, "{stats:?}");
    assert_eq!(stats.discarded, discarded, "{stats:?}");
    let accounted = stats.taken + discarded + stats.available;
    assert!((accounted..=accounted + stats.dropped).contains(&count), "{accounted} of {stats:?}");
    assert!(spaced || stats.dropped == 0, "{stats:?}");
}

/// Puts runs of random lengths. Returns them, and how many numbers were discarded.
fn produce(
    mut producer: Producer,
    stride: u64,
    done: &AtomicBool,
    mut random: fastrand::Rng,
) -> (Vec<Range<u64>>, u64) {
    let run_length = producer.ring().run_length();
    let (mut put, mut discarded) = (Vec::new(), 0);
    let mut end = 1;
    let mut lengths = random.fork();
    let mut next = |end: u64| end + stride..end + stride + lengths.u64(1..=run_length);
    while !done.load(Ordering::Relaxed) {
        match random.u32(0..100) {
            0..60 => {
                let mut runs = random.u64(1..9);
                let published = producer.publish(|| {
                    runs = runs.checked_sub(1)?;
                    let run = next(end);
                    end = run.end;
                    put.push(run.clone());
                    Some(run)
                });
                published.expect("above all before");
            }
            60..80 => {
                let run = next(end);
                if producer.put_range(run.clone()).is_ok() {
                    end = run.end;
                    put.push(run);
                }
            }
            80..82 => discarded += producer.discard(),
            82..84 => discarded += producer.discard_below(end.saturating_sub(random.u64(0..30))),
            84..90 => thread::sleep(Duration::from_micros(random.u64(0..200))),
            _ => producer.wait_for_demand(Some(Duration::from_millis(1))),
        }
    }
    (put, discarded)
}

fn take_numbers(ring: &RingBuffer, share: usize, mut random: fastrand::Rng) -> Vec<u64> {
    let mut taken = Vec::with_capacity(share + 64);
    let mut batch = [0; 50];
    let (mut kind, mut in_a_row) = (0, 0);
    while taken.len() < share {
        if in_a_row == 0 {
            (kind, in_a_row) = (random.u32(0..100), random.usize(1..=BURST));
        }
        in_a_row -= 1;
        let error = match kind {
            0..80 => ring.try_take().map(|number| taken.push(number)).err(),
            80..90 => {
                let wanted = random.usize(1..=batch.len());
                ring.try_fill(&mut batch[..wanted])
                    .map(|filled| taken.extend_from_slice(&batch[..filled]))
                    .err()
            }
            90..98 => ring.try_take_block().map(|block| taken.extend(block)).err(),
            98 => {
                thread::sleep(Duration::from_micros(random.u64(0..100)));
                in_a_row = 0;
                None
            }
            _ => {
                thread::yield_now();
                in_a_row = 0;
                None
            }
        };
        match error {
            None => {}
            Some(TakeError::Empty) => {
                ring.wait(Some(Duration::from_millis(1)));
                // A dry ring is no place for many takes of one kind.
                in_a_row = 0;
            }
            Some(other) => panic!("{other}"),
        }
    }
    taken
}

/// Generators with tiny or large rings, all on one padder, under every policy.
fn stress_generator(random: &mut fastrand::Rng) {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let policies = [
        TakePolicy::Wait,
        TakePolicy::WaitFor(Duration::from_micros(random.u64(0..500))),
        TakePolicy::Reject,
        TakePolicy::handler(|take| match take.attempts {
            ..10 => TakeDecision::Retry,
            _ => TakeDecision::GiveUp,
        }),
    ];
    let large = random.bool();
    let (sequence, share) =
        if large { (random.u8(9..13), LARGE_SHARE) } else { (random.u8(1..8), SHARE) };
    // With few and many bits: takes by claims, and by additions.
    let bits = Bits { time: 35, worker: if random.bool() { 4 } else { 16 }, sequence };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let mut all = Vec::new();
    let each = takers() / policies.len();
    let start = Arc::new(Barrier::new(policies.len() * each));
    for (worker_id, policy) in (1..).zip(policies) {
        let builder = CachedUidGenerator::builder()
            .layout(layout)
            .worker_id(worker_id)
            .namespace(fresh())
            .boost_power(random.u32(1..4))
            .take_policy(policy)
            .padder(&padder);
        let generator = Arc::new(builder.build().expect("builds"));
        let shared = Arc::new(PerThreadGenerator::new(Arc::clone(&generator)));
        for _ in 0..each {
            let (shared, random, start) = (Arc::clone(&shared), random.fork(), Arc::clone(&start));
            all.push(thread::spawn(move || {
                start.wait();
                take_uids(&shared, share, random)
            }));
        }
    }
    // The handle may be dropped before the rings that it serves.
    drop(padder);
    let mut issued = Vec::new();
    for taker in all {
        issued.extend(taker.join().expect("a taker"));
    }
    assert_distinct(&mut issued);
}

fn take_uids(
    shared: &PerThreadGenerator<Arc<CachedUidGenerator>>,
    share: usize,
    mut random: fastrand::Rng,
) -> Vec<u64> {
    let generator = shared.generator();
    let mut local = LocalGenerator::new(generator);
    let mut uids = Vec::with_capacity(share + 64);
    let mut batch = [Uid::default(); 50];
    let (mut kind, mut in_a_row) = (0, 0);
    while uids.len() < share {
        if in_a_row == 0 {
            (kind, in_a_row) = (random.u32(0..10), random.usize(1..=BURST));
        }
        in_a_row -= 1;
        let taken = match kind {
            0 => match generator.fill(&mut batch) {
                Ok(()) => Ok(batch.len()),
                Err(error) if error.filled > 0 => Ok(error.filled),
                Err(error) => Err(error.error),
            },
            1..4 => local.next_uid().map(|uid| {
                batch[0] = uid;
                1
            }),
            4..6 => shared.next_uid().map(|uid| {
                batch[0] = uid;
                1
            }),
            _ => generator.next_uid().map(|uid| {
                batch[0] = uid;
                1
            }),
        };
        match taken {
            Ok(count) => uids.extend(batch[..count].iter().map(|uid| uid.get())),
            Err(TakeError::Empty | TakeError::DeadlineExceeded) => {
                thread::yield_now();
                in_a_row = 0;
            }
            Err(other) => panic!("{other}"),
        }
    }
    uids
}

/// Threads that only take from one handle.
fn stress_per_thread(random: &mut fastrand::Rng) {
    let builder = CachedUidGenerator::builder().worker_id(1).namespace(fresh());
    let generator = builder.boost_power(random.u32(1..4)).build().expect("builds");
    let (handle, start) = (generator.per_thread(), Barrier::new(takers()));
    let take = || {
        let mut runs: Vec<Range<u64>> = Vec::new();
        start.wait();
        let end = Instant::now() + PER_THREAD;
        while Instant::now() < end {
            for _ in 0..1_000 {
                let uid = handle.next_uid().expect("a uid").get();
                match runs.last_mut() {
                    Some(run) if run.end == uid => run.end += 1,
                    _ => runs.push(uid..uid + 1),
                }
            }
        }
        runs
    };
    let mut issued = Vec::new();
    thread::scope(|scope| {
        let taking: Vec<_> = (0..takers()).map(|_| scope.spawn(take)).collect();
        for taker in taking {
            let runs = taker.join().expect("a taker");
            assert!(runs.is_sorted_by(|a, b| a.end <= b.start), "increasing in each thread");
            issued.extend(runs);
        }
    });
    issued.sort_unstable_by_key(|run| run.start);
    assert!(issued.is_sorted_by(|a, b| a.end <= b.start), "a uid was issued twice");
}

/// A few tags with tiny segments, whose ends are reached all the time.
fn stress_segments(random: &mut fastrand::Rng) {
    let table = MemorySegments::new();
    let tags = ["a", "b", "c"];
    for tag in tags {
        table
            .create(SegmentTag::new(tag).step(random.i64(1..30)).max_id(random.i64(1..1_000_000)))
            .expect("positive");
    }
    let generator = SegmentGenerator::builder(table)
        .prefetch(random.u32(1..100))
        .depth(random.u64(1..4))
        .max_depth(random.u64(1..9))
        .max_step(random.u64(1..100))
        .take_policy(if random.bool() {
            TakePolicy::Wait
        } else {
            TakePolicy::WaitFor(Duration::from_micros(random.u64(0..500)))
        })
        .build()
        .expect("builds");
    let generator = Arc::new(generator);
    let taking: Vec<_> = (0..takers())
        .map(|taker| {
            let (generator, random) = (Arc::clone(&generator), random.fork());
            let tag = tags[taker % tags.len()];
            (tag, thread::spawn(move || take_ids(&generator, tag, random)))
        })
        .collect();
    let mut issued = tags.map(|tag| (tag, Vec::new()));
    for (tag, taker) in taking {
        let ids = taker.join().expect("a taker");
        assert!(ids.is_sorted_by(|a, b| a < b), "increasing in each thread");
        issued.iter_mut().filter(|(name, _)| *name == tag).for_each(|(_, all)| all.extend(&ids));
    }
    for (tag, mut ids) in issued {
        let count = ids.len() as u64;
        assert_distinct(&mut ids);
        let stats = generator.stats(tag).expect("there");
        let accounted = count + stats.left + stats.lapped;
        assert!(
            (accounted - stats.lapped..=accounted).contains(&stats.reserved),
            "every id is accounted for: {count} of {stats:?}"
        );
        // With one table, the ranges are neighbours.
        let span = ids.last().zip(ids.first()).map_or(0, |(last, first)| last - first + 1);
        assert!(span - count <= stats.lapped, "gaps: {count} of {span}, {stats:?}");
    }
}

fn take_ids(generator: &SegmentGenerator, tag: &str, mut random: fastrand::Rng) -> Vec<u64> {
    let handle = generator.tag(tag).expect("there");
    let mut ids = Vec::with_capacity(SHARE + 64);
    let mut batch = [0; 50];
    while ids.len() < SHARE {
        let wanted = random.usize(1..=batch.len());
        let taken = match random.u32(0..20) {
            0 => match handle.fill(&mut batch[..wanted]) {
                Ok(()) => Ok(wanted),
                Err(error) if error.filled > 0 => Ok(error.filled),
                Err(error) => Err(error.error),
            },
            1 => handle.try_fill(&mut batch[..wanted]),
            2..5 => generator.next_id(tag).map(|id| {
                batch[0] = id;
                1
            }),
            _ => handle.next_id().map(|id| {
                batch[0] = id;
                1
            }),
        };
        match taken {
            Ok(count) => ids.extend(&batch[..count]),
            Err(SegmentError::Empty | SegmentError::DeadlineExceeded) => thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
    }
    ids
}

fn assert_distinct(numbers: &mut Vec<u64>) {
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "a number was issued twice");
}
