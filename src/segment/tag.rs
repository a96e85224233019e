//! One tag: its chain of segments, and what is known of its row.

mod takes;

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
use crate::error::Error;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, ForkGuarded, Forked, Ordering, Pages};

#[derive(Debug)]
pub(super) struct Tag {
    chain: SegmentChain,
    name: String,
    /// A [`Health`].
    health: AtomicU8,
    /// The loader has it on its list, or is just loading.
    asked: AtomicBool,
    /// How many segments there are to be in memory.
    depth: AtomicU64,
    row: ForkGuarded<TagRow>,
    counts: TagCounters,
}

/// What the loader learns, and the takers that end a segment.
#[derive(Debug)]
struct TagRow {
    step: Step,
    /// Why there is no segment, where that is so.
    cause: Option<Arc<LoadError>>,
    /// How many loads in a row have failed.
    failed: u32,
}

#[derive(Debug, Default)]
struct TagCounters {
    loads: AtomicU64,
    failures: AtomicU64,
    waits: AtomicU64,
    rejects: AtomicU64,
    dried: AtomicU64,
}

/// What can be expected of a tag. From `Refused` on, nothing before somebody does something; it is the
/// loader that looks whether somebody has. From `Invalid` on it does so only when the tags are read.
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

/// What is to become of a tag that was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It has what it needs.
    Rest,
    /// Load another segment.
    Again,
    /// Try again after this time.
    Later(Duration),
}

impl Tag {
    pub(super) fn new(row: &SegmentTag, life: Pages, settings: &Settings) -> Self {
        let row_life = life.life();
        Self {
            chain: SegmentChain::with_life(life, settings.prefetch),
            name: row.tag.clone(),
            health: AtomicU8::new(Health::Well as u8),
            asked: AtomicBool::new(false),
            depth: AtomicU64::new(settings.depth),
            row: ForkGuarded::new(
                row_life,
                TagRow {
                    step: Step::new(u64::try_from(row.step).unwrap_or(0)),
                    cause: None,
                    failed: 0,
                },
            ),
            counts: TagCounters::default(),
        }
    }

    #[inline]
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Keeps account of what has happened in the chain. Two threads that end two segments in no time may
    /// come here in the other order: then a segment is taken for a little shorter or longer than it
    /// was.
    fn note(&self, settings: &Settings, events: &[ChainEvent]) -> Result<(), Forked> {
        if events.is_empty() {
            return Ok(());
        }
        let now = read(&*settings.clock);
        let mut row = self.row.lock()?;
        for turn in events {
            match turn {
                ChainEvent::Begun => row.step.begun(now),
                ChainEvent::UsedUp => row.step.used_up(&settings.step_rule, now),
                ChainEvent::Dried => {
                    // Relaxed: a counter, and a setting that is changed under the row's lock.
                    self.counts.dried.fetch_add(1, Ordering::Relaxed);
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
        // Acquire: pairs with the Release in `set_health`; who sees it sees what was loaded before.
        Health::ALL[usize::from(self.health.load(Ordering::Acquire))]
    }

    /// Why nothing is there.
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
            // None where it has become well since.
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
            loads: count(&self.counts.loads),
            load_failures: count(&self.counts.failures),
            step,
            table_step,
            depth: count(&self.depth),
            waits: count(&self.counts.waits),
            rejects: count(&self.counts.rejects),
            dried: count(&self.counts.dried),
        })
    }

    /// Whether it is served, or may be again without anybody doing anything.
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

/// The loader's side.
impl Tag {
    /// Puts it on the loader's list; returns whether it was not there.
    pub(super) fn set_asked(&self) -> bool {
        // AcqRel: pairs with the one in `is_settled`: either the loader sees what this taker has
        // changed in the chain, or this taker finds the loader done, and asks anew.
        !self.asked.swap(true, Ordering::AcqRel)
    }

    /// What to ask the store for; `None` where there is no use in asking, or no need any more: a
    /// taker may have been slow to say what it found.
    pub(super) fn request(&self) -> Option<SegmentRequest> {
        let is_needed = self.health() < Health::Invalid && self.is_short(self.chain.supply().ok()?);
        if !is_needed && self.rest_or_again() == Next::Rest {
            return None;
        }
        Some(SegmentRequest { tag: self.name.clone(), step: self.row.lock().ok()?.step.present() })
    }

