//! The producer's side of the ring.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::slot::Run;
use super::{CloseReason, Limit, MAX_END, RingBuffer, RingOptions};
use crate::error::{Chain, Error, error_traits};
use crate::sync::{
    Event, ForkGuarded, ForkToken, Ordering, RingWords, WipeOnForkMemory, coarse_millis,
};

/// Puts runs into its ring. It cannot be cloned, and putting takes `&mut self`, so the types
/// guarantee that a ring has one producer. Dropping it closes the ring.
#[derive(Debug)]
pub struct Producer {
    ring: Arc<RingBuffer>,
    /// Set if everything published has been discarded: the number that would have come next.
    gap: Option<u64>,
}

/// Why a run was not put.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// The ring is full, and the put policy did not wait.
    #[error("the ring is full; the run from {first} was not put")]
    Full {
        /// The first number of the run.
        first: u64,
    },
    /// The ring is closed for good; do not retry.
    #[error("the ring is closed; the run from {first} was not put")]
    Closed {
        /// The first number of the run.
        first: u64,
    },
    /// The run is empty, not above the one before it, or has numbers above 2^63 - 1. The ring will never accept it.
    #[error(
        "a run must have numbers, all above the run before it and below 2^63; the run from {first} was not put"
    )]
    OutOfOrder {
        /// The first number of the run.
        first: u64,
    },
}

error_traits!(PutError);

impl RingBuffer {
    /// Creates an empty ring and its only producer.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] if the ring's shape is not possible, [`Error::OutOfMemory`] if
    /// its memory cannot be allocated.
    pub fn new(options: RingOptions) -> Result<(Producer, Arc<Self>), Error> {
        options.check()?;
        let memory = match &options.shared {
            Some(memory) => memory.clone(),
            None => WipeOnForkMemory::<RingWords>::new(options.runs() as usize)
                .ok_or_else(|| Error::OutOfMemory { bytes: options.memory() })?,
        };
        let fork_token = ForkToken::current();
        let (own, published) = match memory.is_shared() {
            true => (WipeOnForkMemory::new(options.runs() as usize), Event::published(&memory)),
            false => (Some(memory.clone()), Event::own(fork_token)),
        };
        let is_owner_of_shared = memory.is_shared();
        let own = own.ok_or_else(|| Error::OutOfMemory { bytes: options.memory() })?;
        let ring = Arc::new(Self {
            memory,
            threshold: options.threshold(),
            own,
            is_owner_of_shared,
            published,
            ended: ForkGuarded::new(fork_token, None),
            demand: options.demand.clone().unwrap_or_else(|| Arc::new(Event::own(fork_token))),
            options,
        });
        // An empty run, so that there is always an open one.
        ring.write(Run { index: 1, first: 0, end: 0, before: 0 });
        ring.for_both(|words| {
            words.hot.start_at(0);
            words.tail.store(2, Ordering::Relaxed);
        });
        ring.note_life();
        Ok((Producer { ring: Arc::clone(&ring), gap: None }, ring))
    }
}

impl Producer {
    /// Returns the ring.
    pub fn ring(&self) -> &Arc<RingBuffer> {
        &self.ring
    }

    /// Puts a run of the greatest length, beginning at `first`. If the ring is full, the put policy
    /// decides.
    ///
    /// # Errors
    ///
    /// [`PutError`] if the policy gave up, if the ring is closed, or if the run is not above the one before
    /// it or has numbers above 2^63 - 1.
    pub fn put(&mut self, first: u64) -> Result<(), PutError> {
        let length = self.ring.run_length();
        let end = first.checked_add(length).ok_or(PutError::OutOfOrder { first })?;
        self.put_range(first..end)
    }

