//! Generators whose clock goes back, and which may get a new worker id.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::thread;
use std::time::Duration;

use super::{OnClockBack, PAUSE, pause_after};
use crate::clock::{Clock, Deadline, ManualClock, read};
use crate::error::{Error, TakeError};
use crate::generator::CachedUidGenerator;
use crate::generator::cached::CachedBuilder;
use crate::generator::local::LocalGenerator;
use crate::generator::per_thread::PerThreadGenerator;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::timestamp::Timestamp;
use crate::uid::Uid;
use crate::worker::{
    FixedWorkerId, Lease, LeaseBackend, LeaseTerms, RenewError, Worker, WorkerRequest, WorkerSource,
};

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Hands out worker ids from 1 on.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl WorkerSource for Counting {
    fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
        Ok((self.0.fetch_add(1, Ordering::Relaxed) + 1).into())
    }
}

fn start() -> Timestamp {
    "2026-06-01".parse().expect("a time")
}

/// Each test has its own namespace.
fn builder(clock: &ManualClock, namespace: &str) -> CachedBuilder {
    CachedUidGenerator::builder()
        .namespace(namespace)
        .clock(clock.clone())
        .refresh(Duration::from_millis(1))
        .on_clock_back(OnClockBack::NewWorkerId)
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = Deadline::after(Some(Duration::from_secs(60)));
    while !is_so() {
        assert!(!end.is_over(), "it never is");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A glitch: the clock is a year ahead until the generator has seen it.
fn glitch(clock: &ManualClock, generator: &CachedUidGenerator) {
    let now = read(clock);
    clock.set(now.saturating_add(YEAR));
    wait_until(|| generator.stats().lag.is_zero());
    clock.set(now);
}

#[test]
fn pauses_double_with_each_new_worker_id_up_to_the_longest() {
    let longest = Duration::from_secs(3_600);
    let pauses = [0, 1, 2, 10, 40].map(|moves| pause_after(moves, longest));
    assert_eq!(pauses, [PAUSE, 2 * PAUSE, 4 * PAUSE, 1_024 * PAUSE, longest]);
}

#[test]
fn uids_of_every_form_go_on_at_the_clock() {
    let clock = ManualClock::new(start());
    let source = Counting::default();
    let build = || builder(&clock, "forms").worker_from(source.clone()).build().expect("possible");
    let generator = Arc::new(build());
    let mut local = LocalGenerator::new(Arc::clone(&generator));
    let handle = PerThreadGenerator::new(Arc::clone(&generator));
    let mut seen = HashSet::new();
    let mut take_all = |worker_id: Option<u64>| {
        let mut uids = [Uid::default(); 16];
        generator.fill(&mut uids[..4]).expect("ready");
        handle.fill(&mut uids[4..8]).expect("ready");
        let mut more = Vec::new();
        futures_executor::block_on(generator.fill_async(&mut more, 4)).expect("ready");
        uids[8..12].copy_from_slice(&more);
        uids[12] = generator.next_uid().expect("ready");
        uids[13] = local.next_uid().expect("ready");
        uids[14] = handle.next_uid().expect("ready");
        uids[15] = futures_executor::block_on(generator.next_uid_async()).expect("ready");
        for uid in uids {
            assert!(seen.insert(uid), "{uid} came twice");
            let fields = generator.decode(uid).expect("its own");
            if let Some(worker_id) = worker_id {
                assert_eq!((fields.worker_id, fields.timestamp), (worker_id, read(&clock)));
            }
        }
    };
    take_all(Some(1));
    clock.advance(YEAR);
    wait_until(|| generator.stats().lag.is_zero());
    take_all(Some(1));
    clock.set(start());
    wait_until(|| generator.worker_id() == 2);
    // What handles have left of their blocks is of the year ahead, and good.
    take_all(None);
    let left_of_blocks = 2 * 255;
    for _ in 0..left_of_blocks {
        let uids = [local.next_uid(), handle.next_uid()].map(|taken| taken.expect("ready"));
        assert!(uids.into_iter().all(|uid| seen.insert(uid)), "came twice");
    }
    let mut seen_since = HashSet::new();
    for _ in 0..1_000 {
        let uids = [local.next_uid(), handle.next_uid(), generator.next_uid()];
        for uid in uids.map(|taken| taken.expect("ready")) {
            assert!(seen_since.insert(uid) && !seen.contains(&uid), "{uid} came twice");
            let fields = generator.decode(uid).expect("its own");
            assert_eq!((fields.worker_id, fields.timestamp), (2, read(&clock)));
        }
    }
    // Handles use up their blocks.
    let stats = generator.stats();
    assert!(stats.taken < 10 * 1_024, "{stats:?}");
    assert_eq!((stats.worker_id, stats.clock_behind), (2, Duration::ZERO));
    // The first worker id is free in this process, and continues above what was issued.
    let again = CachedUidGenerator::builder().namespace("forms").clock(clock.clone());
    let again = again.worker_id(1).build().expect("free");
    assert!(!seen.contains(&again.next_uid().expect("ready")));
    assert!(again.stats().lead > YEAR / 2);

    generator.close();
    assert_eq!(generator.next_uid(), Err(TakeError::Closed));
    assert_eq!(local.next_uid(), Err(TakeError::Closed));
    assert_eq!(handle.next_uid(), Err(TakeError::Closed));
    assert_eq!(source.0.load(Ordering::Relaxed), 2);
}

#[test]
fn takers_that_wait_for_the_clock_go_on() {
    let clock = ManualClock::new(start());
    let generator = builder(&clock, "waiting")
        .worker_from(Counting::default())
        .max_borrow(Duration::ZERO)
        .boost_power(1)
        .build()
        .expect("possible");
    glitch(&clock, &generator);
    thread::scope(|scope| {
        let takers = [(); 4].map(|()| {
            [
                scope.spawn(|| (0..20_000).try_for_each(|_| generator.next_uid().map(drop))),
                scope.spawn(|| {
                    let take = async || {
                        for _ in 0..20_000 {
                            generator.next_uid_async().await?;
                        }
                        Ok(())
                    };
                    futures_executor::block_on(pin!(take()))
                }),
            ]
        });
        wait_until(|| generator.worker_id() == 2);
        while !takers.iter().flatten().all(|taker| taker.is_finished()) {
            clock.advance(Duration::from_secs(1));
            thread::sleep(Duration::from_millis(1));
        }
        for taker in takers.into_iter().flatten() {
            assert_eq!(taker.join().expect("no panic"), Ok(()));
        }
    });
}

/// Stops the takers, even if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nothing_comes_twice_however_often_the_clock_goes_back() {
    let clock = ManualClock::new(start());
    let source = Counting::default();
    let generator = builder(&clock, "often").worker_from(source.clone()).build().expect("possible");
    let (generator, is_over) = (&generator, &AtomicBool::new(false));
    let handle = &generator.per_thread();
    let all = thread::scope(|scope| {
        let takers: Vec<_> = (0..6)
            .map(|number| {
                scope.spawn(move || {
                    let mut local = generator.local();
                    let mut uids = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        match number % 3 {
                            0 => uids.push(generator.next_uid().expect("ready")),
                            1 => uids.push(local.next_uid().expect("ready")),
                            _ => uids.push(handle.next_uid().expect("ready")),
                        }
                        if uids.len().is_multiple_of(64) {
                            let mut more = [Uid::default(); 64];
                            generator.fill(&mut more).expect("ready");
                            uids.extend(more);
                            thread::sleep(Duration::from_micros(200));
                        }
                    }
                    uids
                })
            })
            .collect();
        let over = Over(is_over);
        for worker_id in 2..20 {
            glitch(&clock, generator);
            wait_until(|| generator.worker_id() == worker_id);
        }
        drop(over);
        let uids = takers.into_iter().flat_map(|taker| taker.join().expect("no panic"));
        uids.collect::<Vec<_>>()
    });
    let count = all.len();
    let workers: HashSet<_> =
        all.iter().map(|uid| generator.decode(*uid).expect("its own").worker_id).collect();
    assert_eq!(all.into_iter().collect::<HashSet<_>>().len(), count, "came twice");
    assert!(workers.len() > 10, "{workers:?}");
    assert_eq!(source.0.load(Ordering::Relaxed), 19);
}

