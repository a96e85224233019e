//! The thread that loads segments from the store, for all tags of a generator.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::settings::Retry;
use super::shared::Shared;
use super::store::{LoadError, SegmentStore};
use super::tag::{Next, Tag};
use crate::clock::{Deadline, LogThrottle};
use crate::error::{Chain, Error};
use crate::sync::{NoBlockScope, assert_no_lock_held, contained, log, start_thread};

/// How many tags are loaded before the thread looks at the load queue again.
const BATCH: usize = 256;

/// Starts the thread. It ends when the generator is closed, and closes it if the store panics.
pub(super) fn start(
    store: Box<dyn SegmentStore>,
    shared: &Arc<Shared>,
) -> Result<JoinHandle<()>, Error> {
    let shared = Arc::clone(shared);
    let mut loader = Loader {
        store,
        refresh_due: Deadline::after(Some(shared.settings.refresh)),
        unread: 0,
        queue: VecDeque::new(),
        later: Vec::new(),
        failing: LogThrottle::default(),
        faulty: LogThrottle::default(),
        shared: Arc::clone(&shared),
    };
    let run = move || {
        let _scope = NoBlockScope::begin();
        // Dropping the loader drops the store, which may panic, too.
        let done = contained(move || {
            loader.run();
            // In a child forked in this thread, the store is the parent's.
            if loader.shared.life.is_forked_child() {
                mem::forget(loader);
            }
        });
        if shared.life.is_forked_child() {
            return;
        }
        if done.is_none() {
            shared.close();
        }
        shared.end();
        if done.is_none() {
            log!(error, "the store of segments panicked; its generator is closed");
        }
    };
    start_thread("uidring-segments", run)
        .map_err(|error| Error::thread("thread that loads segments", error))
}

struct Loader {
    store: Box<dyn SegmentStore>,
    shared: Arc<Shared>,
    refresh_due: Deadline,
    unread: u32,
    queue: VecDeque<Arc<Tag>>,
    /// Tags whose load failed, and when to retry.
    later: Vec<(Deadline, Arc<Tag>)>,
    failing: LogThrottle,
    /// For errors of a store that breaks the contract of its trait.
    faulty: LogThrottle,
}

impl Loader {
    fn run(&mut self) {
        // All that is called here may fork, including the log.
        while !self.shared.is_closed() && !self.shared.life.is_forked_child() {
            let asked = self.shared.readings_asked();
            if asked.is_some() || self.refresh_due.is_over() {
                self.read_tags(asked);
            }
            self.gather();
            if self.queue.is_empty() {
                self.shared.sleep(self.next_time());
            } else {
                self.load();
            }
        }
    }

    fn read_tags(&mut self, asked: Option<u64>) {
        let Shared { settings, life, .. } = &*self.shared;
        assert_no_lock_held();
        match self.store.tags() {
            _ if life.is_forked_child() => {}
            Ok(rows) => {
                self.shared.sync_tags(&rows);
                self.unread = 0;
                // Jitter, so that processes that started together do not read together.
                let early = settings.refresh.mul_f64(fastrand::f64() / 8.0);
                self.refresh_due = Deadline::after(Some(settings.refresh - early));
                if asked.is_some() {
                    // The caller may have repaired something, so retry postponed loads now.
                    let now = Deadline::after(Some(Duration::ZERO));
                    self.later.iter_mut().for_each(|(due, _)| *due = now);
                }
                self.ended(asked, Ok(()));
            }
            Err(error) => {
                if self.failing.is_due() {
                    log!(warn, error = %Chain(&error), "the tags of segments could not be read");
                }
                self.unread = self.unread.saturating_add(1);
                let retry = Retry { longest: settings.refresh, ..settings.retry };
                self.refresh_due = Deadline::after(Some(apart(retry.pause(self.unread))));
                self.ended(asked, Err(Arc::new(LoadError::Store(error))));
            }
        }
    }

    fn ended(&self, asked: Option<u64>, outcome: Result<(), Arc<LoadError>>) {
        if let Some(asked) = asked {
            self.shared.reading_done(asked, outcome);
        }
    }

    fn gather(&mut self) {
        self.shared.drain_load_queue(&mut self.queue);
        let queue = &mut self.queue;
        self.later.retain(|(due, tag)| {
            let over = due.is_over();
            if over {
                queue.push_back(Arc::clone(tag));
            }
            !over
        });
    }

    fn load(&mut self) {
        let count = self.queue.len().min(BATCH);
        let asked = self.queue.drain(..count).filter_map(|tag| Some((tag.request()?, tag)));
        let (requests, tags): (Vec<_>, Vec<_>) = asked.unzip();
        let mut nexts = vec![None; tags.len()];
        let (settings, failing, faulty) =
            (&self.shared.settings, &mut self.failing, &mut self.faulty);
        assert_no_lock_held();
        self.store.load(&requests, &mut |index, result| {
            let (Some(tag), Some(next @ None)) = (tags.get(index), nexts.get_mut(index)) else {
                if faulty.is_due() {
                    log!(error, index, "a store of segments gave a result that was not asked for");
                }
                return;
            };
            // The tag logs errors of its row.
            if let Err(error @ (LoadError::Store(_) | LoadError::Refused(_))) = &result
                && failing.is_due()
            {
                log!(warn, tag = tag.name(), error = %Chain(error), "a segment could not be loaded");
            }
            *next = Some(tag.loaded(settings, result));
        });
        if self.shared.life.is_forked_child() {
            return;
        }
        for (tag, next) in tags.into_iter().zip(nexts) {
            match next {
                Some(Next::Rest) => {}
                Some(Next::Again) => self.queue.push_back(tag),
                Some(Next::Later(pause)) => self.put_off(tag, pause),
                None => {
                    if self.faulty.is_due() {
                        log!(error, tag = tag.name(), "a store of segments gave no result");
                    }
                    self.put_off(tag, self.shared.settings.retry.longest);
                }
            }
        }
    }

    /// Tags that fail at about the same time are retried together, in one load.
    fn put_off(&mut self, tag: Arc<Tag>, pause: Duration) {
        let last = self.later.last().and_then(|(due, _)| Some((*due, due.remaining()?)));
        let due = match last {
            Some((due, left)) if (pause / 2..=pause).contains(&left) => due,
            _ => Deadline::after(Some(apart(pause))),
        };
        self.later.push((due, tag));
    }

    fn next_time(&self) -> Option<Duration> {
        let times = self.later.iter().map(|(due, _)| *due).chain([self.refresh_due]);
        times.filter_map(Deadline::remaining).min()
    }
}

/// Jitter: shortens a pause by up to half, so that processes that failed together do not retry together.
fn apart(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}
