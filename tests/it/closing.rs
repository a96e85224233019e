//! The end of a generator: by its owner, or by a panic of the user's code. Takers get an error, and nobody waits
//! forever.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock, SystemClock};
use uidring::padding::{NextRun, RingHandle, RunSource};
use uidring::padding::{Padder, PadderCore, PadderIdle, PadderOptions};
use uidring::policy::{PutPolicy, TakePolicy};
use uidring::ring::RingOptions;
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Layout, TakeError, Tick, Timestamp, Uid,
};
use uidring_testkit::deadline::ends;
use uidring_testkit::namespace::fresh;

/// More than a busy machine needs.
const LIMIT: Duration = Duration::from_secs(30);

const ROUNDS: u32 = 10;

fn layout(sequence: u8) -> Layout {
    let bits = Bits { time: 40, worker: 8, sequence };
    Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible")
}

/// A generator with nothing left to give; its clock stands still.
fn dry(policy: TakePolicy) -> CachedUidGenerator {
    let builder = CachedUidGenerator::builder().layout(layout(4)).worker_id(1).namespace(fresh());
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let builder = builder.clock(clock).max_borrow(Duration::from_secs(20)).take_policy(policy);
    let generator = builder.build().expect("builds");
    let start = Instant::now();
    while !matches!(generator.try_next_uid(), Err(TakeError::BorrowLimit { .. })) {
        assert!(start.elapsed() < LIMIT, "there is a horizon");
    }
    // The padder may have published its last runs between the look at the ring and the one at the horizon.
    while generator.try_next_uid().is_ok() {}
    generator
}

/// Runs each taker in its own thread, calls `act` once they had time to fall asleep, and waits for all. Callers check
/// by their counters that they slept.
fn released(takers: &[&(dyn Fn() + Sync)], act: impl FnOnce()) {
    thread::scope(|scope| {
        let takers: Vec<_> = takers.iter().map(|taker| scope.spawn(taker)).collect();
        // In the middle of a nap of 10 ms, if they take naps.
        thread::sleep(Duration::from_millis(25));
        let start = Instant::now();
        act();
        while !takers.iter().all(|taker| taker.is_finished()) {
            if start.elapsed() > LIMIT {
                // A scope would wait for hanging threads.
                let _ = writeln!(io::stderr(), "a taker was not released: aborting");
                std::process::abort();
            }
            thread::yield_now();
        }
    });
}

#[test]
fn close_releases_who_waits() {
    let (mut waits, start) = (0, Instant::now());
    // Until enough have slept: on a busy machine some come late.
    for round in 0.. {
        if round >= ROUNDS && waits >= 2 * u64::from(ROUNDS) {
            break;
        }
        assert!(start.elapsed() < LIMIT, "they sleep: {waits} in {round} rounds");
        // A distant deadline makes no difference.
        let policy =
            if round % 2 == 0 { TakePolicy::Wait } else { TakePolicy::WaitFor(10 * LIMIT) };
        let generator = dry(policy);
        let before = generator.stats().waits;
        let single = || assert_eq!(generator.next_uid(), Err(TakeError::Closed));
        let fill = || {
            let error = generator.fill(&mut [Uid::default(); 5]).expect_err("closed");
            assert_eq!((error.filled, error.error), (0, TakeError::Closed));
        };
        let local = || assert_eq!(generator.local().next_uid(), Err(TakeError::Closed));
        released(&[&single, &fill, &local, &single], || generator.close());
        waits += generator.stats().waits - before;
    }
}

