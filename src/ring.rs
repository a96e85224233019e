//! The ring: one producer publishes runs of consecutive uids, any number of takers take them, each
//! with one atomic addition.
//!
//! It knows numbers, not uids or clocks. The protocol is told in `docs/ring-buffer.md`.

mod fill;
mod freshness;
mod producer;
mod slot;
mod take;
mod tickets;

pub(crate) use self::freshness::{Age, Freshness};
pub use self::producer::{Producer, PutError};
pub use self::take::Ticket;

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use self::tickets::Tickets;
use crate::error::{Error, TakeError};
use crate::policy::PutPolicy;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Event, Life, Line, Ordering, Pages};

/// The shape of a ring, and what its producer does when it is full.
#[derive(Clone, Debug)]
pub struct RingOptions {
    capacity_bits: u32,
    run_bits: u32,
    padding_factor: u32,
    put_policy: PutPolicy,
    demand: Option<Arc<Event>>,
}

/// 2^29 uids are 512 MiB of slots.
pub(crate) const MAX_CAPACITY_BITS: u32 = 29;

/// Runs of up to 1,024.
const MAX_RUN_BITS: u32 = 10;

impl RingOptions {
    /// A ring of `2^capacity_bits` numbers (0 to 29) in runs of `2^run_bits` of them, each run in
    /// a slot of 64 bytes. `run_bits` may be 0 to 10, and not above `capacity_bits`.
    pub fn new(capacity_bits: u32, run_bits: u32) -> Self {
        let put_policy = PutPolicy::default();
        Self { capacity_bits, run_bits, padding_factor: 50, put_policy, demand: None }
    }

    /// The percentage of the capacity (1 to 99, 50 if not set) below which takers wake a producer
    /// that waits in [`Producer::wait_for_demand`].
    #[must_use]
    pub fn padding_factor(mut self, percent: u32) -> Self {
        self.padding_factor = percent;
        self
    }

    /// What [`Producer::put`] does when the ring is full.
    #[must_use]
    pub fn put_policy(mut self, policy: PutPolicy) -> Self {
        self.put_policy = policy;
        self
    }

    /// Where the producer waits for demand, if it does so for several rings at once.
    pub(crate) fn demand(mut self, demand: Arc<Event>) -> Self {
        self.demand = Some(demand);
        self
    }

    /// How many consecutive numbers a run has.
    pub fn run_length(&self) -> u64 {
        1 << self.run_bits
    }

    /// The memory of the slots, in bytes.
    pub fn memory(&self) -> u64 {
        (size_of::<Line>() as u64) << self.capacity_bits.saturating_sub(self.run_bits)
    }

    fn check(&self) -> Result<(), Error> {
        let within = |option, value: u32, min: u64, max: u32| {
            let (value, max) = (u64::from(value), u64::from(max));
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(Error::OptionOutOfRange { option, value, min, max })
            }
        };
        within("capacity_bits", self.capacity_bits, 0, MAX_CAPACITY_BITS)?;
        within("run_bits", self.run_bits, 0, MAX_RUN_BITS.min(self.capacity_bits))?;
        within("padding_factor", self.padding_factor, 1, 99)
    }
}

/// A ring of numbers: see the [module](self) for what it promises.
///
/// - No number that the producer puts is given out twice.
/// - Order: if one take returns before another begins, its number was put earlier, and the earlier
///   one of a run.
/// - Nobody waits for a stalled thread: a taker that sleeps in the middle of a take, while the
///   others go once around the ring, starts anew, and the number it was about to get is given to
///   nobody.
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
    /// The next ticket: the run's number in the high bits, the place in the run in the low
    /// `run_bits`. Alone on its cache line, which the takers fight for.
    cursor: CachePadded<AtomicU64>,
    /// The next run to be published; all runs below it are, or were skipped. Written by the
    /// producer once a batch, read by takers once a run.
    tail: CachePadded<AtomicU64>,
    /// 0, or 1 + the greatest unpublished run that a taker met. While it is above the tail nobody
    /// draws a ticket. Read by every take, written only around a drying, by takers alone.
    dry: CachePadded<AtomicU64>,
    shape: CachePadded<Shape>,
    /// Where takers wait for runs.
    runs: Event,
    /// Where the producer waits for demand, maybe for that of other rings too.
    demand: Arc<Event>,
    /// Whether the producer waits for something else than the takers' demand, which then does not
    /// wake it.
    held: AtomicBool,
    closed: AtomicU8,
    counters: CachePadded<Counters>,
}

