//! State that a generator, its handles and its thread share.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::error::SegmentError;
use super::names::Names;
use super::settings::Settings;
use super::store::{LoadError, SegmentTag};
use super::tag::Tag;
use crate::clock::Deadline;
use crate::future;
use crate::sync::{
    AtomicBool, AtomicU64, EventCount, ForkGuarded, ForkToken, NoBlockScope, Ordering, log,
};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) names: Names,
    pub(super) settings: Settings,
    /// Differs from the process's token in a forked child.
    pub(super) life: ForkToken,
    /// Every tag since the start, including removed ones.
    tags: ForkGuarded<Vec<Arc<Tag>>>,
    /// Tags that need a segment, and whether there are any.
    load_queue: ForkGuarded<Vec<Arc<Tag>>>,
    has_queued: AtomicBool,
    readings: Readings,
    demand: EventCount,
    closed: AtomicBool,
    /// The thread has ended, and the store is dropped.
    ended: AtomicBool,
    end: EventCount,
}

/// Readings of the tags for callers of `refresh`.
#[derive(Debug)]
struct Readings {
    asked: AtomicU64,
    done: AtomicU64,
    /// The readings that callers wait for, by number, and their results.
    outcomes: ForkGuarded<BTreeMap<u64, Option<Outcome>>>,
    event: EventCount,
}

type Outcome = Result<(), Arc<LoadError>>;

struct Reading<'a> {
    number: u64,
    readings: &'a Readings,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let Ok(mut outcomes) = self.readings.outcomes.lock() else { return };
        let outcome = outcomes.remove(&self.number);
        drop(outcomes);
        // With no lock held: dropping a store's error runs user code.
        drop(outcome);
    }
}

impl Readings {
    fn new(life: ForkToken) -> Self {
        Self {
            asked: AtomicU64::new(0),
            done: AtomicU64::new(0),
            outcomes: ForkGuarded::new(life, BTreeMap::new()),
            event: EventCount::new(life),
        }
    }
}

impl Shared {
    pub(super) fn new(settings: Settings, life: ForkToken) -> Self {
        Self {
            names: Names::new(),
            settings,
            life,
            tags: ForkGuarded::new(life, Vec::new()),
            load_queue: ForkGuarded::new(life, Vec::new()),
            has_queued: AtomicBool::new(false),
            readings: Readings::new(life),
            demand: EventCount::new(life),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            end: EventCount::new(life),
        }
    }

    #[inline]
    pub(super) fn tag(&self, name: &str) -> Result<&Arc<Tag>, SegmentError> {
        self.names.find(name).ok_or_else(|| self.unknown(name))
    }

    #[cold]
    fn unknown(&self, name: &str) -> SegmentError {
        if self.life.is_forked_child() {
            SegmentError::Forked
        } else if self.is_closed() {
            SegmentError::Closed
        } else {
            SegmentError::UnknownTag(Arc::new(LoadError::NoSuchTag { tag: name.to_owned() }))
        }
    }

