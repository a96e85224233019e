//! The one door to atomics, threads and locks: std's, or loom's when the models are run.

mod boot_time;
mod pages;

pub(crate) use self::boot_time::boot_time;
pub(crate) use self::pages::{Line, Pages};

#[cfg(not(uidring_loom))]
mod imp {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering, fence,
    };
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
}

#[cfg(uidring_loom)]
mod imp {
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering, fence,
    };
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
}

pub(crate) use self::imp::*;

use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// Locks, whether another holder has panicked or not: what our locks guard is whole at any time.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // ThreadSanitizer does not see what std does when it has to wait, which is not instrumented,
    // and would take what follows for a race. The first try it sees.
    #[cfg(uidring_tsan)]
    loop {
        match try_lock(mutex) {
            Some(guard) => return guard,
            None => std::thread::yield_now(),
        }
    }
    #[cfg(not(uidring_tsan))]
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// [`lock`], unless another thread holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// An eventcount: threads wait on it until a condition holds that other threads bring about with
/// atomics, without taking a lock.
///
/// No wake-up is lost. The waiter raises `waiting`, passes a SeqCst fence and then looks at the
/// condition; the notifier changes what the condition reads, passes a SeqCst fence and then looks
/// at `waiting`. Whichever fence comes second sees the other side's store: either the waiter finds
/// its condition true, or the notifier finds `waiting` raised. In the second case the notifier
/// takes the lock before it signals, and the waiter has held that lock since before it raised
/// `waiting`, so the signal cannot fall between its look and its sleep.
///
/// `waiting` is taken down by the notifier, so that of many notifiers only one pays for the wake-up
/// of a thread that is already on its way; every waiter that wakes and finds its condition false
/// raises it again.
#[derive(Debug, Default)]
pub(crate) struct Event {
    waiting: AtomicBool,
    lock: Mutex<()>,
    signal: Condvar,
}

impl Event {
    /// Waits until `ready` says true, or for `timeout` at the most; returns the last answer.
    ///
    /// A signal does not restart the timeout anew: after a wake-up without the condition the
    /// caller gets `false` and decides for itself whether there is time left.
    pub(crate) fn wait(&self, timeout: Option<Duration>, mut ready: impl FnMut() -> bool) -> bool {
        let guard = lock(&self.lock);
        // Relaxed: the fence below orders this store before the look at the condition.
        self.waiting.store(true, Ordering::Relaxed);
        // Pairs with the fence in `notify`.
        fence(Ordering::SeqCst);
        if ready() {
            return true;
        }
        drop(self.sleep(guard, timeout));
        ready()
    }

    fn sleep<'a>(
        &self,
        guard: MutexGuard<'a, ()>,
        timeout: Option<Duration>,
    ) -> MutexGuard<'a, ()> {
        match timeout {
            None => self.signal.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.signal.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Wakes all waiters, if there are any. To be called after the change that they wait for.
    #[inline]
    pub(crate) fn notify(&self) {
        // Pairs with the fence in `wait`.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Relaxed: the lock below, not this flag, orders the notifier and the sleeper.
        if self.waiting.swap(false, Ordering::Relaxed) {
            drop(lock(&self.lock));
            self.signal.notify_all();
        }
    }
}
