//! What a generator, its handles and its thread share.

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::error::SegmentError;
use super::names::Names;
use super::settings::Settings;
use super::store::{LoadError, SegmentTag};
use super::tag::Tag;
use crate::clock::Deadline;
use crate::future;
use crate::sync::{AtomicBool, AtomicU64, Event, ForkGuarded, Life, Ordering, Pages, Serving, log};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) names: Names,
    pub(super) settings: Settings,
    /// Wiped in a forked child.
    pub(super) life: Pages,
    /// Every tag since the start, the removed ones included.
    tags: ForkGuarded<Vec<Arc<Tag>>>,
    /// Tags that need a segment, and whether there are any.
    load_queue: ForkGuarded<Vec<Arc<Tag>>>,
    has_queued: AtomicBool,
    readings: Readings,
    /// Where the thread sleeps.
    demand: Event,
    closed: AtomicBool,
    /// The thread has ended, and the store is dropped.
    ended: AtomicBool,
    end: Event,
}

/// Readings of the tags that callers of `refresh` wait for.
#[derive(Debug)]
struct Readings {
    asked: AtomicU64,
    done: AtomicU64,
    /// Why the last one failed, if it did.
    last: ForkGuarded<Option<Arc<LoadError>>>,
    event: Event,
}

impl Readings {
    fn new(life: Life) -> Self {
        Self {
            asked: AtomicU64::new(0),
            done: AtomicU64::new(0),
            last: ForkGuarded::new(life.clone(), None),
            event: Event::new(life),
        }
    }
}

impl Shared {
    pub(super) fn new(settings: Settings, life: Pages) -> Self {
        let mark = life.life();
        Self {
            names: Names::new(),
            settings,
            life,
            tags: ForkGuarded::new(mark.clone(), Vec::new()),
            load_queue: ForkGuarded::new(mark.clone(), Vec::new()),
            has_queued: AtomicBool::new(false),
            readings: Readings::new(mark.clone()),
            demand: Event::new(mark.clone()),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            end: Event::new(mark),
        }
    }

    /// The tag of this name.
    #[inline]
    pub(super) fn tag(&self, name: &str) -> Result<&Arc<Tag>, SegmentError> {
        self.names.find(name).ok_or_else(|| self.unknown(name))
    }

    #[cold]
    fn unknown(&self, name: &str) -> SegmentError {
        if self.life.are_wiped() {
            SegmentError::Forked
        } else if self.is_closed() {
            SegmentError::Closed
        } else {
            SegmentError::UnknownTag(Arc::new(LoadError::NoSuchTag { tag: name.to_owned() }))
        }
    }

    /// Returns every tag since the start; none in a forked child.
    pub(super) fn tags(&self) -> Vec<Arc<Tag>> {
        self.tags.lock().map_or_else(|_| Vec::new(), |tags| tags.clone())
    }

    /// Adds, updates and removes tags as the table has them now.
    pub(super) fn sync_tags(&self, rows: &[SegmentTag]) {
        let names: HashSet<&str> = rows.iter().map(|row| &*row.tag).collect();
        for tag in self.tags() {
            if !names.contains(tag.name()) && !tag.is_removed() {
                tag.remove();
                log!(warn, tag = tag.name(), "a tag is gone from the table");
            }
        }
        for row in rows {
            match self.names.find(&row.tag) {
                Some(tag) => tag.found(row),
                None => self.add(row),
            }
        }
    }

    fn add(&self, row: &SegmentTag) {
        let tag = Arc::new(Tag::new(row, self.life.clone(), &self.settings));
        tag.found(row);
        if let Ok(mut tags) = self.tags.lock() {
            tags.push(Arc::clone(&tag));
        }
        self.names.insert(Arc::clone(&tag));
        // A close may have read the list before this tag was on it.
        if self.is_closed() {
            tag.close();
        }
    }

    /// Queues the tag for the thread, unless it is queued.
    pub(super) fn ask(&self, tag: &Arc<Tag>) {
        if tag.set_asked() {
            let Ok(mut load_queue) = self.load_queue.lock() else { return };
            load_queue.push(Arc::clone(tag));
            // Relaxed: written under the lock; the event's fences order it for the thread.
            self.has_queued.store(true, Ordering::Relaxed);
            drop(load_queue);
            self.demand.notify();
        }
    }

