//! The extremes of every time, duration and uid in the public API: nothing panics, and forever means forever.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock};
use uidring::generator::ClockPolicy;
use uidring::padding::{Padder, PadderOptions};
use uidring::policy::TakePolicy;
use uidring::ring::RingOptions;
use uidring::segment::{MemorySegments, SegmentTag};
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Fields, Layout, SegmentGenerator,
    TakeError, Tick, Timestamp, Uid, UidGenerator,
};
use uidring_testkit::namespace::fresh;

const DURATIONS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_secs(1),
    Duration::from_secs(u64::MAX),
    Duration::MAX,
];

/// More than a busy machine needs.
const LIMIT: Duration = Duration::from_secs(60);

fn layouts() -> impl Iterator<Item = Layout> {
    let bits = |(time, worker, sequence)| Bits { time, worker, sequence };
    let widths = [(28, 22, 13), (41, 10, 12), (61, 1, 1), (50, 2, 3), (1, 20, 1)].map(bits);
    let epochs = [i64::MIN, -1, 0, i64::MAX].map(Timestamp::from_millis);
    let ticks = [Tick::Second, Tick::Millisecond];
    widths.into_iter().flat_map(move |bits| {
        epochs.into_iter().flat_map(move |epoch| {
            ticks.map(|tick| Layout::new(bits, tick, epoch).expect("possible"))
        })
    })
}

fn times(layout: &Layout) -> [Timestamp; 9] {
    let [epoch, last] = [layout.epoch(), layout.last_instant()].map(Timestamp::as_millis);
    let near = [epoch, epoch.saturating_add(1_500), last, last.saturating_add(1), 0, -1];
    let ends = [i64::MIN, i64::MAX - 1, i64::MAX];
    let mut all = [0; 9];
    all[..6].copy_from_slice(&near);
    all[6..].copy_from_slice(&ends);
    all.map(Timestamp::from_millis)
}

/// Calls everything on a generator, whatever it returns.
fn use_it(generator: &impl UidGenerator) {
    let mut uids = [Uid::default(); 5];
    let _ = (generator.next_uid(), generator.try_next_uid());
    let _ = (generator.fill(&mut uids), generator.try_fill(&mut uids));
    generator.wait(Some(Duration::ZERO));
    let _ = generator.decode(Uid::MAX);
}

/// Settings of a builder.
macro_rules! setups {
    ($builder:expr, $layout:expr, $clock:expr, $wait:expr) => {{
        let uids = [Uid::default(), $layout.max_uid(), Uid::MAX].map(Some);
        uids.into_iter().chain([None]).map(|after| {
            let builder = $builder.layout($layout).worker_id(0).namespace(fresh());
            let builder = builder.clock($clock).max_start_wait($wait);
            let builder = builder.take_policy(TakePolicy::WaitFor(Duration::ZERO));
            match after {
                Some(uid) => builder.start_after(uid),
                None => builder,
            }
        })
    }};
}

#[test]
fn clocks_at_both_ends_of_time() {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    for layout in layouts() {
        for built_at in times(&layout) {
            let clock = ManualClock::new(built_at);
            let cached = || CachedUidGenerator::builder().boost_power(1).padder(&padder);
            let mut all: Vec<Box<dyn UidGenerator>> = Vec::new();
            for builder in setups!(cached(), layout, clock.clone(), Duration::ZERO) {
                if let Ok(generator) = builder.max_borrow(Duration::ZERO).build() {
                    let _ = (generator.stats(), generator.remaining_life());
                    all.push(Box::new(generator));
                }
            }
            let snowflake = ClockedUidGenerator::snowflake;
            for builder in setups!(snowflake(), layout, clock.clone(), Duration::ZERO) {
                let policy = ClockPolicy::StandStill(Duration::MAX);
                if let Ok(generator) = builder.clock_policy(policy).build() {
                    let _ = generator.stats();
                    all.push(Box::new(generator));
                }
            }
            for time in times(&layout) {
                clock.set(time);
                all.iter().for_each(use_it);
                let _ = (layout.remaining_life(time), time.date().to_string());
            }
        }
    }
}

#[test]
fn options_at_both_ends() {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let clock = ManualClock::new("2026-06-01".parse().expect("a time"));
    for duration in DURATIONS {
        let cached = || {
            let builder = CachedUidGenerator::builder().boost_power(1).padder(&padder);
            builder.worker_id(1).namespace(fresh()).clock(clock.clone()).max_start_wait(duration)
        };
        let builders = [
            cached().max_borrow(duration),
            cached().max_lag(duration),
            cached().max_borrow(duration).max_lag(duration).take_policy(TakePolicy::Reject),
        ];
        for builder in builders {
            let generator = builder.build().expect("allowed");
            generator.next_uid().expect("ready");
            let _ = generator.stats();
        }
        for builder in [cached().refresh(duration), cached().schedule(duration)] {
            match builder.build() {
                Ok(generator) => drop(generator.next_uid().expect("ready")),
                Err(error) => assert!(matches!(error, Error::OptionOutOfRange { .. }), "{error}"),
            }
        }
        for policy in [
            ClockPolicy::WaitUpTo(duration),
            ClockPolicy::StandStill(duration),
            ClockPolicy::Refuse,
        ] {
            let builder = ClockedUidGenerator::snowflake().worker_id(1).namespace(fresh());
            let builder = builder.clock(clock.clone()).clock_policy(policy);
            let builder = builder.max_start_wait(duration).take_policy(TakePolicy::Reject);
            let generator = builder.build().expect("allowed");
            generator.next_uid().expect("ready");
        }
        let _ = (clock.now().saturating_add(duration), clock.now().saturating_since(clock.now()));
        let table = MemorySegments::new();
        table.create(SegmentTag::new("orders").step(4)).expect("positive");
        let segments = || SegmentGenerator::builder(table.clone());
        for builder in [
            segments().segment_duration(duration),
            segments().refresh(duration),
            segments().retry(duration, duration),
        ] {
            match builder.build() {
                Ok(generator) => drop(generator.next_id("orders").expect("ready")),
                Err(error) => assert!(matches!(error, Error::OptionOutOfRange { .. }), "{error}"),
            }
        }
        let served = padder.serve(RingOptions::new(1).run_bits(0), || Some(1), Some(duration));
        assert_eq!(served.is_ok(), duration > Duration::from_millis(1), "{duration:?}");
    }
}

