//! Waiting for what others bring about.

use std::collections::BTreeMap;
use std::mem;
use std::sync::PoisonError;
use std::task::Waker;
use std::time::Duration;

use super::Life;
use super::guarded::{Forked, Guard, lock};
use super::imp::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering, fence};
use super::outside::{Held, assert_no_lock_held, contained};

/// An eventcount: threads and tasks wait on it until a condition holds that other threads bring about
/// with atomics, without taking a lock.
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
/// A task waits by a [`Listener`]. It puts its waker down under the lock, raises `waiting`, passes the
/// fence, and then looks at its condition, with the lock released. If it finds the condition false,
/// the notifier finds `waiting` raised, and takes the lock after the waker was put down.
///
/// Wakers are a caller's code, and run with no lock held. The crate `event-listener` wakes under its lock:
/// a waker that takes an id, or drops another task, would wait for itself there, and one that panics
/// would spoil the counts.
///
/// A forked child neither waits nor wakes: see [`ForkGuarded`](super::ForkGuarded).
#[derive(Debug)]
pub(crate) struct Event {
    life: Life,
    waiting: AtomicBool,
    mutex: Mutex<Waiters>,
    signal: Condvar,
}

/// None until a task waits: most events never have any.
type Waiters = Option<Box<Tasks>>;

/// The tasks that wait.
#[derive(Debug, Default)]
struct Tasks {
    /// By their listeners' numbers.
    wakers: BTreeMap<u64, Waker>,
    /// The next listener's number.
    next: u64,
}

/// A task's place among those that wait on an event. It is empty until the task registers, and again after
/// a notification. Dropping it leaves the event without the task.
#[derive(Debug)]
pub(crate) struct Listener<'a> {
    event: &'a Event,
    number: Option<u64>,
}

impl Event {
    pub(crate) fn new(life: Life) -> Self {
        let (waiting, mutex) = (AtomicBool::new(false), Mutex::new(None));
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
        guard: MutexGuard<'a, Waiters>,
        timeout: Option<Duration>,
    ) -> MutexGuard<'a, Waiters> {
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
            let mut waiters = Guard::new(lock(&self.mutex));
            let woken = waiters.as_mut().map(|tasks| mem::take(&mut tasks.wakers));
            drop(waiters);
            self.signal.notify_all();
            wake_all(woken.into_iter().flat_map(BTreeMap::into_values), &self.life);
        }
    }

    /// Returns a place for a task that may come to wait.
    pub(crate) fn listener(&self) -> Listener<'_> {
        Listener { event: self, number: None }
    }
}

/// In a forked child another thread may have been about to change the tasks.
impl Drop for Event {
    fn drop(&mut self) {
        if self.life.is_forked() {
            let tasks = self.mutex.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(mem::take(tasks));
        }
    }
}

impl Listener<'_> {
    /// Has the task woken by the next notification. To be called before each look at the condition.
    pub(crate) fn register(&mut self, waker: &Waker) -> Result<(), Forked> {
        assert_no_lock_held();
        let waker = waker.clone();
        let event = self.event;
        // Cloning it was a caller's code.
        if event.life.is_forked() {
            mem::forget(waker);
            return Err(Forked);
        }
        let mut waiters = Guard::new(lock(&event.mutex));
        let tasks = waiters.get_or_insert_default();
        let number = *self.number.get_or_insert(tasks.next);
        tasks.next = tasks.next.max(number + 1);
        let before = tasks.wakers.insert(number, waker);
        // Relaxed: as in `wait`.
        event.waiting.store(true, Ordering::Relaxed);
        drop(waiters);
        // Pairs with the fence in `notify`.
        fence(Ordering::SeqCst);
        contained(|| drop(before));
        if event.life.is_forked() { Err(Forked) } else { Ok(()) }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number.filter(|_| !self.event.life.is_forked()) else { return };
        let mut waiters = Guard::new(lock(&self.event.mutex));
        let waker = waiters.as_mut().and_then(|tasks| tasks.wakers.remove(&number));
        drop(waiters);
        // With the lock released.
        contained(|| drop(waker));
    }
}

/// Wakes tasks, unless one of their wakers, which are a caller's code, forks: then the child leaves the
/// rest, which are the parent's, alone. A waker that panics, panics alone.
pub(crate) fn wake_all(mut wakers: impl Iterator<Item = Waker>, life: &Life) {
    while let Some(waker) = wakers.next() {
        contained(|| waker.wake());
        if life.is_forked() {
            return mem::forget(wakers);
        }
    }
}
