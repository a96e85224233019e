//! How well a uid's timestamp tells when it was taken, with a clock set by hand and the real padder thread.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock};
use uidring::generator::{CachedBuilder, SequenceStart};
use uidring::padding::{Padder, PadderCore, PadderOptions};
use uidring::policy::TakePolicy;
use uidring::{Bits, CachedUidGenerator, Layout, TakeError, Tick, Timestamp, Uid};
use uidring_testkit::namespace::fresh;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// More than a busy machine needs.
const LIMIT: Duration = Duration::from_secs(60);

/// A clock set by hand that counts its readings and notes the padder's thread.
#[derive(Clone, Debug)]
struct WatchedClock {
    time: ManualClock,
    looks: Arc<AtomicU64>,
    padder: Arc<OnceLock<PathBuf>>,
}

impl WatchedClock {
    fn new(time: &ManualClock) -> Self {
        Self { time: time.clone(), looks: Arc::default(), padder: Arc::default() }
    }

    /// Waits until the padder has seen the current time and discarded what is stale.
    fn settle(&self) {
        Self::settle_all(&[self]);
    }

    /// A visit of the padder to a ring reads the clock once or twice: at the refresh, and if it then pads. The first
    /// reading from now on may be of a padding whose refresh came before. The second is then the next refresh, and the
    /// third means that it is done.
    fn settle_all(clocks: &[&Self]) {
        let looks = |clock: &&Self| clock.looks.load(Ordering::SeqCst);
        let enough: Vec<_> = clocks.iter().map(|clock| looks(clock) + 3).collect();
        wait_until("the padder looks at the clock", || {
            clocks.iter().zip(&enough).all(|(clock, enough)| looks(clock) >= *enough)
        });
    }
}

/// Returns how often a thread has gone to sleep; 0 if unknown.
fn sleeps(thread: Option<&PathBuf>) -> u64 {
    let Some(thread) = thread else { return 0 };
    let status = fs::read_to_string(thread.join("status")).expect("the thread lives");
    let (_, count) = status.split_once("\nvoluntary_ctxt_switches:").expect("is counted");
    count.lines().next().and_then(|count| count.trim().parse().ok()).expect("a number")
}

impl Clock for WatchedClock {
    fn now(&self) -> Timestamp {
        // Count first: a reading that is counted after `settle` began then sees the time that was set before.
        self.looks.fetch_add(1, Ordering::SeqCst);
        if cfg!(target_os = "linux") && thread::current().name() == Some("uidring-padder") {
            self.padder.get_or_init(|| fs::canonicalize("/proc/thread-self").expect("a thread"));
        }
        self.time.now()
    }
}

/// Sets a flag on drop, even by a panic: takers that run until then would never end.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "in time: {what}");
        thread::sleep(Duration::from_micros(50));
    }
}

fn layout(tick: Tick, sequence: u8) -> Layout {
    let bits = Bits { time: 40, worker: 8, sequence };
    Layout::new(bits, tick, Timestamp::default()).expect("possible")
}

fn start() -> ManualClock {
    // Not at a full second.
    ManualClock::new(Timestamp::from_millis(1_000_000_250))
}

fn builder(layout: Layout, clock: impl Clock + 'static) -> CachedBuilder {
    let builder =
        CachedUidGenerator::builder().layout(layout).worker_id(5).namespace(fresh()).clock(clock);
    builder.refresh(Duration::from_millis(1))
}

fn time_of(generator: &CachedUidGenerator, uid: Uid) -> Timestamp {
    let fields = generator.decode(uid).expect("its own");
    assert_eq!(fields.worker_id, 5);
    fields.timestamp
}

