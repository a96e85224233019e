//! Generators that would start ahead of the clock: what they wait for, log and refuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use uidring::clock::{Clock, ManualClock};
use uidring::policy::TakePolicy;
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    CachedUidGenerator, ClockedUidGenerator, Error, Fields, Layout, TakeError, Timestamp, Uid,
    UidGenerator,
};
use uidring_testkit::log::Log;
use uidring_testkit::namespace::fresh;

const LAYOUT: Layout = Layout::SNOWFLAKE;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const WAITED: Duration = Duration::from_secs(180);

/// More than a busy machine needs.
const LIMIT: Duration = Duration::from_secs(60);

/// A clock that advances by 20 s at each reading, up to a second after `WAITED`.
#[derive(Clone, Debug)]
struct Hurrying(Arc<AtomicI64>);

impl Hurrying {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new(start().as_millis())))
    }
}

impl Clock for Hurrying {
    fn now(&self) -> Timestamp {
        let time = Timestamp::from_millis(self.0.fetch_add(20_000, Ordering::Relaxed));
        time.min(start().saturating_add(WAITED + SECOND))
    }
}

fn start() -> Timestamp {
    "2026-06-01".parse().expect("a time")
}

/// Returns the last uid of the tick this far ahead.
fn ahead(by: Duration) -> Uid {
    let tick = LAYOUT.tick_at(start().saturating_add(by)).expect("in range");
    let sequence = LAYOUT.max_sequence();
    LAYOUT.compose(Fields { tick, worker_id: 7, sequence }).expect("in range")
}

struct Keeper;

impl LeaseBackend for Keeper {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Ok(())
    }
}

/// Who may have issued uids of the future.
#[derive(Clone, Copy, Debug)]
enum Before {
    Caller,
    Lease,
    Process,
}

/// Builds a generator of worker 7 whose predecessor, `$before`, was ahead of the clock by `$by`.
macro_rules! build {
    ($builder:expr, $before:expr, $by:expr, $clock:expr, $wait:expr) => {{
        let name = fresh();
        if let Before::Process = $before {
            let earlier = CachedUidGenerator::builder().layout(LAYOUT).namespace(&name);
            let earlier = earlier.worker_id(7).boost_power(1).clock(ManualClock::new(start()));
            let earlier = earlier.start_after(ahead($by)).build().expect("it borrows");
            earlier.next_uid().expect("ready");
        }
        let builder = $builder.layout(LAYOUT).namespace(name).clock($clock);
        let builder = builder.max_start_wait($wait).take_policy(TakePolicy::Reject);
        match $before {
            Before::Caller => builder.worker_id(7).start_after(ahead($by)),
            Before::Process => builder.worker_id(7),
            Before::Lease => {
                let terms = LeaseTerms::default();
                let lease = Lease::new(LAYOUT, 7, Some(ahead($by)), terms, Keeper);
                builder.worker(lease.expect("in range"))
            }
        }
        .build()
        .map(|generator| Box::new(generator) as Box<dyn UidGenerator>)
    }};
}

const BEFORE: [(Before, &str); 3] = [
    (Before::Caller, "the uid of `start_after`"),
    (Before::Lease, "earlier holders of its lease"),
    (Before::Process, "an earlier generator of this process"),
];

