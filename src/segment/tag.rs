//! One tag: its chain of segments, and what is known of its row.

mod takes;

pub(super) use self::takes::Takes;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::chain::{ChainEvent, PushError, SegmentChain, Supply};
use super::error::SegmentError;
use super::settings::Settings;
use super::stats::SegmentStats;
use super::step::Step;
use super::store::{LoadError, LoadedSegment, SegmentRequest, SegmentTag};
use crate::clock::read;
use crate::error::{Chain, Error};
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, ForkGuarded, ForkToken, Forked, Ordering, log};

#[derive(Debug)]
pub(super) struct Tag {
    chain: SegmentChain,
    name: String,
    /// A [`Health`].
    health: AtomicU8,
    /// In the load queue, or with the loader.
    asked: AtomicBool,
    depth: AtomicU64,
    row: ForkGuarded<TagRow>,
    counters: TagCounters,
}

/// What is known of a tag's row. Written by the loader, and by takers that end a segment.
#[derive(Debug)]
struct TagRow {
    step: Step,
    /// Why no segment can be loaded, if so.
    cause: Option<Arc<LoadError>>,
    failed: u32,
    /// The row was read with a `max_id` below what was reserved here. The reading may be from a replica, so only a
    /// load, which locks the row, is sure of that.
    is_doubtful: bool,
    /// The row went back. It is served again once its `max_id` reaches this.
    went_back: Option<u64>,
}

#[derive(Debug, Default)]
struct TagCounters {
    loads: AtomicU64,
    failures: AtomicU64,
    waits: AtomicU64,
    rejects: AtomicU64,
    dried: AtomicU64,
}

/// Whether segments of a tag can be loaded. From `Refused` on, somebody has to fix something first, while the loader
/// retries on its own. From `Invalid` on, it retries only when it reads the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Health {
    Well,
    StoreDown,
    Refused,
    Invalid,
    UsedUp,
    Removed,
    Closed,
}

impl Health {
    const ALL: [Self; 7] = [
        Self::Well,
        Self::StoreDown,
        Self::Refused,
        Self::Invalid,
        Self::UsedUp,
        Self::Removed,
        Self::Closed,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It has what it needs.
    Rest,
    Again,
    /// Try again after this time.
    Later(Duration),
}

impl Tag {
    pub(super) fn new(row: &SegmentTag, life: ForkToken, settings: &Settings) -> Self {
        Self {
            chain: SegmentChain::with_life(life, settings.prefetch),
            name: row.tag.clone(),
            health: AtomicU8::new(Health::Well as u8),
            asked: AtomicBool::new(false),
            depth: AtomicU64::new(settings.depth),
            row: ForkGuarded::new(
                life,
                TagRow {
                    step: Step::new(row.usable().map_or(0, |(_, step)| step)),
                    cause: None,
                    failed: 0,
                    is_doubtful: false,
                    went_back: None,
                },
            ),
            counters: TagCounters::default(),
        }
    }