/// One uid a second for twenty minutes. The padder reads the clock before each take, so the bound is `max_lag` or the
/// age of the current tick. Takes are too few to borrow ticks.
#[test]
fn at_a_low_rate_a_uid_tells_the_time() {
    let time = start();
    let kinds = [(Tick::Second, SECOND), (Tick::Second, SECOND / 4), (Tick::Millisecond, SECOND)];
    let padder =
        Padder::start(PadderOptions::default().core(PadderCore::Unpinned)).expect("starts");
    let generators = kinds.map(|(tick, max_lag)| {
        let clock = WatchedClock::new(&time);
        let builder = builder(layout(tick, 10), clock.clone())
            .max_lag(max_lag)
            .padder(&padder)
            .padding_factor(99);
        (builder.build().expect("builds"), clock, max_lag)
    });
    let mut takers = generators
        .each_ref()
        .map(|(generator, clock, max_lag)| (generator, generator.local(), clock, *max_lag));
    let mut last = [(Uid::default(), Uid::default()); 3];
    for second in 0..1_200 {
        time.advance(SECOND);
        let now = time.now();
        WatchedClock::settle_all(&takers.each_ref().map(|(_, _, clock, _)| *clock));
        for ((generator, local, _, max_lag), last) in takers.iter_mut().zip(&mut last) {
            let uids = (generator.next_uid().expect("waits"), local.next_uid().expect("waits"));
            assert!(last.0 < uids.0 && last.1 < uids.1, "in order");
            *last = uids;
            let present = generator
                .layout()
                .time_of(generator.layout().tick_at(now).expect("within the layout"));
            for uid in [uids.0, uids.1] {
                let told = time_of(generator, uid);
                let lag = now.saturating_since(told);
                assert!(lag <= *max_lag || told >= present, "second {second}: {lag:?} behind");
                assert!(told <= now, "second {second}: {told} at {now}");
            }
        }
    }
}

#[test]
fn after_a_day_without_takes_uids_are_of_today() {
    for (tick, bound) in [(Tick::Second, SECOND), (Tick::Millisecond, Duration::ZERO)] {
        let time = start();
        let clock = WatchedClock::new(&time);
        let builder = builder(layout(tick, 10), clock.clone()).max_lag(Duration::ZERO);
        let generator = builder.build().expect("builds");
        let mut idle = generator.local();
        for day in 0..20 {
            // It keeps most of a run.
            let before = idle.next_uid().expect("waits");
            let discarded = generator.stats().ring.discarded;
            time.advance(DAY);
            clock.settle();
            assert!(generator.stats().ring.discarded > discarded);
            assert!(generator.stats().lag <= bound);
            let mut filled = [Uid::default(); 3];
            // In turns: the first form could refresh for the others.
            match day % 3 {
                0 => generator.fill(&mut filled).expect("waits"),
                1 => filled.fill(idle.next_uid().expect("waits")),
                _ => filled.fill(generator.next_uid().expect("waits")),
            }
            for uid in filled {
                assert!(before < uid);
                let lag = time.now().saturating_since(time_of(&generator, uid));
                assert!(lag <= bound, "day {day}: {lag:?} behind");
            }
        }
    }
}

/// Ticks of 16 uids, of which 5 s may be borrowed. The clock is 250 ms into a tick, so the sixth tick after it is too
/// far.
fn bounded(clock: impl Clock + 'static, policy: TakePolicy) -> CachedUidGenerator {
    let builder = builder(layout(Tick::Second, 4), clock).max_borrow(5 * SECOND);
    builder.sequence_start(SequenceStart::Zero).take_policy(policy).build().expect("builds")
}

fn borrowed_out(lead_millis: u64) -> TakeError {
    let lead = Duration::from_millis(lead_millis).into();
    TakeError::BorrowLimit { lead, limit: (5 * SECOND).into() }
}

/// Takes until the horizon. Returns the count.
fn take_all(generator: &CachedUidGenerator) -> u64 {
    let (mut count, start) = (0, Instant::now());
    loop {
        match generator.try_next_uid() {
            Ok(_) => count += 1,
            Err(TakeError::BorrowLimit { .. }) => return count,
            // The padder is at work.
            Err(error) => assert_eq!(error, TakeError::Empty),
        }
        assert!(start.elapsed() < LIMIT, "there is a horizon");
    }
}

#[test]
fn at_the_horizon_reject_tells_lead_and_limit() {
    let time = start();
    let generator = bounded(time.clone(), TakePolicy::Reject);
    let taken = take_all(&generator);
    assert_eq!(taken, 6 * 16, "six ticks, the present one included");
    assert_eq!(generator.next_uid(), Err(borrowed_out(5_750)));
    let filled = generator.fill(&mut [Uid::default(); 2]).map_err(|e| (e.filled, e.error));
    assert_eq!(filled, Err((0, borrowed_out(5_750))));
    assert_eq!(generator.local().next_uid(), Err(borrowed_out(5_750)));
    // Not a millisecond too early.
    time.advance(Duration::from_millis(749));
    wait_until("the padder sees the time", || generator.next_uid() == Err(borrowed_out(5_001)));
    time.advance(Duration::from_millis(1));
    let mut taken = 0;
    wait_until("a tick more", || {
        taken += take_all(&generator);
        taken >= 16
    });
    assert_eq!(generator.stats().taken, 7 * 16);
}

