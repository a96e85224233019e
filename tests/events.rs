//! The `tracing` events of a generator: each is logged once, not repeatedly.

use std::panic;
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock};
use uidring::generator::SequenceStart;
use uidring::padding::{NextRun, RunSource};
use uidring::padding::{Padder, PadderOptions};
use uidring::policy::TakePolicy;
use uidring::ring::RingOptions;
use uidring::segment::{
    LoadError, Loaded, MemorySegments, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Bits, CachedUidGenerator, Error, Layout, SegmentGenerator, TakeError, Tick, Timestamp, Uid,
};
use uidring_testkit::log::Log;
use uidring_testkit::namespace::fresh;

/// Waits until this is logged, and checks the level.
fn wait_for_level(log: &Log, level: &str, word: &str) {
    log.wait_for(word);
    let text = log.text();
    let mut lines = text.lines().filter(|line| line.contains(word));
    assert!(lines.all(|line| line.contains(&format!(" {level} "))), "{level}, {word}: {text}");
}

/// A source, a backend and a store with a fault.
struct Faulty(Fault, u64);

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Panics,
    Fails,
    /// Another holder of the worker id, a repeated run, or a load without an answer.
    Lies,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        Self(fault, 0)
    }

    /// Whether this is the first call, which succeeds.
    fn is_first(&mut self) -> bool {
        self.1 += 1;
        assert!(self.1 == 1 || self.0 != Fault::Panics, "a user's mistake");
        self.1 == 1
    }
}

impl RunSource for Faulty {
    fn next_run(&mut self) -> NextRun {
        self.is_first();
        NextRun::Run(0)
    }
}

impl LeaseBackend for Faulty {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        match (self.is_first(), self.0) {
            (true, _) => Ok(()),
            (_, Fault::Lies) => Err(RenewError::Lost(Error::NoWorkerId)),
            _ => Err(RenewError::Failed(Error::NoWorkerId)),
        }
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Err(Error::NoWorkerId)
    }
}

impl SegmentStore for Faulty {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.is_first();
        let tags = MemorySegments::new();
        tags.create(SegmentTag::new("orders").step(10))?;
        { tags }.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        match self.0 {
            Fault::Panics => panic!("a user's mistake"),
            Fault::Fails => (0..wanted.len())
                .for_each(|place| loaded(place, Err(LoadError::Store(Error::NoWorkerId)))),
            // Asked for one tag, it answers for another.
            Fault::Lies => loaded(wanted.len(), Err(LoadError::Store(Error::NoWorkerId))),
        }
    }
}

/// The events that should wake an operator.
fn alarms(log: &Log) {
    panic::set_hook(Box::new(|_| {}));

    let clock = ManualClock::new("2026-06-01".parse().expect("a time"));
    let builder = || CachedUidGenerator::builder().namespace(fresh()).clock(clock.clone());
    let panics = || TakePolicy::handler(|_| panic!("a user's mistake"));
    let generator = builder().worker_id(3).max_borrow(Duration::ZERO).take_policy(panics());
    let generator = generator.build().expect("builds");
    let begin = Instant::now();
    let refused = (0..20_000).filter(|_| generator.next_uid().is_err()).count();
    assert!(refused > 10_000, "more than a tick's");
    wait_for_level(log, "ERROR", "a policy's handler panicked");
    let times = log.lines("a policy's handler panicked") as u64;
    assert!(times <= 1 + begin.elapsed().as_secs() / 10, "{times} times");

    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let _rings = [Fault::Panics, Fault::Lies].map(|fault| {
        padder.serve(RingOptions::new(4).run_bits(2), Faulty::new(fault), None).expect("builds")
    });
    wait_for_level(log, "ERROR", "the source of a ring's runs panicked; the ring is closed");
    wait_for_level(log, "ERROR", "a ring is closed: its source gave a misplaced run");

    let _leased = [Fault::Panics, Fault::Fails, Fault::Lies].map(|fault| {
        let mut terms = LeaseTerms::default();
        terms.renew_every = Duration::from_millis(20);
        let lease = Lease::new(Layout::default(), 3, None, terms, Faulty::new(fault));
        builder().worker(lease.expect("in range")).build().expect("builds")
    });
    wait_for_level(
        log,
        "ERROR",
        "the backend of the lease of the worker id panicked; the lease is lost",
    );
    wait_for_level(log, "WARN", "the lease of the worker id was not renewed");
    wait_for_level(log, "ERROR", "the lease of the worker id is lost");
    drop(_leased);
    wait_for_level(log, "WARN", "the worker id could not be given back");

    let _segments = [Fault::Panics, Fault::Fails, Fault::Lies].map(|fault| {
        let generator = SegmentGenerator::builder(Faulty::new(fault)).build().expect("builds");
        let _ = generator.tag("orders").expect("there").try_next_id();
        generator
    });
    wait_for_level(log, "ERROR", "the store of segments panicked; its generator is closed");
    wait_for_level(log, "WARN", "a segment could not be loaded");
    wait_for_level(log, "ERROR", "a store of segments gave a result that was not asked for");
}