    #[inline]
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Updates step and depth after events in the chain. Two threads that end two segments at almost the same time may
    /// come here in reverse. A segment then counts as slightly shorter or longer than it was.
    fn apply_events(&self, settings: &Settings, events: &[ChainEvent]) -> Result<(), Forked> {
        if events.is_empty() {
            return Ok(());
        }
        let now = read(&*settings.clock);
        let mut row = self.row.lock()?;
        for event in events {
            match event {
                ChainEvent::Begun => row.step.begun(now),
                ChainEvent::UsedUp => row.step.used_up(&settings.step_rule, now),
                ChainEvent::Dried => {
                    // Relaxed: a counter, and a setting that is only changed under the row's lock.
                    self.counters.dried.fetch_add(1, Ordering::Relaxed);
                    let depth = self.depth.load(Ordering::Relaxed);
                    self.depth.store((depth + 1).min(settings.max_depth), Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    fn is_short(&self, supply: Supply) -> bool {
        supply.is_short_of(self.depth.load(Ordering::Relaxed) as usize)
    }

    fn health(&self) -> Health {
        // Acquire: pairs with the Release in `set_health`, so that this thread sees what was loaded before.
        Health::ALL[usize::from(self.health.load(Ordering::Acquire))]
    }

    fn why_empty(&self, health: Health) -> SegmentError {
        let kind = match health {
            Health::Well => return SegmentError::Empty,
            Health::Closed => return SegmentError::Closed,
            Health::StoreDown => SegmentError::StoreDown,
            Health::Refused => SegmentError::Refused,
            Health::Invalid => SegmentError::InvalidRow,
            Health::UsedUp => SegmentError::UsedUp,
            Health::Removed => SegmentError::RemovedTag,
        };
        match self.row.lock() {
            // Without a cause, the tag has recovered since.
            Ok(row) => row.cause.clone().map_or(SegmentError::Empty, kind),
            Err(Forked) => SegmentError::Forked,
        }
    }

    pub(super) fn stats(&self) -> Result<SegmentStats, SegmentError> {
        let chain = self.chain.stats();
        let (step, table_step) = {
            let row = self.row.lock()?;
            (row.step.present(), row.step.table())
        };
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Ok(SegmentStats {
            position: chain.position,
            left: chain.left,
            segments: chain.segments,
            taken: chain.reserved.saturating_sub(chain.left + chain.discarded + chain.lapped),
            reserved: chain.reserved,
            discarded: chain.discarded,
            lapped: chain.lapped,
            loads: count(&self.counters.loads),
            load_failures: count(&self.counters.failures),
            step,
            table_step,
            depth: count(&self.depth),
            waits: count(&self.counters.waits),
            rejects: count(&self.counters.rejects),
            dried: count(&self.counters.dried),
        })
    }

    /// Returns why there is no id, if none is in memory and none can be loaded now.
    pub(super) fn problem(&self) -> Option<SegmentError> {
        if self.chain.is_forked() {
            return Some(SegmentError::Forked);
        }
        let health = self.health();
        let is_closed = health == Health::Closed;
        if health == Health::Well || !is_closed && self.chain.stats().left > 0 {
            return None;
        }
        Some(self.why_empty(health)).filter(|error| !matches!(error, SegmentError::Empty))
    }

    /// Returns an error if no take can succeed, now or later.
    pub(super) fn check(&self) -> Result<(), SegmentError> {
        if self.chain.is_forked() {
            return Err(SegmentError::Forked);
        }
        match self.health() {
            health @ (Health::Removed | Health::Closed) => Err(self.why_empty(health)),
            _ => Ok(()),
        }
    }

    pub(super) fn is_removed(&self) -> bool {
        self.health() == Health::Removed
    }

    pub(super) fn close(&self) {
        self.set_health(Health::Closed, None);
        self.chain.close();
    }
}

impl Tag {
    /// Marks the tag as queued, and returns true if it was not before.
    pub(super) fn set_asked(&self) -> bool {
        // AcqRel: pairs with the swap in `rest_or_again`. Either the loader sees what this taker changed in the chain,
        // or this taker finds the loader done, and asks again.
        !self.asked.swap(true, Ordering::AcqRel)
    }

    /// Returns what to ask the store for. `None` if it cannot load, or if no segment is needed any more because a taker
    /// asked late.
    pub(super) fn request(&self) -> Option<SegmentRequest> {
        let (step, is_doubtful) = {
            let row = self.row.lock().ok()?;
            (row.step.present(), row.is_doubtful)
        };
        let is_needed = self.health() < Health::Invalid
            && (is_doubtful || self.is_short(self.chain.supply().ok()?));
        if !is_needed && self.rest_or_again() == Next::Rest {
            return None;
        }
        Some(SegmentRequest { tag: self.name.clone(), step })
    }

    /// Does nothing in a forked child.
    pub(super) fn loaded(
        &self,
        settings: &Settings,
        result: Result<LoadedSegment, LoadError>,
    ) -> Next {
        match result.and_then(|segment| self.append(settings, segment)) {
            Ok(()) => {
                self.counters.loads.fetch_add(1, Ordering::Relaxed);
                if let Ok(mut row) = self.row.lock() {
                    row.is_doubtful = false;
                }
                self.set_health(Health::Well, None);
                self.rest_or_again()
            }
            Err(error) => self.failed(settings, error),
        }
    }

    fn append(&self, settings: &Settings, segment: LoadedSegment) -> Result<(), LoadError> {
        let LoadedSegment { start, end, table_step } = segment;
        let invalid = |problem| LoadError::InvalidRow { tag: self.name.clone(), problem };
        if start == 0 || table_step == 0 {
            return Err(invalid(format!(
                "a start of {start} with a step of {table_step} is not positive"
            )));
        }
        self.set_table_step(table_step);
        let appended = self
            .chain
            .append(start..end)
            .and_then(|events| Ok(self.apply_events(settings, &events)?));
        appended.map_err(|error| match error {
            PushError::Forked => LoadError::Store(Error::Forked { what: "generator" }),
            PushError::NoRange { .. } => invalid(error.to_string()),
            PushError::Backwards { start, end: reserved } => {
                self.went_back(reserved.max(end + 1));
                invalid(format!(
                    "its max_id went back to {start}, and has to be above every id in use: this process has reserved ids \
                     up to {}, and others may have ids above that",
                    reserved - 1
                ))
            }
        })
    }

    /// Stops giving out ids until the row's `max_id` is at least `from`, which no load here leads to. Others may
    /// reserve again what is in memory here, and later loads here could reach what others have.
    fn went_back(&self, from: u64) {
        self.chain.discard();
        if let Ok(mut row) = self.row.lock() {
            row.went_back = Some(from);
        }
    }

    fn failed(&self, settings: &Settings, error: LoadError) -> Next {
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        let health = match &error {
            LoadError::NoSuchTag { .. } => {
                self.remove();
                return self.rest_or_again();
            }
            LoadError::InvalidRow { .. } => Health::Invalid,
            LoadError::UsedUp { .. } => Health::UsedUp,
            LoadError::Store(_) => Health::StoreDown,
            LoadError::Refused(_) => Health::Refused,
        };
        let Settings { retry, refresh, .. } = *settings;
        let retry = match health {
            Health::StoreDown => retry,
            Health::Refused => retry.of_refusals(refresh),
            _ => {
                self.refuse(health, error);
                return self.rest_or_again();
            }
        };
        self.set_health(health, Some(error));
        let failed = self.row.lock().map_or(0, |row| row.failed);
        Next::Later(retry.pause(failed))
    }

    /// Notes that the row has no more segments until somebody changes it. Logs that once.
    fn refuse(&self, health: Health, error: LoadError) {
        if self.health() != health {
            log!(warn, tag = self.name(), error = %Chain(&error), "a tag has no more segments");
        }
        self.set_health(health, Some(error));
    }

    fn set_table_step(&self, step: u64) {
        if let Ok(mut row) = self.row.lock() {
            row.step.set_table(step);
        }
    }

    /// Unmarks the tag as queued, unless it is short of segments again.
    fn rest_or_again(&self) -> Next {
        // AcqRel: pairs with the swap in `set_asked`. The reads below come after it.
        self.asked.swap(false, Ordering::AcqRel);
        let short = self.health() < Health::Invalid
            && self.chain.supply().is_ok_and(|supply| self.is_short(supply));
        if short && self.set_asked() { Next::Again } else { Next::Rest }
    }

    /// Updates the tag from its row. Returns whether a load has to look at the row.
    pub(super) fn update_row(&self, row: &SegmentTag) -> bool {
        let (max_id, step) = match row.usable() {
            Ok(columns) => columns,
            Err(error) => {
                self.refuse(Health::Invalid, error);
                return false;
            }
        };
        self.set_table_step(step);
        let is_doubtful = self.chain.end().is_ok_and(|end| max_id < end);
        {
            let Ok(mut row) = self.row.lock() else { return false };
            if row.went_back.is_some_and(|from| max_id < from) {
                return false;
            }
            (row.went_back, row.is_doubtful) = (None, is_doubtful);
        }
        if let Some(error) = row.used_up() {
            self.refuse(Health::UsedUp, error);
        } else if self.health() >= Health::Invalid {
            // The next load shows whether this is true.
            self.set_health(Health::Well, None);
        }
        is_doubtful
    }

    /// Discards the segments of a tag that is gone from the table.
    pub(super) fn remove(&self) {
        let error = LoadError::NoSuchTag { tag: self.name.clone() };
        // Discard first: a taker that sees the tag removed must get no more ids of it.
        self.chain.discard();
        if let Ok(mut row) = self.row.lock() {
            row.went_back = None;
        }
        self.set_health(Health::Removed, Some(error));
    }

    fn set_health(&self, health: Health, cause: Option<LoadError>) {
        let mut cause = cause.map(Arc::new);
        let Ok(mut row) = self.row.lock() else { return };
        // Closed is final.
        if self.health() != Health::Closed {
            let is_tried_again = matches!(health, Health::StoreDown | Health::Refused);
            row.failed = if is_tried_again { row.failed.saturating_add(1) } else { 0 };
            mem::swap(&mut row.cause, &mut cause);
            // Release: pairs with the Acquire in `health`.
            self.health.store(health as u8, Ordering::Release);
        }
        drop(row);
        // With no lock held: dropping a store's error runs user code.
        drop(cause);
        if health >= Health::Refused {
            self.chain.wake();
        }
    }
}

#[cfg(all(test, uidring_loom))]
mod models;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::segment::shared::tests::shared;

    pub(in crate::segment) fn tag(name: &str) -> Arc<Tag> {
        let row = SegmentTag::new(name).step(10);
        let shared = shared();
        Arc::new(Tag::new(&row, shared.life, &shared.settings))
    }

    #[test]
    fn ten_thousand_tags_are_small() {
        assert!(size_of::<Tag>() <= 1_024, "{} bytes", size_of::<Tag>());
    }
}
