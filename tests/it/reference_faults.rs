//! The faults of Baidu's UidGenerator and of Leaf's segment mode, each tested on ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::ManualClock;
use uidring::generator::{CachedBuilder, SequenceStart};
use uidring::padding::{Padder, PadderOptions};
use uidring::policy::{PutPolicy, TakeDecision, TakePolicy};
use uidring::ring::{RingBuffer, RingOptions};
use uidring::segment::{
    Loaded, MemorySegments, SegmentError, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring::{
    Bits, CachedUidGenerator, Error, Layout, SegmentGenerator, StoreError, StoreErrorKind,
    TakeError, Tick, Timestamp, Uid,
};
use uidring_testkit::namespace::fresh;

/// 1,024 uids a tick, so that the ring holds 8 ticks.
fn layout() -> Layout {
    let bits = Bits { time: 40, worker: 10, sequence: 10 };
    Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible")
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        thread::yield_now();
    }
}

/// Two takers that raced for the last uid both got it, once in 555 rounds.
#[test]
fn two_takers_never_both_get_the_last_uid() {
    const ROUNDS: u64 = 100_000;
    let (mut producer, ring) = RingBuffer::new(RingOptions::new(2).run_bits(0)).expect("possible");
    let barrier = Barrier::new(2);
    let last = [const { AtomicU64::new(0) }; 2];
    let issued = AtomicU64::new(0);
    thread::scope(|scope| {
        let (ring, barrier, last, issued) = (&ring, &barrier, &last, &issued);
        let take = move |me: usize| {
            let number = ring.try_take().unwrap_or(0);
            last[me].store(number, Ordering::Relaxed);
            issued.fetch_add(u64::from(number != 0), Ordering::Relaxed);
        };
        scope.spawn(move || {
            for _ in 0..ROUNDS {
                barrier.wait();
                take(1);
                barrier.wait();
            }
        });
        for round in 1..=ROUNDS {
            producer.put(round).expect("room for one");
            barrier.wait();
            take(0);
            barrier.wait();
            let got = [0, 1].map(|me| last[me].load(Ordering::Relaxed));
            assert!(got[0] == 0 || got[0] != got[1], "round {round}: both got {got:?}");
        }
    });
    assert!(issued.into_inner() >= ROUNDS / 2, "the race was for something");
}

/// Every take below the threshold queued another padding: 14 million of them.
#[test]
fn takes_below_the_threshold_queue_nothing() {
    let open = Arc::new(AtomicBool::new(true));
    let gate = Arc::clone(&open);
    let mut next = 0;
    let source = move || {
        while !gate.load(Ordering::Acquire) {
            thread::yield_now();
        }
        next += 1;
        Some(next)
    };
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let padding = padder.serve(RingOptions::new(10).run_bits(0), source, None).expect("possible");
    let ring = padding.ring();
    open.store(false, Ordering::Release);
    let before = padding.paddings();
    // These are below the threshold once half is gone, and the padder is stuck.
    for _ in 0..1_024 {
        ring.try_take().expect("a full ring");
    }
    for _ in 0..10_000 {
        assert_eq!(ring.try_take(), Err(TakeError::Empty));
    }
    open.store(true, Ordering::Release);
    wait_until("the padder goes on", || ring.stats().available == 1_024);
    thread::sleep(Duration::from_millis(20));
    assert!(padding.paddings() - before <= 2, "{} paddings", padding.paddings() - before);
}

