//! The producer's side of the ring.

use std::sync::Arc;
use std::time::Duration;

use super::{CloseReason, RingBuffer};
use crate::error::TakeError;
use crate::sync::Ordering;

/// So many runs are published before the tail is moved: takers that wait for a run in a large ring
/// that dried are served long before it is full again.
const BATCH: u64 = 64;

/// The only one who puts runs into its ring. It cannot be cloned, and putting takes `&mut self`:
/// the types see to it that there is one producer. Dropping it closes the ring.
#[derive(Debug)]
pub struct Producer {
    ring: Arc<RingBuffer>,
    /// The ring's tail, which nobody else writes.
    tail: u64,
}

/// The ring was full, or closed, and the put policy did not wait: the run was not put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ring is {}; the run from {first} was not put", if *.closed { "closed" } else { "full" })]
pub struct PutError {
    /// The first number of the run, given back.
    pub first: u64,
    /// Whether the ring is closed, so that trying again is of no use.
    pub closed: bool,
}

impl Producer {
    pub(super) fn new(ring: Arc<RingBuffer>) -> Self {
        let tail = ring.tail.load(Ordering::Relaxed);
        Self { ring, tail }
    }

    /// The ring.
    pub fn ring(&self) -> &Arc<RingBuffer> {
        &self.ring
    }

    /// Puts one run: the numbers from `first` on, as many as a run has. When the ring is full the
    /// put policy decides.
    ///
    /// The ring gives out what it gets. That runs do not overlap, and that each is above the one
    /// before if order matters, is up to the caller.
    ///
    /// # Errors
    ///
    /// [`PutError`] with the run, when the policy gave up or the ring is closed.
    pub fn put(&mut self, first: u64) -> Result<(), PutError> {
        let mut run = Some(first);
        while self.publish(|| run.take()) == 0 {
            if !self.wait_for_room() {
                return Err(PutError { first, closed: self.ring.why_gone().is_some() });
            }
        }
        Ok(())
    }

    /// Puts runs from `source` until the ring is full, or closed, or the source has none; returns
    /// how many. The source is asked only when there is room, so that no run is lost.
    ///
    /// All takers that wait are woken. The put policy is not asked.
    pub fn publish(&mut self, mut source: impl FnMut() -> Option<u64>) -> u64 {
        let mut published = 0;
        loop {
            let batch = self.publish_batch(&mut source);
            published += batch;
            if batch < BATCH {
                return published;
            }
        }
    }

    /// [`publish`](Self::publish) for a few runs at the most.
    pub(crate) fn publish_batch(&mut self, mut source: impl FnMut() -> Option<u64>) -> u64 {
        // A forked child that published would revive wiped slots.
        if self.ring.why_gone().is_some() {
            return 0;
        }
        let (start, end) = self.room();
        let mut batch = Batch { producer: self, start, run: start };
        while batch.run < end {
            let Some(first) = source() else { break };
            // The source may have forked, and a wiped slot must stay so.
            if batch.producer.ring.is_forked() {
                break;
            }
            batch.producer.ring.tickets().slot(batch.run).publish(batch.run, first);
            batch.run += 1;
        }
        batch.run - start
    }

    /// The runs that may be put now, a batch at the most.
    fn room(&self) -> (u64, u64) {
        // Relaxed: a slot may be overwritten as soon as its last ticket is drawn, read or not;
        // the flag tells its reader. An old value only makes the room look smaller.
        let claimed = self.ring.cursor.load(Ordering::Relaxed) >> self.ring.shape.run_bits;
        // Runs whose tickets have all been drawn and abandoned are skipped. No number is lost:
        // the source is asked only for the runs that follow.
        let start = self.tail.max(claimed);
        (start, (claimed + self.ring.run_count()).min(start + BATCH))
    }

    /// Does what the put policy says about a full ring; returns whether there is room now.
    fn wait_for_room(&self) -> bool {
        let has_room = || {
            let (start, end) = self.room();
            start < end
        };
        let gone = || self.ring.why_gone().is_some();
        let policy = &self.ring.shape.put_policy;
        policy.after_full(
            || gone() || has_room(),
            |timeout| {
                // A forked child must not touch the event's lock.
                if !self.ring.is_forked() {
                    self.ring.demand.wait(timeout, || gone() || has_room());
                }
            },
        ) && !gone()
    }

    /// Throws away what is published and not yet taken; returns how many numbers that was. Takes
    /// that run meanwhile get either a number or a new ticket behind all that was thrown away, so
    /// that order holds.
    pub fn discard(&mut self) -> u64 {
        self.ring.discard_runs(self.tail)
    }

