//! Clock-driven generators, each by the rules of the system that it recreates: known ids, and clocks that are set.

mod spread;

use std::collections::HashSet;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock, SystemClock, TickerClock};
use uidring::generator::{ClockPolicy, ClockedBuilder, SequenceStart, SnowflakeNode};
use uidring::policy::TakePolicy;
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Fields, Layout, TakeError, Tick,
    Timestamp, Uid, UidGenerator,
};
use uidring_testkit::namespace::fresh;

/// The epoch of the known id, 2020-07-31T16:00:00Z.
const EPOCH: i64 = 1_596_211_200_000;

fn layout(bits: Bits, epoch: i64) -> Layout {
    Layout::new(bits, Tick::Millisecond, Timestamp::from_millis(epoch)).expect("possible")
}

fn snowflake(clock: &ManualClock) -> ClockedUidGenerator<ManualClock> {
    let node = SnowflakeNode { datacenter_id: 3, worker_id: 17 };
    rejecting(ClockedUidGenerator::snowflake().worker_from(node), clock)
}

/// Builds in a namespace of its own.
fn rejecting(builder: ClockedBuilder, clock: &ManualClock) -> ClockedUidGenerator<ManualClock> {
    let builder = builder.namespace(fresh()).take_policy(TakePolicy::Reject);
    builder.clock(clock.clone()).build().expect("possible")
}

/// A clock at a full second of 2026.
fn clock() -> ManualClock {
    ManualClock::new("2026-06-01".parse().expect("a time"))
}

#[test]
fn stats_count_what_takers_met() {
    let clock = clock();
    let generator = snowflake(&clock);
    let zero = generator.stats();
    assert_eq!((zero.worker_id, zero.lead, zero.lease), (113, Duration::ZERO, None));
    assert_eq!((zero.waits, zero.rejects, zero.clock_refusals), (0, 0, 0));
    assert_eq!(zero.remaining_life, generator.layout().remaining_life(clock.now()));
    for _ in 0..4_096 {
        generator.next_uid().expect("a tick's worth");
    }
    assert_eq!(generator.stats(), zero, "nobody met anything");
    assert_eq!(generator.next_uid(), Err(TakeError::Empty), "the tick is used up");
    clock.set(Timestamp::from_millis(clock.now().as_millis() - 2));
    assert_eq!(generator.next_uid(), Err(TakeError::ClockBackwards { by_millis: 2 }));
    let stats = generator.stats();
    assert_eq!((stats.waits, stats.rejects, stats.clock_refusals), (0, 1, 1));
    assert_eq!(stats.lead, Duration::from_millis(2));
    generator.close();
    assert_eq!(generator.stats().lead, Duration::ZERO);

    // It starts with the next tick, from which nothing is issued yet.
    let tick = Layout::SNOWFLAKE.tick_at(clock.now()).expect("in the layout");
    let last = Fields { tick, worker_id: 1, sequence: 4_095 };
    let last = Layout::SNOWFLAKE.compose(last).expect("in range");
    let builder = ClockedUidGenerator::snowflake().worker_id(1).start_after(last);
    assert_eq!(rejecting(builder, &clock).stats().lead, Duration::ZERO);

    let leaf = ClockedUidGenerator::leaf_snowflake()
        .worker_id(1)
        .namespace(fresh())
        .clock(clock.clone())
        .build()
        .expect("possible");
    leaf.next_uid().expect("room");
    clock.set(Timestamp::from_millis(clock.now().as_millis() - 5));
    leaf.next_uid().expect_err("it does not catch up");
    assert_eq!((leaf.stats().waits, leaf.stats().clock_refusals), (1, 1));
}

