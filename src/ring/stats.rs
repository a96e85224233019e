//! A snapshot of a ring's statistics.

use super::RingBuffer;
use crate::sync::{AtomicU64, Ordering};

/// A snapshot of a ring's statistics. The fields are read one after another while takers continue, so they may
/// disagree. They agree if no take is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct RingStats {
    /// How many numbers the ring holds when full.
    pub capacity: u64,
    /// How many numbers a run has at most.
    pub run_length: u64,
    /// How many numbers are ready to be taken.
    pub available: u64,
    /// How many numbers have been published, until the ring was ended.
    pub published: u64,
    /// How many runs have been published.
    pub runs: u64,
    /// How many numbers have been taken, by takes, fills and blocks.
    pub taken: u64,
    /// Draws that issued nothing: past the end of a run, or of a number that had become stale. At most one per taker
    /// and run, and most are of numbers that belong to no run.
    pub dropped: u64,
    /// How often takers used up all that was published.
    pub dried: u64,
    /// Numbers that were published, and discarded before they were taken.
    pub discarded: u64,
}

impl RingStats {
    /// Adds the counts of an earlier ring of the same generator.
    pub(crate) fn add_earlier(&mut self, earlier: &Self) {
        self.published += earlier.published;
        self.runs += earlier.runs;
        self.taken += earlier.taken;
        self.dropped += earlier.dropped;
        self.dried += earlier.dried;
        self.discarded += earlier.discarded;
    }
}

impl RingBuffer {
    /// Returns a snapshot of the ring's statistics.
    pub fn stats(&self) -> RingStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.words().counters;
        // Read before the word. Acquire: pairs with the Release in `RingBuffer::raise`, so the word
        // includes every raise that is counted here.
        let skipped = counters.skipped.load(Ordering::Acquire);
        let (dropped, discarded) = (count(&counters.dropped), count(&counters.discarded));
        let mut stats = RingStats {
            capacity: self.capacity(),
            run_length: self.run_length(),
            dropped,
            discarded,
            dried: count(&counters.dried),
            ..RingStats::default()
        };
        let Ok(open) = self.open_run(0) else { return stats };
        let next = self.hot().next();
        let last = self.last_run().unwrap_or(open);
        stats.runs = last.index - 1;
        let passed = open.published_below(next);
        stats.published = last.published_below(u64::MAX).min(!count(&counters.published_at_end));
        stats.available = stats.published.saturating_sub(passed);
        // The word may include a raise that is not counted yet. So cap the result: no more can have
        // been taken than was published below the word, and not discarded.
        let drawn = next.saturating_sub(skipped.saturating_add(dropped));
        stats.taken = drawn.min(passed.saturating_sub(discarded));
        stats
    }

    /// The number that a take would get now if no other came first.
    pub(crate) fn peek(&self) -> Option<u64> {
        let open = self.open_run(0).ok()?;
        let next = self.hot().next();
        if next < open.end {
            return Some(next);
        }
        self.run(open.index + 1).map(|run| run.first.max(next))
    }

    /// The end of the last run that was published; 0 if none was.
    pub(crate) fn last_end(&self) -> u64 {
        self.last_run().map_or(0, |run| run.end)
    }
}