/// Gives leases, and notes when one is dropped.
struct Leasing(Arc<AtomicBool>);

struct Dropped(Arc<AtomicBool>);

impl WorkerSource for Leasing {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        let backend = Dropped(Arc::clone(&self.0));
        Ok(Lease::new(request.layout, 5, None, LeaseTerms::default(), backend)?.into())
    }
}

impl LeaseBackend for Dropped {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Ok(())
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_source_that_cannot_help_is_refused_or_asked_again() {
    let clock = ManualClock::new(start());
    let refused = |builder: CachedBuilder| builder.build().expect_err("refused");
    let none = refused(builder(&clock, "refused"));
    assert!(matches!(none, Error::NoWorkerId), "{none}");
    let given = refused(builder(&clock, "refused").worker_id(3));
    assert!(matches!(given, Error::NoNewWorkerId { .. }), "{given}");
    let released = Arc::new(AtomicBool::new(false));
    let leased = refused(builder(&clock, "refused").worker_from(Leasing(Arc::clone(&released))));
    assert!(
        matches!(leased, Error::NoNewWorkerId { found: "the source gave a lease" }),
        "{leased}"
    );
    assert!(released.load(Ordering::Relaxed), "nobody holds the lease");

    let fixed = refused(builder(&clock, "refused").worker_from(Box::new(FixedWorkerId(3))));
    assert!(matches!(fixed, Error::NoNewWorkerId { .. }), "{fixed}");

    /// Always returns the same worker id without declaring it. Uids stay ahead of the clock.
    struct Same;
    impl WorkerSource for Same {
        fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
            Ok(3.into())
        }
    }
    let generator = builder(&clock, "refused").worker_from(Same).build().expect("possible");
    glitch(&clock, &generator);
    wait_until(|| !generator.stats().clock_behind.is_zero());
    let ahead = generator.decode(generator.next_uid().expect("ready")).expect("its own");
    assert_eq!(ahead.worker_id, 3);
    drop(generator);

