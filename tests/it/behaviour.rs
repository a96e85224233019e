//! What every generator guarantees, tested on each.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use uidring::clock::{Clock, ManualClock, SystemClock};
use uidring::generator::{ClockPolicy, ClockedBuilder, SequenceStart};
use uidring::policy::{TakeDecision, TakePolicy};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Fields, Layout, PerThreadGenerator,
    TakeError, Tick, Timestamp, Uid, UidGenerator,
};
use uidring_testkit::namespace::fresh;

/// Settings of the suite; the rest are defaults.
#[derive(Clone)]
struct Setup {
    layout: Layout,
    worker_id: Option<u64>,
    start_after: Option<Uid>,
    policy: TakePolicy,
    clock: Arc<dyn Clock>,
}

impl Setup {
    fn new(layout: Layout) -> Self {
        let policy = TakePolicy::Wait;
        let clock = Arc::new(SystemClock);
        Self { layout, worker_id: Some(5), start_after: None, policy, clock }
    }

    fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Arc::new(clock.clone());
        self
    }

    fn policy(mut self, policy: TakePolicy) -> Self {
        self.policy = policy;
        self
    }
}

type Made = Result<Arc<dyn UidGenerator + Send + Sync>, Error>;
type Make = fn(Setup) -> Made;

fn cached(setup: Setup) -> Result<Arc<dyn UidGenerator + Send + Sync>, Error> {
    Ok(Arc::new(build_cached(setup)?))
}

fn per_thread(setup: Setup) -> Result<Arc<dyn UidGenerator + Send + Sync>, Error> {
    Ok(Arc::new(PerThreadGenerator::new(Arc::new(build_cached(setup)?))))
}

fn build_cached(setup: Setup) -> Result<CachedUidGenerator, Error> {
    let mut builder = CachedUidGenerator::builder()
        .layout(setup.layout)
        .take_policy(setup.policy)
        .clock(setup.clock)
        .boost_power(1);
    if let Some(worker_id) = setup.worker_id {
        builder = builder.worker_id(worker_id).namespace(fresh());
    }
    if let Some(uid) = setup.start_after {
        builder = builder.start_after(uid);
    }
    builder.build()
}

fn clocked(setup: Setup) -> Made {
    build_clocked(ClockedUidGenerator::builder(), setup)
}

fn build_clocked(builder: ClockedBuilder, setup: Setup) -> Made {
    let mut builder = builder
        .layout(setup.layout)
        .take_policy(setup.policy)
        // So the suite's small layouts have room, and nothing waits for a clock that the test sets.
        // tests/clock_driven.rs tests other rules.
        .sequence_start(SequenceStart::Zero)
        .clock_policy(ClockPolicy::Refuse)
        .clock(setup.clock);
    if let Some(worker_id) = setup.worker_id {
        builder = builder.worker_id(worker_id).namespace(fresh());
    }
    if let Some(uid) = setup.start_after {
        builder = builder.start_after(uid);
    }
    Ok(Arc::new(builder.build()?))
}

/// Those whose uids increase across all threads come first.
const ALL: [(&str, Make); 5] = [
    ("cached", cached),
    ("default", clocked),
    ("snowflake", |setup| build_clocked(ClockedUidGenerator::snowflake(), setup)),
    ("leaf", |setup| build_clocked(ClockedUidGenerator::leaf_snowflake(), setup)),
    ("per thread", per_thread),
];

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn layout(time: u8, worker: u8, sequence: u8, tick: Tick) -> Layout {
    Layout::new(Bits { time, worker, sequence }, tick, at("2026-01-01")).expect("possible")
}

/// With milliseconds, so that a clock-driven generator soon reaches its next tick.
fn roomy() -> Layout {
    layout(41, 10, 12, Tick::Millisecond)
}

/// 4 ticks of 8 uids.
fn tiny() -> Layout {
    layout(2, 3, 3, Tick::Second)
}