    pub(super) fn tags(&self) -> Vec<Arc<Tag>> {
        self.tags.lock().map_or_else(|_| Vec::new(), |tags| tags.clone())
    }

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
                Some(tag) => {
                    if tag.update_row(row) {
                        self.ask(tag);
                    }
                }
                None => self.add(row),
            }
        }
    }

    fn add(&self, row: &SegmentTag) {
        let tag = Arc::new(Tag::new(row, self.life, &self.settings));
        tag.update_row(row);
        if let Ok(mut tags) = self.tags.lock() {
            tags.push(Arc::clone(&tag));
        }
        self.names.insert(Arc::clone(&tag));
        // A close may have read the list before this tag was in it.
        if self.is_closed() {
            tag.close();
        }
    }

    /// Queues the tag and wakes the thread, unless the tag is queued or the thread still has it.
    pub(super) fn ask(&self, tag: &Arc<Tag>) {
        if tag.set_asked() {
            let Ok(mut load_queue) = self.load_queue.lock() else { return };
            load_queue.push(Arc::clone(tag));
            // Relaxed: written under the lock, and the event's fences order it for the thread.
            self.has_queued.store(true, Ordering::Relaxed);
            drop(load_queue);
            self.demand.notify();
        }
    }

    /// Has the thread read the tags, and waits for the result.
    pub(super) fn refresh(&self) -> Result<(), SegmentError> {
        let reading = self.ask_for_reading()?;
        loop {
            if let Some(result) = self.result_of(&reading) {
                return result;
            }
            self.readings.event.wait(None, || self.is_read(&reading) || self.is_closed());
        }
    }

    /// Async [`refresh`](Self::refresh).
    pub(super) async fn refresh_async(&self) -> Result<(), SegmentError> {
        let reading = self.ask_for_reading()?;
        future::until(&self.readings.event, || self.result_of(&reading)).await?
    }

    fn ask_for_reading(&self) -> Result<Reading<'_>, SegmentError> {
        if self.life.is_forked_child() {
            return Err(SegmentError::Forked);
        }
        if NoBlockScope::is_here() {
            return Err(SegmentError::OwnThread);
        }
        let readings = &self.readings;
        // Locked until the number is in the map: by then the thread may have read the tags.
        let mut outcomes = readings.outcomes.lock()?;
        // AcqRel: pairs with the Acquire in `readings_asked`. What the caller has changed in the table comes before the
        // reading.
        let number = readings.asked.fetch_add(1, Ordering::AcqRel) + 1;
        outcomes.insert(number, None);
        drop(outcomes);
        self.demand.notify();
        Ok(Reading { number, readings })
    }

    /// Returns a reading's result; `None` while it is under way.
    fn result_of(&self, reading: &Reading<'_>) -> Option<Result<(), SegmentError>> {
        let outcome = match self.readings.outcomes.lock() {
            Ok(outcomes) => outcomes.get(&reading.number).cloned().flatten(),
            Err(forked) => return Some(Err(forked.into())),
        };
        match outcome {
            Some(outcome) => Some(outcome.map_err(SegmentError::StoreDown)),
            None => self.is_closed().then_some(Err(SegmentError::Closed)),
        }
    }

    fn is_read(&self, reading: &Reading<'_>) -> bool {
        self.readings.done.load(Ordering::Acquire) >= reading.number
    }

    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release in `close`.
        self.closed.load(Ordering::Acquire)
    }

    /// Closes all tags. The thread ends as soon as the store returns.
    pub(super) fn close(&self) {
        // A forked child has no thread and no waiting takers.
        if self.life.is_forked_child() {
            return;
        }
        // Release: pairs with the Acquire in `is_closed`. It comes before the list is read, so that a tag added later
        // closes itself.
        self.closed.store(true, Ordering::Release);
        self.tags().iter().for_each(|tag| tag.close());
        self.demand.notify();
        self.readings.event.notify();
    }

    pub(super) async fn wait_for_end_async(&self, timeout: Duration) {
        // The thread would wait for itself.
        if !NoBlockScope::is_here() {
            let ended = || self.ended.load(Ordering::Acquire);
            future::wait(&self.end, timeout, ended).await;
        }
    }

    /// Waits until the thread has ended. Returns whether it has.
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

impl Shared {
    /// Returns the number of the last requested reading, if it is not done.
    pub(super) fn readings_asked(&self) -> Option<u64> {
        let asked = self.readings.asked.load(Ordering::Acquire);
        (asked > self.readings.done.load(Ordering::Relaxed)).then_some(asked)
    }

    pub(super) fn reading_done(&self, asked: u64, outcome: Outcome) {
        let Ok(mut outcomes) = self.readings.outcomes.lock() else { return };
        // Earlier outcomes are kept for callers that have not looked yet.
        for (_, waiting) in outcomes.range_mut(..=asked) {
            waiting.get_or_insert_with(|| outcome.clone());
        }
        drop(outcomes);
        self.readings.done.store(asked, Ordering::Release);
        self.readings.event.notify();
    }

    pub(super) fn drain_load_queue(&self, to: &mut impl Extend<Arc<Tag>>) {
        // Relaxed: a tag missed here is found before the thread sleeps.
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
        Shared::new(Settings::default(), ForkToken::current())
    }

    #[test]
    fn each_reading_keeps_its_own_outcome() {
        let shared = shared();
        let ended = |reading: &Reading<'_>| shared.result_of(reading).map(|result| result.is_ok());
        let failed = || Err(Arc::new(LoadError::NoSuchTag { tag: "orders".into() }));
        assert_eq!(shared.readings_asked(), None);
        let first = shared.ask_for_reading().expect("no child");
        assert_eq!(shared.readings_asked(), Some(1));
        assert_eq!(ended(&first), None);
        let second = shared.ask_for_reading().expect("no child");
        shared.reading_done(1, Ok(()));
        // A caller that asks while the table is being read may have changed it since.
        assert_eq!((ended(&second), shared.is_read(&second)), (None, false));
        assert_eq!(shared.readings_asked(), Some(2));
        // Before the first caller has looked.
        let third = shared.ask_for_reading().expect("no child");
        shared.reading_done(3, failed());
        assert_eq!(shared.readings_asked(), None);
        assert_eq!([&first, &second, &third].map(ended), [Some(true), Some(false), Some(false)]);
        assert!([&first, &second, &third].iter().all(|reading| shared.is_read(reading)));
        drop([first, second, third]);
        assert!(shared.readings.outcomes.lock().expect("no child").is_empty());
    }
}