    /// Hands out worker id 10, panics, fails, and then hands out ids from 13 on.
    struct Fickle(AtomicU64);
    impl WorkerSource for Fickle {
        fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                11 => panic!("a fault of the source"),
                12 => Err(Error::NoWorkerId),
                worker_id => Ok(worker_id.into()),
            }
        }
    }
    let generator = builder(&clock, "fickle")
        .worker_from(Fickle(AtomicU64::new(10)))
        .build()
        .expect("possible");
    glitch(&clock, &generator);
    wait_until(|| generator.worker_id() == 13);
}

/// Answers once the test says so.
struct Slow {
    source: Counting,
    asked: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl WorkerSource for Slow {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        let worker = self.source.acquire(request)?;
        if worker.id() > 1 {
            self.asked.send(()).expect("the test waits");
            self.go_on.recv().expect("the test answers");
        }
        Ok(worker)
    }
}

/// When the first ring ends, the padder is reading the clock for it, and finds it far behind.
#[test]
fn a_ring_that_has_ended_asks_for_nothing() {
    /// Blocks the padder while it is held.
    #[derive(Clone, Debug)]
    struct Held(ManualClock, Arc<AtomicBool>, Arc<AtomicU64>);
    impl Clock for Held {
        fn now(&self) -> Timestamp {
            if thread::current().name() == Some("uidring-padder") {
                self.2.fetch_add(1, Ordering::Relaxed);
                wait_until(|| !self.1.load(Ordering::Relaxed));
            }
            self.0.now()
        }
    }
    let clock = ManualClock::new(start());
    let (is_held, readings) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (asked, when_asked) = mpsc::channel();
    let (answer, go_on) = mpsc::channel();
    let source = Counting::default();
    let slow = Slow { source: source.clone(), asked, go_on };
    let held = Held(clock.clone(), Arc::clone(&is_held), Arc::clone(&readings));
    let generator = builder(&clock, "ended").clock(held).worker_from(slow).build();
    let generator = generator.expect("possible");
    glitch(&clock, &generator);
    when_asked.recv_timeout(Duration::from_secs(60)).expect("asked");
    is_held.store(true, Ordering::Relaxed);
    let before = readings.load(Ordering::Relaxed);
    wait_until(|| readings.load(Ordering::Relaxed) > before);
    thread::sleep(2 * super::PAUSE);
    answer.send(()).expect("it waits");
    wait_until(|| generator.worker_id() == 2);
    let before = readings.load(Ordering::Relaxed);
    is_held.store(false, Ordering::Relaxed);
    wait_until(|| readings.load(Ordering::Relaxed) > before + 10);
    let again = when_asked.recv_timeout(Duration::from_millis(100));
    assert_eq!(again, Err(mpsc::RecvTimeoutError::Timeout), "asked again");
    assert_eq!(source.0.load(Ordering::Relaxed), 2);
}