#[test]
fn after_close_nothing_is_left_to_take() {
    let generator =
        CachedUidGenerator::builder().worker_id(1).namespace(fresh()).build().expect("builds");
    let mut local = generator.local();
    local.next_uid().expect("waits");
    let mut unused = generator.local();
    let taken = generator.stats().taken;
    for _ in 0..3 {
        generator.close();
        assert_eq!(generator.next_uid(), Err(TakeError::Closed));
        assert_eq!(generator.try_next_uid(), Err(TakeError::Closed));
        let error = generator.fill(&mut [Uid::default(); 5]).expect_err("closed");
        assert_eq!((error.filled, error.error), (0, TakeError::Closed));
        assert_eq!(local.next_uid(), Err(TakeError::Closed), "though it had leased more");
        assert_eq!(local.try_next_uid(), Err(TakeError::Closed), "likewise");
        assert_eq!(unused.next_uid(), Err(TakeError::Closed));
        assert_eq!(generator.uids().next(), Some(Err(TakeError::Closed)));
        generator.wait(None);
    }
    let stats = generator.stats();
    assert_eq!((stats.taken, stats.rejects, stats.ring.available), (taken, 0, 0));
}

/// The close and the padder's look at the closed ring race here.
#[test]
fn close_throws_away_what_is_left_whatever_the_padder_does() {
    let options = PadderOptions::default().idle(PadderIdle::BusyPoll);
    let padder = Padder::start(options.core(PadderCore::Unpinned)).expect("starts");
    for round in 0..2_000 {
        let builder =
            CachedUidGenerator::builder().layout(layout(6)).worker_id(1).namespace(fresh());
        let generator = builder.padder(&padder).build().expect("builds");
        generator.next_uid().expect("waits");
        generator.close();
        assert_eq!(generator.next_uid(), Err(TakeError::Closed), "in round {round}");
    }
}

/// A ring whose source panicked gives nothing of what was put before.
#[test]
fn close_throws_away_what_a_source_that_panicked_has_left() {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let mut run = 0;
    let source = move || {
        run += 1;
        assert!(run < 3, "a fault");
        Some(run)
    };
    let padding = padder.serve(RingOptions::new(2).run_bits(0), source, None).expect("possible");
    padding.close();
    assert_eq!(padding.ring().try_take(), Err(TakeError::Closed));
}

/// The same, step by step: the padder leaves a ring that it finds closed.
#[test]
fn close_throws_away_what_the_padder_has_left() {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let padding = serve(&padder, Fault::None, &Arc::default());
    assert_eq!(padding.ring().try_take(), Ok(1));
    padding.ring().close();
    thread::sleep(Duration::from_millis(20));
    assert_eq!(padding.ring().try_take(), Ok(2), "the ring alone gives what it holds");
    padding.close();
    assert_eq!(padding.ring().try_take(), Err(TakeError::Closed));
}

/// Takers at full speed during a close get uids in order, then the error.
#[test]
fn close_in_the_middle_of_takes() {
    for _ in 0..ROUNDS {
        let generator =
            CachedUidGenerator::builder().layout(layout(6)).worker_id(1).namespace(fresh());
        let generator = generator.build().expect("builds");
        let single = || {
            let mut last = Uid::default();
            let error = generator.uids().find_map(|uid| match uid {
                Ok(uid) => {
                    assert!(last < uid);
                    last = uid;
                    None
                }
                Err(error) => Some(error),
            });
            assert_eq!(error, Some(TakeError::Closed));
        };
        let local = || {
            let error = generator.local().find_map(Result::err);
            assert_eq!(error, Some(TakeError::Closed));
        };
        // Two owners close at once.
        released(
            &[&single, &local, &local, &|| {
                thread::sleep(Duration::from_millis(20));
                generator.close();
            }],
            || generator.close(),
        );
    }
}

