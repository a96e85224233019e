//! The ring: one producer publishes runs of consecutive numbers, any number of takers take them,
//! each with one atomic addition to a word that is the next number itself.
//!
//! It knows numbers, not uids or clocks. `docs/ring-buffer.md` has the protocol.

mod fill;
mod freshness;
#[cfg(all(test, uidring_loom))]
mod models;
mod options;
mod producer;
mod slot;
mod state;
mod stats;
mod take;
#[cfg(test)]
mod tests;

pub(crate) use self::freshness::{Age, Freshness};
pub use self::options::RingOptions;
pub(crate) use self::options::{AfterGap, MAX_CAPACITY_BITS};
pub use self::producer::{Producer, PutError};
pub(crate) use self::state::RingState;
pub use self::stats::RingStats;

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use self::slot::Run;
use self::stats::Counters;
use crate::error::{Error, TakeError};
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Event, ForkGuarded, Life, Limit, Ordering};

/// A ring of numbers: see the [module](self) for how it works.
///
/// - No number that the producer puts is given out twice.
/// - Order: if one take returns before another begins, its number is the smaller.
/// - Nobody waits for a stalled thread.
///
/// ```
/// use uidring::{RingBuffer, RingOptions, TakeError};
///
/// // 256 numbers in runs of 64.
/// let (mut producer, ring) = RingBuffer::new(RingOptions::new(8, 6))?;
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
    state: RingState,
    freshness: Freshness,
    options: RingOptions,
    /// How many runs the ring holds.
    runs: u64,
    /// Runs in the ring below which takers wake the producer.
    threshold: u64,
    /// The next run to be published; all below it are. Written by the producer once a batch, read
    /// by takers once a run.
    tail: CachePadded<AtomicU64>,
    /// Where takers wait for runs.
    published: Event,
    /// Where the producer waits for demand, maybe for that of other rings too.
    demand: Arc<Event>,
    /// Whether the producer waits for something else than the takers' demand, which then does not
    /// wake it.
    held: AtomicBool,
    closed: AtomicU8,
    /// What the [`end`](Self::end) said.
    ended: ForkGuarded<Option<Option<u64>>>,
    counters: CachePadded<Counters>,
}

/// Why a ring is closed, as it stands in `closed`; 0 is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CloseReason {
    /// The producer, or the owner of the ring, is gone.
    Closed = 1,
    /// There will never be another run.
    Exhausted = 2,
    /// The source of the runs may give none any more.
    LeaseLost = 3,
}

impl RingBuffer {
    /// An empty ring and its only producer.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] for a shape that is not possible, [`Error::OutOfMemory`] where
    /// the memory is not to be had.
    pub fn new(options: RingOptions) -> Result<(Producer, Arc<Self>), Error> {
        options.check()?;
        let runs = options.runs();
        // Two slots at least: while a run waits in one, the open run stays in another.
        let state = RingState::new(runs.max(2) as usize)
            .ok_or_else(|| Error::OutOfMemory { bytes: options.memory() })?;
        let life = state.numbers.life();
        let ring = Arc::new(Self {
            freshness: Freshness::new(state.clone()),
            state,
            runs,
            threshold: options.threshold(),
            tail: CachePadded::new(AtomicU64::new(2)),
            published: Event::new(life.clone()),
            ended: ForkGuarded::new(life.clone(), None),
            demand: options.demand.clone().unwrap_or_else(|| Arc::new(Event::new(life))),
            held: AtomicBool::new(false),
            closed: AtomicU8::new(0),
            counters: CachePadded::default(),
            options,
        });
        Ok((Producer::new(Arc::clone(&ring)), ring))
    }

    /// How many numbers the ring holds when full.
    pub fn capacity(&self) -> u64 {
        self.runs * self.run_length()
    }

    /// How many numbers a run has at most.
    pub fn run_length(&self) -> u64 {
        self.options.run_length()
    }

    /// Closes the ring: its producer stops, takers that wait are released, and once what is
    /// published has been taken, takes get [`TakeError::Closed`]. A second close changes nothing.
    pub fn close(&self) {
        self.close_for(CloseReason::Closed);
    }

    pub(crate) fn close_for(&self, reason: CloseReason) {
        // Release: pairs with the Acquire load in `why_gone`, so that who sees the ring closed
        // sees everything that was published before. Relaxed on failure: the first reason stays.
        let _ = self.closed.compare_exchange(0, reason as u8, Ordering::Release, Ordering::Relaxed);
        self.notify(&self.published);
        self.notify(&self.demand);
    }

    /// A child has nobody to tell, and the event's lock may be held for ever.
    fn notify(&self, event: &Event) {
        if !self.is_forked() {
            event.notify();
        }
    }

    /// Why nothing will ever be published any more.
    pub(crate) fn why_gone(&self) -> Option<TakeError> {
        if self.is_forked() {
            return Some(TakeError::Forked);
        }
        match self.closed.load(Ordering::Acquire) {
            0 => None,
            reason if reason == CloseReason::Exhausted as u8 => Some(TakeError::TimeExhausted),
            reason if reason == CloseReason::LeaseLost as u8 => Some(TakeError::LeaseLost),
            _ => Some(TakeError::Closed),
        }
    }

    /// Whether this process is a forked child of the ring's own.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.state.numbers.is_wiped()
    }

    /// Its mark of life, for locks of those who pad it.
    pub(crate) fn life(&self) -> Life {
        self.state.numbers.life()
    }

    /// What a take needs in the common case.
    pub(crate) fn state(&self) -> &RingState {
        &self.state
    }

    /// How old a number may be that was drawn earlier.
    pub(crate) fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// A run, while its slot holds it: at least until the cursor has passed it.
    fn run(&self, index: u64) -> Option<Run> {
        self.state.slot(index).read(index)
    }

    /// The open run.
    fn open_run(&self) -> Result<Run, TakeError> {
        loop {
            if self.is_forked() {
                // What this thread may have left there that forked in the middle of a take.
                self.state.numbers.wipe();
                return Err(TakeError::Forked);
            }
            if let Some(run) = self.run(self.state.cursor_index()) {
                return Ok(run);
            }
        }
    }

    /// Opens a run for those who take by addition. Any thread may do so once the run before it is
    /// used up, or discarded, and any number of them; one that comes late does no harm. Returns
    /// whether this call was the one that opened it.
    fn open(&self, run: Run) -> bool {
        self.open_from(run, run.first).1
    }

    /// [`open`](Self::open) from a number in the middle; returns also what was the next number
    /// before.
    fn open_from(&self, run: Run, first: u64) -> (u64, bool) {
        // In this order: whoever sees the cursor or the limit sees the word raised, and draws no
        // number below the run.
        let next = self.raise(first);
        let opened = self.state.advance(run.index);
        if self.options.spaced {
            self.state.numbers.set_limit(Limit::open(run.end));
        }
        if self.is_forked() {
            self.state.numbers.wipe();
        }
        (next, opened)
    }

    /// Leaves out the numbers below `to`; returns what was the next number.
    fn raise(&self, to: u64) -> u64 {
        let next = self.state.numbers.raise(to);
        // Release: pairs with the Acquire load in `stats`.
        self.counters.raised.fetch_add(to.saturating_sub(next), Ordering::Release);
        next
    }
}
