//! Settings of the segment generator.

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

/// A longer step serves better than more segments in memory.
const MAX_DEPTH: u64 = 64;

/// An hour and a day, in milliseconds.
const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

impl SegmentGenerator {
    /// Returns a builder with the defaults: takes that wait, prefetch at 10 %, two to four segments in memory, Leaf's
    /// step rule (15 min, factor 2, up to 1,000,000), and the tags read again every 60 s.
    pub fn builder(store: impl SegmentStore) -> SegmentBuilder {
        SegmentBuilder { store: Box::new(store), settings: Settings::default() }
    }
}

impl SegmentBuilder {
    /// Sets what a take does if no id is in memory; it waits if not set.
    #[must_use]
    pub fn take_policy(mut self, policy: TakePolicy) -> Self {
        self.settings.take_policy = policy;
        self
    }

    /// Sets how many percent of a segment, 1 to 99, are used when the next is loaded; 10 if not set.
    #[must_use]
    pub fn prefetch(mut self, percent: u32) -> Self {
        self.settings.prefetch = percent;
        self
    }

    /// Sets how many segments to keep in memory, including the current one: 1 to 64; 2, as in Leaf, if not set. With 1,
    /// the next segment is loaded when none is left.
    #[must_use]
    pub fn depth(mut self, segments: u64) -> Self {
        self.settings.depth = segments;
        self
    }

    /// Sets the greatest depth. Each time takers use up all that is in memory, the depth grows by one. Up to 64; if not
    /// set, 4 or the [`depth`](Self::depth) if that is more.
    #[must_use]
    pub fn max_depth(mut self, segments: u64) -> Self {
        self.settings.max_depth = segments;
        self
    }

    /// Sets the duration of a segment, 1 ms to a day; 15 min if not set. One that lasts less makes the step longer; one
    /// that lasts at least twice as long makes it shorter.
    #[must_use]
    pub fn segment_duration(mut self, duration: Duration) -> Self {
        self.settings.step_rule.duration = duration;
        self
    }

    /// Sets the factor by which the step changes, 1 to 1,000; 1 keeps it. 2 if not set.
    #[must_use]
    pub fn step_factor(mut self, factor: u64) -> Self {
        self.settings.step_rule.factor = factor;
        self
    }

    /// Sets the longest step that this leads to; 1,000,000 if not set. The step is never shorter than the table's, even
    /// if that is longer.
    #[must_use]
    pub fn max_step(mut self, step: u64) -> Self {
        self.settings.step_rule.max = step;
        self
    }

    /// Sets how often the tags are read again, 1 ms to a day; 60 s if not set.
    #[must_use]
    pub fn refresh(mut self, interval: Duration) -> Self {
        self.settings.refresh = interval;
        self
    }

    /// Sets the pauses after failed loads, 1 ms to an hour: `first`, then twice as long each time, up to `longest`; 10
    /// ms and 1 s if not set.
    #[must_use]
    pub fn retry(mut self, first: Duration, longest: Duration) -> Self {
        self.settings.retry = Retry { first, longest };
        self
    }

    /// Sets the clock that measures how long a segment lasts; by default the operating system's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.settings.clock = Arc::new(clock);
        self
    }

    /// Checks the settings, reads the tags, and starts the thread. A tag's first segment is loaded when the tag is
    /// first used.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] for impossible settings, the store's error if the tags cannot be read,
    /// [`Error::Thread`], and [`Error::Forked`] if the store forks.
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

    /// Async [`build`](Self::build). The blocking work runs in its own thread.
    ///
    /// If the future is dropped early, the generator is dropped once it is built.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build). Also [`Error::Thread`] if no thread can be started, and [`Error::CallPanicked`] if
    /// the store panics.
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
