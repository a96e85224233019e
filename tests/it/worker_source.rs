//! What a builder requests from a source of worker ids, and when.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use uidring::clock::ManualClock;
use uidring::generator::{CachedBuilder, SequenceStart};
use uidring::padding::PadderCore;
use uidring::worker::{FixedWorkerId, Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Fields, Layout, Tick, Timestamp, Uid,
    UidGenerator, Worker, WorkerRequest, WorkerSource,
};
use uidring_testkit::namespace::fresh;

/// Records its requests.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<WorkerRequest>>>);

impl Noting {
    fn requests(&self) -> Vec<WorkerRequest> {
        self.0.lock().expect("no panic").clone()
    }
}

impl WorkerSource for Noting {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.0.lock().expect("no panic").push(request.clone());
        Ok(5.into())
    }
}

fn cached() -> CachedBuilder {
    CachedUidGenerator::builder().namespace(fresh())
}

fn worker_of(generator: &dyn UidGenerator) -> u64 {
    let uid = generator.next_uid().expect("ready");
    generator.decode(uid).expect("its own").worker_id
}

#[test]
fn a_source_is_asked_once_for_what_the_builder_says() {
    let source = Noting::default();
    let bits = Bits { time: 41, worker: 4, sequence: 10 };
    let layout = Layout::new(bits, Tick::Millisecond, Timestamp::default()).expect("possible");
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let built = cached().layout(layout).worker_from(source.clone()).build().expect("built");
    assert_eq!(worker_of(&built), 5);
    let built = cached().layout(layout).max_borrow(minutes(2)).worker_from(source.clone()).build();
    assert_eq!(worker_of(&built.expect("built")), 5);
    let clocked = ClockedUidGenerator::snowflake().namespace(fresh()).layout(layout);
    assert_eq!(worker_of(&clocked.worker_from(source.clone()).build().expect("built")), 5);

    let asked: Vec<_> =
        source.requests().iter().map(|request| (request.layout, request.max_ahead)).collect();
    assert_eq!(asked, [(layout, minutes(10)), (layout, minutes(2)), (layout, minutes(0))]);
}

#[test]
fn nothing_is_spent_on_what_cannot_start() {
    let source = Noting::default();
    let from = |builder: CachedBuilder| builder.worker_from(source.clone()).build();
    let in_1969 = ManualClock::new(Timestamp::from_millis(-1));
    let in_9999 = ManualClock::new("9999-01-01".parse().expect("a time"));
    let refused = [
        from(cached().boost_power(17)),
        from(cached().refresh(Duration::ZERO)),
        from(cached().padding_factor(0)),
        from(cached().sequence_start(SequenceStart::RandomBelow(1 << 40))),
        from(cached().padder_core(PadderCore::Id(usize::MAX))),
        from(cached().clock(in_1969.clone())),
        from(cached().clock(in_9999.clone())),
        from(cached().start_after(Layout::default().max_uid())),
        from(cached().layout(Layout::JAVASCRIPT_SAFE).start_after(Uid::MAX)),
    ];
    for refused in refused {
        refused.expect_err("refused");
    }
    let clocked = || ClockedUidGenerator::builder().namespace(fresh());
    let too_far = SequenceStart::RandomBelow(1 << 40);
    clocked().sequence_start(too_far).worker_from(source.clone()).build().expect_err("refused");
    clocked().clock(in_1969).worker_from(source.clone()).build().expect_err("refused");
    clocked().clock(in_9999).worker_from(source.clone()).build().expect_err("refused");
    assert!(source.requests().is_empty(), "{:?}", source.requests());
}