#[test]
fn at_the_horizon_a_deadline_ends_the_waiting() {
    let generator = bounded(start(), TakePolicy::WaitFor(Duration::from_millis(30)));
    take_all(&generator);
    let before = generator.stats();
    let start = Instant::now();
    assert_eq!(generator.next_uid(), Err(borrowed_out(5_750)));
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(generator.local().next_uid(), Err(borrowed_out(5_750)));
    assert_eq!(generator.stats().rejects, before.rejects + 2);
    // On a busy machine the deadline may pass before a taker sleeps.
    wait_until("a taker that sleeps", || {
        assert_eq!(generator.next_uid(), Err(borrowed_out(5_750)));
        generator.stats().waits > before.waits
    });
}

/// All kinds of takers wait while the clock advances in small steps. None gets a uid too far ahead of it.
#[test]
fn who_waits_goes_on_as_the_clock_does() {
    let start = Instant::now();
    // On a busy machine the clock may outrun the takers.
    while take_while_the_clock_goes_on() == 0 {
        assert!(start.elapsed() < LIMIT, "somebody has to wait");
    }
}

/// Returns how often the takers slept.
fn take_while_the_clock_goes_on() -> u64 {
    let time = start();
    let generator = bounded(time.clone(), TakePolicy::Wait);
    // 30 s more have 480 uids.
    const SHARE: usize = 100;
    let check = |uid: Uid, last: &mut Uid| {
        // Read after the take: the clock only advances.
        let limit = time.now().saturating_add(5 * SECOND);
        assert!(time_of(&generator, uid) <= limit);
        assert!(*last < uid);
        *last = uid;
    };
    thread::scope(|scope| {
        let takers = [
            scope.spawn(|| {
                let mut last = Uid::default();
                (0..SHARE).for_each(|_| check(generator.next_uid().expect("waits"), &mut last));
            }),
            scope.spawn(|| {
                let (mut last, mut local) = (Uid::default(), generator.local());
                (0..SHARE).for_each(|_| check(local.next_uid().expect("waits"), &mut last));
            }),
            scope.spawn(|| {
                let (mut last, mut uids) = (Uid::default(), [Uid::default(); SHARE]);
                for uids in uids.chunks_mut(7) {
                    generator.fill(uids).expect("waits");
                    uids.iter().for_each(|uid| check(*uid, &mut last));
                }
            }),
        ];
        let start = Instant::now();
        while !takers.iter().all(|taker| taker.is_finished()) {
            assert!(start.elapsed() < LIMIT, "the takers go on");
            time.advance(Duration::from_millis(125));
            thread::sleep(Duration::from_millis(1));
        }
    });
    generator.stats().waits
}