    /// Has the thread read the tags, and waits until it has.
    pub(super) fn refresh(&self) -> Result<(), SegmentError> {
        let reading = self.ask_for_reading()?;
        loop {
            if let Some(result) = self.result_of(reading) {
                return result;
            }
            self.readings.event.wait(None, || self.is_read(reading) || self.is_closed());
        }
    }

    /// [`refresh`](Self::refresh) for a task.
    pub(super) async fn refresh_async(&self) -> Result<(), SegmentError> {
        let reading = self.ask_for_reading()?;
        future::until(&self.readings.event, || self.result_of(reading)).await?
    }

    /// Has the thread read the tags; returns the number of that reading.
    fn ask_for_reading(&self) -> Result<u64, SegmentError> {
        if self.life.are_wiped() {
            return Err(SegmentError::Forked);
        }
        if Serving::is_here() {
            return Err(SegmentError::OwnThread);
        }
        // AcqRel: what the caller has changed in the table comes before the reading.
        let reading = self.readings.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.demand.notify();
        Ok(reading)
    }

    /// How a reading ended; `None` while it is under way.
    fn result_of(&self, reading: u64) -> Option<Result<(), SegmentError>> {
        if self.is_read(reading) {
            let last = self.readings.last.lock().map(|last| last.clone());
            return Some(match last {
                Ok(None) => Ok(()),
                Ok(Some(cause)) => Err(SegmentError::StoreDown(cause)),
                Err(forked) => Err(forked.into()),
            });
        }
        self.is_closed().then_some(Err(SegmentError::Closed))
    }

    fn is_read(&self, reading: u64) -> bool {
        self.readings.done.load(Ordering::Acquire) >= reading
    }

    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release in `close`.
        self.closed.load(Ordering::Acquire)
    }

    /// Closes all tags. The thread ends as soon as the store returns.
    pub(super) fn close(&self) {
        // A forked child has no thread and no waiting takers.
        if self.life.are_wiped() {
            return;
        }
        // Release, and before the list is read: a tag that is added later closes itself.
        self.closed.store(true, Ordering::Release);
        self.tags().iter().for_each(|tag| tag.close());
        self.demand.notify();
        self.readings.event.notify();
    }

    /// [`wait_for_end`](Self::wait_for_end) for a task.
    pub(super) async fn wait_for_end_async(&self, timeout: Duration) {
        // The thread would wait for itself.
        if !Serving::is_here() {
            let ended = || self.ended.load(Ordering::Acquire);
            future::wait(&self.end, timeout, ended).await;
        }
    }

    /// Waits until the thread has ended; returns whether it has.
    pub(super) fn wait_for_end(&self, timeout: Duration) -> bool {
        let deadline = Deadline::after(Some(timeout));
        loop {
            let left = deadline.remaining();
            if self.end.wait(left, || self.ended.load(Ordering::Acquire)) {
                return true;
            }
            if left == Some(Duration::ZERO) {
                return false;
            }
        }
    }
}

/// The thread's side.
impl Shared {
    /// Returns the number of the last reading that was asked for, if it is not done.
    pub(super) fn readings_asked(&self) -> Option<u64> {
        let asked = self.readings.asked.load(Ordering::Acquire);
        (asked > self.readings.done.load(Ordering::Relaxed)).then_some(asked)
    }

    pub(super) fn reading_done(&self, asked: Option<u64>, error: Option<Arc<LoadError>>) {
        let before = match self.readings.last.lock() {
            Ok(mut last) => mem::replace(&mut *last, error),
            Err(_) => return,
        };
        // With no lock held, because dropping a store's error runs a caller's code.
        drop(before);
        if let Some(asked) = asked {
            self.readings.done.store(asked, Ordering::Release);
            self.readings.event.notify();
        }
    }

    pub(super) fn drain_load_queue(&self, to: &mut impl Extend<Arc<Tag>>) {
        // Relaxed: a tag that is missed here is found before the thread sleeps.
        if self.has_queued.load(Ordering::Relaxed) {
            let Ok(mut load_queue) = self.load_queue.lock() else { return };
            self.has_queued.store(false, Ordering::Relaxed);
            to.extend(load_queue.drain(..));
        }
    }

    /// Sleeps until there is something to do, or for `timeout`.
    pub(super) fn sleep(&self, timeout: Option<Duration>) {
        self.demand.wait(timeout, || {
            self.has_queued.load(Ordering::Relaxed)
                || self.is_closed()
                || self.readings_asked().is_some()
        });
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.end.notify();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::segment) fn shared() -> Shared {
        Shared::new(Settings::default(), Pages::new(0).expect("memory"))
    }
}
