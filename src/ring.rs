//! The ring: one producer publishes runs of consecutive numbers, and any number of takers draw
//! them. A draw is one atomic operation on a word that holds the complement of the next number.
//!
//! Each run lies in a slot. The tail is the index of the run that is published next, and the cursor that of the open
//! run, from which takers draw. The limit stops draws at the open run's end.
//!
//! It knows numbers, not uids or clocks. `docs/ring-buffer.md` has the protocol.

#[cfg(all(test, uidring_loom))]
pub(crate) mod death_models;
mod fill;
#[cfg(all(test, uidring_loom))]
mod hostile_models;
mod hot_words;
#[cfg(all(test, uidring_loom))]
mod models;
mod options;
mod owner;
mod producer;
mod slot;
mod stats;
mod take;
#[cfg(test)]
mod tests;

pub(crate) use self::hot_words::{Drawn, Limit, MAX_END};
pub use self::options::RingOptions;
pub(crate) use self::options::{IsRandom, MAX_CAPACITY_BITS, RunStart};
pub use self::producer::{Producer, PutError};
pub use self::stats::RingStats;

use std::sync::Arc;

use self::slot::Run;
use crate::error::TakeError;
use crate::sync::{
    Event, EventCount, ForkGuarded, ForkToken, HotWords, Ordering, RingWords, Slot,
    WipeOnForkMemory,
};

/// A ring of numbers: see the [module](self) for how it works.
///
/// - No number that the producer puts is given out twice.
/// - Order: if one take returns before another begins, its number is the smaller.
/// - Nobody waits for a stalled thread.
///
/// ```
/// use uidring::TakeError;
/// use uidring::ring::{RingBuffer, RingOptions};
///
/// // 256 numbers in runs of 64.
/// let (mut producer, ring) = RingBuffer::new(RingOptions::new(8).run_bits(6))?;
/// producer.put(1_000)?; // 1,000 to 1,063
/// assert_eq!(ring.try_take(), Ok(1_000));
/// assert_eq!(ring.try_take(), Ok(1_001));
///
/// let mut batch = [0; 100];
/// assert_eq!(ring.try_fill(&mut batch), Ok(62));
/// assert_eq!(batch[61], 1_063);
/// assert_eq!(ring.try_take(), Err(TakeError::Empty));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RingBuffer {
    /// What takers and the producer share.
    memory: WipeOnForkMemory<RingWords>,
    options: RingOptions,
    /// At this many runs or fewer, the open one included, the ring is low and takers wake the producer.
    threshold: u64,
    /// Where takers wait for runs.
    published: Event,
    /// Where the producer waits for demand. Rings with the same padder share it.
    demand: Arc<Event>,
    /// What this handle trusts: the runs, the tail, and the flags that the producer sets. The same as `memory`, except
    /// for the owner of a ring that processes share. The owner has a private copy that no other process can change and
    /// that a fork wipes, so its handle gives out nothing in a forked child.
    own: WipeOnForkMemory<RingWords>,
    /// Whether `own` is a copy.
    is_owner_of_shared: bool,
    /// The result of [`end`](Self::end), once called.
    ended: ForkGuarded<Option<Option<u64>>>,
}

/// Why a ring is closed: the value of `closed`, which is 0 while the ring is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum CloseReason {
    /// The producer, or the owner of the ring, is gone.
    Closed = 1,
    /// There will never be another run.
    Exhausted = 2,
    /// The source of the runs has lost the right to give any.
    LeaseLost = 3,
}

impl RingBuffer {
    /// How many numbers the ring holds when full.
    pub fn capacity(&self) -> u64 {
        self.runs() * self.run_length()
    }

    /// How many runs the ring holds.
    fn runs(&self) -> u64 {
        self.memory.slots().len() as u64
    }

    /// How many numbers a run has at most.
    pub fn run_length(&self) -> u64 {
        self.options.run_length()
    }

    /// Closes the ring: its producer stops, and waiting takers wake. Takes get what is already
    /// published, then [`TakeError::Closed`]. A second close changes nothing.
    pub fn close(&self) {
        self.close_for(CloseReason::Closed);
    }

    pub(crate) fn close_for(&self, reason: CloseReason) {
        // Only the process that made the ring may close it. A forked child would close a shared
        // ring for everyone.
        if self.is_forked() {
            return;
        }
        self.for_both(|words| {
            // Release: pairs with the Acquire load in `why_closed`. A thread that sees the ring closed
            // also sees what this thread saw published. Relaxed on failure: the first reason stays.
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            let _ = words.closed.compare_exchange(0, reason as u64, release, relaxed);
        });
        self.published.notify();
        self.demand.notify();
    }