#[test]
fn a_start_too_far_ahead_fails_at_once_and_says_why() {
    for (before, why) in BEFORE {
        let clock = || ManualClock::new(start());
        for built in [
            build!(ClockedUidGenerator::snowflake(), before, HOUR, clock(), 60 * SECOND),
            build!(CachedUidGenerator::builder().max_borrow(SECOND), before, HOUR, clock(), LIMIT),
        ] {
            let error = built.map(drop).expect_err("an hour ahead");
            let text = error.to_string();
            assert!(matches!(error, Error::UsedAhead { worker_id: 7, .. }), "{text}");
            for part in [why, "2026-06-01T01:00:00", "3600", "max_borrow", "max_start_wait"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }
}

#[test]
fn a_start_waits_for_the_clock_and_says_so_once() {
    for (before, why) in BEFORE {
        for is_cached in [false, true] {
            let (log, _here) = Log::here();
            let (clock, wait) = (Hurrying::new(), Duration::MAX);
            let generator = if is_cached {
                build!(
                    CachedUidGenerator::builder().max_borrow(SECOND),
                    before,
                    WAITED,
                    clock,
                    wait
                )
            } else {
                build!(ClockedUidGenerator::snowflake(), before, WAITED, clock, wait)
            };
            let uid = generator.expect("it waited").next_uid().expect("ready");
            assert!(uid > ahead(WAITED), "{before:?}");
            let text = log.text();
            let lines: Vec<_> =
                text.lines().filter(|line| line.contains("the start waits")).collect();
            assert!(matches!(lines[..], [line] if line.contains(why)), "{before:?}: {text}");
        }
    }
}

#[test]
fn a_start_that_may_be_ahead_says_so_once() {
    for (before, why) in BEFORE {
        let (log, _here) = Log::here();
        let clock = ManualClock::new(start());
        let builder = CachedUidGenerator::builder().max_borrow(2 * HOUR);
        let generator = build!(builder, before, HOUR, clock, Duration::ZERO).expect("allowed");
        assert!(generator.next_uid().expect("ready") > ahead(HOUR));
        let text = log.text();
        // The process's earlier generator logs one as well.
        let expected = if let Before::Process = before { 2 } else { 1 };
        let lines: Vec<_> = text.lines().filter(|line| line.contains("generator starts")).collect();
        assert_eq!(lines.len(), expected, "{text}");
        assert!(lines[expected - 1].contains(why), "{text}");
    }
}

/// Nothing waits for a tick that was just used up, even if the clock stands still.
#[test]
fn the_next_tick_is_left_to_the_takes() {
    for before in [Before::Caller, Before::Lease] {
        let clock = ManualClock::new(start());
        let builder = ClockedUidGenerator::snowflake();
        let tick = Duration::ZERO;
        let generator = build!(builder, before, tick, clock.clone(), Duration::MAX).expect("built");
        assert_eq!(generator.next_uid(), Err(TakeError::Empty));
        clock.advance(Duration::from_millis(1));
        assert!(generator.next_uid().expect("the next tick") > ahead(tick));
    }
}

/// Counts its renewals, and advances the clock at the third.
#[derive(Clone)]
struct Renewed(Arc<AtomicI64>, ManualClock);

impl LeaseBackend for Renewed {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 2 {
            self.1.advance(WAITED + SECOND);
        }
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn a_lease_is_renewed_while_its_start_waits() {
    let (clock, renewals) = (ManualClock::new(start()), Arc::new(AtomicI64::new(0)));
    let mut terms = LeaseTerms::default();
    terms.renew_every = Duration::from_millis(20);
    let backend = Renewed(Arc::clone(&renewals), clock.clone());
    let lease = Lease::new(LAYOUT, 7, Some(ahead(WAITED)), terms, backend).expect("in range");
    let builder = ClockedUidGenerator::snowflake().layout(LAYOUT).namespace(fresh()).clock(clock);
    let generator = builder.worker(lease).max_start_wait(Duration::MAX).build().expect("it waited");
    assert!(renewals.load(Ordering::SeqCst) > 2);
    assert!(generator.next_uid().expect("ready") > ahead(WAITED));
}

/// Counts renewals and releases. At the third renewal the clock goes back by hours.
struct GivenBack(Arc<AtomicI64>, Arc<AtomicI64>, ManualClock);

impl LeaseBackend for GivenBack {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 2 {
            self.2.set(Timestamp::from_millis(start().as_millis() - 3 * 3_600_000));
        }
        Ok(())
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        assert_eq!(last, None);
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn a_wait_that_fails_gives_the_lease_back() {
    let (clock, released) = (ManualClock::new(start()), Arc::new(AtomicI64::new(0)));
    let mut terms = LeaseTerms::default();
    terms.renew_every = Duration::from_millis(20);
    let backend = GivenBack(Arc::default(), Arc::clone(&released), clock.clone());
    let lease = Lease::new(LAYOUT, 7, Some(ahead(WAITED)), terms, backend).expect("in range");
    let builder = ClockedUidGenerator::snowflake().layout(LAYOUT).namespace(fresh()).clock(clock);
    let built = builder.worker(lease).max_start_wait(HOUR).build().map(drop);
    assert!(matches!(built, Err(Error::UsedAhead { .. })), "{built:?}");
    assert_eq!(released.load(Ordering::SeqCst), 1);
}

/// The rest of a tick belongs to that tick, which the clock must reach.
#[test]
fn a_tick_that_is_used_in_part_is_waited_for() {
    let clock = ManualClock::new(start());
    let name = fresh();
    let builder = || {
        let builder = ClockedUidGenerator::snowflake().layout(LAYOUT).namespace(&name).worker_id(7);
        builder.clock(clock.clone()).take_policy(TakePolicy::Reject)
    };
    builder().build().expect("free").next_uid().expect("ready");
    clock.set(Timestamp::from_millis(start().as_millis() - 1));
    let refused = builder().max_start_wait(Duration::ZERO).build().map(drop);
    assert!(matches!(refused, Err(Error::UsedAhead { .. })), "{refused:?}");
    clock.set(start());
    builder().build().expect("the clock is there").next_uid().expect("ready");
}
