//! Waiting for a condition that other threads make true.

use std::collections::BTreeMap;
use std::mem;
use std::sync::PoisonError;
use std::task::Waker;
use std::time::Duration;

use super::ForkToken;
use super::guarded::{Forked, Guard, lock};
use super::imp::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering, fence};
use super::outside::{LockHeld, assert_no_lock_held, contained};

/// An eventcount: threads and tasks wait on it for a condition that other threads make true with atomics,
/// without taking a lock.
///
/// No wake-up is lost. The waiter raises `waiting`, passes a SeqCst fence and then looks at the
/// condition; the notifier changes what the condition reads, passes a SeqCst fence and then looks
/// at `waiting`. Whichever fence comes second sees the other side's store: either the waiter finds
/// its condition true, or the notifier finds `waiting` raised. In the second case the notifier
/// takes the lock before it signals, and the waiter has held that lock since before it raised
/// `waiting`, so the signal cannot fall between its look and its sleep.
///
/// `waiting` is true while somebody waits who has not been called. So of many notifiers, only one pays for
/// waking a thread. It changes only under the lock. A waiter that wakes, finds its condition false and waits
/// again raises it again.
///
/// [`notify_one`](Self::notify_one) is for conditions that can satisfy only some of the waiters, such as a
/// ring with a few numbers. It calls one thread and one task. A called waiter looks at the condition, so what
/// it takes needs no further call. If it leaves something, it must call the next waiter, again by
/// `notify_one`. So while there is something and somebody waits for it, one of three exists: a notifier that
/// has not made its call yet, a called waiter that has not looked yet, or a waiter that has looked and not
/// called the next one yet. A waiter that times out also looks, so it counts as called. A task that is
/// dropped after its call does not look: its listener passes the call on.
///
/// A task waits by a [`Listener`]. It stores its waker and raises `waiting` under the lock, passes the
/// fence, and then looks at its condition, with the lock released. If it finds the condition false, the
/// notifier sees `waiting` raised, and takes the lock after the waker was stored.
///
/// Wakers are a caller's code, so they run with no lock held. The crate `event-listener` wakes under its
/// lock: there, a waker that takes an id or drops another task would deadlock, and one that panics would
/// corrupt the counts.
///
/// A forked child neither waits nor wakes: see [`ForkGuarded`](super::ForkGuarded).
#[derive(Debug)]
pub(crate) struct EventCount {
    fork_token: ForkToken,
    waiting: AtomicBool,
    mutex: Mutex<Waiters>,
    signal: Condvar,
}

/// Who waits.
///
/// `asleep + called` threads are in `sleep`. At least `called` of them have been signalled, or will be by a
/// notifier that has released the lock. A thread that leaves takes one off `called`, or off `asleep` if
/// `called` is 0. So a thread need not know whether a signal or a timeout woke it, and a later thread may get
/// the signal of an earlier one: at most `asleep` threads are without a signal.
#[derive(Debug, Default)]
struct Waiters {
    /// Threads that sleep and have not been called.
    asleep: usize,
    /// Threads that have been called and have not left `sleep`.
    called: usize,
    /// `None` until a task waits: most events never have any.
    tasks: Option<Box<Tasks>>,
}

/// The tasks that wait.
#[derive(Debug, Default)]
struct Tasks {
    /// The key is the listener's number.
    wakers: BTreeMap<u64, Waker>,
    /// The next listener's number.
    next: u64,
}

/// A task's place among the waiters. It has a number once the task has registered. A notification takes the
/// number's waker away: dropping the listener then passes the call on.
#[derive(Debug)]
pub(crate) struct Listener<'a> {
    event: &'a EventCount,
    number: Option<u64>,
}

impl EventCount {
    pub(crate) fn new(fork_token: ForkToken) -> Self {
        let (waiting, mutex) = (AtomicBool::new(false), Mutex::new(Waiters::default()));
        Self { fork_token, waiting, mutex, signal: Condvar::new() }
    }