/// A source that takes from the generator, whose uids are as far ahead as allowed, does not wait for itself.
#[test]
fn a_source_that_takes_does_not_wait_for_its_own_answer() {
    struct Taking(Counting, Arc<OnceLock<Weak<CachedUidGenerator>>>, mpsc::Sender<TakeError>);
    impl WorkerSource for Taking {
        fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
            if let Some(generator) = self.1.get().and_then(Weak::upgrade) {
                let error = (0..1 << 20).find_map(|_| generator.next_uid().err());
                self.2.send(error.expect("too far ahead")).expect("the test waits");
            }
            self.0.acquire(request)
        }
    }
    let clock = ManualClock::new(start());
    let (found, when_found) = mpsc::channel();
    let known = Arc::new(OnceLock::new());
    let source = Taking(Counting::default(), Arc::clone(&known), found);
    let generator = builder(&clock, "taking").worker_from(source).max_borrow(Duration::ZERO);
    let generator = Arc::new(generator.boost_power(1).build().expect("possible"));
    known.set(Arc::downgrade(&generator)).expect("once");
    glitch(&clock, &generator);
    let error = when_found.recv_timeout(Duration::from_secs(60)).expect("it does not wait");
    assert!(matches!(error, TakeError::Empty | TakeError::BorrowLimit { .. }), "{error}");
    wait_until(|| generator.worker_id() == 2);
    generator.next_uid().expect("ready");
}

/// A generator that is closed while its source is asked stays closed, and drops what the source returns.
#[test]
fn a_close_does_not_wait_for_the_source() {
    let clock = ManualClock::new(start());
    for (is_dropped, namespace) in [(false, "closed"), (true, "dropped")] {
        let (asked, when_asked) = mpsc::channel();
        let (answer, go_on) = mpsc::channel();
        let source = Slow { source: Counting::default(), asked, go_on };
        let generator = builder(&clock, namespace).worker_from(source).build().expect("possible");
        glitch(&clock, &generator);
        when_asked.recv_timeout(Duration::from_secs(60)).expect("asked");
        generator.next_uid().expect("takes go on meanwhile");
        generator.close();
        assert_eq!(generator.next_uid(), Err(TakeError::Closed));
        let generator = (!is_dropped).then_some(generator);
        answer.send(()).expect("it waits");
        // The source is dropped once its thread is done, with the generator.
        if let Some(generator) = generator {
            let free = || {
                let builder = CachedUidGenerator::builder().namespace(namespace).worker_id(2);
                builder.clock(clock.clone()).build().is_ok()
            };
            wait_until(free);
            assert_eq!(generator.next_uid(), Err(TakeError::Closed));
            assert_eq!(generator.worker_id(), 1);
        } else {
            wait_until(|| matches!(when_asked.try_recv(), Err(mpsc::TryRecvError::Disconnected)));
        }
    }
}
