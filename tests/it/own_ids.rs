//! The caller's code (a clock, a handler, a source, a store, a backend) may take ids from the library. Where a take
//! would wait for itself, it fails at once.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use uidring::clock::{Clock, ManualClock};
use uidring::generator::CachedBuilder;
use uidring::padding::RingHandle;
use uidring::padding::{Padder, PadderOptions};
use uidring::policy::{PutDecision, PutPolicy, TakeDecision, TakePolicy};
use uidring::ring::RingOptions;
use uidring::segment::{
    Loaded, MemorySegments, SegmentError, SegmentHandle, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Layout, SegmentGenerator, TakeError,
    Tick, Timestamp, Uid, UidGenerator,
};
use uidring_testkit::deadline::ends;
use uidring_testkit::namespace;

/// What the caller's code does, unless it is already doing it further up.
#[derive(Clone, Default)]
struct Deed(Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>, Arc<AtomicU64>);

impl Deed {
    fn is(&self, deed: impl Fn() + Send + Sync + 'static) {
        assert!(self.0.set(Box::new(deed)).is_ok(), "once");
    }

    fn run(&self) {
        thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });
        let Some(deed) = self.0.get() else { return };
        if !INSIDE.replace(true) {
            deed();
            self.1.fetch_add(1, Ordering::Relaxed);
            INSIDE.set(false);
        }
    }

    fn count(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deed")
    }
}

#[derive(Clone, Debug)]
struct BusyClock {
    time: ManualClock,
    deed: Deed,
}

impl BusyClock {
    fn new() -> Self {
        let time = ManualClock::new(Timestamp::from_millis(1_000_000));
        Self { time, deed: Deed::default() }
    }
}

impl Clock for BusyClock {
    fn now(&self) -> Timestamp {
        self.deed.run();
        self.time.now()
    }
}

fn layout() -> Layout {
    let bits = Bits { time: 40, worker: 8, sequence: 4 };
    Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible")
}

fn builder() -> CachedBuilder {
    CachedUidGenerator::builder()
        .layout(layout())
        .worker_id(1)
        .namespace(namespace::fresh())
        .refresh(Duration::from_millis(1))
}

/// All uids that anybody got.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<Vec<u64>>>);

impl Taken {
    fn add(&self, uids: impl IntoIterator<Item = u64>) {
        // Take before locking: a take may wait for what another one adds.
        let uids: Vec<u64> = uids.into_iter().collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(uids);
    }

    #[track_caller]
    fn are_distinct(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(!all.is_empty());
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b), "an id came twice");
    }
}

/// Several threads take until the deed has taken as well.
fn takes(generator: &Arc<CachedUidGenerator>, taken: &Taken, deed: &Deed) {
    // `ends` limits this.
    takes_of_threads(generator, taken);
    while deed.count() == 0 {
        takes_of_threads(generator, taken);
    }
}

