//! The generators on the clock, each by the rules of the system that it re-creates: known ids, what
//! a clock that is set gets, and how ids at a low rate spread over shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::{
    Bits, Clock, ClockPolicy, DefaultUidGenerator, Error, Layout, LeafSnowflakeGenerator,
    ManualClock, SequenceStart, SnowflakeGenerator, SnowflakeNode, TakeError, TakePolicy, Tick,
    Timestamp, Uid, UidGenerator,
};

/// The epoch of the known id, 2020-07-31T16:00:00Z.
const EPOCH: i64 = 1_596_211_200_000;

fn layout(bits: Bits, epoch: i64) -> Layout {
    Layout::new(bits, Tick::Millisecond, Timestamp::from_millis(epoch)).expect("possible")
}

fn snowflake(clock: &ManualClock) -> SnowflakeGenerator<ManualClock> {
    let node = SnowflakeNode::new(3, 17).expect("in range");
    SnowflakeGenerator::builder()
        .node(node)
        .take_policy(TakePolicy::Reject)
        .clock(clock.clone())
        .build()
        .expect("possible")
}

/// A clock at a whole second of 2026.
fn clock() -> ManualClock {
    ManualClock::new("2026-06-01".parse().expect("a time"))
}

/// (745279092 << 22) + (1 << 17) + (1 << 12) + 4095, by hand:
/// 745279092 × 4194304 = 3125927076691968 + … the fields below it are 131072 + 4096 + 4095 = 139263.
#[test]
fn known_ids_are_made_and_read() {
    assert_eq!(745_279_092_u64 * 4_194_304 + 139_263, 3_125_927_076_831_231);
    let layout = layout(Bits { time: 41, worker: 10, sequence: 12 }, EPOCH);
    let node = SnowflakeNode::new(1, 1).expect("in range");
    let now = Timestamp::from_millis(EPOCH + 745_279_092);
    let generator = SnowflakeGenerator::builder()
        .layout(layout)
        .node(node)
        .clock(ManualClock::new(now))
        .build()
        .expect("possible");
    let all: Vec<Uid> = generator.uids().take(4_096).map(|uid| uid.expect("room")).collect();
    assert_eq!(all[4_095].get(), 3_125_927_076_831_231);
    assert_eq!(all[0].get(), 3_125_927_076_831_231 - 4_095);
    let parts = generator.parts(all[4_095]).expect("of the layout");
    assert_eq!((parts.timestamp, parts.node, parts.sequence), (now, node, 4_095));

    // Twitter's epoch itself, one millisecond later, node 31/31: 2^22 + 1023 × 2^12.
    let first = Layout::SNOWFLAKE.compose(1, 1_023, 0).expect("in range");
    assert_eq!(first.get(), 4_194_304 + 4_190_208);
    let decoded = Layout::SNOWFLAKE.decode(first).expect("of the layout");
    assert_eq!(decoded.timestamp, Timestamp::from_millis(1_288_834_974_658));
    let node = SnowflakeNode::from_worker_id(decoded.worker_id).expect("in range");
    assert_eq!((node.datacenter_id(), node.worker_id()), (31, 31));
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

/// By 1, 5, 6 and 2,000 ms, under each policy.
#[test]
fn a_clock_that_went_back() {
    let refusing = |policy: ClockPolicy, back: u64| {
        let clock = clock();
        let generator = DefaultUidGenerator::builder()
            .layout(Layout::SNOWFLAKE)
            .worker_id(5)
            .clock_policy(policy)
            .take_policy(TakePolicy::Reject)
            .clock(clock.clone())
            .build()
            .expect("possible");
        let before = generator.next_uid().expect("room");
        let start = "2026-06-01".parse::<Timestamp>().expect("a time").as_millis();
        clock.set(Timestamp::from_millis(start - back as i64));
        let tried = generator.try_next_uid();
        let taken = generator.next_uid();
        // Whatever was said, nothing was changed by saying it.
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
    let generator = DefaultUidGenerator::builder()
        .layout(layout(Bits { time: 50, worker: 5, sequence: 3 }, 0))
        .worker_id(5)
        .clock_policy(ClockPolicy::StandStill(Duration::from_millis(10)))
        .take_policy(TakePolicy::Reject)
        .clock(clock.clone())
        .build()
        .expect("possible");
    let mut uids = vec![generator.next_uid().expect("room")];
    clock.set(Timestamp::from_millis(now(&clock) - 8));
    uids.extend((0..7).map(|_| generator.next_uid().expect("room in the last tick")));
    assert_eq!(generator.next_uid(), Err(TakeError::Empty), "used up, and the clock is behind");
    assert!(uids.is_sorted_by(|a, b| a < b));
    clock.advance(Duration::from_millis(9));
    assert!(uids[7] < generator.next_uid().expect("the clock is past it"));
}

fn now(clock: &ManualClock) -> i64 {
    clock.now().as_millis()
}

/// 5 ms behind for so many looks, however long they take.
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

/// As Leaf: up to 5 ms behind is waited for, for twice as long at the most.
#[test]
fn leaf_waits_for_a_clock_that_is_a_little_behind() {
    let clock = clock();
    let late = LateClock { time: clock.clone(), looks: Arc::default() };
    let leaf = LeafSnowflakeGenerator::builder().worker_id(5).clock(late.clone()).build();
    let leaf = leaf.expect("made");
    let before = leaf.next_uid().expect("room");
    // Those of the first try.
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
    // Stuck: 4,095 more, and then nothing, for ever.
    assert_eq!(generator.uids().take_while(Result::is_ok).count(), 4_095);
    assert_eq!(generator.next_uid(), Err(TakeError::Empty));
}

#[test]
fn the_end_of_41_bits_is_the_end() {
    let last = Layout::SNOWFLAKE.last_instant();
    let clock = ManualClock::new(last);
    let leaf = LeafSnowflakeGenerator::builder()
        .worker_id(1_023)
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
        LeafSnowflakeGenerator::builder().worker_id(1).clock(clock).build(),
        Err(Error::LayoutExhausted { .. })
    ));
}