/// (745279092 << 22) + (1 << 17) + (1 << 12) + 4095, by hand:
/// 745279092 × 4194304 = 3125927076691968 + … the fields below it are 131072 + 4096 + 4095 = 139263.
#[test]
fn known_ids_are_made_and_read() {
    assert_eq!(745_279_092_u64 * 4_194_304 + 139_263, 3_125_927_076_831_231);
    let layout = layout(Bits { time: 41, worker: 10, sequence: 12 }, EPOCH);
    let node = SnowflakeNode { datacenter_id: 1, worker_id: 1 };
    let now = Timestamp::from_millis(EPOCH + 745_279_092);
    let generator = ClockedUidGenerator::snowflake()
        .layout(layout)
        .worker_from(node)
        .namespace(fresh())
        .clock(ManualClock::new(now))
        .build()
        .expect("possible");
    let all: Vec<Uid> = generator.uids().take(4_096).map(|uid| uid.expect("room")).collect();
    assert_eq!(all[4_095].get(), 3_125_927_076_831_231);
    assert_eq!(all[0].get(), 3_125_927_076_831_231 - 4_095);
    let parts = generator.parts(all[4_095]).expect("of the layout");
    assert_eq!((parts.timestamp, parts.node, parts.sequence), (now, node, 4_095));

    // Twitter's epoch itself, one millisecond later, node 31/31: 2^22 + 1023 × 2^12.
    let first = Layout::SNOWFLAKE
        .compose(Fields { tick: 1, worker_id: 1_023, sequence: 0 })
        .expect("in range");
    assert_eq!(first.get(), 4_194_304 + 4_190_208);
    let decoded = Layout::SNOWFLAKE.decode(first).expect("of the layout");
    assert_eq!(decoded.timestamp, Timestamp::from_millis(1_288_834_974_658));
    let node = SnowflakeNode::from_worker_id(decoded.worker_id).expect("in range");
    assert_eq!((node.datacenter_id, node.worker_id), (31, 31));
}

#[test]
fn a_millisecond_has_4096_and_then_the_policy_decides() {
    let clock = clock();
    let generator = snowflake(&clock);
    for sequence in 0..4_096 {
        let uid = generator.next_uid().expect("room");
        assert_eq!(generator.decode(uid).expect("ours").sequence, sequence);
    }
    assert_eq!(generator.next_uid(), Err(TakeError::Empty));
    clock.advance(Duration::from_millis(1));
    assert_eq!(generator.decode(generator.next_uid().expect("new")).expect("ours").sequence, 0);
}

/// Otherwise the first uids of short-lived processes would all fall into the same shard.
#[test]
fn the_first_tick_starts_at_a_random_number_too() {
    let clock = clock();
    let spread = || ClockedUidGenerator::snowflake().sequence_start(SequenceStart::Spread);
    for builder in [ClockedUidGenerator::leaf_snowflake, spread] {
        let first = |_| {
            let generator = rejecting(builder().worker_id(1), &clock);
            generator.decode(generator.next_uid().expect("room")).expect("ours").sequence
        };
        let sequences: HashSet<u64> = (0..30).map(first).collect();
        assert!(sequences.len() > 1, "{sequences:?}");
    }
}

#[test]
fn a_time_before_the_epoch_is_told_and_changes_nothing() {
    let clock = clock();
    let generator = snowflake(&clock);
    let (before, now) = (generator.next_uid().expect("room"), clock.now());
    clock.set(Timestamp::from_millis(Layout::SNOWFLAKE.epoch().as_millis() - 1));
    assert_eq!(generator.next_uid(), Err(TakeError::ClockBeforeEpoch));
    clock.set(now);
    assert_eq!(generator.next_uid().expect("room").get(), before.get() + 1);
}