    /// [`put`](Self::put) for a run of any length.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn put_range(&mut self, numbers: Range<u64>) -> Result<(), PutError> {
        let first = numbers.start;
        let mut run = Some(numbers);
        while self.publish(|| run.take())? == 0 {
            if !self.wait_for_room() {
                let is_closed = self.ring.why_closed().is_some();
                return Err(match is_closed {
                    true => PutError::Closed { first },
                    false => PutError::Full { first },
                });
            }
        }
        Ok(())
    }

    /// Puts runs from `source` until the ring is full or closed, or the source has none. Returns how
    /// many. It asks the source only when there is room, so that no run is lost.
    ///
    /// It wakes as many waiting takers as there is something for. The put policy does not apply.
    ///
    /// # Errors
    ///
    /// [`PutError`] for a run that is empty, not above the one before it, or has numbers above
    /// 2^63 - 1. The runs that the source gave before it have been put.
    pub fn publish(&mut self, source: impl FnMut() -> Option<Range<u64>>) -> Result<u64, PutError> {
        self.publish_up_to(u64::MAX, source)
    }

    /// [`publish`](Self::publish) for at most this many runs.
    pub(crate) fn publish_up_to(
        &mut self,
        most: u64,
        mut source: impl FnMut() -> Option<Range<u64>>,
    ) -> Result<u64, PutError> {
        let (mut published, mut room) = (0, 0);
        while published < most && self.ring.why_closed().is_none() {
            // Look again when the room is gone: if the open run was used up, `room` can now open the one that was just
            // published, which frees a slot.
            if room == 0 {
                room = self.room();
            }
            let Some(numbers) = (room > 0).then(&mut source).flatten() else { break };
            if !self.append(numbers)? {
                break;
            }
            published += 1;
            room -= 1;
        }
        Ok(published)
    }

    /// Publishes a run, for which there must be room. Returns whether it did: a forked child must not revive wiped
    /// slots.
    fn append(&mut self, Range { start, end }: Range<u64>) -> Result<bool, PutError> {
        let ring = &*self.ring;
        // A forked child finds no last run, even if the source forked it just now.
        let Some(last) = ring.last_run() else { return Ok(false) };
        if start < last.end || start >= end || end > MAX_END {
            return Err(PutError::OutOfOrder { first: start });
        }
        let first = match self.gap.take() {
            Some(next) => ring.options.after_gap.begin(next, start..end),
            None => start,
        };
        let (index, before) = (last.index + 1, last.published_below(u64::MAX));
        ring.write(Run { index, first, end, before });
        // Release: pairs with the Acquire loads of the tail. A thread that sees this tail sees the
        // flag of every run below it, or a later flag in that slot.
        ring.for_both(|words| words.tail.store(index + 1, Ordering::Release));
        // One is enough: a taker that wakes and leaves something wakes the next one.
        ring.published.notify_one();
        Ok(true)
    }

    /// How many runs may be put now.
    fn room(&self) -> u64 {
        let (ring, mut passed) = (&self.ring, 0);
        loop {
            let open = ring.open_run(passed);
            let (Ok(open), Ok(next)) = (open, ring.look_at_next()) else { return 0 };
            // Takers may have used up the open run without having opened the next one.
            if open.end <= next && ring.open_successor(open) {
                passed = open.index;
                continue;
            }
            // The open run keeps its slot until the next run is opened. Relaxed: only the producer
            // moves the tail.
            let end = open.index + ring.runs();
            return end.saturating_sub(ring.own.words().tail.load(Ordering::Relaxed));
        }
    }

    /// Waits for room as the put policy says. Returns whether there is room now.
    fn wait_for_room(&self) -> bool {
        let ring = &self.ring;
        let ready = || ring.why_closed().is_some() || self.room() > 0;
        let policy = &ring.options.put_policy;
        policy.after_full(ready, |timeout| {
            ring.demand.wait(timeout, ready);
        }) && ring.why_closed().is_none()
    }

    /// Discards all numbers that are published and not yet taken. Returns how many those were.
    pub fn discard(&mut self) -> u64 {
        self.discard_below(u64::MAX)
    }

    /// [`discard`](Self::discard) for the numbers below `oldest`. A take that begins after it
    /// returns gets none of them.
    pub fn discard_below(&mut self, oldest: u64) -> u64 {
        let ring = &*self.ring;
        let (Ok(open), Some(last)) = (ring.open_run(0), ring.last_run()) else { return 0 };
        // The first run that is not wholly stale. If there is none, the last one is skipped.
        let run = ring.run_above(open.index, oldest).unwrap_or(last);
        let mut first = oldest.clamp(run.first, run.end);
        let Ok(next) = ring.look_at_next() else { return 0 };
        if next >= first {
            return 0;
        }
        // All numbers before this run are discarded, so the rule for gaps says where it begins.
        if run.index > open.index && first == run.first {
            first = ring.options.after_gap.begin(next, run.first..run.end);
        }
        let next = ring.open(run, first);
        if first == run.end {
            // Nothing is left. `append` applies the rule to the next run.
            self.gap = Some(next);
        }
        ring.count_discarded(open.index, next, run.published_below(first))
    }

    /// Sleeps until the ring has less left than the padding factor asks for, the ring is closed, or
    /// `timeout` is over. Takers wake the producer; it does not spin.
    pub fn wait_for_demand(&mut self, timeout: Option<Duration>) {
        self.ring.demand.wait(timeout, || self.ring.wants_runs());
    }

    /// Whether the ring has been closed, by its owner or by this producer.
    pub fn is_closed(&self) -> bool {
        self.ring.why_closed().is_some()
    }

    /// Closes the ring for good because there will never be another run: takers get what is
    /// published, then [`TakeError::TimeExhausted`](crate::TakeError::TimeExhausted).
    pub fn finish(&mut self) {
        self.ring.close_for(CloseReason::Exhausted);
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.ring.close_for(CloseReason::Closed);
    }
}

