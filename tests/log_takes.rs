//! A log subscriber that takes an id for each record, to number it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::span;
use uidring::clock::ManualClock;
use uidring::policy::TakePolicy;
use uidring::segment::{
    LoadError, Loaded, MemorySegments, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Layout, SegmentGenerator, Tick,
    Timestamp, Uid, UidGenerator,
};
use uidring_testkit::deadline::ends;
use uidring_testkit::namespace;

type Number = Box<dyn Fn() -> bool + Send + Sync>;

/// Numbers the next record. The counters: all records, and numbered ones.
static NUMBERS: Mutex<Option<Arc<Number>>> = Mutex::new(None);
static RECORDS: AtomicU64 = AtomicU64::new(0);
static NUMBERED: AtomicU64 = AtomicU64::new(0);

struct Numbering;

impl tracing::Subscriber for Numbering {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("uidring")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        let number = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        RECORDS.fetch_add(1, Ordering::Relaxed);
        NUMBERED.fetch_add(number.is_some_and(|number| number()).into(), Ordering::Relaxed);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn number_by(number: impl Fn() -> bool + Send + Sync + 'static) {
    let number: Number = Box::new(number);
    *NUMBERS.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(number));
}

fn nobody_numbers() {
    *NUMBERS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Waits for another record.
fn a_record_since(before: u64) {
    while RECORDS.load(Ordering::Relaxed) == before {
        thread::sleep(Duration::from_millis(1));
    }
}

fn layout() -> Layout {
    let bits = Bits { time: 26, worker: 5, sequence: 4 };
    Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible")
}

/// A table that fails every second time.
struct Failing(MemorySegments, u64);

impl SegmentStore for Failing {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.0.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        self.1 += 1;
        if self.1.is_multiple_of(2) {
            self.0.load(wanted, loaded);
        } else {
            let failed = || LoadError::Store(Error::NoWorkerId);
            (0..wanted.len()).for_each(|place| loaded(place, Err(failed())));
        }
    }
}

/// Succeeds once, then fails.
struct FailingKeeper(bool);

impl LeaseBackend for FailingKeeper {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        if std::mem::replace(&mut self.0, true) {
            return Err(RenewError::Failed(Error::NoWorkerId));
        }
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Err(Error::NoWorkerId)
    }
}

/// One test, because the log is per process.
#[test]
fn every_record_is_numbered_or_told_at_once_that_it_cannot_be() {
    tracing::subscriber::set_global_default(Numbering).expect("the first");

    ends("the limit of borrowing, life, and stale uids", || {
        let clock = ManualClock::new(layout().time_of((1 << 26) - 40 * 86_400));
        let generator = CachedUidGenerator::builder()
            .layout(layout())
            .worker_id(3)
            .namespace(namespace::fresh())
            .max_borrow(Duration::ZERO)
            .refresh(Duration::from_millis(1))
            .clock(clock.clone())
            .build();
        let generator = Arc::new(generator.expect("builds"));
        let before = RECORDS.load(Ordering::Relaxed);
        let weak = Arc::downgrade(&generator);
        number_by(move || weak.upgrade().is_some_and(|generator| generator.next_uid().is_ok()));
        let done = Arc::new(AtomicBool::new(false));
        let ticking = {
            let (clock, done) = (clock.clone(), Arc::clone(&done));
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    clock.advance(Duration::from_millis(300));
                    thread::sleep(Duration::from_millis(1));
                }
            })
        };
        (0..1_000).for_each(|_| {
            let _ = generator.next_uid().expect("the clock goes on");
        });
        a_record_since(before);
        let before = RECORDS.load(Ordering::Relaxed);
        clock.advance(Duration::from_secs(35 * 86_400));
        a_record_since(before);
        (0..100).for_each(|_| {
            let _ = generator.next_uid().expect("the clock goes on");
        });
        done.store(true, Ordering::Relaxed);
        ticking.join().expect("no panic");
        nobody_numbers();
    });

    ends("loads that fail, and a tag that goes", || {
        let table = MemorySegments::new();
        for tag in ["orders", "gone"] {
            table.create(SegmentTag::new(tag).step(3)).expect("positive");
        }
        let store = Failing(table.clone(), 0);
        let builder = SegmentGenerator::builder(store).max_step(3);
        let builder = builder.retry(Duration::from_millis(1), Duration::from_millis(1));
        let builder = builder.refresh(Duration::from_millis(5));
        let generator = builder.build().expect("builds");
        let before = RECORDS.load(Ordering::Relaxed);
        let orders = generator.tag("orders").expect("there");
        number_by(move || orders.next_id().is_ok());
        (0..200).for_each(|_| {
            let _ = generator.next_id("orders").expect("waits");
        });
        a_record_since(before);
        let before = RECORDS.load(Ordering::Relaxed);
        table.remove("gone");
        a_record_since(before);
        (0..200).for_each(|_| {
            let _ = generator.next_id("orders").expect("waits");
        });
        nobody_numbers();
    });

    ends("a lease that is not renewed", || {
        let mut terms = LeaseTerms::default();
        terms.renew_every = Duration::from_millis(20);
        let lease = Lease::new(layout(), 3, None, terms, FailingKeeper(false)).expect("in range");
        let clock = ManualClock::new(layout().time_of(1_000_000));
        let generator = CachedUidGenerator::builder()
            .layout(layout())
            .clock(clock)
            .worker(lease)
            .namespace(namespace::fresh());
        let generator = Arc::new(generator.build().expect("builds"));
        let before = RECORDS.load(Ordering::Relaxed);
        let weak = Arc::downgrade(&generator);
        number_by(move || {
            let Some(generator) = weak.upgrade() else { return false };
            // All that the store knows of, and more.
            (0..1_000_000).all(|_| generator.try_next_uid().is_ok()) || generator.next_uid().is_ok()
        });
        a_record_since(before);
        drop(generator);
        nobody_numbers();
    });

    std::panic::set_hook(Box::new(|_| {}));
    ends("handlers that panic", || {
        let panics = || TakePolicy::handler(|_| panic!("a user's mistake"));
        let clock = ManualClock::new(layout().time_of(1_000_000));
        let cached = CachedUidGenerator::builder()
            .layout(layout())
            .worker_id(3)
            .namespace(namespace::fresh());
        let cached = cached.max_borrow(Duration::ZERO).clock(clock.clone()).take_policy(panics());
        let cached = cached.build().expect("builds");
        let clocked = ClockedUidGenerator::builder()
            .layout(layout())
            .worker_id(3)
            .namespace(namespace::fresh());
        let clocked = clocked.clock(clock).take_policy(panics()).build().expect("builds");
        let generators = Arc::new((cached, clocked));
        let theirs = Arc::downgrade(&generators);
        number_by(move || {
            let Some(generators) = theirs.upgrade() else { return false };
            generators.0.next_uid().is_ok() && generators.1.next_uid().is_ok()
        });
        let takes = |generator: &dyn UidGenerator| {
            (0..100).filter(|_| generator.next_uid().is_ok()).count()
        };
        assert!(takes(&generators.0) < 100 && takes(&generators.1) < 100);
        nobody_numbers();
    });
    assert!(NUMBERED.load(Ordering::Relaxed) > 0);
}