/// A take failed even if its reject handler had the ring refilled.
#[test]
fn a_take_whose_handler_waits_for_the_refill_succeeds() {
    let policy = TakePolicy::handler(|take| match take.waited.as_secs() {
        ..30 => TakeDecision::Retry,
        _ => TakeDecision::GiveUp,
    });
    let bits = Bits { time: 40, worker: 10, sequence: 1 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let generator = CachedUidGenerator::builder()
        .layout(layout)
        .worker_id(1)
        .namespace(fresh())
        .boost_power(1)
        .take_policy(policy)
        .build()
        .expect("builds");
    for _ in 0..10_000 {
        generator.next_uid().expect("the handler retries until the padder has come");
    }
}

fn builder() -> CachedBuilder {
    CachedUidGenerator::builder().layout(layout()).worker_id(1).namespace(fresh())
}

/// Whenever the ring was full, the rest of a second was dropped, so the uids' clock ran ahead.
#[test]
fn no_uid_of_a_tick_is_dropped_because_the_ring_was_full() {
    let generator = builder()
        .sequence_start(SequenceStart::Zero)
        .clock(ManualClock::new(Timestamp::from_millis(0)))
        .build()
        .expect("builds");
    let (mut expected, mut gaps) = (0, 0);
    // Until the ring has been full several times, in odd portions.
    while generator.stats().paddings < 5 || expected < 5 * 8 * 1_024 {
        // Single takes wake the padder; fills pad for themselves.
        let mut uids = vec![Uid::default(); 77];
        generator.fill(&mut uids).expect("waits");
        let singles = generator.uids().take(700).map(|uid| uid.expect("waits"));
        for uid in uids.into_iter().chain(singles) {
            let fields = generator.decode(uid).expect("decodes");
            let place = fields.tick * 1_024 + fields.sequence;
            gaps += place - expected;
            expected = place + 1;
        }
    }
    assert_eq!(gaps, 0, "{:?}", generator.stats().ring);
}

/// Uids became negative once the seconds overflowed their field.
#[test]
fn uids_end_before_they_wrap() {
    let bits = Bits { time: 2, worker: 51, sequence: 10 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let generator = CachedUidGenerator::builder()
        .layout(layout)
        .worker_id(layout.max_worker_id())
        .namespace(fresh())
        .sequence_start(SequenceStart::Zero)
        .clock(ManualClock::new(Timestamp::from_millis(0)))
        .build()
        .expect("builds");
    let mut uids = vec![Uid::default(); 5_000];
    let error = generator.fill(&mut uids).expect_err("4 ticks of 1,024 are less");
    assert_eq!((error.filled, error.error), (4_096, TakeError::TimeExhausted));
    assert!(uids[..4_096].iter().all(|uid| i64::from(*uid) > 0));
    assert_eq!(uids[4_095], Uid::MAX);
    for _ in 0..100 {
        assert_eq!(generator.next_uid(), Err(TakeError::TimeExhausted));
    }
}

/// A put handler that threw ended the padding forever.
#[test]
fn padding_goes_on_when_the_put_handler_panics() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let policy = PutPolicy::handler(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        panic!("a user's mistake")
    });
    let generator = builder().put_policy(policy).build().expect("builds");
    wait_until("the handler is asked again and again, and padding goes on", || {
        (0..10_000).all(|_| generator.next_uid().is_ok()) && calls.load(Ordering::Relaxed) > 3
    });
}

/// A waiting policy keeps the ring full.
#[test]
fn a_waiting_put_policy_keeps_the_ring_full() {
    let generator = builder()
        .sequence_start(SequenceStart::Zero)
        .put_policy(PutPolicy::Wait)
        .build()
        .expect("builds");
    for _ in 0..1_024 {
        generator.next_uid().expect("a full ring");
    }
    wait_until("one free run is filled again", || generator.stats().ring.available == 8_192);
}

/// The padding factor was documented but could not be set.
#[test]
fn the_padding_factor_is_obeyed() {
    for (factor, quiet, enough) in [(10, 7_000, 7_700), (90, 600, 1_200)] {
        let generator = builder()
            .sequence_start(SequenceStart::Zero)
            .clock(ManualClock::new(Timestamp::from_millis(0)))
            .padding_factor(factor)
            .build()
            .expect("builds");
        let take = |count| generator.uids().take(count).for_each(|uid| assert!(uid.is_ok()));
        take(quiet);
        thread::sleep(Duration::from_millis(30));
        assert_eq!(generator.stats().paddings, 1, "{factor} %: not yet");
        take(enough - quiet);
        wait_until("now", || generator.stats().paddings > 1);
    }
}

/// A scheduled padding comes regardless of the threshold.
#[test]
fn the_schedule_is_obeyed() {
    let generator = builder().schedule(Duration::from_millis(5)).build().expect("builds");
    generator.next_uid().expect("ready");
    wait_until("paddings without takes", || generator.stats().paddings > 3);
}

/// About 85 bytes a slot for one uid: 5.5 MB at the default size.
#[test]
fn the_default_ring_is_small() {
    let memory = CachedUidGenerator::ring_memory(&Layout::UID_GENERATOR, 3).expect("possible");
    assert_eq!(memory, 512, "as docs/ring-buffer.md has it");
    let largest = CachedUidGenerator::ring_memory(&Layout::UID_GENERATOR, 16);
    assert_eq!(largest.expect("possible"), 4 << 20);
    let refused = CachedUidGenerator::ring_memory(&Layout::UID_GENERATOR, 17);
    assert!(refused.is_err(), "{refused:?}");
    let bits = Bits { time: 20, worker: 10, sequence: 20 };
    let large = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let error = CachedUidGenerator::ring_memory(&large, 10).expect_err("2^30 uids");
    assert!(matches!(error, Error::RingTooLarge { memory: 65_536, .. }), "{error:?}");
    assert!(error.to_string().contains("2^30"), "{error}");
}