/// By 1, 5, 6 and 2,000 ms, under each policy.
#[test]
fn a_clock_that_went_back() {
    let refusing = |policy: ClockPolicy, back: u64| {
        let clock = clock();
        let generator = rejecting(
            ClockedUidGenerator::builder()
                .layout(Layout::SNOWFLAKE)
                .worker_id(5)
                .clock_policy(policy),
            &clock,
        );
        let before = generator.next_uid().expect("room");
        let start = "2026-06-01".parse::<Timestamp>().expect("a time").as_millis();
        clock.set(Timestamp::from_millis(start - back as i64));
        let tried = generator.try_next_uid();
        let taken = generator.next_uid();
        // The refused takes changed nothing.
        clock.set(Timestamp::from_millis(start));
        let after = generator.next_uid().expect("the clock is right again");
        assert!(before < after);
        let used = [tried, taken].iter().filter(|uid| uid.is_ok()).count() as u64;
        assert_eq!(after.get(), before.get() + used + 1, "no number was lost");
        (tried, taken)
    };
    for back in [1, 5, 6, 2_000] {
        let error = Err(TakeError::ClockBackwards { by_millis: back });
        assert_eq!(refusing(ClockPolicy::Refuse, back), (error, error));
        // A clock that stands still does not catch up.
        let wait = ClockPolicy::WaitUpTo(Duration::from_millis(5));
        assert_eq!(refusing(wait, back), (error, error));
        let (tried, taken) = refusing(ClockPolicy::StandStill(Duration::from_millis(5)), back);
        match back {
            ..=5 => assert!(tried.is_ok() && taken.ok() > tried.ok()),
            _ => assert_eq!((tried, taken), (error, error)),
        }
    }
}

#[test]
fn standing_still_ends_with_the_ticks_last_uid() {
    let clock = clock();
    let generator = rejecting(
        ClockedUidGenerator::builder()
            .layout(layout(Bits { time: 50, worker: 5, sequence: 3 }, 0))
            .worker_id(5)
            .clock_policy(ClockPolicy::StandStill(Duration::from_millis(10))),
        &clock,
    );
    let mut uids = vec![generator.next_uid().expect("room")];
    clock.set(Timestamp::from_millis(now(&clock) - 8));
    uids.extend((0..7).map(|_| generator.next_uid().expect("room in the last tick")));
    assert_eq!(generator.next_uid(), Err(TakeError::Empty), "used up, and the clock is behind");
    assert!(uids.is_sorted_by(|a, b| a < b));
    clock.advance(Duration::from_millis(9));
    assert!(uids[7] < generator.next_uid().expect("the clock is past it"));
}

/// Counts how often it is read.
#[derive(Clone, Debug)]
struct CountedClock {
    time: ManualClock,
    looks: Arc<AtomicU64>,
}

impl Clock for CountedClock {
    fn now(&self) -> Timestamp {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.time.now()
    }
}

/// Takes that wait until the clock has caught up sleep, in threads and in tasks.
#[test]
fn waiting_for_a_clock_that_is_behind_costs_little() {
    let (time, looks) = (clock(), Arc::new(AtomicU64::new(0)));
    let generator = ClockedUidGenerator::builder()
        .layout(layout(Bits { time: 50, worker: 5, sequence: 3 }, 0))
        .worker_id(5)
        .namespace(fresh())
        .clock(CountedClock { time: time.clone(), looks: Arc::clone(&looks) })
        .clock_policy(ClockPolicy::StandStill(Duration::from_secs(5)))
        .build()
        .expect("builds");
    let last = (0..8).map(|_| generator.next_uid().expect("room")).max().expect("eight");
    time.set(Timestamp::from_millis(now(&time) - 4_000));
    thread::scope(|scope| {
        let thread = scope.spawn(|| generator.next_uid());
        let task = scope.spawn(|| futures_executor::block_on(generator.next_uid_async()));
        thread::sleep(Duration::from_millis(20));
        let before = looks.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(200));
        let looks = looks.load(Ordering::Relaxed) - before;
        time.advance(Duration::from_millis(4_001));
        for taken in [thread, task] {
            assert!(taken.join().expect("no panic").expect("a uid") > last);
        }
        assert!(looks < 400, "{looks} looks at the clock in 200 ms");
    });
}

fn now(clock: &ManualClock) -> i64 {
    clock.now().as_millis()
}

/// 5 ms behind for this many readings, however long they take.
#[derive(Clone, Debug)]
struct LateClock {
    time: ManualClock,
    looks: Arc<AtomicU64>,
}

impl Clock for LateClock {
    fn now(&self) -> Timestamp {
        let now = self.time.now();
        let behind = self
            .looks
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |looks| looks.checked_sub(1));
        behind.map_or(now, |_| Timestamp::from_millis(now.as_millis() - 5))
    }
}