    /// Waits until `ready` returns true, for at most `timeout`. Returns the last answer.
    ///
    /// May return `false` early, because a wake-up does not restart the timeout: the caller decides
    /// whether there is time left.
    pub(crate) fn wait(&self, timeout: Option<Duration>, mut ready: impl FnMut() -> bool) -> bool {
        if self.fork_token.is_forked_child() {
            return ready();
        }
        let mut waiters = lock(&self.mutex);
        let held = LockHeld::new();
        // Relaxed: the fence below orders this store before the look at the condition.
        self.waiting.store(true, Ordering::Relaxed);
        // Pairs with the fence in `has_waiters`: either `ready` sees the notifier's change, or the
        // notifier sees `waiting` raised.
        fence(Ordering::SeqCst);
        if ready() {
            self.note_waiting(&waiters);
            return true;
        }
        waiters.asleep += 1;
        let mut waiters = self.sleep(waiters, timeout);
        match waiters.called.checked_sub(1) {
            Some(called) => waiters.called = called,
            None => waiters.asleep -= 1,
        }
        self.note_waiting(&waiters);
        drop(waiters);
        drop(held);
        ready()
    }

    fn sleep<'a>(
        &'a self,
        guard: MutexGuard<'a, Waiters>,
        timeout: Option<Duration>,
    ) -> MutexGuard<'a, Waiters> {
        // ThreadSanitizer does not see that std's `Condvar` releases the lock and takes it again. Napping
        // instead is correct: waiters may wake at any time.
        #[cfg(uidring_tsan)]
        {
            const NAP: Duration = Duration::from_micros(50);
            drop(guard);
            std::thread::sleep(timeout.unwrap_or(NAP).min(NAP));
            lock(&self.mutex)
        }
        #[cfg(not(uidring_tsan))]
        match timeout {
            None => self.signal.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.signal.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Sets `waiting`: whether somebody waits who has not been called. Call with the lock held.
    fn note_waiting(&self, waiters: &Waiters) {
        let waits =
            waiters.asleep > 0 || waiters.tasks.as_ref().is_some_and(|all| !all.wakers.is_empty());
        // Relaxed: waiters raise it under the same lock, so this never overwrites a later raise.
        self.waiting.store(waits, Ordering::Relaxed);
    }

    /// Wakes all waiters. Call after the change that they wait for.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.has_waiters() {
            self.wake(true);
        }
    }

    /// Wakes one thread and one task. Call after a change that can satisfy only some of the waiters; a called
    /// waiter that leaves something calls it again.
    #[inline]
    pub(crate) fn notify_one(&self) {
        if self.has_waiters() {
            self.wake(false);
        }
    }

    /// Returns whether somebody waits who has not been called.
    #[inline]
    pub(crate) fn has_waiters(&self) -> bool {
        // Pairs with the fences in `wait` and `register`: either this sees `waiting` raised, or the
        // waiter's look at its condition sees the caller's change.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders this load after the change.
        self.waiting.load(Ordering::Relaxed)
    }

    #[cold]
    fn wake(&self, all: bool) {
        if self.fork_token.is_forked_child() {
            return;
        }
        let mut waiters = Guard::new(lock(&self.mutex));
        let threads = if all { waiters.asleep } else { waiters.asleep.min(1) };
        waiters.asleep -= threads;
        waiters.called += threads;
        let tasks = waiters.tasks.as_mut();
        let woken = match tasks {
            None => BTreeMap::new(),
            Some(tasks) if all => mem::take(&mut tasks.wakers),
            Some(tasks) => tasks.wakers.pop_first().into_iter().collect(),
        };
        self.note_waiting(&waiters);
        drop(waiters);
        match (threads, all) {
            (0, _) => {}
            (_, true) => self.signal.notify_all(),
            (_, false) => self.signal.notify_one(),
        }
        wake_all(woken.into_values(), self.fork_token);
    }

    /// Returns a place for a task that may have to wait.
    pub(crate) fn listener(&self) -> Listener<'_> {
        Listener { event: self, number: None }
    }
}

/// In a forked child, leaks the tasks: a thread of the parent may have been changing them at the fork.
impl Drop for EventCount {
    fn drop(&mut self) {
        if self.fork_token.is_forked_child() {
            let waiters = self.mutex.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(waiters.tasks.take());
        }
    }
}