/// Refused takers ask again at once. The padder still comes at its refreshes, not whenever they ask.
#[test]
fn takers_that_spin_at_the_horizon_do_not_keep_the_padder_busy() {
    let time = start();
    let looks = WatchedClock::new(&time);
    let generator =
        builder(layout(Tick::Second, 4), looks.clone()).refresh(Duration::from_millis(20));
    let generator =
        generator.max_borrow(5 * SECOND).take_policy(TakePolicy::Reject).build().expect("builds");
    let stop = AtomicBool::new(false);
    let refused = AtomicU64::new(0);
    thread::scope(|scope| {
        let _ends = Ends(&stop);
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if generator.next_uid().is_err() {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        wait_until("the horizon", || refused.load(Ordering::Relaxed) > 1_000);
        let (start, before) = (Instant::now(), refused.load(Ordering::Relaxed));
        let paddings = generator.stats().paddings;
        let seen = looks.looks.load(Ordering::Relaxed);
        let slept = sleeps(looks.padder.get());
        thread::sleep(Duration::from_millis(300));
        let paddings = generator.stats().paddings - paddings;
        // Two readings a round, and two by `stats`.
        let seen = looks.looks.load(Ordering::Relaxed) - seen;
        // If each refusal woke it, it would go back to sleep as often.
        let slept = sleeps(looks.padder.get()) - slept;
        // Read last, so that the time covers all that was counted.
        let rounds = (start.elapsed().as_millis() / 20) as u64;
        wait_until("they spin", || refused.load(Ordering::Relaxed) - before > 20 * rounds);
        let refused = refused.load(Ordering::Relaxed) - before;
        // Twice, because a refresh and a padding need not coincide.
        assert!(paddings <= 2 * rounds + 4, "{paddings} in {rounds} rounds, {refused} refused");
        assert!(seen <= 4 * rounds + 8, "{seen} looks in {rounds} rounds, {refused} refused");
        assert!(slept <= 10 * rounds + 20, "{slept} in {rounds} rounds, {refused} refused");
        let taken = generator.stats().taken;
        time.advance(SECOND);
        wait_until("service resumes", || generator.stats().taken > taken);
    });
}

#[test]
fn a_clock_that_is_set_to_and_fro_makes_no_uid_come_twice() {
    for tick in [Tick::Second, Tick::Millisecond] {
        let time = start();
        let clock = WatchedClock::new(&time);
        let generator = builder(layout(tick, 8), clock.clone()).build().expect("builds");
        let (mut local, mut last, mut last_local) =
            (generator.local(), Uid::default(), Uid::default());
        let mut all = Vec::new();
        // Also before the epoch; at last far ahead.
        for step in [-1_i64, -3_600_000, 7_200_000, -2_000_000_000, 1_999, 0, 90_000_000_000] {
            time.set(Timestamp::from_millis(time.now().as_millis() + step));
            clock.settle();
            // More than the ring holds, so that the padder goes on under this time.
            for _ in 0..5_000 {
                let (uid, other) =
                    (generator.next_uid().expect("waits"), local.next_uid().expect("waits"));
                assert!(last < uid && last_local < other, "in order");
                (last, last_local) = (uid, other);
                all.extend([uid, other]);
                let oldest = time_of(&generator, uid).min(time_of(&generator, other));
                let lag = time.now().saturating_since(oldest);
                assert!(lag <= SECOND, "{lag:?} behind after a step by {step} ms");
            }
        }
        for uid in [last, last_local] {
            assert!(
                time_of(&generator, uid) >= time.now().saturating_add(Duration::ZERO)
                    || time.now().saturating_since(time_of(&generator, uid)) <= 2 * SECOND
            );
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "none twice");
    }
}

#[test]
fn stats_count_what_was_taken_and_discarded() {
    let time = start();
    let clock = WatchedClock::new(&time);
    let builder = builder(layout(Tick::Second, 6), clock.clone()).max_lag(SECOND);
    let generator = builder.sequence_start(SequenceStart::Zero).build().expect("builds");
    generator.uids().take(100).for_each(|uid| assert!(uid.is_ok()));
    assert_eq!(generator.stats().taken, 100);
    generator.fill(&mut [Uid::default(); 30]).expect("waits");
    assert_eq!(generator.stats().taken, 130);
    let stats = generator.stats();
    assert_eq!((stats.ring.discarded, stats.worker_id), (0, 5));
    assert!(
        stats.lead > Duration::ZERO && stats.lag.is_zero(),
        "2 ticks of 64 are gone: {stats:?}"
    );
    // All of the block counts as taken, issued or not: here the rest of a tick.
    generator.local().next_uid().expect("waits");
    assert_eq!(generator.stats().taken % 64, 0);
    let (taken, published) = (generator.stats().taken, generator.stats().ring.available);
    assert_eq!(published % 64, 0);
    time.advance(DAY);
    clock.settle();
    let stats = generator.stats();
    assert!(stats.ring.discarded >= published, "{stats:?}");
    assert_eq!(stats.ring.discarded % 64, 0, "whole runs: {stats:?}");
    assert_eq!(stats.taken, taken, "what is thrown away was not taken");
    assert!(stats.lag <= SECOND && stats.lead.is_zero(), "{stats:?}");
}

/// A thousand seconds of the time field in twenty of the clock: life shrinks to a fiftieth.
#[test]
fn borrowing_fast_shortens_the_life_that_is_left() {
    let time = start();
    let clock = WatchedClock::new(&time);
    let generator = builder(layout(Tick::Second, 4), clock.clone()).build().expect("builds");
    clock.settle();
    let at_first = generator.remaining_life();
    let whole = generator.layout().remaining_life(time.now());
    assert!(whole - at_first <= 9 * SECOND, "the ring holds eight ticks: {at_first:?}");
    generator.uids().take(16_000).for_each(|uid| assert!(uid.is_ok()));
    time.advance(20 * SECOND);
    clock.settle();
    let hurried = generator.remaining_life().as_secs_f64();
    let speed = whole.as_secs_f64() / hurried;
    assert!((49.5..=51.0).contains(&speed), "{speed}");
    assert_eq!(generator.stats().remaining_life.as_secs_f64(), hurried);
    // Nobody takes any more, and the clock goes on.
    time.advance(20 * SECOND);
    clock.settle();
    let at_last = generator.remaining_life();
    assert!(at_last < at_first && at_last + 1_100 * SECOND > at_first, "{at_last:?}");
}
