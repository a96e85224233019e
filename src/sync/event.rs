//! Waiting for what others bring about.

use std::sync::PoisonError;
use std::time::Duration;

use super::guarded::{Guard, lock};
use super::imp::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering, fence};
use super::{Life, outside::Held};

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
///
/// A forked child neither waits nor wakes: see [`ForkGuarded`](super::ForkGuarded).
#[derive(Debug)]
pub(crate) struct Event {
    life: Life,
    waiting: AtomicBool,
    mutex: Mutex<()>,
    signal: Condvar,
}

impl Event {
    pub(crate) fn new(life: Life) -> Self {
        let (waiting, mutex) = (AtomicBool::new(false), Mutex::new(()));
        Self { life, waiting, mutex, signal: Condvar::new() }
    }

    /// Waits until `ready` says true, or for `timeout` at most; returns the last answer.
    ///
    /// A signal does not restart the timeout anew: after a wake-up without the condition the
    /// caller gets `false` and decides for itself whether there is time left.
    pub(crate) fn wait(&self, timeout: Option<Duration>, mut ready: impl FnMut() -> bool) -> bool {
        if self.life.is_forked() {
            return ready();
        }
        let guard = lock(&self.mutex);
        let held = Held::new();
        // Relaxed: the fence below orders this store before the look at the condition.
        self.waiting.store(true, Ordering::Relaxed);
        // Pairs with the fence in `notify`.
        fence(Ordering::SeqCst);
        if ready() {
            return true;
        }
        drop(self.sleep(guard, timeout));
        drop(held);
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
        if self.life.is_forked() {
            return;
        }
        // Relaxed: the lock below, not this flag, orders the notifier and the sleeper.
        if self.waiting.swap(false, Ordering::Relaxed) {
            drop(Guard::new(lock(&self.mutex)));
            self.signal.notify_all();
        }
    }
}