/// What never changes.
#[derive(Debug)]
struct Shape {
    slots: Pages,
    /// How old a number may be.
    freshness: Freshness,
    run_bits: u32,
    /// Runs in the ring below which takers wake the producer.
    threshold: u64,
    put_policy: PutPolicy,
}

/// Counted where it happens rarely.
#[derive(Debug, Default)]
struct Counters {
    abandoned: AtomicU64,
    lapped: AtomicU64,
    discarded: AtomicU64,
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

/// A look at a ring. The parts are read one after another while takers go on, so that they need
/// not fit each other exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingStats {
    /// How many numbers the ring holds when full.
    pub capacity: u64,
    /// How many consecutive numbers a run has.
    pub run_length: u64,
    /// How many numbers are ready to be taken.
    pub available: u64,
    /// The next ticket to be drawn, in numbers; the first one was the run length.
    pub cursor: u64,
    /// The ticket before which everything is published.
    pub tail: u64,
    /// Tickets drawn when nothing was ready: at most one a taker each time the ring dries.
    pub abandoned: u64,
    /// Tickets whose holder slept while the others went once around the ring.
    pub lapped: u64,
    /// Numbers that were published, and discarded before they were taken.
    pub discarded: u64,
}

impl RingStats {
    /// How many numbers have been taken, by takes, fills and leases.
    pub fn taken(&self) -> u64 {
        let first_ticket = self.run_length;
        self.cursor.saturating_sub(first_ticket + self.abandoned + self.lapped + self.discarded)
    }
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
        let run_count = 1_u64 << (options.capacity_bits - options.run_bits);
        let slots = Pages::new(run_count as usize)
            .ok_or_else(|| Error::OutOfMemory { bytes: options.memory() })?;
        let life = slots.life();
        let freshness = Freshness::new(slots.clone());
        let threshold = match options.put_policy {
            // Who waits for room wants to hear of every run that is gone.
            PutPolicy::Wait => run_count,
            _ => threshold(run_count, options.padding_factor),
        };
        let ring = Arc::new(Self {
            cursor: CachePadded::new(AtomicU64::new(1 << options.run_bits)),
            tail: CachePadded::new(AtomicU64::new(1)),
            dry: CachePadded::new(AtomicU64::new(0)),
            shape: CachePadded::new(Shape {
                slots,
                freshness,
                run_bits: options.run_bits,
                threshold,
                put_policy: options.put_policy,
            }),
            runs: Event::new(life.clone()),
            demand: options.demand.unwrap_or_else(|| Arc::new(Event::new(life))),
            held: AtomicBool::new(false),
            closed: AtomicU8::new(0),
            counters: CachePadded::default(),
        });
        Ok((Producer::new(Arc::clone(&ring)), ring))
    }

    /// How many numbers the ring holds when full.
    pub fn capacity(&self) -> u64 {
        self.run_count() << self.shape.run_bits
    }

    /// How many consecutive numbers a run has.
    #[inline]
    pub fn run_length(&self) -> u64 {
        1 << self.shape.run_bits
    }

    /// Closes the ring: its producer stops, takers that wait are released, and once what is
    /// published has been taken, takes get [`TakeError::Closed`]. A second close changes nothing.
    pub fn close(&self) {
        self.close_for(CloseReason::Closed);
    }

    /// A look at the ring.
    pub fn stats(&self) -> RingStats {
        // Cursor before tail: read the other way round, the cursor could have passed a tail that
        // was read long ago.
        let cursor = self.cursor.load(Ordering::Relaxed);
        let tail = self.tail.load(Ordering::Acquire) << self.shape.run_bits;
        RingStats {
            capacity: self.capacity(),
            run_length: self.run_length(),
            available: tail.saturating_sub(cursor),
            cursor,
            tail,
            abandoned: self.counters.abandoned.load(Ordering::Relaxed),
            lapped: self.counters.lapped.load(Ordering::Relaxed),
            discarded: self.counters.discarded.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn close_for(&self, reason: CloseReason) {
        // A child has nobody to tell, and the events' locks may be held for ever.
        if self.is_forked() {
            return;
        }
        // Release: pairs with the Acquire load in `why_gone`, so that who sees the ring closed
        // sees everything that was published before. Relaxed on failure: the first reason stays.
        let _ = self.closed.compare_exchange(0, reason as u8, Ordering::Release, Ordering::Relaxed);
        self.runs.notify();
        self.demand.notify();
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
        self.shape.slots.are_wiped()
    }

    /// Its mark of life, for locks of those who pad it.
    pub(crate) fn life(&self) -> Life {
        self.shape.slots.life()
    }

    /// How old a number may be that was taken earlier.
    pub(crate) fn freshness(&self) -> &Freshness {
        &self.shape.freshness
    }

    /// The number that the next take would get, were there no others.
    pub(crate) fn peek(&self) -> Option<u64> {
        self.tickets().redeem(self.cursor.load(Ordering::Relaxed))
    }

    fn run_count(&self) -> u64 {
        self.shape.slots.lines().len() as u64
    }

    #[inline]
    fn tickets(&self) -> Tickets<'_> {
        Tickets::new(self.shape.slots.lines(), self.shape.run_bits)
    }
}