#[test]
fn a_boxed_clock_is_a_clock() {
    let boxed = || -> Box<dyn Clock> { Box::new(clock()) };
    let builder = ClockedUidGenerator::snowflake().worker_id(1).namespace(fresh()).clock(boxed());
    let on_the_clock = builder.build().expect("possible").next_uid().expect("room");
    let cached = CachedUidGenerator::builder().layout(Layout::SNOWFLAKE).worker_id(1);
    let cached = cached.namespace(fresh()).clock(boxed()).build().expect("possible");
    assert!(cached.next_uid().expect("waits") >= on_the_clock);
    let by_reference: &dyn Clock = &boxed();
    assert_eq!(Clock::now(&by_reference), clock().now());
}

/// Panics at every second reading.
#[derive(Debug, Default)]
struct FaultyClock(AtomicU64);

impl Clock for FaultyClock {
    fn now(&self) -> Timestamp {
        assert!(self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(2), "a fault of the clock");
        SystemClock.now()
    }
}

#[test]
fn a_caught_panic_of_the_clock_leaves_the_generator_whole() {
    let builder = ClockedUidGenerator::snowflake().worker_id(1).namespace(fresh());
    let generator = builder.clock(FaultyClock::default()).build().expect("two looks");
    let mut last = Uid::default();
    let mut panics = 0;
    // Without `AssertUnwindSafe`.
    for _ in 0..1_000 {
        match panic::catch_unwind(|| generator.next_uid()) {
            Ok(uid) => last = uid.ok().filter(|uid| *uid > last).expect("a later one"),
            Err(_) => panics += 1,
        }
    }
    assert!(panics >= 250, "{panics}");
}

/// As in Leaf: waits for a clock up to 5 ms behind, for at most twice as long.
#[test]
fn leaf_waits_for_a_clock_that_is_a_little_behind() {
    let clock = clock();
    let late = LateClock { time: clock.clone(), looks: Arc::default() };
    let leaf = ClockedUidGenerator::leaf_snowflake()
        .worker_id(5)
        .namespace(fresh())
        .clock(late.clone())
        .build()
        .expect("made");
    let before = leaf.next_uid().expect("room");
    // The readings of the first try.
    late.looks.store(2, Ordering::Relaxed);
    assert!(leaf.next_uid().expect("caught up") > before);
    assert_eq!(late.looks.load(Ordering::Relaxed), 0, "it was behind");

    clock.set(Timestamp::from_millis(now(&clock) - 5));
    let start = Instant::now();
    let refused = leaf.next_uid();
    assert_eq!(refused, Err(TakeError::ClockBackwards { by_millis: 5 }));
    assert!(start.elapsed() >= Duration::from_millis(10), "twice the offset was waited");
    let mut out = [Uid::default(); 3];
    assert!(leaf.fill(&mut out).is_err(), "fills wait, and are refused, likewise");
}

#[test]
fn a_year_forward_and_a_stuck_clock() {
    let clock = clock();
    let generator = snowflake(&clock);
    let before = generator.next_uid().expect("room");
    clock.advance(Duration::from_secs(365 * 86_400));
    let after = generator.next_uid().expect("room");
    let year = Duration::from_secs(365 * 86_400);
    let time = |uid| generator.decode(uid).expect("ours").timestamp;
    assert_eq!(time(after).saturating_since(time(before)), year);
    // Stuck: 4,095 more, then nothing ever.
    assert_eq!(generator.uids().take_while(Result::is_ok).count(), 4_095);
    assert_eq!(generator.next_uid(), Err(TakeError::Empty));
}

