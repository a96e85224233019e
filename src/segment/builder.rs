//! Settings of a generator.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::generator::SegmentGenerator;
use super::loader;
use super::settings::{Retry, Settings};
use super::shared::Shared;
use super::store::SegmentStore;
use crate::clock::Clock;
use crate::error::{Error, check_millis, check_option};
use crate::future;
use crate::policy::TakePolicy;
use crate::sync::{ForkToken, assert_no_lock_held, log};

/// Settings of a [`SegmentGenerator`]; [`build`](Self::build) checks all of them.
pub struct SegmentBuilder {
    store: Box<dyn SegmentStore>,
    settings: Settings,
}

/// More segments than this in memory are a longer step's work.
const MAX_DEPTH: u64 = 64;

/// In milliseconds.
const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

impl SegmentGenerator {
    /// A builder with the defaults: waiting takes, prefetch at 10 %, two segments in memory and up
    /// to four, Leaf's rule for the step (15 min, factor 2, up to 1,000,000), the tags read again
    /// every 60 s.
    pub fn builder(store: impl SegmentStore) -> SegmentBuilder {
        SegmentBuilder { store: Box::new(store), settings: Settings::default() }
    }
}

impl SegmentBuilder {
    /// What a take does when no id is in memory; it waits if not set.
    #[must_use]
    pub fn take_policy(mut self, policy: TakePolicy) -> Self {
        self.settings.take_policy = policy;
        self
    }

    /// How many percent of a segment, 1 to 99, are used when the next one is loaded; 10 if not set.
    #[must_use]
    pub fn prefetch(mut self, percent: u32) -> Self {
        self.settings.prefetch = percent;
        self
    }

    /// How many segments there are in memory when all are loaded, the current one included: 1 to
    /// 64, and 2, as in Leaf, if not set. With 1, the next one is loaded when there is none left.
    #[must_use]
    pub fn depth(mut self, segments: u64) -> Self {
        self.settings.depth = segments;
        self
    }

    /// How many segments it may become: each time takers have used up all that was in memory, it is
    /// one more. Up to 64, and 4 if not set, or the [`depth`](Self::depth) if that is more.
    #[must_use]
    pub fn max_depth(mut self, segments: u64) -> Self {
        self.settings.max_depth = segments;
        self
    }

    /// A segment that lasts less than this makes the step longer; one that lasts twice as long or
    /// longer makes it shorter again; 1 ms to a day, and 15 min if not set.
    #[must_use]
    pub fn segment_duration(mut self, duration: Duration) -> Self {
        self.settings.step_rule.duration = duration;
        self
    }

    /// By how much the step becomes longer and shorter: 1, for not at all, to 1,000; 2 if not set.
    #[must_use]
    pub fn step_factor(mut self, factor: u64) -> Self {
        self.settings.step_rule.factor = factor;
        self
    }

    /// The longest step that comes of that; 1,000,000 if not set. A table that asks for more gets
    /// more. It is never shorter than the table's step.
    #[must_use]
    pub fn max_step(mut self, step: u64) -> Self {
        self.settings.step_rule.max = step;
        self
    }

    /// How often the tags are read again, 1 ms to a day; 60 s if not set.
    #[must_use]
    pub fn refresh(mut self, interval: Duration) -> Self {
        self.settings.refresh = interval;
        self
    }

    /// How long to wait after a load that failed, 1 ms to an hour: `first` after the first one,
    /// then twice as long each time, up to `longest`; 10 ms and 1 s if not set.
    #[must_use]
    pub fn retry(mut self, first: Duration, longest: Duration) -> Self {
        self.settings.retry = Retry { first, longest };
        self
    }

    /// The clock by which it is known how long a segment lasted; the operating system's if not set.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.settings.clock = Arc::new(clock);
        self
    }

    /// Checks the settings, reads the tags, and starts the thread. No segment is loaded before a tag
    /// is used.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] for settings that are not possible; the store's own where the
    /// tags cannot be read; [`Error::Thread`]; [`Error::Forked`] where the store forks.
    pub fn build(self) -> Result<SegmentGenerator, Error> {
        let Self { mut store, mut settings } = self;
        check(&settings)?;
        settings.max_depth = settings.max_depth.max(settings.depth);
        let life = ForkToken::current();
        assert_no_lock_held();
        let rows = store.tags()?;
        if life.is_forked_child() {
            return Err(Error::Forked { what: "generator" });
        }
        let shared = Arc::new(Shared::new(settings, life));
        shared.sync_tags(&rows);
        let thread = loader::start(store, &shared)?;
        log!(info, tags = rows.len(), "generator of segments started");
        Ok(SegmentGenerator::new(shared, thread))
    }

    /// [`build`](Self::build) for a task: what blocks runs in a thread of its own.
    ///
    /// If the future is dropped before it is done, the generator is dropped once it is built.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build); [`Error::Thread`] if the operating system starts no thread, and
    /// [`Error::CallPanicked`] where the store panics.
    pub async fn build_async(self) -> Result<SegmentGenerator, Error> {
        future::in_own_thread(|| self.build()).await
    }
}

fn check(settings: &Settings) -> Result<(), Error> {
    let Settings { step_rule, retry, .. } = settings;
    check_option("prefetch", settings.prefetch, 1..=99)?;
    check_option("depth", settings.depth, 1..=MAX_DEPTH)?;
    check_option("max_depth", settings.max_depth, 1..=MAX_DEPTH)?;
    check_millis("segment_duration (ms)", step_rule.duration, 1..=DAY)?;
    check_option("step_factor", step_rule.factor, 1..=1_000)?;
    check_option("max_step", step_rule.max, 1..=i64::MAX.unsigned_abs())?;
    check_millis("refresh (ms)", settings.refresh, 1..=DAY)?;
    check_millis("retry (ms)", retry.first, 1..=HOUR)?;
    check_millis("longest retry (ms)", retry.longest, 1..=HOUR)
}

impl fmt::Debug for SegmentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