#[test]
fn uids_increase_and_carry_their_worker() {
    for (name, make) in ALL {
        let generator = make(Setup::new(roomy())).expect(name);
        let mut last = None;
        for _ in 0..100_000 {
            let uid = generator.next_uid().expect(name);
            assert!(last < Some(uid), "{name}");
            assert_eq!(generator.decode(uid).expect(name).worker_id, 5, "{name}");
            last = Some(uid);
        }
        assert_eq!((generator.worker_id(), *generator.layout()), (5, roomy()), "{name}");
    }
}

#[test]
fn threads_share_without_repeats_and_each_sees_them_increase() {
    for (name, make) in ALL {
        let generator = make(Setup::new(roomy())).expect(name);
        let takers = [(); 8].map(|()| {
            let generator = Arc::clone(&generator);
            thread::spawn(move || {
                let mut uids = vec![Uid::default(); 20_000];
                for portion in uids.chunks_mut(7) {
                    match portion {
                        [one, ..] if one.get() % 2 == 0 => {
                            portion.fill_with(|| generator.next_uid().expect("waits"));
                        }
                        _ => generator.fill(portion).expect("waits"),
                    }
                }
                uids
            })
        });
        let mut all = Vec::new();
        for taker in takers {
            let uids = taker.join().expect(name);
            assert!(uids.is_sorted_by(|a, b| a < b), "{name}");
            all.extend(uids);
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 160_000, "{name}");
    }
}

#[test]
fn a_take_after_a_take_gets_the_greater_uid_on_any_thread() {
    for (name, make) in &ALL[..4] {
        let generator = make(Setup::new(roomy())).expect(name);
        let mut last = generator.next_uid().expect(name);
        for _ in 0..200 {
            let shared = Arc::clone(&generator);
            let uid = thread::spawn(move || shared.next_uid()).join().expect(name).expect(name);
            assert!(last < uid, "{name}");
            last = generator.next_uid().expect(name);
            assert!(uid < last, "{name}");
        }
    }
}

#[test]
fn fill_fills_and_try_fill_says_how_many() {
    for (name, make) in ALL {
        let generator = make(Setup::new(roomy())).expect(name);
        assert_eq!(generator.try_fill(&mut []), Ok(0), "{name}");
        generator.fill(&mut []).expect(name);
        for length in [1, 63, 64, 65, 4_096, 50_000] {
            let mut uids = vec![Uid::default(); length];
            generator.fill(&mut uids).expect(name);
            assert!(uids.is_sorted_by(|a, b| a < b), "{name} {length}");
            let mut some = vec![Uid::default(); length];
            let given = generator.try_fill(&mut some);
            if let Ok(given) = given {
                assert!((1..=length).contains(&given), "{name}");
                assert!(uids[length - 1] < some[0], "{name}");
                assert!(some[..given].is_sorted_by(|a, b| a < b), "{name}");
                assert!(some[given..].iter().all(|uid| *uid == Uid::default()), "{name}");
            }
        }
    }
}

#[test]
fn impossible_starts_are_refused() {
    for (name, make) in ALL {
        let refusal = |change: fn(&mut Setup)| {
            let mut setup = Setup::new(tiny()).clock(&ManualClock::new(at("2026-01-01")));
            change(&mut setup);
            make(setup).err().unwrap_or_else(|| panic!("{name}: must be refused"))
        };
        assert!(matches!(refusal(|s| s.worker_id = None), Error::NoWorkerId));
        assert!(matches!(
            refusal(|s| s.worker_id = Some(8)),
            Error::WorkerIdOutOfRange { worker_id: 8, max: 7 }
        ));
        assert!(matches!(
            refusal(|s| s.clock = Arc::new(ManualClock::new(at("2025-12-31")))),
            Error::ClockBeforeEpoch { .. }
        ));
        assert!(matches!(
            refusal(|s| s.clock = Arc::new(ManualClock::new(at("2026-01-01T00:00:04Z")))),
            Error::LayoutExhausted { .. }
        ));
        assert!(matches!(
            refusal(|s| s.start_after = Some(
                s.layout.compose(Fields { tick: 0, worker_id: 4, sequence: 0 }).expect("in range")
            )),
            Error::StartAfter { problem, .. } if problem.contains("worker 4")
        ));
        assert!(matches!(
            refusal(|s| s.start_after = Some(
                s.layout.compose(Fields { tick: 3, worker_id: 5, sequence: 7 }).expect("in range")
            )),
            Error::StartAfter { problem, .. } if problem.contains("nothing is left")
        ));
        assert!(matches!(
            refusal(|s| s.start_after = Some(Uid::MAX)),
            Error::UidOutOfLayout { .. }
        ));
    }
}

