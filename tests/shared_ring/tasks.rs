//! Tasks that wait at a shared ring.

use std::fs;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use uidring::clock::ManualClock;
use uidring::{CachedUidGenerator, SharedRing, TakeError, Timestamp};
use uidring_testkit::fork::{Fork, alone};

use super::{fork, small, write};

/// A generator that does not borrow, and its clock.
fn by_clock() -> (CachedUidGenerator, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let theirs = clock.clone();
    (small(|builder| builder.clock(theirs).max_borrow(Duration::ZERO)), clock)
}

/// A generator that does not borrow, its clock, and a handle that finds nothing.
fn dry() -> (CachedUidGenerator, ManualClock, SharedRing) {
    let (generator, clock) = by_clock();
    let ring = generator.shared_ring().expect("shared");
    while ring.try_next_uid().is_ok() {}
    (generator, clock, ring)
}

fn poll<F: Future>(task: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    task.poll(&mut Context::from_waker(waker))
}

/// How many threads of this process call tasks.
fn callers() -> usize {
    let threads = fs::read_dir("/proc/self/task").expect("a folder");
    let names =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "uidring-tasks").count()
}

/// Tasks of a child wait and get uids, although the child has none of the parent's threads.
#[test]
fn tasks_of_a_child_wait_for_the_owner() {
    let _alone = alone();
    let (_generator, clock, ring) = dry();
    // A task of the parent waits first.
    assert!(poll(pin!(ring.next_uid_async()), Waker::noop()).is_pending());
    let child = fork(|to| {
        for _ in 0..40 {
            write(&[block_on(ring.next_uid_async()).expect("waits").get()], to);
        }
    });
    // A tick has 16 uids.
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(50));
        clock.advance(Duration::from_secs(1));
    }
    let uids = child.uids();
    assert_eq!(uids.len(), 40);
    assert!(uids.is_sorted_by(|a, b| a < b));
}

#[test]
fn one_thread_calls_the_tasks_of_a_handle_until_it_is_dropped() {
    let _alone = alone();
    let (generator, _clock) = by_clock();
    let ring = generator.shared_ring().expect("shared");
    block_on(ring.next_uid_async()).expect("ready");
    while ring.try_next_uid().is_ok() {}
    wait_for_no_caller();
    for _ in 0..2 {
        assert!(poll(pin!(ring.next_uid_async()), Waker::noop()).is_pending());
        assert_eq!(callers(), 1);
    }
    drop(ring);
    wait_for_no_caller();
}

/// Threads end a little after their handles are dropped.
fn wait_for_no_caller() {
    let start = Instant::now();
    while callers() > 0 {
        assert!(start.elapsed() < Duration::from_secs(30), "the thread ends");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The owner is killed while a task of its child waits.
#[test]
fn a_task_that_waits_sees_the_owner_end() {
    let _alone = alone();
    let owner = fork(|to| {
        let (_generator, _clock, ring) = dry();
        let parent = std::process::id();
        // SAFETY: as in `fork`.
        if unsafe { libc::fork() } == 0 {
            let kill = thread::spawn(move || {
                thread::sleep(Duration::from_millis(120));
                let now = Instant::now();
                // SAFETY: the parent waits in `park` until then.
                unsafe { libc::kill(parent as libc::pid_t, libc::SIGKILL) };
                now
            });
            let has_ended = block_on(ring.next_uid_async()) == Err(TakeError::OwnerEnded);
            let seen = Instant::now();
            let late = seen.saturating_duration_since(kill.join().expect("no panic"));
            write(&[has_ended.into(), late.as_millis() as u64], to);
            // SAFETY: as in `fork`.
            unsafe { libc::_exit(0) };
        }
        loop {
            thread::park();
        }
    });
    let [has_ended, millis] = owner.uids().try_into().expect("two words");
    assert_eq!(has_ended, 1);
    println!("a waiting task sees the owner's end after {millis} ms");
    // Much later only if nobody called it. A busy machine may need longer than the 50 ms.
    assert!(millis < 5_000, "{millis} ms");
}

#[derive(Default)]
struct Counts(AtomicU64);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_closed_handle_releases_its_tasks() {
    let _alone = alone();
    let (_generator, _clock, ring) = dry();
    let calls = Arc::<Counts>::default();
    let mut tasks = [(); 3].map(|()| Box::pin(ring.next_uid_async()));
    for task in &mut tasks {
        assert!(poll(task.as_mut(), &Waker::from(Arc::clone(&calls))).is_pending());
    }
    ring.close();
    assert!(calls.0.load(Ordering::Relaxed) >= 3);
    for task in &mut tasks {
        assert_eq!(poll(task.as_mut(), Waker::noop()), Poll::Ready(Err(TakeError::Closed)));
    }
}

/// The child consists of the thread that calls tasks, which ends.
#[test]
fn a_waker_may_fork_in_the_thread_that_calls_it() {
    let _alone = alone();
    let (_generator, clock, ring) = dry();
    let fork = Fork::new();
    fork.arm_all();
    let mut task = pin!(ring.next_uid_async());
    assert!(poll(task.as_mut(), &Waker::from(Arc::new(fork.clone()))).is_pending());
    clock.advance(Duration::from_secs(1));
    while !fork.has_happened() {
        thread::yield_now();
    }
    assert!(fork.child_ends());
    block_on(task).expect("the owner has published");
}
