//! Wakes tasks at a set time, on any runtime. The first alarm of a process starts a thread for this.
//!
//! A forked child has no copy of a runtime's or library's timer thread. With this timer, the child's first alarm starts a
//! new one.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::mpsc;
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use crate::sync::{
    EventCount, ForkGuarded, ForkToken, NoBlockScope, PushList, assert_no_lock_held, contained,
    wake_all,
};

/// A time at which to wake a task, if any. Dropping it cancels that.
#[derive(Default)]
pub(crate) struct Alarm(Option<(&'static Timer, Key)>);

/// The number tells equal times apart.
type Key = (Instant, u64);

/// The thread of a process, and what it has to do.
struct Timer {
    fork_token: ForkToken,
    tasks: ForkGuarded<Tasks>,
    changed: EventCount,
}

#[derive(Default)]
struct Tasks {
    wakers: BTreeMap<Key, Waker>,
    next: u64,
}

/// The newest one is this process's, unless this process was forked since.
static TIMERS: PushList<Timer> = PushList::new();

impl Alarm {
    /// Arranges for the task to be woken after this time, replacing any earlier setting. Wakes it at once if no thread can
    /// be started, or if cloning the waker forked and this is the child.
    pub(crate) fn set(&mut self, after: Duration, waker: &Waker) {
        self.clear();
        // A time beyond what the clock can express never comes.
        let Some(at) = Instant::now().checked_add(after) else { return };
        let set = Timer::current().and_then(|timer| timer.insert(at, waker.clone()));
        if set.is_none() {
            assert_no_lock_held();
            waker.wake_by_ref();
        }
        self.0 = set;
    }

    fn clear(&mut self) {
        let Some((timer, key)) = self.0.take() else { return };
        let Ok(mut tasks) = timer.tasks.lock() else { return };
        let waker = tasks.wakers.remove(&key);
        drop(tasks);
        // This runs user code.
        contained(|| drop(waker));
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Timer {
    fn current() -> Option<&'static Self> {
        loop {
            let newest = TIMERS.newest();
            if let Some(timer) = newest.filter(|timer| !timer.fork_token.is_forked_child()) {
                return Some(timer);
            }
            // Start the thread first: the alarms of a timer without one would never come.
            let (start, started) = mpsc::sync_channel::<&'static Self>(1);
            let run = move || {
                if let Ok(timer) = started.recv() {
                    timer.run();
                }
            };
            thread::Builder::new().name("uidring-timer".into()).spawn(run).ok()?;
            if let Some(timer) = TIMERS.push_after(newest, Self::new()) {
                let _ = start.send(timer);
            }
        }
    }

    fn new() -> Self {
        let fork_token = ForkToken::current();
        let tasks = ForkGuarded::new(fork_token, Tasks::default());
        Self { tasks, changed: EventCount::new(fork_token), fork_token }
    }

    /// Returns `None` in a forked child: cloning the waker ran user code, which may have forked. The clone is then leaked,
    /// because it is the parent's.
    fn insert(&'static self, at: Instant, waker: Waker) -> Option<(&'static Self, Key)> {
        let Ok(mut tasks) = self.tasks.lock() else {
            mem::forget(waker);
            return None;
        };
        tasks.next += 1;
        let key = (at, tasks.next);
        tasks.wakers.insert(key, waker);
        let is_first = tasks.first() == Some(at);
        drop(tasks);
        if is_first {
            self.changed.notify();
        }
        Some((self, key))
    }

    /// Wakes the tasks that are due. A waker that takes ids does not wait, because other alarms would be late.
    fn run(&self) {
        let _scope = NoBlockScope::begin();
        while let Ok(mut tasks) = self.tasks.lock() {
            let now = Instant::now();
            let mut due = Vec::new();
            while let Some(first) = tasks.wakers.first_entry().filter(|first| first.key().0 <= now)
            {
                due.push(first.remove());
            }
            let first = tasks.first();
            drop(tasks);
            if due.is_empty() {
                let pause = first.map(|first| first.saturating_duration_since(now));
                self.changed
                    .wait(pause, || self.tasks.lock().map_or(true, |tasks| tasks.first() != first));
            }
            wake_all(due.into_iter(), self.fork_token);
        }
    }
}

impl Tasks {
    fn first(&self) -> Option<Instant> {
        self.wakers.first_key_value().map(|((at, _), _)| *at)
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("set", &self.0.map(|(_, key)| key)).finish()
    }
}