fn takes_of_threads(generator: &Arc<CachedUidGenerator>, taken: &Taken) {
    thread::scope(|scope| {
        for kind in 0..3 {
            scope.spawn(move || {
                let mut local = generator.local();
                let mut many = [Uid::default(); 50];
                for _ in 0..500 {
                    match kind {
                        0 => taken.add(generator.next_uid().ok().map(Uid::get)),
                        1 => taken.add(local.next_uid().ok().map(Uid::get)),
                        _ => {
                            let filled = match generator.fill(&mut many) {
                                Ok(()) => many.len(),
                                Err(error) => error.filled,
                            };
                            taken.add(many[..filled].iter().map(|uid| uid.get()));
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn a_clock_that_takes() {
    ends("cached", || {
        let (clock, taken) = (BusyClock::new(), Taken::default());
        let generator = Arc::new(builder().clock(clock.clone()).build().expect("builds"));
        let (weak, theirs) = (Arc::downgrade(&generator), taken.clone());
        clock.deed.is(move || {
            let Some(generator) = weak.upgrade() else { return };
            theirs.add(generator.next_uid().ok().map(Uid::get));
            let mut many = [Uid::default(); 100];
            let filled = generator.try_fill(&mut many).unwrap_or(0);
            theirs.add(many[..filled].iter().map(|uid| uid.get()));
        });
        takes(&generator, &taken, &clock.deed);
        taken.are_distinct();
    });
    ends("by the clock", || {
        let (clock, taken) = (BusyClock::new(), Taken::default());
        let generator = ClockedUidGenerator::builder()
            .layout(layout())
            .worker_id(1)
            .namespace(namespace::fresh());
        let generator = Arc::new(generator.clock(clock.clone()).build().expect("builds"));
        let (weak, theirs, time) = (Arc::downgrade(&generator), taken.clone(), clock.time.clone());
        clock.deed.is(move || {
            let Some(generator) = weak.upgrade() else { return };
            theirs.add(generator.try_next_uid().ok().map(Uid::get));
            time.advance(Duration::from_millis(100));
        });
        for _ in 0..1_000 {
            taken.add([generator.next_uid().expect("waits").get()]);
        }
        taken.are_distinct();
    });
    ends("segments", || {
        let (clock, taken) = (BusyClock::new(), Taken::default());
        let table = MemorySegments::new();
        table.create(SegmentTag::new("orders").step(3)).expect("positive");
        let generator = SegmentGenerator::builder(table).max_step(3).clock(clock.clone());
        let generator = generator.build().expect("builds");
        let (orders, theirs) = (generator.tag("orders").expect("there"), taken.clone());
        clock.deed.is(move || theirs.add(orders.next_id().ok()));
        for _ in 0..1_000 {
            taken.add([generator.next_id("orders").expect("waits")]);
        }
        assert!(clock.deed.count() > 0);
        taken.are_distinct();
    });
}

#[test]
fn handlers_that_take() {
    ends("put", || {
        let (deed, taken) = (Deed::default(), Taken::default());
        let theirs = deed.clone();
        let policy = PutPolicy::handler(move |_| {
            theirs.run();
            PutDecision::Retry
        });
        let generator = Arc::new(builder().put_policy(policy).build().expect("builds"));
        let (weak, theirs) = (Arc::downgrade(&generator), taken.clone());
        deed.is(move || {
            let Some(generator) = weak.upgrade() else { return };
            // More than a ring holds.
            theirs.add((0..1_000).map_while(|_| generator.next_uid().ok()).map(Uid::get));
        });
        takes(&generator, &taken, &deed);
        taken.are_distinct();
    });
    ends("take", || {
        let (deed, taken) = (Deed::default(), Taken::default());
        let theirs = deed.clone();
        let policy = TakePolicy::handler(move |_| {
            theirs.run();
            thread::sleep(Duration::from_micros(100));
            TakeDecision::Retry
        });
        let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
        let builder = builder().take_policy(policy).clock(clock.clone());
        let generator = builder.max_borrow(Duration::ZERO).build().expect("builds");
        let generator = Arc::new(generator);
        let (weak, theirs) = (Arc::downgrade(&generator), taken.clone());
        deed.is(move || {
            let Some(generator) = weak.upgrade() else { return };
            theirs.add(generator.try_next_uid().ok().map(Uid::get));
            clock.advance(Duration::from_millis(500));
        });
        takes(&generator, &taken, &deed);
        taken.are_distinct();
    });
}

/// While the padder is in its handler, takers pad for themselves.
#[test]
fn a_put_handler_that_waits_for_takers() {
    ends("put", || {
        let [asked, is_enough] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (theirs, until) = (Arc::clone(&asked), Arc::clone(&is_enough));
        let policy = PutPolicy::handler(move |_| {
            theirs.store(true, Ordering::Relaxed);
            while !until.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            PutDecision::Discard
        });
        let generator = builder().put_policy(policy).build().expect("builds");
        let taken = Taken::default();
        let take = || taken.add([generator.next_uid().expect("somebody pads").get()]);
        while !asked.load(Ordering::Relaxed) {
            take();
        }
        // More than a ring holds.
        (0..1_000).for_each(|_| take());
        is_enough.store(true, Ordering::Relaxed);
        taken.are_distinct();
    });
}

/// The thread that closes a generator may hold what the handler needs.
#[test]
fn a_put_handler_is_not_asked_of_a_closed_ring() {
    ends("put", || {
        let (asked, closed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let late = Arc::new(AtomicBool::new(false));
        let theirs = (Arc::clone(&asked), Arc::clone(&closed), Arc::clone(&late));
        let policy = PutPolicy::handler(move |_| {
            theirs.2.fetch_or(theirs.1.load(Ordering::Relaxed), Ordering::Relaxed);
            theirs.0.fetch_add(1, Ordering::Relaxed);
            PutDecision::Discard
        });
        let generator = builder().put_policy(policy).build().expect("builds");
        while asked.load(Ordering::Relaxed) == 0 {
            generator.next_uid().expect("waits");
        }
        // The first padding is the build's.
        let is_at_rest = || {
            generator.stats().ring.available >= 112
                && generator.stats().paddings == 1 + asked.load(Ordering::Relaxed)
        };
        while !is_at_rest() {
            generator.next_uid().expect("waits");
            thread::sleep(Duration::from_millis(1));
        }
        generator.close();
        closed.store(true, Ordering::Relaxed);
        // The padder's thread is joined.
        drop(generator);
        assert!(!late.load(Ordering::Relaxed));
    });
}

/// In the padder's thread nobody else can pad: neither its own ring nor another that the same padder serves.
#[test]
fn a_source_that_takes_what_its_padder_pads() {
    ends("a source", || {
        let padder = Padder::start(PadderOptions::default()).expect("starts");
        let other = Arc::new(builder().padder(&padder).build().expect("builds"));
        let (theirs, taken) = (Arc::clone(&other), Taken::default());
        let (got, mut next) = (taken.clone(), 0);
        let source = move || {
            got.add((0..200).map_while(|_| theirs.next_uid().ok()).map(Uid::get));
            next += 1;
            Some(next)
        };
        let padding: RingHandle =
            padder.serve(RingOptions::new(2).run_bits(0), source, None).expect("possible");
        let mut count = 0;
        while count < 100 {
            count += usize::from(padding.ring().try_take().is_ok());
        }
        taken.add(other.uids().take(1_000).map(|uid| uid.expect("waits").get()));
        taken.are_distinct();
    });
}

/// A table whose store uses its own generator.
struct BusyStore {
    table: MemorySegments,
    deed: Deed,
}

impl SegmentStore for BusyStore {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.deed.run();
        self.table.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        self.deed.run();
        self.table.load(wanted, loaded);
    }
}

#[test]
fn a_store_that_takes() {
    ends("a store", || {
        let (deed, taken) = (Deed::default(), Taken::default());
        let table = MemorySegments::new();
        table.create(SegmentTag::new("orders").step(3)).expect("positive");
        let store = BusyStore { table, deed: deed.clone() };
        let refresh = Duration::from_millis(1);
        let generator = SegmentGenerator::builder(store).max_step(3).refresh(refresh);
        let generator = Arc::new(generator.build().expect("builds"));
        let (weak, theirs) = (Arc::downgrade(&generator), taken.clone());
        deed.is(move || {
            let Some(generator) = weak.upgrade() else { return };
            theirs.add((0..10).map_while(|_| generator.next_id("orders").ok()));
            let mut ids = [0; 10];
            let filled = match generator.fill("orders", &mut ids) {
                Ok(()) => 10,
                Err(error) => error.filled,
            };
            theirs.add(ids[..filled].iter().copied());
            assert!(generator.refresh().is_err(), "it would wait for itself");
        });
        let orders: SegmentHandle = generator.tag("orders").expect("there");
        for _ in 0..1_000 {
            taken.add([orders.next_id().expect("waits")]);
        }
        assert!(deed.count() > 0);
        // A running deed keeps the generator until it ends.
        drop(generator);
        let left = std::iter::from_fn(|| match orders.next_id() {
            Ok(id) => Some(id),
            Err(error) => {
                assert!(matches!(error, SegmentError::Closed), "{error}");
                None
            }
        });
        taken.add(left);
        taken.are_distinct();
    });
}

struct BusyKeeper(Deed);

impl LeaseBackend for BusyKeeper {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        self.0.run();
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Ok(())
    }
}

fn lease(backend: impl LeaseBackend) -> Lease {
    let mut terms = LeaseTerms::default();
    terms.renew_every = Duration::from_millis(5);
    Lease::new(layout(), 1, None, terms, backend).expect("in range")
}

#[test]
fn a_keeper_that_takes() {
    ends("cached", || {
        let (deed, taken) = (Deed::default(), Taken::default());
        let builder = CachedUidGenerator::builder().layout(layout()).namespace(namespace::fresh());
        // The keeper does not take all that may be borrowed.
        let builder = builder.max_borrow(Duration::from_secs(1 << 24));
        let generator = builder.worker(lease(BusyKeeper(deed.clone()))).build().expect("builds");
        let generator = Arc::new(generator);
        let (weak, theirs) = (Arc::downgrade(&generator), taken.clone());
        deed.is(move || {
            let Some(generator) = weak.upgrade() else { return };
            // More than the store knows of.
            theirs.add((0..30_000).map_while(|_| generator.next_uid().ok()).map(Uid::get));
        });
        for _ in 0..3_000 {
            taken.add([generator.next_uid().expect("waits").get()]);
        }
        while deed.count() < 2 {
            thread::sleep(Duration::from_millis(1));
        }
        taken.are_distinct();
    });
}

/// Closed from within its own padding: it ends, and the store is told of all that was issued.
#[test]
fn a_clock_that_closes_its_generator() {
    struct Told(Arc<Mutex<Option<Option<Uid>>>>);
    impl LeaseBackend for Told {
        fn renew(&mut self, _: u64) -> Result<(), RenewError> {
            Ok(())
        }
        fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
            *self.0.lock().expect("no panic") = Some(last);
            Ok(())
        }
    }
    for by_padder in [false, true] {
        ends("close", move || {
            let told = Arc::default();
            let clock = BusyClock::new();
            let builder = CachedUidGenerator::builder()
                .layout(layout())
                .clock(clock.clone())
                .namespace(namespace::fresh());
            let builder = builder.refresh(Duration::from_millis(1));
            let generator = builder.worker(lease(Told(Arc::clone(&told)))).build().expect("builds");
            let generator = Arc::new(generator);
            let mut last = generator.next_uid().expect("ready");
            let armed = Arc::new(AtomicBool::new(false));
            let (weak, arm) = (Arc::downgrade(&generator), Arc::clone(&armed));
            let main = thread::current().id();
            clock.deed.is(move || {
                let is_here = (thread::current().id() == main) != by_padder;
                if let Some(generator) = weak.upgrade().filter(|_| is_here)
                    && arm.load(Ordering::Relaxed)
                {
                    generator.close();
                }
            });
            armed.store(true, Ordering::Relaxed);
            // Enough to leave the ring low, so that this thread pads, too.
            let mut many = [Uid::default(); 100];
            loop {
                clock.time.advance(Duration::from_secs(10));
                let filled = match generator.fill(&mut many) {
                    Ok(()) => many.len(),
                    Err(error) => {
                        assert_eq!(error.error, TakeError::Closed);
                        error.filled
                    }
                };
                last = many[..filled].last().map_or(last, |uid| last.max(*uid));
                if filled < many.len() {
                    break;
                }
            }
            drop(generator);
            // The padder does not wait for the store.
            let told = loop {
                if let Some(told) = *told.lock().expect("no panic") {
                    break told.expect("something was issued");
                }
                thread::sleep(Duration::from_millis(1));
            };
            assert!(told >= last, "{told} was told, and {last} was issued");
        });
    }
}
