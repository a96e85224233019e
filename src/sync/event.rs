//! Where the threads of a ring wait: those of one process, or of all processes that share the ring.

use std::time::Duration;

use super::futex::{FutexWords, MAX_SLEEP};
use super::wipe_on_fork::{RingWords, WipeOnForkMemory};
use super::{EventCount, ForkToken};

/// An eventcount, for one process or several.
#[derive(Debug)]
pub(crate) enum Event {
    /// Of this process.
    Own(EventCount),
    /// Of all processes that share the ring.
    Shared(SharedEvent),
}

/// See [`FutexWords`].
#[derive(Debug)]
pub(crate) struct SharedEvent {
    memory: WipeOnForkMemory<RingWords>,
    words: fn(&RingWords) -> &FutexWords,
    /// Where tasks of this process wait.
    tasks: EventCount,
}

impl Event {
    pub(crate) fn own(fork_token: ForkToken) -> Self {
        Self::Own(EventCount::new(fork_token))
    }

    /// Returns whether other processes can wait and notify.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Returns where the takers of a shared ring wait for runs.
    pub(crate) fn published(memory: &WipeOnForkMemory<RingWords>) -> Self {
        Self::shared(memory, |words| &words.published)
    }

    /// Returns where the producer of a shared ring waits for demand, and to be stopped.
    pub(crate) fn demand(memory: &WipeOnForkMemory<RingWords>) -> Self {
        Self::shared(memory, |words| &words.demand)
    }

    fn shared(memory: &WipeOnForkMemory<RingWords>, words: fn(&RingWords) -> &FutexWords) -> Self {
        let (memory, tasks) = (memory.clone(), EventCount::new(ForkToken::current()));
        Self::Shared(SharedEvent { memory, words, tasks })
    }

    /// Waits until `ready` returns true, for at most `timeout`. Returns the last answer. May return early: a shared
    /// event lets nobody sleep longer than [`MAX_SLEEP`], because a killed taker may owe a call, or a peer may have
    /// overwritten the words.
    pub(crate) fn wait(&self, timeout: Option<Duration>, ready: impl FnMut() -> bool) -> bool {
        match self {
            Self::Own(event) => event.wait(timeout, ready),
            Self::Shared(event) => {
                let timeout = timeout.map_or(MAX_SLEEP, |timeout| timeout.min(MAX_SLEEP));
                event.words().wait(Some(timeout), ready)
            }
        }
    }

    /// Wakes all waiters. Call after the change that they wait for.
    #[inline]
    pub(crate) fn notify(&self) {
        match self {
            Self::Own(event) => event.notify(),
            Self::Shared(event) => event.notify(true),
        }
    }

    /// Wakes one thread and one task, or for a shared ring all tasks of this process. Call after a change that can
    /// satisfy only some of the waiters; a called waiter that leaves something calls it again.
    #[inline]
    pub(crate) fn notify_one(&self) {
        match self {
            Self::Own(event) => event.notify_one(),
            Self::Shared(event) => event.notify(false),
        }
    }

    /// Where tasks of this process wait.
    pub(crate) fn tasks(&self) -> &EventCount {
        match self {
            Self::Own(event) => event,
            Self::Shared(event) => &event.tasks,
        }
    }
}

impl SharedEvent {
    fn words(&self) -> &FutexWords {
        (self.words)(self.memory.words())
    }

    fn notify(&self, all: bool) {
        self.words().notify(all);
        self.tasks.notify();
    }
}