#[test]
fn the_end_of_41_bits_is_the_end() {
    let last = Layout::SNOWFLAKE.last_instant();
    let clock = ManualClock::new(last);
    let leaf = ClockedUidGenerator::leaf_snowflake()
        .worker_id(1_023)
        .namespace(fresh())
        .take_policy(TakePolicy::Reject)
        .clock(clock.clone())
        .build()
        .expect("the last millisecond");
    let uid = leaf.next_uid().expect("room");
    assert!(i64::from(uid) > 0);
    clock.advance(Duration::from_millis(1));
    for _ in 0..3 {
        assert_eq!(leaf.next_uid(), Err(TakeError::TimeExhausted));
    }
    assert!(matches!(
        ClockedUidGenerator::leaf_snowflake().worker_id(1).namespace(fresh()).clock(clock).build(),
        Err(Error::LayoutExhausted { .. })
    ));
}

/// While the last tick has uids left, the error is the clock's, not the end of time.
#[test]
fn a_clock_that_leaves_the_last_tick_may_come_back() {
    let (last, millisecond) = (Layout::SNOWFLAKE.last_instant(), Duration::from_millis(1));
    for policy in [ClockPolicy::Refuse, ClockPolicy::StandStill(millisecond)] {
        let clock = ManualClock::new(last);
        let builder = ClockedUidGenerator::snowflake().worker_id(1).clock_policy(policy);
        let generator = rejecting(builder, &clock);
        let before = generator.next_uid().expect("room");
        clock.set(Timestamp::from_millis(last.as_millis() - 1));
        match policy {
            ClockPolicy::Refuse => {
                let error = Err(TakeError::ClockBackwards { by_millis: 1 });
                assert_eq!(generator.next_uid(), error);
            }
            _ => assert!(generator.next_uid().expect("it stands still") > before),
        }
        clock.set(last);
        assert!(generator.next_uid().expect("room") > before);
    }
}

#[test]
fn a_clock_that_comes_back_from_past_the_end_goes_on() {
    fn jump_and_return(builder: ClockedBuilder) {
        let clock = clock();
        let generator = builder
            .layout(Layout::SNOWFLAKE)
            .worker_id(1)
            .namespace(fresh())
            .take_policy(TakePolicy::Reject)
            .clock(clock.clone())
            .build()
            .expect("possible");
        let before = generator.next_uid().expect("room");
        let now = clock.now();
        clock.set(Layout::SNOWFLAKE.last_instant().saturating_add(Duration::from_millis(1)));
        for _ in 0..3 {
            assert_eq!(generator.next_uid(), Err(TakeError::TimeExhausted));
            assert_eq!(generator.try_fill(&mut [before]), Err(TakeError::TimeExhausted));
        }
        clock.set(now.saturating_add(Duration::from_millis(1)));
        assert!(generator.next_uid().expect("the clock is right again") > before);
    }
    jump_and_return(ClockedUidGenerator::builder());
    jump_and_return(ClockedUidGenerator::leaf_snowflake());
    jump_and_return(ClockedUidGenerator::snowflake());
}

#[test]
fn fields_out_of_range_are_refused() {
    assert!(SnowflakeNode { datacenter_id: 32, worker_id: 0 }.as_worker_id().is_err());
    assert!(matches!(
        ClockedUidGenerator::leaf_snowflake().worker_id(1_024).namespace(fresh()).build(),
        Err(Error::WorkerIdOutOfRange { worker_id: 1_024, max: 1_023 })
    ));
    for start in [
        SequenceStart::RandomBelow(0),
        SequenceStart::RandomBelow(4_097),
        SequenceStart::Continue { modulo: 0 },
    ] {
        let built = ClockedUidGenerator::snowflake()
            .worker_id(1)
            .namespace(fresh())
            .sequence_start(start)
            .build();
        assert!(matches!(built, Err(Error::OptionOutOfRange { .. })), "{start:?}");
    }
}

