//! Two words by which threads of several processes wait for each other.
//!
//! It is an eventcount, as [`EventCount`](super::EventCount) is, without a lock: a lock would stay held by a process that
//! was killed.
//!
//! The waiter reads `sequence`, marks `waiting` with it, passes a SeqCst fence and looks at its condition. If that is
//! false, it sleeps until `sequence` changes. The notifier changes what the condition reads, passes a SeqCst fence and
//! looks at `waiting`. If somebody is marked, it raises `sequence` and wakes. Whichever fence comes second sees the other
//! side's store. If the notifier sees the mark, the waiter either sleeps, and is woken, or finds `sequence` raised when it
//! comes to sleep. A waiter that reads the raised `sequence` acquires it, and so sees what the notifier changed.
//!
//! A mark stays until a notifier finds nobody asleep. That notifier removes the mark only if it is still the one that it
//! saw. A waiter that has read the raised `sequence` stores a greater mark, and a smaller mark never replaces a greater one.
//! A killed waiter costs the next notifier a system call, and nothing else.
//!
//! A process that is killed between its change and its wake-up, or before it calls the next waiter, leaves others asleep.
//! So takers sleep no longer than [`LONGEST`] at a time. The producer may: takers that wait in vain wake it again.

use std::time::Duration;

use super::imp::{AtomicU64, Ordering, fence};

/// The words. Zeros are a value: nobody waits.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct FutexWords {
    /// Raised by each notification that found somebody marked. The kernel compares its lower half.
    sequence: AtomicU64,
    /// 0, or a mark: one more than a `sequence`.
    waiting: AtomicU64,
    /// What the kernel knows.
    #[cfg(uidring_loom)]
    asleep: os::Asleep,
}

/// How late a wake-up may be if the process that owed it was killed, or another one has overwritten the words.
pub(crate) const LONGEST: Duration = Duration::from_millis(50);

impl FutexWords {
    /// Waits until `ready` says true, for `timeout` at most; returns the last answer. It may return early.
    pub(crate) fn wait(&self, timeout: Option<Duration>, mut ready: impl FnMut() -> bool) -> bool {
        // Acquire: pairs with the Release in `notify`.
        let sequence = self.sequence.load(Ordering::Acquire);
        // Relaxed: the fence below orders it before the look at the condition.
        self.waiting.fetch_max(sequence.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the fence in `notify`.
        fence(Ordering::SeqCst);
        if ready() {
            return true;
        }
        os::wait(self, sequence, timeout);
        ready()
    }

    /// Wakes all who wait, or one of them.
    #[inline]
    pub(crate) fn notify(&self, all: bool) {
        // Pairs with the fence in `wait`.
        fence(Ordering::SeqCst);
        // Relaxed: if the waiter passed its fence first, its mark is seen here.
        let found = self.waiting.load(Ordering::Relaxed);
        if found != 0 {
            self.wake(found, all);
        }
    }

    #[cold]
    fn wake(&self, found: u64, all: bool) {
        // Release: pairs with the Acquire in `wait`.
        self.sequence.fetch_add(1, Ordering::Release);
        let count = if all { i32::MAX } else { 1 };
        if os::wake(self, count) == 0 {
            // Relaxed, as the mark is.
            let _ = self.waiting.compare_exchange(found, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(uidring_loom)
))]
mod os {
    // Futexes, which std does not hand out.
    #![allow(unsafe_code)]

    use std::ptr;
    use std::time::Duration;

    use super::FutexWords;

    /// Sleeps while `sequence` is this, for `timeout` at most; may return early.
    pub(super) fn wait(words: &FutexWords, sequence: u64, timeout: Option<Duration>) {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let (word, value) = (lower_half(words), sequence as u32);
        // SAFETY: the word lives for the call, and so does the time.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, value, timeout) };
    }

    /// Wakes at most `count` sleepers; returns how many were woken.
    pub(super) fn wake(words: &FutexWords, count: i32) -> i64 {
        let word = lower_half(words);
        // SAFETY: the kernel looks for sleepers by the address, and does not touch the word.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, count) }
    }

    /// What a futex compares: 32 bits. The supported processors store the lower half first.
    fn lower_half(words: &FutexWords) -> *mut u32 {
        words.sequence.as_ptr().cast()
    }
}

/// Where no ring is shared.
#[cfg(not(any(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
    uidring_loom
)))]
mod os {
    use std::time::Duration;