impl RingBuffer {
    /// Ends a closed ring. Discards what is left, whatever takes still draw, and whatever the
    /// producer, which may still be publishing, adds. Returns a number above all that were issued, or
    /// `None` if none was ever published. Every call returns the same.
    pub(crate) fn end(&self) -> Option<u64> {
        *self.ended.lock().ok()?.get_or_insert_with(|| self.end_once())
    }

    fn end_once(&self) -> Option<u64> {
        if self.own.is_wiped() {
            return None;
        }
        let open = self.find_open(0);
        // Before the raise: a thread that opens a run after the raise, or finds a number there that
        // it drew before, then sees that nothing is fresh.
        self.for_both(|words| words.hot.expire());
        // Before the raise, too. After both, a take that sees the limit closed draws nothing, and
        // one that sees an older limit draws a number above it. A run opened late changes neither.
        self.hot().raise_limit(Limit::CLOSED);
        let next = self.skip_to(MAX_END);
        // After the raise, which acquires all earlier ones: runs opened before it are below this
        // tail.
        let last = self.last_run()?;
        let published = last.published_below(u64::MAX);
        self.words().counters.published_at_end.store(!published, Ordering::Relaxed);
        // A peer may have lowered the word. A number above the last run counts as that run's end.
        let next =
            if self.is_owner_of_shared { next.max(self.own.hot().raise(MAX_END)) } else { next };
        let left = open.ok().and_then(|open| {
            self.count_discarded(open.index, next, published);
            self.run_above(open.index, next)
        });
        self.hot().advance(last.index);
        match left {
            Some(run) => Some(next.max(run.first)),
            None => (last.end > 0).then_some(last.end),
        }
    }

    /// Whether the producer has something to do: the ring is low and the source is not paused, or the
    /// ring is closed.
    pub(crate) fn wants_runs(&self) -> bool {
        (self.is_low() && !self.is_source_paused()) || self.why_closed().is_some()
    }

    /// Says whether the producer's source is paused. While it is, takers' demand does not wake the producer.
    pub(crate) fn set_source_paused(&self, paused: bool) {
        if self.is_source_paused() != paused {
            // Relaxed: see the fence in `wake_if_low`.
            self.for_both(|words| words.paused.store(paused.into(), Ordering::Relaxed));
        }
    }

    /// Returns how many runs takers open between a padding and the next, if the padder foresees that one. It pads
    /// half-way between the threshold and half of it, where takers would wake it. `None` if the ring is too small for
    /// that, or if `PutPolicy::Wait` keeps it full.
    pub(crate) fn runs_until_forecast(&self) -> Option<u64> {
        let late = self.threshold / 2;
        let is_kept_full = matches!(self.options.put_policy, crate::policy::PutPolicy::Wait);
        (late > 0 && !is_kept_full).then(|| self.runs() - (self.threshold + late) / 2)
    }

    /// Marks numbers below `oldest` stale, and shows processes that share the ring that its owner is active.
    pub(crate) fn refresh(&self, oldest: u64) {
        self.for_both(|words| words.hot.set_oldest(oldest));
        self.note_life();
    }

    fn note_life(&self) {
        if self.is_owner_of_shared {
            // Relaxed: nothing else is published by this time.
            self.words().refreshed.store(coarse_millis(), Ordering::Relaxed);
        }
    }

    /// How long ago the owner refreshed the ring, in milliseconds.
    pub(crate) fn since_refresh(&self) -> u64 {
        coarse_millis().saturating_sub(self.words().refreshed.load(Ordering::Relaxed))
    }

    /// Says whether the producer comes by itself, so that takers wake it only at half the threshold.
    pub(crate) fn set_forecast(&self, is_made: bool) {
        // Relaxed: see the fence in `wake_if_low`.
        self.for_both(|words| words.forecast.store(is_made.into(), Ordering::Relaxed));
    }

    /// Wakes the producer, whatever the ring holds.
    pub(crate) fn call_producer(&self) {
        self.demand.notify();
    }

    /// For a padder that has filled the ring: asks the put policy's handler, if there is one. Returns
    /// when to pad again, or `None` to wait for the takers' demand.
    pub(crate) fn retry_when_full(&self) -> Option<Duration> {
        self.options.put_policy.retry_when_full()
    }
}
