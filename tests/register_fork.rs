//! The register of worker ids in forked children: what the parent holds is refused, and what it held before continues
//! above. Nothing hangs, whatever the parent's threads do.
#![cfg(unix)]
// std has no fork and no waiting for forked children.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock};
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{CachedUidGenerator, ClockedUidGenerator, Error, Layout, TakeError, Timestamp, Uid};
use uidring_testkit::namespace::fresh;

/// How long a child may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(60);

/// Lets one test run at a time: a child copies the locks of all threads, but not the threads.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forks. `work` runs only in the child, which then ends. Returns whether it succeeded.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `work` and calls `_exit`. Between fork and exec it does two things that are not
    // async-signal-safe: it allocates, which glibc and macOS allow, and it uses the crate, which is under test.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a child");
    if child == 0 {
        let well = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(i32::from(!well)) };
    }
    ends_well(child)
}

fn ends_well(child: i32) -> bool {
    let start = Instant::now();
    let mut status = 0;
    // SAFETY: a valid place for the status.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if start.elapsed() > LIMIT {
            // SAFETY: the child is not waited for yet, so its number is not reused.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
    status == 0
}

fn cached(namespace: &str, worker_id: u64) -> Result<CachedUidGenerator, Error> {
    let builder = CachedUidGenerator::builder().layout(Layout::SNOWFLAKE).boost_power(1);
    builder.worker_id(worker_id).namespace(namespace).build()
}

fn clocked(namespace: &str, worker_id: u64) -> Result<ClockedUidGenerator, Error> {
    ClockedUidGenerator::snowflake().worker_id(worker_id).namespace(namespace).build()
}

/// Whether both forms are refused in the same way.
fn are_refused(namespace: &str, worker_id: u64) -> bool {
    let errors = [
        cached(namespace, worker_id).map(drop).err(),
        clocked(namespace, worker_id).map(drop).err(),
    ];
    errors.into_iter().all(|error| {
        matches!(error, Some(Error::WorkerIdOfParent { worker_id: id, .. }) if id == worker_id)
    })
}

#[test]
fn a_child_does_not_get_what_its_parent_holds() {
    let _alone = alone();
    let namespace = fresh();
    let (one, two) = (cached(&namespace, 1), clocked(&namespace, 2));
    let mut held = Some((one.expect("the first"), two.expect("the second")));
    let before = held.as_ref().map(|held| held.0.next_uid().expect("ready"));
    assert!(in_child(|| {
        let refused = are_refused(&namespace, 1) && are_refused(&namespace, 2);
        // Dropping them does not end the parent's.
        drop(held.take());
        let own = cached(&namespace, 3).expect("nobody's");
        own.next_uid().expect("ready");
        let twice = matches!(clocked(&namespace, 3).map(drop), Err(Error::WorkerIdInUse { .. }));
        // A grandchild has two generations before it.
        let grandchild = in_child(|| {
            [1, 2, 3].iter().all(|id| are_refused(&namespace, *id))
                && clocked(&namespace, 4).expect("nobody's").next_uid().is_ok()
        });
        refused && are_refused(&namespace, 1) && twice && grandchild
    }));
    let error = cached(&namespace, 1).map(drop);
    assert!(matches!(error, Err(Error::WorkerIdInUse { .. })), "it is the parent's own");
    assert!(before < held.as_ref().map(|held| held.0.next_uid().expect("the parent goes on")));
    drop(held);
    cached(&namespace, 1).expect("gone");
    assert!(in_child(|| cached(&namespace, 1).is_ok()), "gone before the fork");
}

#[test]
fn a_child_goes_on_above_what_was_over_before_the_fork() {
    let _alone = alone();
    let namespace = fresh();
    let clock = ManualClock::new("2026-06-01".parse().expect("a time"));
    let build = || {
        let builder = CachedUidGenerator::builder().worker_id(1).namespace(&namespace);
        builder.clock(clock.clone()).build()
    };
    let one = build().expect("the first");
    let last = (0..100_000).map(|_| one.next_uid().expect("ready")).max();
    drop(one);
    for _ in 0..3 {
        assert!(in_child(|| build().expect("free").next_uid().ok() > last));
    }
    assert!(build().expect("free").next_uid().ok() > last);
}