/// So many percent of the runs, at least one, so that an empty ring always asks for more.
fn threshold(run_count: u64, percent: u32) -> u64 {
    (run_count * u64::from(percent)).div_ceil(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_of_the_largest_ring_does_not_overflow() {
        assert_eq!(threshold(1 << MAX_CAPACITY_BITS, 99), 531_502_203);
        assert_eq!(threshold(1 << 26, 50), 1 << 25);
        assert_eq!(threshold(1, 1), 1);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let refused = |options: RingOptions| {
            matches!(RingBuffer::new(options), Err(Error::OptionOutOfRange { .. }))
        };
        assert!(refused(RingOptions::new(30, 6)));
        assert!(refused(RingOptions::new(20, 11)));
        assert!(refused(RingOptions::new(3, 4)), "a run longer than the ring");
        assert!(refused(RingOptions::new(10, 6).padding_factor(0)));
        assert!(refused(RingOptions::new(10, 6).padding_factor(100)));
        assert!(!refused(RingOptions::new(0, 0)));
    }

    #[test]
    fn a_full_ring_refuses_until_a_whole_run_is_taken() {
        let (mut producer, ring) = RingBuffer::new(RingOptions::new(2, 1)).expect("possible");
        producer.put(10).expect("room");
        producer.put(12).expect("room");
        assert_eq!(producer.put(14).map_err(|error| error.first), Err(14));
        assert_eq!(ring.try_take(), Ok(10));
        assert!(producer.put(14).is_err(), "half a run is no room");
        assert_eq!(ring.try_take(), Ok(11));
        producer.put(14).expect("room");
        let rest: Result<Vec<_>, _> = (0..4).map(|_| ring.try_take()).collect();
        assert_eq!(rest, Ok(vec![12, 13, 14, 15]));
    }

    #[test]
    fn a_kept_ticket_gets_its_number_unless_that_is_stale() {
        let (mut producer, ring) = RingBuffer::new(RingOptions::new(3, 1)).expect("possible");
        let mut kept = None;
        assert_eq!(ring.try_take_keeping(&mut kept), Err(TakeError::Empty));
        assert!(kept.is_some());
        producer.put(10).expect("room");
        assert_eq!(ring.try_take_keeping(&mut kept), Ok(10));
        assert_eq!((kept, ring.try_take()), (None, Ok(11)));

        let mut late = None;
        assert_eq!(ring.try_take_keeping(&mut late), Err(TakeError::Empty));
        producer.put(20).expect("room");
        producer.put(30).expect("room");
        ring.freshness().set_oldest(30);
        assert_eq!(producer.discard_below(30), 1);
        assert_eq!(ring.try_take_keeping(&mut late), Ok(30));
        let stats = ring.stats();
        assert_eq!((stats.taken(), stats.discarded, stats.abandoned), (3, 2, 0), "{stats:?}");
    }

    #[test]
    fn what_is_discarded_is_not_taken() {
        let (mut producer, ring) = RingBuffer::new(RingOptions::new(3, 1)).expect("possible");
        producer.put(10).expect("room");
        producer.put(12).expect("room");
        assert_eq!(ring.try_take(), Ok(10));
        assert_eq!(producer.discard(), 3);
        assert_eq!(producer.discard(), 0);
        assert_eq!(ring.try_take(), Err(TakeError::Empty));
        producer.put(20).expect("room");
        producer.put(22).expect("room");
        // The ticket that found the ring dry cost the first number that came to its place.
        assert!(matches!(ring.try_take(), Ok(20 | 21)));
    }
}