    use super::FutexWords;

    pub(super) fn wait(_: &FutexWords, _: u64, _: Option<Duration>) {
        std::thread::yield_now();
    }

    pub(super) fn wake(_: &FutexWords, _: i32) -> i64 {
        0
    }
}

/// The kernel's part for the model checker. No time ends a sleep.
#[cfg(uidring_loom)]
mod os {
    use std::time::Duration;

    use super::FutexWords;
    use crate::sync::guarded::lock;
    use crate::sync::imp::{Condvar, Mutex};

    #[derive(Debug, Default)]
    pub(super) struct Asleep {
        /// How many sleep, and how many of them were woken and have not left.
        count: Mutex<(i32, i32)>,
        signal: Condvar,
    }

    pub(super) fn wait(words: &FutexWords, sequence: u64, _: Option<Duration>) {
        let mut count = lock(&words.asleep.count);
        if words.sequence.by_kernel() != sequence {
            return;
        }
        count.0 += 1;
        while count.1 == 0 {
            count = words.asleep.signal.wait(count).unwrap_or_else(|error| error.into_inner());
        }
        count.1 -= 1;
    }

    pub(super) fn wake(words: &FutexWords, most: i32) -> i64 {
        let mut count = lock(&words.asleep.count);
        let woken = count.0.min(most);
        count.0 -= woken;
        count.1 += woken;
        drop(count);
        (0..woken).for_each(|_| words.asleep.signal.notify_one());
        woken.into()
    }
}

#[cfg(all(test, uidring_loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    /// The words, and how many of what is waited for are there.
    type Shared = Arc<(FutexWords, AtomicU64)>;

    fn take(there: &AtomicU64) -> bool {
        let less = |count: u64| count.checked_sub(1);
        there.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn publish(shared: &Shared) {
        let (words, there) = &**shared;
        there.fetch_add(1, Ordering::Relaxed);
        words.notify(false);
    }

    /// Takes one, however long it waits, and calls the next one if it leaves something.
    fn wait_and_take(shared: &Shared) {
        let (words, there) = &**shared;
        let is_there = || there.load(Ordering::Relaxed) > 0;
        while !take(there) {
            words.wait(None, is_there);
        }
        if is_there() {
            words.notify(false);
        }
    }

    #[test]
    fn models_no_futex_wake_up_is_lost() {
        loom::model(|| {
            let shared = Shared::default();
            let takers = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || wait_and_take(&shared))
            });
            publish(&shared);
            publish(&shared);
            takers.into_iter().for_each(|taker| taker.join().expect("no panic"));
        });
    }

    /// It has marked that it waits, and never sleeps.
    #[test]
    fn models_a_killed_waiter_keeps_no_wake_up() {
        loom::model(|| {
            let shared = Shared::default();
            let [killed, taker] = [(); 2].map(|()| Arc::clone(&shared));
            let killed = thread::spawn(move || {
                let words = &killed.0;
                let sequence = words.sequence.load(Ordering::Acquire);
                words.waiting.fetch_max(sequence.wrapping_add(1), Ordering::Relaxed);
            });
            let taker = thread::spawn(move || wait_and_take(&taker));
            publish(&shared);
            killed.join().expect("no panic");
            taker.join().expect("no panic");
            // The next notifiers find nobody, and then no mark either.
            shared.0.notify(false);
            shared.0.notify(false);
            assert_eq!(shared.0.waiting.load(Ordering::Relaxed), 0);
        });
    }

    #[test]
    fn models_all_futex_waiters_are_woken() {
        loom::model(|| {
            let shared = Shared::default();
            let takers = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    while !shared.0.wait(None, || shared.1.load(Ordering::Relaxed) == 1) {}
                })
            });
            shared.1.store(1, Ordering::Relaxed);
            shared.0.notify(true);
            takers.into_iter().for_each(|taker| taker.join().expect("no panic"));
        });
    }
}