#[test]
fn a_start_after_a_known_uid_is_above_it() {
    for (name, make) in ALL {
        for sequence in [0, 1, 63, 64, 4_095] {
            let clock = ManualClock::new(at("2026-02-01"));
            let mut setup = Setup::new(roomy()).clock(&clock);
            let tick = setup.layout.tick_at(clock.now()).expect("in the layout");
            let before =
                setup.layout.compose(Fields { tick, worker_id: 5, sequence }).expect("in range");
            setup.start_after = Some(before);
            let generator = make(setup).expect(name);
            // A clock-driven generator may need the next tick.
            clock.advance(Duration::from_millis(1));
            assert!(before < generator.next_uid().expect(name), "{name} {sequence}");
        }
    }
}

#[test]
fn a_start_after_the_last_uid_but_a_tick_has_that_tick() {
    for (name, make) in ALL {
        let mut setup = Setup::new(tiny()).clock(&ManualClock::new(at("2026-01-01T00:00:03Z")));
        let before = Fields { tick: 2, worker_id: 5, sequence: 7 };
        setup.start_after = Some(setup.layout.compose(before).expect("in range"));
        let generator = make(setup).expect(name);
        let uid = generator.next_uid().expect(name);
        assert_eq!(generator.decode(uid).expect(name).tick, 3, "{name}");
    }
}

#[test]
fn stats_of_a_ring_that_is_used_up_look_at_the_tick_to_come() {
    let clock = ManualClock::new(at("2026-01-01T00:00:01Z"));
    let builder = CachedUidGenerator::builder().layout(tiny()).worker_id(5).namespace(fresh());
    let generator = builder.max_borrow(Duration::ZERO).clock(clock).build().expect("builds");
    while generator.try_next_uid().is_ok() {}
    let stats = generator.stats();
    assert_eq!((stats.ring.available, stats.lead), (0, Duration::from_secs(1)), "{stats:?}");
    assert_eq!(stats.lag, Duration::ZERO, "{stats:?}");
}

#[test]
fn time_ends_with_an_error_for_good_and_no_uid_beyond() {
    for (name, make) in ALL {
        let clock = ManualClock::new(at("2026-01-01"));
        let setup = Setup::new(tiny()).clock(&clock).policy(TakePolicy::Reject);
        let generator = make(setup).expect(name);
        let mut uids = Vec::new();
        let mut tries = 0;
        loop {
            match generator.next_uid() {
                Ok(uid) => uids.push(uid),
                Err(TakeError::TimeExhausted) => break,
                Err(TakeError::Empty) if clock.now() < at("2026-01-01T00:00:03Z") => {
                    clock.advance(Duration::from_secs(1));
                }
                Err(TakeError::Empty) => thread::yield_now(),
                Err(other) => panic!("{name}: {other}"),
            }
            tries += 1;
            assert!(tries < 100_000_000, "{name}: the end must come");
        }
        assert!(uids.is_sorted_by(|a, b| a < b), "{name}");
        assert!(!uids.is_empty() && uids.len() <= 32, "{name}: {} of 4 ticks of 8", uids.len());
        for uid in uids {
            assert_eq!(generator.decode(uid).expect(name).worker_id, 5, "{name}");
        }
        for now in ["2026-01-01", "2026-01-01T00:00:03Z", "2030-01-01", "2020-01-01"] {
            clock.set(at(now));
            assert!(generator.next_uid().is_err(), "{name}: for good");
            let mut more = [Uid::default(); 3];
            assert_eq!(generator.fill(&mut more).expect_err(name).filled, 0, "{name}");
        }
    }
}