/// One test, because the log is per process.
#[test]
fn events_are_told_once() {
    let log = Log::start_at(tracing_subscriber::filter::LevelFilter::DEBUG);
    let bits = Bits { time: 26, worker: 5, sequence: 4 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    // A bit more than 31 days are left, so less than a year.
    let month = 31 * 86_400;
    let clock = ManualClock::new(layout.time_of((1 << 26) - month - 600));
    let generator = CachedUidGenerator::builder()
        .layout(layout)
        .worker_id(3)
        .namespace(fresh())
        .sequence_start(SequenceStart::Zero)
        .max_borrow(Duration::ZERO)
        .take_policy(TakePolicy::Reject)
        .refresh(Duration::from_millis(1))
        .clock(clock.clone())
        .build()
        .expect("possible");
    assert_eq!(log.lines("generator started"), 1);
    assert_eq!(log.lines("the layout ends on"), 1, "the builder says that it is not long");

    // Logged at most once in ten seconds. A busy machine may take longer than that.
    let begin = Instant::now();
    let taken = generator.uids().take_while(Result::is_ok).count();
    assert_eq!(taken, 16, "a second's");
    for _ in 0..1_000 {
        assert!(matches!(generator.next_uid(), Err(TakeError::BorrowLimit { .. })));
        thread::sleep(Duration::from_micros(20));
    }
    log.wait_for("as far ahead of the clock as max_borrow allows");
    for _ in 0..5 {
        clock.advance(Duration::from_secs(60));
        // Once the second's uids are there, the padder has read the clock.
        while generator.next_uid().is_err() {
            thread::yield_now();
        }
    }
    log.wait_for("stale numbers discarded");
    for word in ["as far ahead of the clock as max_borrow allows", "stale numbers discarded"] {
        let times = log.lines(word);
        assert!(times as u64 <= 1 + begin.elapsed().as_secs() / 10, "{word}: {times} times");
    }
    assert_eq!(log.lines("generator started"), 1);
    assert_eq!(log.lines("less than a month"), 0);

    clock.advance(Duration::from_secs(86_400 + 600));
    log.wait_for("less than a month of uids is left");
    clock.advance(Duration::from_secs(25 * 86_400));
    log.wait_for("less than a week of uids is left");
    clock.advance(Duration::from_secs(9 * 86_400 / 2));
    log.wait_for("less than a day of uids is left");
    assert_eq!(log.lines("of uids is left"), 3, "each once");

    let (clock, namespace) = (ManualClock::new("2026-06-01".parse().expect("a time")), fresh());
    let build = || {
        let builder = CachedUidGenerator::builder().worker_id(3).namespace(&namespace);
        builder.clock(clock.clone()).build().expect("possible")
    };
    build().next_uid().expect("ready");
    build().next_uid().expect("ready");
    assert_eq!(log.lines("the generator starts"), 0);
    clock.set("2026-05-31T23:00:00Z".parse().expect("a time"));
    build().next_uid().expect("ready");
    assert_eq!(log.lines("the generator starts 3600s ahead of the clock"), 1);

    let generator = build();
    clock.set("2027-07-06".parse().expect("a time"));
    wait_until(|| generator.stats().lag.is_zero());
    for day in ["2026-06-01", "2026-06-02"] {
        clock.set(day.parse().expect("a time"));
        let behind = clock.now();
        let behind = "2027-07-06".parse::<Timestamp>().expect("a time").saturating_since(behind);
        wait_until(|| generator.stats().clock_behind == behind);
    }
    wait_for_level(&log, "WARN", "the clock went back by 34560000s, to 2026-06-01T00:00:00Z");
    assert_eq!(log.lines("the clock went back"), 1);
    assert_eq!(log.lines("uids stay ahead until the clock has caught up"), 1);

    alarms(&log);
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "it never is");
        thread::sleep(Duration::from_millis(1));
    }
}