#[test]
fn the_generator_on_the_clock_closes_too() {
    for _ in 0..ROUNDS {
        let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
        let generator =
            ClockedUidGenerator::builder().layout(layout(1)).worker_id(1).namespace(fresh());
        let generator = generator.clock(clock.clone()).build().expect("builds");
        generator.fill(&mut [Uid::default(); 2]).expect("a tick's");
        let single = || assert_eq!(generator.next_uid(), Err(TakeError::Closed));
        let fill = || {
            let error = generator.fill(&mut [Uid::default(); 5]).expect_err("closed");
            assert_eq!((error.filled, error.error), (0, TakeError::Closed));
        };
        released(&[&single, &fill, &single, &fill], || generator.close());
        generator.close();
        for _ in 0..3 {
            // Not in the next tick either.
            clock.advance(Duration::from_secs(1));
            assert_eq!(generator.next_uid(), Err(TakeError::Closed));
            assert_eq!(generator.try_fill(&mut [Uid::default()]), Err(TakeError::Closed));
        }
    }
}

/// Even if the bits of a time beyond the layout equal those of the closed state.
#[test]
fn a_closed_generator_on_the_clock_is_closed_at_any_time() {
    for worker in 1..=3 {
        let bits = Bits { time: 41, worker: 2, sequence: 20 };
        let layout = Layout::new(bits, Tick::Millisecond, Timestamp::default()).expect("63 bits");
        let clock = ManualClock::new(Timestamp::from_millis(1));
        let generator =
            ClockedUidGenerator::snowflake().layout(layout).worker_id(worker).namespace(fresh());
        let generator = generator.clock(clock.clone()).build().expect("builds");
        generator.next_uid().expect("open");
        generator.close();
        for quarter in 0..=16 {
            for offset in -2..=2 {
                clock.set(Timestamp::from_millis((quarter << 38) + offset));
                for _ in 0..2 {
                    assert_eq!(generator.next_uid(), Err(TakeError::Closed), "{quarter} {offset}");
                    let error = generator.try_fill(&mut [Uid::default(); 2]);
                    assert_eq!(error, Err(TakeError::Closed), "{quarter} {offset}");
                }
            }
        }
    }
}

/// What a source does when told to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Begin,
    NextRun,
    Refresh,
    Drop,
}

/// Gives eight runs, then nothing for now, until it is told to fail.
struct Faulty {
    fault: Fault,
    now: Arc<AtomicBool>,
    given: u64,
}

impl Faulty {
    fn fail(&self, here: Fault) {
        assert!(!(self.fault == here && self.now.load(Ordering::Relaxed)), "a fault in {here:?}");
    }
}

impl RunSource for Faulty {
    fn oldest_fresh(&mut self) -> Option<u64> {
        self.fail(Fault::Begin);
        Some(0)
    }

    fn next_run(&mut self) -> NextRun {
        self.fail(Fault::NextRun);
        if self.given == 8 {
            return NextRun::NotYet(Duration::from_millis(1));
        }
        self.given += 1;
        NextRun::Run(self.given)
    }

    fn refresh_interval(&self) -> Option<Duration> {
        self.fail(Fault::Refresh);
        Some(Duration::from_millis(1))
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        let now = self.now.swap(false, Ordering::Relaxed);
        assert!(!(self.fault == Fault::Drop && now), "a fault at the end");
    }
}

fn serve(padder: &Padder, fault: Fault, now: &Arc<AtomicBool>) -> RingHandle {
    let source = Faulty { fault, now: Arc::clone(now), given: 0 };
    padder.serve(RingOptions::new(2).run_bits(0), source, None).expect("possible")
}

/// Takes and waits until the ring is closed.
fn take_to_the_end(padding: &RingHandle) {
    loop {
        match padding.ring().try_take() {
            Ok(_) => {}
            Err(TakeError::Empty) => padding.ring().wait(None),
            Err(error) => return assert_eq!(error, TakeError::Closed),
        }
    }
}