#[test]
fn fields_out_of_range_are_refused() {
    assert!(SnowflakeNode::new(32, 0).is_err());
    assert!(matches!(
        LeafSnowflakeGenerator::builder().worker_id(1_024).build(),
        Err(Error::WorkerIdOutOfRange { worker_id: 1_024, max: 1_023 })
    ));
    for start in [
        SequenceStart::RandomBelow(0),
        SequenceStart::RandomBelow(4_097),
        SequenceStart::Continue { modulo: 0 },
    ] {
        let built = SnowflakeGenerator::builder().worker_id(1).sequence_start(start).build();
        assert!(matches!(built, Err(Error::OptionOutOfRange { .. })), "{start:?}");
    }
}

/// The share of the fullest shard, relative to an even one, of ids some milliseconds apart.
fn fullest(start: SequenceStart, shards: u64) -> f64 {
    const IDS: u64 = 64 * 300;
    let clock = clock();
    let generator = SnowflakeGenerator::builder()
        .worker_id(1)
        .sequence_start(start)
        .clock(clock.clone())
        .build()
        .expect("possible");
    let mut counts = vec![0_u64; shards as usize];
    let mut gaps = fastrand::Rng::with_seed(shards);
    for _ in 0..IDS {
        let uid = generator.next_uid().expect("room");
        counts[(uid.get() % shards) as usize] += 1;
        clock.advance(Duration::from_millis(gaps.u64(1..20)));
    }
    let most = *counts.iter().max().expect("shards") as f64;
    most / (IDS as f64 / shards as f64)
}

/// Ids at a low rate, over 2 to 64 shards. From 0, powers of two get all of them into one.
/// Random numbers below 100 favour the shards of the remainders up to 100 % 64: 64 shards get 1.28
/// times their share in theory, and some noise.
#[test]
fn low_rates_spread_over_shards() {
    for shards in 2..=64_u64 {
        if shards.is_power_of_two() {
            let all = fullest(SequenceStart::Zero, shards);
            assert!((all - shards as f64).abs() < 1e-9, "all in one of {shards}");
            let even = fullest(SequenceStart::Continue { modulo: 64 }, shards);
            assert!((even - 1.0).abs() < 1e-9, "{shards}: {even}");
        }
        let random = fullest(SequenceStart::RandomBelow(100), shards);
        assert!(random < 1.7, "{shards}: {random}");
        let counted = fullest(SequenceStart::Continue { modulo: 100 }, shards);
        assert!(counted < 1.7, "{shards}: {counted}");
    }
}

/// At full load each of 8 threads sees its ids increase, and none comes twice.
#[test]
fn eight_threads_at_the_cap() {
    /// For a fifth of a second, if the machine is fast.
    const SHARE: usize = 100_000;
    fn run(generator: &(impl UidGenerator + ?Sized)) {
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
    run(&SnowflakeGenerator::builder().worker_id(1).build().expect("possible"));
    run(&LeafSnowflakeGenerator::builder().worker_id(1).build().expect("possible"));
}