/// A padder that never sleeps would keep a core busy.
#[test]
fn a_schedule_is_a_millisecond_or_more() {
    let builder = CachedUidGenerator::builder().worker_id(1).namespace(fresh());
    let error = builder.schedule(Duration::ZERO).build().map(drop).expect_err("never a pause");
    assert!(matches!(error, Error::OptionOutOfRange { .. }), "{error}");
}

struct Keeper;

impl LeaseBackend for Keeper {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        assert!(horizon <= Layout::SNOWFLAKE.max_tick(), "{horizon} is no tick");
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn terms_at_both_ends() {
    let layout = Layout::SNOWFLAKE;
    let (mut built, mut refused) = (0, 0);
    for lasts in DURATIONS.map(Some).into_iter().chain([None]) {
        for margin in DURATIONS {
            for renew_every in DURATIONS {
                for reserve in DURATIONS {
                    let mut terms = LeaseTerms::default();
                    (terms.lasts, terms.margin) = (lasts, margin);
                    (terms.renew_every, terms.reserve) = (renew_every, reserve);
                    let _ = terms.start_wait(&layout);
                    let lease = match Lease::new(layout, 3, None, terms, Keeper) {
                        Ok(lease) => lease,
                        Err(Error::OptionOutOfRange { .. }) => {
                            refused += 1;
                            continue;
                        }
                        Err(error) => panic!("{error}"),
                    };
                    let builder = ClockedUidGenerator::snowflake().worker(lease).namespace(fresh());
                    let generator = builder.build().expect("granted");
                    let is_short = lasts.is_some_and(|lasts| lasts < LIMIT);
                    match generator.next_uid() {
                        Ok(_) => {}
                        // The machine was stopped for as long.
                        Err(TakeError::LeaseLost) if is_short => {}
                        Err(error) => panic!("{terms:?}: {error}"),
                    }
                    built += 1;
                }
            }
        }
    }
    assert!(built > 20 && refused > 100, "{built} {refused}");
}

#[test]
fn a_lease_on_what_is_used_up_to_the_end() {
    for tick in [0, Layout::SNOWFLAKE.max_tick()] {
        let layout = Layout::SNOWFLAKE;
        let after = layout.compose(Fields { tick, worker_id: 3, sequence: 4 }).expect("in range");
        for wait in DURATIONS.into_iter().filter(|wait| tick == 0 || *wait < LIMIT) {
            let lease = Lease::new(layout, 3, Some(after), LeaseTerms::default(), Keeper);
            let builder = ClockedUidGenerator::snowflake().worker(lease.expect("in range"));
            let built = builder.namespace(fresh()).max_start_wait(wait).build();
            assert_eq!(built.is_ok(), tick == 0);
        }
    }
}

/// Endless waits do not end at once.
#[test]
fn for_ever_is_for_ever() {
    let clock = ManualClock::new("2026-06-01".parse().expect("a time"));
    let layout = Layout::SNOWFLAKE;
    let tick = layout.tick_at(clock.now()).expect("in range") + 1_000;
    let after = layout.compose(Fields { tick, worker_id: 3, sequence: 4 }).expect("in range");
    let theirs = clock.clone();
    let build = thread::spawn(move || {
        let builder = ClockedUidGenerator::snowflake().worker_id(3).start_after(after);
        let builder = builder.namespace(fresh()).clock(theirs).max_start_wait(Duration::MAX);
        builder.take_policy(TakePolicy::WaitFor(Duration::MAX)).build()
    });
    thread::sleep(Duration::from_millis(50));
    assert!(!build.is_finished(), "it waits for the clock");
    clock.advance(Duration::from_secs(2));
    let generator = Arc::new(build.join().expect("no panic").expect("the clock is past it"));
    while generator.try_next_uid().is_ok() {}
    let theirs = Arc::clone(&generator);
    let take = thread::spawn(move || theirs.next_uid());
    thread::sleep(Duration::from_millis(50));
    assert!(!take.is_finished(), "it waits for the next tick");
    clock.advance(Duration::from_millis(1));
    let began = Instant::now();
    assert!(take.join().expect("no panic").is_ok() && began.elapsed() < LIMIT);
}