#[test]
fn what_a_source_gives_is_checked() {
    let narrow = Layout::SNOWFLAKE;
    let error = cached().layout(narrow).worker_from(FixedWorkerId(1_024)).build();
    assert!(matches!(error, Err(Error::WorkerIdOutOfRange { worker_id: 1_024, max: 1_023 })));

    struct Careless;
    impl WorkerSource for Careless {
        fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
            Ok(Worker::from(u64::MAX))
        }
    }
    let error = cached().worker_from(Careless).build();
    assert!(matches!(error, Err(Error::WorkerIdOutOfRange { worker_id: u64::MAX, .. })));

    struct Failing;
    impl WorkerSource for Failing {
        fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
            Err(Error::NoWorkerId)
        }
    }
    assert!(matches!(cached().worker_from(Failing).build(), Err(Error::NoWorkerId)));
}

/// A lease that counts its releases.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl LeaseBackend for Counting {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_lease_of_a_source_is_used_and_given_back() {
    struct Leasing(Counting);
    impl WorkerSource for Leasing {
        fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
            let terms = LeaseTerms::default();
            Ok(Lease::new(request.layout, 3, None, terms, self.0.clone())?.into())
        }
    }
    let counting = Counting::default();
    let source: Arc<dyn WorkerSource + Send + Sync> = Arc::new(Leasing(counting.clone()));
    for count in 1..=2 {
        let generator = cached().worker_from(Arc::clone(&source)).build().expect("built");
        assert_eq!(worker_of(&generator), 3);
        drop(generator);
        assert_eq!(counting.0.load(Ordering::Relaxed), count);
    }
}

/// The worker id, or its lease.
#[test]
fn what_a_failed_start_was_given_is_free_again() {
    struct Panicking;
    impl WorkerSource for Panicking {
        fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
            panic!("a user's mistake");
        }
    }
    let namespace = fresh();
    let builder = || CachedUidGenerator::builder().namespace(&*namespace);
    let build = || builder().worker_from(Panicking).build();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(build)).expect_err("it goes on");
    let first = builder().worker_from(FixedWorkerId(4)).build().expect("built");

    struct Leasing(Counting);
    impl WorkerSource for Leasing {
        fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
            let terms = LeaseTerms::default();
            Ok(Lease::new(request.layout, 4, None, terms, self.0.clone())?.into())
        }
    }
    let counting = Counting::default();
    let error = builder().worker_from(Leasing(counting.clone())).build();
    assert!(matches!(error, Err(Error::WorkerIdInUse { worker_id: 4, .. })));
    let foreign =
        Layout::default().compose(Fields { tick: 1, worker_id: 5, sequence: 0 }).expect("in range");
    drop(first);
    let error = builder().start_after(foreign).worker_from(Leasing(counting.clone())).build();
    let text = error.expect_err("of another worker").to_string();
    assert!(text.contains("of worker 5, this generator is worker 4"), "{text}");
    assert_eq!(Arc::strong_count(&counting.0), 1, "no backend is left");
    builder().worker_from(Leasing(counting)).build().expect("free again");
}

/// A source may itself build a generator with the worker id that it returns.
#[test]
fn a_source_that_builds_with_its_own_worker_id() {
    struct Building(String, Mutex<Option<CachedUidGenerator>>, bool);
    impl WorkerSource for Building {
        fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
            let own = CachedUidGenerator::builder().namespace(&*self.0).worker_id(6).build()?;
            own.next_uid().expect("ready");
            if self.2 {
                *self.1.lock().expect("no panic") = Some(own);
            }
            Ok(6.into())
        }
    }
    let namespace = fresh();
    let builder = || CachedUidGenerator::builder().namespace(&*namespace);
    let source = |keeps| Building(namespace.clone(), Mutex::new(None), keeps);
    let one = builder().worker_from(source(false)).build().expect("that one is gone");
    assert_eq!(worker_of(&one), 6);
    drop(one);
    let keeping = Arc::new(source(true));
    let error = builder().worker_from(Arc::clone(&keeping)).build();
    assert!(matches!(error, Err(Error::WorkerIdInUse { worker_id: 6, .. })), "{error:?}");
}