#[test]
fn children_build_amid_their_parents_builds() {
    let _alone = alone();
    let (namespace, stop) = (fresh(), AtomicBool::new(false));
    let (others, builds) = (fresh(), AtomicU64::new(0));
    let theirs = ClockedUidGenerator::builder().worker_id(77).namespace(&namespace).build();
    thread::scope(|scope| {
        for thread in 0..4 {
            let (stop, builds, others) = (&stop, &builds, &others);
            scope.spawn(move || {
                let mut held = Vec::new();
                for round in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // Some worker ids repeatedly, and some for the first time.
                    let id = if round % 2 == 0 { round % 40 } else { 100 + round * 4 + thread };
                    let layout = Layout::UID_GENERATOR;
                    let builder = ClockedUidGenerator::builder().layout(layout).worker_id(id);
                    held.extend(builder.namespace(others).build());
                    held.truncate(7);
                    builds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..200 {
            let well = in_child(|| {
                let builder = || ClockedUidGenerator::builder().namespace(&namespace);
                let refused = builder().worker_id(77).build().map(drop);
                let own = builder().worker_id(78).build().expect("nobody's");
                // Some of what the parent's threads use is held, and nothing hangs.
                for id in 0..40 {
                    let builder = ClockedUidGenerator::builder().worker_id(id);
                    drop(builder.namespace(&others).build());
                }
                own.next_uid().is_ok() && matches!(refused, Err(Error::WorkerIdOfParent { .. }))
            });
            if !well {
                stop.store(true, Ordering::Relaxed);
            }
            assert!(well);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(builds.into_inner() > 200);
    drop(theirs);
}

/// Forks at a certain call.
#[derive(Clone, Debug)]
struct Fork {
    calls: Arc<AtomicU64>,
    /// The child; 0 in the child, -1 before the fork.
    child: Arc<AtomicI32>,
}

impl Fork {
    fn at(call: u64) -> Self {
        Self { calls: Arc::new(AtomicU64::new(call)), child: Arc::new(AtomicI32::new(-1)) }
    }

    fn called(&self) {
        if self.calls.fetch_sub(1, Ordering::Relaxed) == 1 {
            // SAFETY: as in `in_child`.
            self.child.store(unsafe { libc::fork() }, Ordering::Relaxed);
        }
    }

    /// In the child: ends it. In the parent: returns whether the child ended well, or `None` without a child.
    fn end(&self, is_well: bool) -> Option<bool> {
        match self.child.load(Ordering::Relaxed) {
            // SAFETY: as in `in_child`.
            0 => unsafe { libc::_exit(i32::from(!is_well)) },
            -1 => None,
            child => Some(ends_well(child)),
        }
    }

    fn is_child(&self) -> bool {
        self.child.load(Ordering::Relaxed) == 0
    }
}

#[derive(Clone, Debug)]
struct ForkingClock(Fork);

impl Clock for ForkingClock {
    fn now(&self) -> Timestamp {
        self.0.called();
        "2026-06-01".parse().expect("a time")
    }
}

/// Otherwise parent and child would both have the generator.
#[test]
fn a_clock_that_forks_makes_one_generator() {
    let _alone = alone();
    for is_cached in [false, true] {
        let mut forks = 0;
        for call in 1..12 {
            let (fork, namespace) = (Fork::at(call), fresh());
            let clock = ForkingClock(fork.clone());
            let taken = if is_cached {
                let builder = CachedUidGenerator::builder().worker_id(1).namespace(&namespace);
                let built = builder.clock(clock).build();
                built.map(|generator| generator.next_uid())
            } else {
                let builder = ClockedUidGenerator::snowflake().worker_id(1).namespace(&namespace);
                let built = builder.clock(clock).build();
                built.map(|generator| generator.next_uid())
            };
            let is_well = match taken {
                Ok(Ok(_)) => !fork.is_child(),
                Ok(Err(error)) => fork.is_child() && error == TakeError::Forked,
                Err(Error::Forked { .. }) => fork.is_child(),
                Err(_) => false,
            };
            if let Some(child) = fork.end(is_well) {
                assert!(child, "the child of call {call}");
                forks += 1;
            }
            assert!(is_well, "the parent of call {call}");
        }
        assert!(forks >= 2, "while building, and while taking");
    }
}

struct ForkingKeeper(Fork, Arc<AtomicBool>);

impl LeaseBackend for ForkingKeeper {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        self.0.called();
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        self.1.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for ForkingKeeper {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
    }
}

/// The lease is the parent's, and the child does not give it back.
#[test]
fn a_store_that_forks_makes_one_generator() {
    let _alone = alone();
    let (fork, namespace, ended) = (Fork::at(1), fresh(), Arc::new(AtomicBool::new(false)));
    let backend = ForkingKeeper(fork.clone(), Arc::clone(&ended));
    let layout = Layout::SNOWFLAKE;
    let lease = Lease::new(layout, 1, None, LeaseTerms::default(), backend).expect("in range");
    let built = ClockedUidGenerator::snowflake().worker(lease).namespace(&namespace).build();
    let is_well = match &built {
        Ok(_) => !fork.is_child(),
        Err(Error::Forked { .. }) => fork.is_child() && !ended.load(Ordering::Relaxed),
        Err(_) => false,
    };
    assert_eq!(fork.end(is_well), Some(true));
    assert!(is_well && !ended.load(Ordering::Relaxed));
    drop(built);
    assert!(ended.load(Ordering::Relaxed), "the parent's end");
}