#[test]
fn a_source_that_panics_closes_its_own_ring() {
    for fault in [Fault::Begin, Fault::NextRun, Fault::Refresh] {
        let padder = Padder::start(PadderOptions::default()).expect("starts");
        let now = Arc::default();
        let (faulty, other) = (serve(&padder, fault, &now), serve(&padder, Fault::None, &now));
        let generator =
            CachedUidGenerator::builder().layout(layout(6)).worker_id(1).namespace(fresh());
        let generator = generator.padder(&padder).build().expect("builds");
        // Asleep before the fault.
        released(&[&|| take_to_the_end(&faulty), &|| take_to_the_end(&faulty)], || {
            now.store(true, Ordering::Relaxed);
        });
        // Help changes nothing.
        faulty.help();
        // Takers that come later.
        take_to_the_end(&faulty);
        faulty.close();
        // The padder goes on with the other rings.
        let neighbours = generator.uids().take(20_000);
        neighbours.for_each(|uid| assert!(uid.is_ok(), "{fault:?}: {uid:?}"));
        released(&[&|| take_to_the_end(&other)], || other.close());
    }
}

/// Meanwhile the padder or a helper is in the source, as long as we like.
#[test]
fn a_close_does_not_wait_for_a_source() {
    for helps in [false, true] {
        let padder = Padder::start(PadderOptions::default()).expect("starts");
        let (is_in, came) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let mut given = 0;
        let source = move || {
            given += 1;
            if given == 9 {
                is_in.send(()).expect("we listen");
                let _ = may_go_on.recv();
            }
            Some(given)
        };
        let options = RingOptions::new(3).run_bits(0).padding_factor(if helps { 1 } else { 99 });
        let padding = padder.serve(options, source, None).expect("possible");
        thread::scope(|scope| {
            let first = padding.ring().try_take();
            if helps {
                scope.spawn(|| padding.help());
            }
            came.recv().expect("it is asked");
            padding.close();
            assert_eq!(first, Ok(1));
            assert_eq!(padding.ring().try_take(), Err(TakeError::Closed));
            go_on.send(()).expect("it is there");
        });
        // What the source gave then is dropped.
        drop(padder);
        assert_eq!(padding.ring().try_take(), Err(TakeError::Closed));
        assert_eq!((padding.ring().stats().taken, padding.ring().stats().available), (1, 0));
    }
}

/// The source drops with the last owner of its ring, which may be the padder.
#[test]
fn a_source_whose_end_panics_ends_nothing_else() {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let other = serve(&padder, Fault::None, &Arc::default());
    for _ in 0..50 {
        let now = Arc::new(AtomicBool::new(true));
        let faulty = serve(&padder, Fault::Drop, &now);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(faulty)));
        while now.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    }
    let late = CachedUidGenerator::builder().layout(layout(4)).worker_id(1).namespace(fresh());
    let late = late.padder(&padder).build().expect("builds");
    late.uids().take(1_000).for_each(|uid| assert!(uid.is_ok(), "{uid:?}"));
    released(&[&|| take_to_the_end(&other)], || other.close());
}

/// The panic is in the thread of the helping taker, and must not spread.
#[test]
fn a_source_that_panics_in_a_helper_closes_its_ring() {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let runs = AtomicU64::new(0);
    let padding = padder
        .serve(
            RingOptions::new(2).run_bits(0).padding_factor(1),
            move || {
                let run = runs.fetch_add(1, Ordering::Relaxed);
                assert!(run < 4, "a fault at run {run}");
                Some(run)
            },
            None,
        )
        .expect("possible");
    // Room for a run, yet enough left that the padder does not come.
    assert!(padding.ring().try_take().is_ok());
    padding.help();
    // What was published is gone too: nothing would discard it once it is stale.
    assert_eq!(padding.ring().try_take(), Err(TakeError::Closed));
}

#[test]
fn a_take_handler_that_panics_gives_up() {
    let generator = dry(TakePolicy::handler(|_| panic!("a user's mistake")));
    let [lead, limit] = [21, 20].map(|seconds| Duration::from_secs(seconds).into());
    let limit = Err(TakeError::BorrowLimit { lead, limit });
    let take = || assert_eq!(generator.next_uid(), limit);
    let fill = || assert!(generator.fill(&mut [Uid::default()]).is_err());
    let local = || assert_eq!(generator.local().next_uid(), limit);
    released(&[&take, &fill, &local], || ());
    assert_eq!(generator.stats().rejects, 3);
    generator.close();
    assert_eq!(generator.next_uid(), Err(TakeError::Closed));
}