    /// Why nothing will be published any more; `None` while the ring is open.
    pub(crate) fn why_closed(&self) -> Option<TakeError> {
        if self.own.is_wiped() {
            return Some(self.why_wiped());
        }
        // Acquire: pairs with the Release in `close_for`.
        match self.own.words().closed.load(Ordering::Acquire) {
            0 => None,
            reason if reason == CloseReason::Exhausted as u64 => Some(TakeError::TimeExhausted),
            reason if reason == CloseReason::LeaseLost as u64 => Some(TakeError::LeaseLost),
            _ => Some(TakeError::Closed),
        }
    }

    /// Whether this process is a forked child of the one that made the ring.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.own.is_wiped()
    }

    /// Why the memory is wiped: a fork wipes private memory, and only a peer can wipe shared memory.
    #[cold]
    fn why_wiped(&self) -> TakeError {
        if self.own.is_shared() { TakeError::Closed } else { TakeError::Forked }
    }

    /// Returns a handle to the same shared ring that also works in forked children.
    pub(crate) fn for_all_processes(&self) -> Self {
        Self::for_takers(self.memory.clone(), self.options.clone(), self.threshold)
    }

    /// Returns a handle to a ring that processes share, which works in each of them.
    pub(crate) fn for_takers(
        memory: WipeOnForkMemory<RingWords>,
        options: RingOptions,
        threshold: u64,
    ) -> Self {
        Self {
            own: memory.clone(),
            is_owner_of_shared: false,
            options,
            threshold,
            published: Event::published(&memory),
            demand: Arc::new(Event::demand(&memory)),
            ended: ForkGuarded::new(ForkToken::current(), None),
            memory,
        }
    }

    /// Whether a number that was drawn earlier may still be handed out in this process.
    pub(crate) fn is_fresh(&self, number: u64) -> bool {
        !self.own.is_wiped() && self.own.hot().is_fresh(number)
    }

    /// Whether nothing is fresh, because the ring was [ended](Self::end) or this is a forked child.
    pub(crate) fn is_ended(&self) -> bool {
        self.oldest() == MAX_END
    }

    /// The oldest number that may be handed out; [`MAX_END`] if none may.
    pub(crate) fn oldest(&self) -> u64 {
        self.own.hot().oldest()
    }

    /// Where tasks wait for runs.
    pub(crate) fn published(&self) -> &EventCount {
        self.published.tasks()
    }

    /// The ring's memory, for takers that draw from it directly.
    pub(crate) fn memory(&self) -> &WipeOnForkMemory<RingWords> {
        &self.memory
    }

    /// The memory that takers of this process may draw from directly. For the owner of a shared ring, its limit is never
    /// open, so every take goes through the ring's checks.
    pub(crate) fn own(&self) -> &WipeOnForkMemory<RingWords> {
        &self.own
    }

    fn words(&self) -> &RingWords {
        self.memory.words()
    }

    #[inline]
    pub(crate) fn hot(&self) -> &HotWords {
        self.memory.hot()
    }

    /// Applies a store of the producer's to its own memory, then to the shared one.
    fn for_both(&self, store: impl Fn(&RingWords)) {
        store(self.own.words());
        if self.is_owner_of_shared {
            store(self.words());
        }
    }

    /// The slot for the run with this index, whichever run it holds now.
    fn slot(memory: &WipeOnForkMemory<RingWords>, index: u64) -> &Slot {
        let slots = memory.slots();
        // The length is a power of two, so this is the remainder.
        &slots[index as usize & (slots.len() - 1)]
    }

    /// The run with this index, while its slot holds it: at least until the cursor has passed it.
    fn run(&self, index: u64) -> Option<Run> {
        Self::slot(&self.own, index).read(index)
    }

    /// Writes a run to its slot. Moving the tail then publishes it.
    fn write(&self, run: Run) {
        Self::slot(&self.own, run.index).write(run);
        if self.is_owner_of_shared {
            Self::slot(&self.memory, run.index).write(run);
        }
    }

    /// The open run, for a caller that has seen the cursor pass `passed`, or 0: a cursor that is not above it is corrupt.
    #[inline]
    fn open_run(&self, passed: u64) -> Result<Run, TakeError> {
        // A forked child finds the index 0, and no run.
        match self.run(self.hot().open_index()) {
            Some(run) if run.index > passed && !self.is_owner_of_shared => Ok(run),
            _ => self.open_run_slowly(passed),
        }
    }

    #[cold]
    fn open_run_slowly(&self, passed: u64) -> Result<Run, TakeError> {
        self.find_open(passed).map_err(|index| match self.own.is_wiped() {
            true => self.why_wiped(),
            false => self.spoilt("the open run", index),
        })
    }

    /// Returns the open run, or else the cursor's index, which is impossible: not above `passed`, or of no run.
    fn find_open(&self, mut passed: u64) -> Result<Run, u64> {
        if self.is_owner_of_shared {
            // The cursor only grows, so it cannot be below the index that the owner has seen.
            passed = passed.max(self.own.hot().open_index().saturating_sub(1));
        }
        loop {
            let index = self.hot().open_index();
            if index <= passed {
                return Err(index);
            }
            if let Some(run) = self.run(index) {
                if self.is_owner_of_shared {
                    self.own.hot().advance(index);
                }
                return Ok(run);
            }
            // Acquire, after the cursor: whoever moved it there had seen this tail, which is stored here first.
            if self.is_owner_of_shared && index >= self.own.words().tail.load(Ordering::Acquire) {
                return Err(index);
            }
            // The slot was reused, so the cursor has passed this run, and `read` has acquired that.
            passed = index;
        }
    }

    /// Opens `run`, starting at `number`; `run.end` skips the run. Everything below must be taken or about to be
    /// discarded. Idempotent: any number of threads may race here, however late. Returns the
    /// previous next number.
    fn open(&self, run: Run, number: u64) -> u64 {
        // Raise the word first: a taker that sees the new cursor or limit then also sees the raised
        // word, and draws no lower number.
        let next = self.skip_to(number);
        self.hot().advance(run.index);
        if self.is_owner_of_shared {
            // After the shared cursor: a thread that sees this value finds the shared one at least as great.
            self.own.hot().advance(run.index);
        }
        if number == run.end {
            self.hot().raise_limit(Limit::used_up(run.end));
        } else if self.options.spaced {
            self.hot().raise_limit(Limit::open(run.end));
        }
        next
    }

    /// Opens the run after `run`, which is used up. Returns whether there is one; if so, the cursor has passed `run`.
    fn open_successor(&self, run: Run) -> bool {
        // Wraps only in memory that a peer has spoilt.
        let index = run.index.wrapping_add(1);
        // Acquire: pairs with the Release store of the tail in `append`, so the next run's slot is
        // visible.
        let is_there = self.own.words().tail.load(Ordering::Acquire) > index;
        // If others have opened and used up the next run, its slot may already hold a later one.
        if is_there && let Some(next) = self.run(index) {
            self.open(next, next.first);
        }
        is_there
    }

    /// Skips the numbers below `to`. Returns the previous next number.
    fn skip_to(&self, to: u64) -> u64 {
        let next = self.hot().raise(to);
        // Release: pairs with the Acquire load in `stats`, which then reads a word that includes
        // this raise.
        self.words().counters.skipped.fetch_add(to.saturating_sub(next), Ordering::Release);
        next
    }

    /// The options and the threshold, for the header of shared memory.
    pub(crate) fn shape(&self) -> (&RingOptions, u64) {
        (&self.options, self.threshold)
    }

    /// The run that was published last; `None` in a forked child.
    fn last_run(&self) -> Option<Run> {
        // Acquire: pairs with the Release store of the tail in `append`, so the run's slot is
        // visible. The tail is 0 in a forked child.
        self.run(self.own.words().tail.load(Ordering::Acquire).checked_sub(1)?)
    }

    /// The first run from `index` on that ends above `number`. For the producer and for `end`, which may skip a run
    /// whose slot was reused: the cursor has passed that run.
    fn run_above(&self, index: u64, number: u64) -> Option<Run> {
        // Acquire: as in `last_run`.
        let runs = index..self.own.words().tail.load(Ordering::Acquire);
        runs.filter_map(|index| self.run(index)).find(|run| run.end > number)
    }

    /// Counts the published numbers from `number` on as discarded, up to the `published`-th number of all runs, and returns
    /// how many there are. The run that holds `number`, or else the next one, must have at least this index.
    fn count_discarded(&self, index: u64, number: u64, published: u64) -> u64 {
        let run = self.run_above(index, number);
        let discarded = run.map_or(0, |run| published.saturating_sub(run.published_below(number)));
        self.words().counters.discarded.fetch_add(discarded, Ordering::Relaxed);
        discarded
    }
}
