//! Where the threads of a ring wait: those of one process, or of all that share the ring.

use std::time::Duration;

use super::futex::{FutexWords, LONGEST};
use super::wipe_on_fork::{RingWords, WipeOnForkMemory};
use super::{EventCount, ForkToken};

/// An eventcount.
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

    /// Where takers wait for runs, any of which may be killed while the others wait for its call.
    pub(crate) fn published(memory: &WipeOnForkMemory<RingWords>) -> Self {
        Self::shared(memory, |words| &words.published)
    }

    /// Where the producer waits for demand, and for its end. A peer that writes to these words must not keep it asleep.
    pub(crate) fn demand(memory: &WipeOnForkMemory<RingWords>) -> Self {
        Self::shared(memory, |words| &words.demand)
    }

    fn shared(memory: &WipeOnForkMemory<RingWords>, words: fn(&RingWords) -> &FutexWords) -> Self {
        let (memory, tasks) = (memory.clone(), EventCount::new(ForkToken::current()));
        Self::Shared(SharedEvent { memory, words, tasks })
    }

    /// Waits until `ready` says true, or for `timeout` at most; returns the last answer. It may return early.
    pub(crate) fn wait(&self, timeout: Option<Duration>, ready: impl FnMut() -> bool) -> bool {
        match self {
            Self::Own(event) => event.wait(timeout, ready),
            Self::Shared(event) => {
                let timeout = timeout.map_or(LONGEST, |timeout| timeout.min(LONGEST));
                event.words().wait(Some(timeout), ready)
            }
        }
    }

    /// Wakes all waiters, if there are any. To be called after the change that they wait for.
    #[inline]
    pub(crate) fn notify(&self) {
        match self {
            Self::Own(event) => event.notify(),
            Self::Shared(event) => event.notify(true),
        }
    }

    /// Wakes a thread and a task, if there are any. To be called after a change that is for some of the waiters only, and
    /// by each of them who leaves something.
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