/// At full load, each of 8 threads sees its ids increase, and none repeats.
#[test]
fn eight_threads_at_the_cap() {
    /// A fifth of a second on a fast machine.
    const SHARE: usize = 100_000;
    fn run(generator: &(impl UidGenerator + Sync + ?Sized)) {
        let mut all: Vec<Uid> = thread::scope(|scope| {
            let takers = [(); 8].map(|()| {
                scope.spawn(|| {
                    let uids = (0..SHARE).map(|_| generator.next_uid().expect("waits"));
                    let uids: Vec<Uid> = uids.collect();
                    assert!(uids.is_sorted_by(|a, b| a < b));
                    uids
                })
            });
            takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8 * SHARE);
    }
    run(&ClockedUidGenerator::snowflake()
        .worker_id(1)
        .namespace(fresh())
        .build()
        .expect("possible"));
    run(&ClockedUidGenerator::leaf_snowflake()
        .worker_id(1)
        .namespace(fresh())
        .build()
        .expect("possible"));
}

/// So few uids lie between two ticks that endless tries would cross them.
const NARROW: Bits = Bits { time: 47, worker: 1, sequence: 15 };

#[test]
fn tries_at_the_end_of_time_get_nobody_beyond_it() {
    let layout = layout(NARROW, 0);
    let last = Timestamp::from_millis((1 << 47) - 1);
    let clock = ManualClock::new(last);
    let generator = rejecting(
        ClockedUidGenerator::snowflake()
            .layout(layout)
            .worker_id(0)
            .clock_policy(ClockPolicy::StandStill(Duration::from_millis(10))),
        &clock,
    );
    assert_eq!(generator.uids().take(1 << 15).filter(Result::is_ok).count(), 1 << 15);
    // A time beyond the layout, with the low bits of the last one within.
    clock.set(Timestamp::from_millis((1 << 48) - 1));
    for _ in 0..100_000 {
        assert_eq!(generator.try_next_uid(), Err(TakeError::TimeExhausted));
    }
    clock.set(last);
    assert_eq!(generator.try_next_uid(), Err(TakeError::TimeExhausted));
}

/// Shows every second reader the previous millisecond.
#[derive(Debug)]
struct TwoFaced {
    clock: ManualClock,
    readings: AtomicU64,
}

impl Clock for TwoFaced {
    fn now(&self) -> Timestamp {
        let back = self.readings.fetch_add(1, Ordering::Relaxed) % 2;
        Timestamp::from_millis(self.clock.now().as_millis() - back as i64)
    }
}

#[test]
fn tries_of_a_used_up_tick_do_not_use_up_the_next_ones() {
    let clock = clock();
    let two_faced = TwoFaced { clock: clock.clone(), readings: AtomicU64::new(0) };
    let two_faced = Arc::new(two_faced);
    let generator = ClockedUidGenerator::snowflake()
        .layout(layout(NARROW, 0))
        .worker_id(0)
        .namespace(fresh())
        .take_policy(TakePolicy::Reject)
        .clock(Arc::clone(&two_faced))
        .build()
        .expect("possible");
    let mut taken = 0;
    for _ in 0..300_000 {
        taken += u32::from(generator.try_next_uid().is_ok());
    }
    assert_eq!(taken, 1 << 15, "the tick is used up, and most of the tries find it so");
    clock.advance(Duration::from_millis(1));
    // With the time that the generator reads.
    let uid = (0..4).find_map(|_| generator.try_next_uid().ok()).expect("a new tick");
    let fields = generator.decode(uid).expect("of this layout");
    assert_eq!(fields.timestamp, clock.now());
    assert_eq!(fields.sequence, 0, "it has just begun");
    generator.close();
}

/// The ticker's time may lag, in eight threads at once.
#[test]
fn nothing_comes_twice_by_the_ticker_clock() {
    const TAKES: usize = 40_000;
    let generator = ClockedUidGenerator::snowflake()
        .worker_id(9)
        .namespace(fresh())
        .clock(TickerClock::start().expect("a thread"))
        .build()
        .expect("made");
    let mut all: Vec<Uid> = thread::scope(|scope| {
        let takers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let uids = generator.uids().take(TAKES);
                    let uids: Vec<Uid> = uids.map(|uid| uid.expect("waits")).collect();
                    assert!(uids.is_sorted_by(|a, b| a < b));
                    uids
                })
            })
            .collect();
        takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect()
    });
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8 * TAKES);
    let last = generator.decode(all[all.len() - 1]).expect("ours").timestamp;
    assert!(last <= SystemClock.now(), "it is never early");
}
