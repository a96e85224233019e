//! fork(2) in tests: work in a child, and its report.
// std has no fork, and no waiting for forked children.
#![allow(unsafe_code)]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock};
use uidring::{TakeError, Timestamp, Uid, UidGenerator};

/// How long a child may take before it counts as hanging.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Lets one test run at a time. Otherwise its children would copy other tests' threads and pipes.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a child reports, in words of 64 bits. It must not print: another thread may have held the lock of stdout at the
/// fork.
pub struct Report {
    pub words: Vec<u64>,
    pipe: i32,
}

/// Words that are not uids.
pub const FORKED: u64 = 1 << 63;
pub const OTHER_ERROR: u64 = FORKED + 1;
pub const FAILED: u64 = FORKED + 2;

impl Report {
    pub fn take(&mut self, taken: Result<Uid, TakeError>) {
        self.words.push(match taken {
            Ok(uid) => uid.get(),
            Err(TakeError::Forked) => FORKED,
            Err(_) => OTHER_ERROR,
        });
    }

    pub fn fill(&mut self, generator: &impl UidGenerator) {
        let mut uids = [Uid::default(); 3];
        match generator.fill(&mut uids) {
            Ok(()) => uids.iter().for_each(|uid| self.take(Ok(*uid))),
            Err(error) => {
                uids[..error.filled].iter().for_each(|uid| self.take(Ok(*uid)));
                self.take(Err(error.error));
            }
        }
    }

    pub fn check(&mut self, holds: bool) {
        if !holds {
            self.words.push(FAILED);
        }
    }

    fn send(&self) -> bool {
        let bytes = self.words.len() * 8;
        // SAFETY: the words are that many initialised bytes. They fit in a pipe at once.
        unsafe { libc::write(self.pipe, self.words.as_ptr().cast(), bytes) == bytes as isize }
    }
}

/// Forks. `work` runs only in the child, which then ends. Returns its report.
///
/// `work` has its own copy of the parent's memory: the parent keeps what `work` takes out and drops.
pub fn in_child(work: impl FnOnce(&mut Report)) -> Vec<u64> {
    let mut pipe = [0; 2];
    // SAFETY: `pipe` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    let mut report = Report { words: Vec::with_capacity(256), pipe: pipe[1] };
    // SAFETY: the child runs `work` and calls `_exit`. Between fork and exec it does two things that are not
    // async-signal-safe: it allocates, which glibc and macOS allow, and it uses the crate, which is under test.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a child");
    if child == 0 {
        // SAFETY: changes only the child's own process group, so that its children can be killed with it.
        unsafe { libc::setpgid(0, 0) };
        let done = catch_unwind(AssertUnwindSafe(|| work(&mut report)));
        let status = if done.is_ok() && report.send() { 0 } else { 1 };
        // SAFETY: ends the child without running the parent's destructors or flushing its buffers.
        unsafe { libc::_exit(status) };
    }
    // SAFETY: our own descriptor, closed once.
    unsafe { libc::close(pipe[1]) };
    let words = receive(child, pipe[0]);
    // SAFETY: as above.
    unsafe { libc::close(pipe[0]) };
    words
}

/// Reads until the child and its children have ended. Kills them at the limit.
fn receive(child: i32, pipe: i32) -> Vec<u64> {
    let start = Instant::now();
    let mut words = Vec::new();
    loop {
        let mut wait = libc::pollfd { fd: pipe, events: libc::POLLIN, revents: 0 };
        let left = LIMIT.saturating_sub(start.elapsed()).as_millis() as i32;
        // SAFETY: `wait` is the one record.
        if unsafe { libc::poll(&mut wait, 1, left) } == 0 {
            // SAFETY: the child is not waited for yet, so its number is not reused.
            unsafe { libc::kill(-child, libc::SIGKILL) };
            wait_for(child);
            panic!("the child hangs");
        }
        let mut buffer = [0_u64; 512];
        // SAFETY: the buffer has room for that many bytes. Words are written whole.
        let count = unsafe { libc::read(pipe, buffer.as_mut_ptr().cast(), 4_096) };
        match usize::try_from(count).expect("reads") {
            0 => break,
            bytes => words.extend(&buffer[..bytes / 8]),
        }
    }
    assert_eq!(wait_for(child), 0, "how the child ended, after {words:x?}");
    words
}