    /// What came of a load. In a forked child nothing does.
    pub(super) fn loaded(
        &self,
        settings: &Settings,
        result: Result<LoadedSegment, LoadError>,
    ) -> Next {
        match result.and_then(|segment| self.append(settings, segment)) {
            Ok(()) => {
                self.counts.loads.fetch_add(1, Ordering::Relaxed);
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
        let appended = self.chain.append(start..end).and_then(|events| {
            self.note(settings, &events)?;
            Ok(())
        });
        appended.map_err(|error| match error {
            PushError::Forked => LoadError::Store(Error::Forked { what: "generator" }),
            PushError::NoRange { .. } => invalid(error.to_string()),
            PushError::Backwards { start, end } => invalid(format!(
                "its max_id went back to {start}, and this process has reserved ids up to {end}"
            )),
        })
    }

    fn failed(&self, settings: &Settings, error: LoadError) -> Next {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        let health = match &error {
            LoadError::NoSuchTag { .. } => {
                self.remove();
                return self.rest_or_again();
            }
            LoadError::InvalidRow { .. } => Health::Invalid,
            // What is left may be enough for the table's own step.
            LoadError::UsedUp { .. } if self.has_reset_step() => return Next::Again,
            LoadError::UsedUp { .. } => Health::UsedUp,
            LoadError::Store(_) => Health::StoreDown,
            LoadError::Refused(_) => Health::Refused,
        };
        self.set_health(health, Some(error));
        let Settings { retry, refresh, .. } = *settings;
        let retry = match health {
            Health::StoreDown => retry,
            Health::Refused => retry.of_refusals(refresh),
            _ => return self.rest_or_again(),
        };
        let failed = self.row.lock().map_or(0, |row| row.failed);
        Next::Later(retry.pause(failed))
    }

    fn set_table_step(&self, step: u64) {
        if let Ok(mut row) = self.row.lock() {
            row.step.set_table(step);
        }
    }

    /// Goes back to the table's step; returns whether that is less than it was.
    fn has_reset_step(&self) -> bool {
        self.row.lock().is_ok_and(|mut row| row.step.reset())
    }

    /// Takes it off the loader's list, unless it is short again.
    fn rest_or_again(&self) -> Next {
        // AcqRel: see `set_asked`. What is looked at below comes after it.
        self.asked.swap(false, Ordering::AcqRel);
        let short = self.health() < Health::Invalid
            && self.chain.supply().is_ok_and(|supply| self.is_short(supply));
        if short && self.set_asked() { Next::Again } else { Next::Rest }
    }

    /// Its row was read.
    pub(super) fn found(&self, row: &SegmentTag) {
        let (step, max_id) = (row.step, row.max_id);
        let positive = u64::try_from(step).ok().filter(|step| *step > 0 && max_id > 0);
        let Some(step) = positive else {
            let problem = format!("a max_id of {max_id} with a step of {step} is not positive");
            let error = LoadError::InvalidRow { tag: self.name.clone(), problem };
            return self.set_health(Health::Invalid, Some(error));
        };
        self.set_table_step(step);
        // Whether it can be served, the next load will tell.
        if self.health() >= Health::Invalid {
            self.set_health(Health::Well, None);
        }
    }

    /// The table has it no more.
    pub(super) fn remove(&self) {
        let error = LoadError::NoSuchTag { tag: self.name.clone() };
        // Discarded first: who sees that it is removed gets nothing of it any more.
        self.chain.discard();
        self.set_health(Health::Removed, Some(error));
    }

    fn set_health(&self, health: Health, cause: Option<LoadError>) {
        let mut cause = cause.map(Arc::new);
        let Ok(mut row) = self.row.lock() else { return };
        // Closed is for good.
        if self.health() != Health::Closed {
            let is_tried_again = matches!(health, Health::StoreDown | Health::Refused);
            row.failed = if is_tried_again { row.failed.saturating_add(1) } else { 0 };
            mem::swap(&mut row.cause, &mut cause);
            // Release: pairs with the Acquire in `health`.
            self.health.store(health as u8, Ordering::Release);
        }
        drop(row);
        // With no lock held: the errors of a store are a caller's code.
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

    /// A tag of this name, with a step of 10.
    pub(in crate::segment) fn tag(name: &str) -> Arc<Tag> {
        let row = SegmentTag::new(name, 1, 10);
        let shared = shared();
        Arc::new(Tag::new(&row, shared.life.clone(), &shared.settings))
    }

    #[test]
    fn ten_thousand_tags_are_small() {
        assert!(size_of::<Tag>() <= 1_024, "{} bytes", size_of::<Tag>());
    }
}