/// The default epoch ended on a working day. Ours has years left, and warns near its end.
#[test]
fn presets_are_alive() {
    for layout in [
        Layout::UID_GENERATOR,
        Layout::UID_GENERATOR_LONG,
        Layout::SNOWFLAKE,
        Layout::JAVASCRIPT_SAFE,
    ] {
        let epoch_2026 = "2026-11-01".parse().expect("a date");
        assert!(layout.remaining_life(epoch_2026) > Duration::from_secs(7 * 365 * 86_400));
    }
}

/// A handler may hold the generator itself. Dropping the last reference in the padder's thread must not wait for that
/// thread.
#[test]
fn the_last_reference_may_go_in_the_padders_thread() {
    let slot: Arc<Mutex<Option<CachedUidGenerator>>> = Arc::default();
    let inside = Arc::clone(&slot);
    let policy = PutPolicy::handler(move |_| {
        drop(inside.lock().map(|mut slot| slot.take()));
        uidring::policy::PutDecision::Discard
    });
    let builder = builder().put_policy(policy);
    *slot.lock().expect("not poisoned") = Some(builder.build().expect("builds"));
    wait_until("the padder drops it", || {
        if let Ok(slot) = slot.lock() {
            match &*slot {
                None => return true,
                // Below the threshold the padder fills the ring and asks the handler.
                Some(generator) => {
                    for _ in 0..5_000 {
                        let _ = generator.try_next_uid();
                    }
                }
            }
        }
        false
    });
}

/// Segments of a slow or unreachable database.
struct Database {
    table: MemorySegments,
    delay: Duration,
    down: Arc<AtomicBool>,
}

fn away() -> Error {
    StoreError::new(StoreErrorKind::Unreachable, "is away").into()
}

impl Database {
    fn new(step: u64) -> Self {
        let table = MemorySegments::new();
        table.create(SegmentTag::new("orders").step(step.cast_signed())).expect("positive");
        Self { table, delay: Duration::ZERO, down: Arc::default() }
    }

    fn answer(&self) -> Result<(), Error> {
        thread::sleep(self.delay);
        if self.down.load(Ordering::Relaxed) { Err(away()) } else { Ok(()) }
    }
}

impl SegmentStore for Database {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.answer()?;
        self.table.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        match self.answer() {
            Ok(()) => self.table.load(wanted, loaded),
            Err(_) => (0..wanted.len()).for_each(|place| loaded(place, Err(away().into()))),
        }
    }
}

/// Takes failed if all was used up and the database took longer than 10 ms: 12 to 106 of 5 million.
#[test]
fn takes_wait_for_a_database_that_is_slow_when_all_is_used_up() {
    let mut database = Database::new(100);
    database.delay = Duration::from_millis(40);
    let generator = SegmentGenerator::builder(database).max_step(100).build().expect("builds");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..300).for_each(|_| assert!(generator.next_id("orders").is_ok())));
        }
    });
    let stats = generator.stats("orders").expect("there");
    assert!(stats.dried > 0 && stats.waits > 0, "all was used up: {stats:?}");
    assert_eq!((stats.taken, stats.rejects), (1_200, 0));
}

/// `init` succeeded without the database.
#[test]
fn a_generator_of_segments_does_not_start_while_the_database_is_down() {
    let database = Database::new(100);
    database.down.store(true, Ordering::Relaxed);
    let error = SegmentGenerator::builder(database).build().expect_err("down");
    assert!(error.to_string().contains("is away"), "{error}");
}

/// A removed tag threw a null pointer exception.
#[test]
fn a_removed_tag_has_an_error_of_its_own() {
    let database = Database::new(100);
    let table = database.table.clone();
    let generator = SegmentGenerator::builder(database).build().expect("builds");
    generator.next_id("orders").expect("waits");
    table.remove("orders");
    generator.refresh().expect("up");
    let error = generator.next_id("orders").expect_err("removed");
    assert!(matches!(error, SegmentError::RemovedTag(_)), "{error}");
}

/// A background load that failed to start blocked all loading forever.
#[test]
fn loading_goes_on_after_a_load_that_failed() {
    let database = Database::new(10);
    let down = Arc::clone(&database.down);
    let generator = SegmentGenerator::builder(database).max_step(10).build().expect("builds");
    for round in 0..5 {
        generator.next_id("orders").expect("waits");
        down.store(true, Ordering::Relaxed);
        let failures = generator.stats("orders").expect("there").load_failures;
        // A load that began before may still bring a segment; take all of it, too.
        wait_until("a load fails", || {
            while generator.try_next_id("orders").is_ok() {}
            generator.stats("orders").expect("there").load_failures > failures
        });
        down.store(false, Ordering::Relaxed);
        generator.next_id("orders").unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}