pub fn wait_for(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a valid place for the status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

/// Forks in the middle of a call, from the test's own code that the call runs.
#[derive(Clone, Debug)]
pub struct Fork(Arc<State>);

#[derive(Debug)]
struct State {
    /// Calls of `here` left until the fork; 0 for no fork.
    left: AtomicU64,
    /// The thread that forks; 0 for any.
    thread: AtomicUsize,
    /// The child; 0 in the child, `NONE` before a fork.
    child: AtomicI32,
}

const NONE: i32 = -1;

impl Default for Fork {
    fn default() -> Self {
        Self::new()
    }
}

impl Fork {
    pub fn new() -> Self {
        let (left, thread) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self(Arc::new(State { left, thread, child: AtomicI32::new(NONE) }))
    }

    /// Lets this thread fork at its `nth` call of `here` from now on.
    pub fn arm(&self, nth: u64) {
        self.0.thread.store(this_thread(), Ordering::Relaxed);
        self.0.left.store(nth, Ordering::Release);
    }

    /// Lets the first thread that calls `here` fork.
    pub fn arm_all(&self) {
        self.0.thread.store(0, Ordering::Relaxed);
        self.0.left.store(1, Ordering::Release);
    }

    pub fn here(&self) {
        let State { left, thread, child } = &*self.0;
        let down = |left: u64| left.checked_sub(1);
        if left.load(Ordering::Acquire) == 0
            || ![0, this_thread()].contains(&thread.load(Ordering::Relaxed))
            || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, down) != Ok(1)
        {
            return;
        }
        // SAFETY: as in `in_child`. The child does the same things, and ends in `on_both_sides` or with the thread that
        // it consists of.
        child.store(unsafe { libc::fork() }, Ordering::Release);
    }

    pub fn has_happened(&self) -> bool {
        self.0.child.load(Ordering::Acquire) != NONE
    }

    pub fn is_child(&self) -> bool {
        self.0.child.load(Ordering::Relaxed) == 0
    }

    /// Waits for the child. Returns whether it ended without an error.
    pub fn child_ends(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < LIMIT / 2 {
            let mut status = 0;
            let child = self.0.child.load(Ordering::Relaxed);
            // SAFETY: a valid place for the status.
            if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
                return status == 0;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

/// A waker that calls `here`.
impl Wake for Fork {
    fn wake(self: Arc<Self>) {
        self.here();
    }
}

fn this_thread() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// A clock that calls `here` whenever it is read.
#[derive(Clone, Debug)]
pub struct ForkingClock {
    pub time: ManualClock,
    pub fork: Fork,
}

impl ForkingClock {
    pub fn new(fork: &Fork) -> Self {
        let time = ManualClock::new(Timestamp::from_millis(1_000_000));
        Self { time, fork: fork.clone() }
    }
}

impl Clock for ForkingClock {
    fn now(&self) -> Timestamp {
        self.fork.here();
        self.time.now()
    }
}

/// What the work returned on both sides of a fork.
#[derive(Debug)]
pub struct Sides {
    pub parent: Vec<u64>,
    pub child: Vec<u64>,
}

/// Does the work in a process of its own, where it may fork. Returns `None` if it did not.
pub fn on_both_sides(work: impl FnOnce(&Fork) -> Vec<u64>) -> Option<Sides> {
    let words = in_child(|to| {
        let fork = Fork::new();
        let mut pipe = [0; 2];
        // SAFETY: `pipe` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        let done = catch_unwind(AssertUnwindSafe(|| work(&fork)));
        if fork.has_happened() && fork.is_child() {
            let report = Report { words: done.unwrap_or(vec![FAILED]), pipe: pipe[1] };
            // SAFETY: as in `in_child`.
            unsafe { libc::_exit(if report.send() { 0 } else { 1 }) };
        }
        let parent = done.expect("no panic in the parent");
        if !fork.has_happened() {
            return;
        }
        // SAFETY: our own descriptor, closed once.
        unsafe { libc::close(pipe[1]) };
        let child = receive(fork.0.child.load(Ordering::Relaxed), pipe[0]);
        to.words.push(parent.len() as u64);
        to.words.extend(parent);
        to.words.extend(child);
    });
    let (count, words) = words.split_first()?;
    let (parent, child) = words.split_at(*count as usize);
    Some(Sides { parent: parent.to_vec(), child: child.to_vec() })
}