#[test]
fn a_clock_that_steps_back_never_brings_a_uid_twice() {
    for (name, make) in ALL {
        let clock = ManualClock::new(at("2026-03-01"));
        let setup = Setup::new(roomy()).clock(&clock).policy(TakePolicy::Reject);
        let generator = make(setup).expect(name);
        let mut last = generator.next_uid().expect(name);
        for back in [1, 5, 60_000, 86_400_000] {
            clock.set(Timestamp::from_millis(at("2026-03-01").as_millis() - back));
            for _ in 0..10_000 {
                match generator.next_uid() {
                    Ok(uid) => {
                        assert!(last < uid, "{name}");
                        last = uid;
                    }
                    Err(TakeError::Empty) => {}
                    Err(TakeError::ClockBackwards { by_millis }) => {
                        assert_eq!(by_millis, back.unsigned_abs(), "{name}");
                    }
                    Err(other) => panic!("{name}: {other}"),
                }
            }
        }
    }
}

#[test]
fn generators_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<CachedUidGenerator>();
    shared::<ClockedUidGenerator>();
}

#[test]
fn the_generator_on_the_clock_refuses_waits_or_asks_when_a_tick_is_used_up() {
    let clock = ManualClock::new(at("2026-01-01"));
    let drained = |policy| {
        let generator = clocked(Setup::new(tiny()).clock(&clock).policy(policy)).expect("builds");
        let mut uids = [Uid::default(); 8];
        generator.fill(&mut uids).expect("one tick");
        generator
    };
    assert_eq!(drained(TakePolicy::Reject).next_uid(), Err(TakeError::Empty));
    assert_eq!(
        drained(TakePolicy::WaitFor(Duration::from_millis(5))).next_uid(),
        Err(TakeError::DeadlineExceeded)
    );
    let twice = TakePolicy::handler(|take| match take.attempts {
        1 => TakeDecision::Retry,
        _ => TakeDecision::GiveUp,
    });
    assert_eq!(drained(twice).next_uid(), Err(TakeError::Empty));
    let panics = TakePolicy::handler(|_| panic!("a user's mistake"));
    assert_eq!(drained(panics).next_uid(), Err(TakeError::Empty));

    let waiting = drained(TakePolicy::Wait);
    let taker = thread::spawn(move || waiting.next_uid());
    thread::sleep(Duration::from_millis(20));
    clock.advance(Duration::from_secs(1));
    let uid = taker.join().expect("no panic").expect("the next tick");
    assert_eq!(tiny().decode(uid).map(|fields| (fields.tick, fields.sequence)).ok(), Some((1, 0)));
}

#[test]
fn by_how_much_the_clock_went_back_is_told_in_whole_ticks() {
    let clock = ManualClock::new(at("2026-01-01T00:00:03.900Z"));
    let generator =
        clocked(Setup::new(layout(30, 10, 10, Tick::Second)).clock(&clock)).expect("builds");
    generator.next_uid().expect("a uid");
    clock.set(at("2026-01-01T00:00:01.100Z"));
    assert_eq!(generator.next_uid(), Err(TakeError::ClockBackwards { by_millis: 2_000 }));
    let before = generator.try_next_uid();
    clock.set(at("2026-01-01T00:00:03Z"));
    assert!(before.is_err());
    let uid = generator.next_uid().expect("the clock has caught up");
    let fields = generator.decode(uid).expect("decodes");
    assert_eq!((fields.tick, fields.sequence), (3, 1), "a refusal changes nothing");
}