    /// [`discard`](Self::discard) for the runs whose first number is below `oldest`, in a ring whose
    /// runs were put in order.
    pub fn discard_below(&mut self, oldest: u64) -> u64 {
        let claimed = self.ring.cursor.load(Ordering::Relaxed) >> self.ring.shape.run_bits;
        let is_old = |run: u64| {
            let first = self.ring.tickets().slot(run).read(run);
            first.is_some_and(|first| first < oldest)
        };
        // What is left of the present run, and then the first run that is not old, by halves.
        let (mut start, mut end) = (claimed, self.tail);
        while start < end {
            let middle = start + (end - start) / 2;
            if is_old(middle) {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        self.ring.discard_runs(start)
    }

    /// Sleeps until less is left in the ring than the padding factor asks for, the ring is closed,
    /// or `timeout` is over. Takers wake the producer; it does not spin.
    pub fn wait_for_demand(&mut self, timeout: Option<Duration>) {
        if !self.ring.is_forked() {
            self.ring.demand.wait(timeout, || self.ring.wants_runs());
        }
    }

    /// Whether the ring has been closed, by its owner or by this producer.
    pub fn is_closed(&self) -> bool {
        self.ring.why_gone().is_some()
    }

    /// Whether it has [finished](Self::finish).
    pub(crate) fn is_finished(&self) -> bool {
        self.ring.why_gone() == Some(TakeError::TimeExhausted)
    }

    /// Closes the ring for good because there will never be another run: takers get what is
    /// published, then [`TakeError::TimeExhausted`](crate::TakeError::TimeExhausted).
    pub fn finish(&mut self) {
        self.ring.close_for(CloseReason::Exhausted);
    }
}

/// Runs that have been written down and are not yet below the tail. Dropped, also by a source that
/// panics, they are.
struct Batch<'a> {
    producer: &'a mut Producer,
    start: u64,
    /// The next run.
    run: u64,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let Self { producer, start, run } = self;
        if run > start {
            producer.tail = *run;
            // Release: pairs with the Acquire loads of the tail: who sees it sees the flags of
            // all runs below it, or later ones.
            producer.ring.tail.store(*run, Ordering::Release);
            producer.ring.runs.notify();
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.ring.close_for(CloseReason::Closed);
    }
}

impl RingBuffer {
    /// Throws away what is left in a ring to which nothing comes any more; returns the first number
    /// of it, if there is any and it can be told.
    pub(crate) fn discard_rest(&self) -> Option<u64> {
        let tail = self.tail.load(Ordering::Acquire);
        let end = tail << self.shape.run_bits;
        let discarded = self.discard_runs(tail);
        // No slot is written any more, so the number of the first ticket still stands in its.
        if discarded > 0 { self.tickets().redeem(end - discarded) } else { None }
    }

    /// Throws away what is left of the runs below `end`, which is not above the tail.
    fn discard_runs(&self, end: u64) -> u64 {
        let end = end << self.shape.run_bits;
        // Looked at first: the addition of takers should not have to give up its cache line for
        // nothing. Relaxed: as in a take, each ticket leaves the cursor once, which is all it
        // takes.
        if self.cursor.load(Ordering::Relaxed) >= end {
            return 0;
        }
        let cursor = self.cursor.fetch_max(end, Ordering::Relaxed);
        let discarded = end.saturating_sub(cursor);
        self.counters.discarded.fetch_add(discarded, Ordering::Relaxed);
        discarded
    }

    /// Whether the producer has something to do: less is left than the padding factor asks for, or
    /// the ring is closed.
    pub(crate) fn wants_runs(&self) -> bool {
        (self.is_low() && !self.is_held()) || self.why_gone().is_some()
    }

    /// Whether less is left than the padding factor asks for.
    pub(crate) fn is_low(&self) -> bool {
        // Relaxed: the producer that is about to sleep passes the eventcount's SeqCst fence before
        // it looks here, and of the tail it knows its own stores. A taker knows its own tickets.
        self.is_low_at(self.cursor.load(Ordering::Relaxed) >> self.shape.run_bits)
    }

    /// The same when `run` is the first one with a ticket left.
    fn is_low_at(&self, run: u64) -> bool {
        // Relaxed: to takers an old tail is a smaller one, and at worst wakes the producer early.
        self.tail.load(Ordering::Relaxed).saturating_sub(run) < self.shape.threshold
    }

    /// Whether the producer waits for something else than demand.
    pub(crate) fn is_held(&self) -> bool {
        // Relaxed: the producer that sets it looks again by itself, after a time.
        self.held.load(Ordering::Relaxed)
    }

    /// Lets the takers' demand wake the producer, or not.
    pub(crate) fn hold(&self, held: bool) {
        if self.is_held() != held {
            self.held.store(held, Ordering::Relaxed);
        }
    }

    /// Wakes the producer, whatever the ring holds.
    pub(crate) fn call_producer(&self) {
        self.demand.notify();
    }

    /// For a padder that has filled the ring: asks the put policy's handler, if there is one, and
    /// says when to pad again if that is not to wait for the takers' demand.
    pub(crate) fn full_again(&self) -> Option<Duration> {
        self.shape.put_policy.retry_when_full()
    }

    /// Wakes the producer if the ring is below its threshold; `run` is the first run with a ticket
    /// left. Called with the last ticket of every run, and whenever the ring is found dry.
    // Not inlined, so that the take around it is: it runs once a run.
    #[inline(never)]
    pub(super) fn announce(&self, run: u64) {
        if self.is_low_at(run) && !self.is_held() {
            self.demand.notify();
        }
    }

    /// [`announce`](Self::announce) by the cursor, after a claim.
    pub(crate) fn announce_if_low(&self) {
        if self.is_low() && !self.is_held() {
            self.demand.notify();
        }
    }
}