#[test]
fn a_put_handler_that_panics_does_not_end_the_padding() {
    let builder = CachedUidGenerator::builder().layout(layout(6)).worker_id(1).namespace(fresh());
    let policy = PutPolicy::handler(|_| panic!("a user's mistake"));
    let generator = builder.put_policy(policy).build().expect("builds");
    let taken = AtomicBool::new(false);
    released(
        &[&|| {
            assert!(generator.uids().take(50_000).all(|uid| uid.is_ok()));
            taken.store(true, Ordering::Relaxed);
        }],
        || (),
    );
    assert!(taken.into_inner());
    let start = Instant::now();
    while generator.stats().paddings < 2 {
        assert!(start.elapsed() < LIMIT, "the padder comes by");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A user's clock may panic. The panic must neither leave the takers' threads nor hang them.
#[test]
fn a_clock_that_panics_closes_the_generator() {
    #[derive(Debug)]
    struct Faulty(Arc<AtomicBool>);
    impl Clock for Faulty {
        fn now(&self) -> Timestamp {
            assert!(!self.0.load(Ordering::Relaxed), "a fault of the clock");
            Timestamp::from_millis(1_000_000)
        }
    }
    let now: Arc<AtomicBool> = Arc::default();
    let builder = CachedUidGenerator::builder().layout(layout(4)).worker_id(1).namespace(fresh());
    let builder = builder.clock(Faulty(Arc::clone(&now))).refresh(Duration::from_millis(1));
    let generator = builder.build().expect("builds");
    let until_closed = || {
        let outcome = catch_unwind(|| generator.uids().find_map(Result::err));
        assert_eq!(outcome.ok(), Some(Some(TakeError::Closed)));
    };
    released(&[&until_closed, &until_closed], || now.store(true, Ordering::Relaxed));
}

/// A clock that drops a generator once it is armed, in a padder's thread.
#[derive(Clone, Debug)]
struct Dropping {
    is_armed: Arc<AtomicBool>,
    both: Arc<Barrier>,
    other: Arc<Mutex<Option<CachedUidGenerator>>>,
}

impl Clock for Dropping {
    fn now(&self) -> Timestamp {
        let is_padder = thread::current().name() == Some("uidring-padder");
        if is_padder && self.is_armed.swap(false, Ordering::Relaxed) {
            // Each padder is in its clock.
            self.both.wait();
            let other = self.other.lock().expect("whole").take();
            drop(other);
        }
        SystemClock.now()
    }
}

/// Each padder would wait for the end of the other.
#[test]
fn two_generators_that_drop_each_other_do_not_hang() {
    ends("each drops the other", || {
        let both = Arc::new(Barrier::new(2));
        let slots = [(); 2].map(|()| Arc::new(Mutex::new(None)));
        let armed = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        for place in 0..2 {
            let (is_armed, other) = (Arc::clone(&armed[place]), Arc::clone(&slots[1 - place]));
            let clock = Dropping { is_armed, both: Arc::clone(&both), other };
            let builder = CachedUidGenerator::builder().worker_id(1).namespace(fresh());
            let builder = builder.clock(clock).refresh(Duration::from_millis(1));
            *slots[place].lock().expect("whole") = Some(builder.build().expect("builds"));
        }
        armed.iter().for_each(|armed| armed.store(true, Ordering::Relaxed));
        while slots.iter().any(|slot| slot.lock().expect("whole").is_some()) {
            thread::sleep(Duration::from_millis(1));
        }
        // Both padders have ended and dropped their clocks.
        while slots.iter().any(|slot| Arc::strong_count(slot) > 1) {
            thread::sleep(Duration::from_millis(1));
        }
    });
}
