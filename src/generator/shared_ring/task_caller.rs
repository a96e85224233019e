//! Wakes the tasks of this process that wait for runs of a ring whose padder may be in another process.

use std::sync::Arc;

use crate::clock::Deadline;
use crate::ring::RingBuffer;
use crate::sync::{
    AtomicBool, EventCount, ForkGuarded, ForkToken, MAX_SLEEP, NoBlockScope, Ordering, start_thread,
};

#[cfg(all(test, uidring_loom))]
#[path = "caller_models.rs"]
mod models;

/// The tasks of one process, and a thread that waits at the ring for them. The first task that waits starts the thread.
/// A forked child needs a new caller. The old one's `calls` stays in the child's memory, because the thread shares it.
#[derive(Debug)]
pub(super) struct TaskCaller {
    calls: Arc<Calls>,
    has_thread: ForkGuarded<bool>,
}

#[derive(Debug)]
struct Calls {
    fork_token: ForkToken,
    ring: Arc<RingBuffer>,
    /// Where tasks wait.
    tasks: EventCount,
    /// Where the thread waits for tasks.
    wanted: EventCount,
    has_ended: AtomicBool,
}

impl TaskCaller {
    pub(super) fn new(ring: Arc<RingBuffer>) -> Self {
        let fork_token = ForkToken::current();
        Self {
            calls: Arc::new(Calls::new(ring, fork_token)),
            has_thread: ForkGuarded::new(fork_token, false),
        }
    }

    pub(super) fn is_forked(&self) -> bool {
        self.has_thread.is_forked()
    }

    pub(super) fn tasks(&self) -> &EventCount {
        &self.calls.tasks
    }

    /// Makes sure that a task is called. The task has registered at `tasks`, and then found nothing. Returns false if no
    /// thread can be started.
    pub(super) fn call_later(&self) -> bool {
        let Ok(mut guard) = self.has_thread.lock() else { return false };
        if !*guard {
            let calls = Arc::clone(&self.calls);
            *guard = start_thread("uidring-tasks", move || calls.run()).is_ok();
        }
        let has_thread = *guard;
        drop(guard);
        self.calls.wanted.notify();
        has_thread
    }
}

/// Ends the thread, within [`MAX_SLEEP`] and without waiting for that.
impl Drop for TaskCaller {
    fn drop(&mut self) {
        self.calls.end();
    }
}

impl Calls {
    fn new(ring: Arc<RingBuffer>, fork_token: ForkToken) -> Self {
        Self {
            ring,
            tasks: EventCount::new(fork_token),
            wanted: EventCount::new(fork_token),
            has_ended: AtomicBool::new(false),
            fork_token,
        }
    }

    fn end(&self) {
        // Relaxed: the fences of `wanted` order it.
        self.has_ended.store(true, Ordering::Relaxed);
        self.wanted.notify();
    }

    /// Calls tasks, one after the other, while any wait and something is ready.
    fn run(&self) {
        // A waker that takes uids must not wait for this thread.
        let _scope = NoBlockScope::begin();
        // If a waker forks, the child consists of this thread, which ends.
        let has_ended =
            || self.has_ended.load(Ordering::Relaxed) || self.fork_token.is_forked_child();
        // Models have no time.
        let a_sleep_later = || Deadline::after((!cfg!(uidring_loom)).then_some(MAX_SLEEP));
        let mut next_look = a_sleep_later();
        loop {
            self.wanted.wait(None, || has_ended() || self.tasks.has_waiters());
            if has_ended() {
                return;
            }
            // Looks first: a thread that announces a sleep costs the next publication a system call.
            if self.ring.is_ready() || self.ring.park(next_look.remaining()) {
                self.tasks.notify_one();
                // If the task is dropped before it takes, it cannot pass the call on to other processes.
                self.ring.call_next_taker();
            } else if next_look.is_over() {
                // A task that is called checks whether the owner has ended.
                self.tasks.notify();
                next_look = a_sleep_later();
            }
        }
    }
}