impl Listener<'_> {
    /// Stores the task's waker for a notification. Call before each look at the condition.
    pub(crate) fn register(&mut self, waker: &Waker) -> Result<(), Forked> {
        assert_no_lock_held();
        let waker = waker.clone();
        let event = self.event;
        // The clone ran a caller's code, which may have forked.
        if event.fork_token.is_forked_child() {
            mem::forget(waker);
            return Err(Forked);
        }
        let mut waiters = Guard::new(lock(&event.mutex));
        let tasks = waiters.tasks.get_or_insert_default();
        let number = *self.number.get_or_insert(tasks.next);
        tasks.next = tasks.next.max(number + 1);
        let before = tasks.wakers.insert(number, waker);
        // Relaxed: as in `wait`.
        event.waiting.store(true, Ordering::Relaxed);
        drop(waiters);
        // Pairs with the fence in `has_waiters`, as in `wait`.
        fence(Ordering::SeqCst);
        contained(|| drop(before));
        if event.fork_token.is_forked_child() { Err(Forked) } else { Ok(()) }
    }

    /// Gives up the place. Passes a call on that may have come since the task last looked at its condition.
    pub(crate) fn leave(&mut self) {
        let Some(number) = self.number.take() else { return };
        if self.event.fork_token.is_forked_child() {
            return;
        }
        let mut waiters = Guard::new(lock(&self.event.mutex));
        let waker = waiters.tasks.as_mut().and_then(|tasks| tasks.wakers.remove(&number));
        self.event.note_waiting(&waiters);
        drop(waiters);
        match waker {
            // Only with the lock released: dropping a waker runs a caller's code.
            Some(waker) => {
                contained(|| drop(waker));
            }
            None => self.event.notify_one(),
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Wakes tasks. Their wakers are a caller's code: if one panics, the others still run. If one forks, the child
/// leaves the rest to the parent.
pub(crate) fn wake_all(mut wakers: impl Iterator<Item = Waker>, fork_token: ForkToken) {
    while let Some(waker) = wakers.next() {
        contained(|| waker.wake());
        if fork_token.is_forked_child() {
            return mem::forget(wakers);
        }
    }
}

#[cfg(all(test, not(uidring_loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::sync::AtomicU64;

    fn event() -> Arc<EventCount> {
        Arc::new(EventCount::new(ForkToken::current()))
    }

    /// Patient waiters wait without a timeout and take one item each. Impatient ones time out, take nothing and
    /// pass their calls on: no call is lost, and in the end nobody counts as waiting.
    #[test]
    fn a_waiter_that_times_out_keeps_no_call() {
        const EACH: u64 = if cfg!(miri) { 5 } else { 500 };
        let (event, there) = (event(), Arc::new(AtomicU64::new(0)));
        let take = |there: &AtomicU64| {
            let less = |count: u64| count.checked_sub(1);
            there.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        };
        let is_there = |there: &AtomicU64| there.load(Ordering::Relaxed) > 0;
        let impatient = AtomicBool::new(true);
        thread::scope(|scope| {
            let patient = [(); 3].map(|()| {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        while !take(&there) {
                            event.wait(None, || is_there(&there));
                        }
                        if is_there(&there) {
                            event.notify_one();
                        }
                    }
                })
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    while impatient.load(Ordering::Relaxed) {
                        event.wait(Some(Duration::from_micros(20)), || is_there(&there));
                        if is_there(&there) {
                            event.notify_one();
                        }
                        thread::yield_now();
                    }
                });
            }
            for _ in 0..3 * EACH {
                there.fetch_add(1, Ordering::Relaxed);
                event.notify_one();
            }
            for thread in patient {
                thread.join().expect("no panic");
            }
            impatient.store(false, Ordering::Relaxed);
        });
        let waiters = lock(&event.mutex);
        assert_eq!((waiters.asleep, waiters.called), (0, 0));
        assert!(!event.waiting.load(Ordering::Relaxed));
    }

    #[test]
    fn one_call_wakes_one_thread() {
        let event = event();
        let woken = AtomicU64::new(0);
        let asleep = || lock(&event.mutex).asleep;
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    event.wait(None, || false);
                    woken.fetch_add(1, Ordering::Relaxed);
                });
            }
            while asleep() < 8 {
                thread::yield_now();
            }
            for left in (4..8).rev() {
                event.notify_one();
                assert_eq!(asleep(), left);
            }
            event.notify();
            assert_eq!(asleep(), 0);
        });
        assert_eq!(woken.into_inner(), 8);
    }
}
