//! Two words that let threads of several processes wait for each other.
//!
//! This is an eventcount like [`EventCount`](super::EventCount), but without a lock: a killed process would hold
//! a lock forever.
//!
//! The waiter reads `sequence`, stores one more than that in `waiting` as its mark, passes a SeqCst fence and
//! looks at its condition. If that is false, it sleeps until `sequence` changes. The notifier changes what the
//! condition reads, passes a SeqCst fence and looks at `waiting`. If it sees a mark, it increments `sequence` and
//! wakes sleepers. Whichever fence comes second sees the other side's store. If the notifier sees the mark, the
//! waiter either is asleep, and is woken, or finds `sequence` changed when it tries to sleep. A waiter that reads
//! the new `sequence` acquires it, and so sees what the notifier changed.
//!
//! A mark stays until a notifier finds nobody asleep. That notifier removes the mark only if it is still the one
//! that it saw. A waiter that has read the new `sequence` stores a greater mark, and a smaller mark never
//! replaces a greater one. A killed waiter costs the next notifier a system call, and nothing else.
//!
//! A process that is killed between its change and its wake-up, or before it calls the next waiter, leaves others
//! asleep. So [`Event`](super::Event) lets nobody sleep longer than [`MAX_SLEEP`] at a time.

use std::time::Duration;

use super::imp::{AtomicU64, Ordering, fence};

/// The words. Zeros mean that nobody waits.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct FutexWords {
    /// Incremented by each notification that sees a mark. The kernel compares the lower half.
    sequence: AtomicU64,
    /// 0, or the mark of a waiter: one more than the `sequence` that it read.
    waiting: AtomicU64,
    /// Who sleeps on the words. Outside models, the kernel keeps track of that.
    #[cfg(uidring_loom)]
    asleep: os::Asleep,
}

/// How late a wake-up may be if the process that owed it was killed, or a peer has overwritten the words.
pub(crate) const MAX_SLEEP: Duration = Duration::from_millis(50);

impl FutexWords {
    #[cfg(all(test, uidring_loom))]
    pub(crate) fn words(&self) -> [&AtomicU64; 2] {
        [&self.sequence, &self.waiting]
    }

    /// Waits until `ready` returns true, for at most `timeout`. Returns the last answer. May return early.
    pub(crate) fn wait(&self, timeout: Option<Duration>, mut ready: impl FnMut() -> bool) -> bool {
        // Acquire: pairs with the Release in `wake`: whoever reads a new `sequence` sees the change
        // that it announces.
        let sequence = self.sequence.load(Ordering::Acquire);
        // Relaxed: the fence below orders this before the look at the condition.
        self.waiting.fetch_max(sequence.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the fence in `notify`: either `ready` sees the notifier's change, or the notifier
        // sees the mark.
        fence(Ordering::SeqCst);
        if ready() {
            return true;
        }
        os::wait(self, sequence, timeout);
        ready()
    }

    /// Wakes all waiters, or only one.
    #[inline]
    pub(crate) fn notify(&self, all: bool) {
        // Pairs with the fence in `wait`.
        fence(Ordering::SeqCst);
        // Relaxed: if the waiter passed its fence first, this sees its mark.
        let found = self.waiting.load(Ordering::Relaxed);
        if found != 0 {
            self.wake(found, all);
        }
    }

    #[cold]
    fn wake(&self, found: u64, all: bool) {
        // Release: pairs with the Acquire in `wait`, which then sees the caller's change.
        self.sequence.fetch_add(1, Ordering::Release);
        let count = if all { i32::MAX } else { 1 };
        if os::wake(self, count) == 0 {
            // Relaxed: the mark publishes nothing.
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
    // Futexes, for which std has no API.
    #![allow(unsafe_code)]

    use std::ptr;
    use std::time::Duration;

    use super::FutexWords;

    /// Sleeps while the word holds this `sequence`, for at most `timeout`. May return early.
    pub(super) fn wait(words: &FutexWords, sequence: u64, timeout: Option<Duration>) {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let (word, value) = (lower_half(words), sequence as u32);
        // SAFETY: the word and the timeout outlive the call.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, value, timeout) };
    }

    /// Wakes at most `count` sleepers; returns how many were woken.
    pub(super) fn wake(words: &FutexWords, count: i32) -> i64 {
        let word = lower_half(words);
        // SAFETY: the kernel finds sleepers by the address, and does not access the word.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, count) }
    }

    /// Returns the 32 bits that the kernel compares. The supported processors are little-endian, so the lower
    /// half comes first.
    fn lower_half(words: &FutexWords) -> *mut u32 {
        words.sequence.as_ptr().cast()
    }
}

/// For systems without shared rings.
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

/// The kernel's part in models. Sleeps have no timeout.
#[cfg(uidring_loom)]
mod os {
    use std::time::Duration;

    use super::FutexWords;
    use crate::sync::guarded::lock;
    use crate::sync::imp::{Condvar, Mutex};

    #[derive(Debug, Default)]
    pub(super) struct Asleep {
        /// How many sleep, and how many others have been woken but have not left `wait`.
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
    /// The words, and how many items are there to be taken.
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

    /// Waits for an item and takes it. Calls the next waiter if it leaves something.
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

    /// The killed waiter has stored its mark, and never sleeps.
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
            // These notifiers find nobody asleep, and so remove any mark.
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
