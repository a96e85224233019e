//! The producer's side of the ring.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::slot::Run;
use super::{CloseReason, RingBuffer};
use crate::error::TakeError;
use crate::sync::{Limit, MAX_END, Ordering};

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
    /// The end of the last run.
    end: u64,
    /// How many numbers all runs had.
    published: u64,
    /// All that was published is discarded, and this was the next number then.
    gap: Option<u64>,
}

/// The ring was full and the put policy did not wait, or the ring does not take the run: it was
/// not put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; the run from {first} was not put", self.why())]
#[non_exhaustive]
pub struct PutError {
    /// The first number of the run, given back.
    pub first: u64,
    /// Whether the ring is closed, so that trying again is of no use.
    pub closed: bool,
    /// Whether the run is empty, not above the one before it, or has numbers above 2^63 - 1, so
    /// that the ring will never take it.
    pub misplaced: bool,
}

impl PutError {
    fn why(&self) -> &'static str {
        match (self.misplaced, self.closed) {
            (true, _) => "a run must have numbers, all above the run before it and below 2^63",
            (_, true) => "the ring is closed",
            _ => "the ring is full",
        }
    }

    fn misplaced(first: u64) -> Self {
        Self { first, closed: false, misplaced: true }
    }
}

impl Producer {
    pub(super) fn new(ring: Arc<RingBuffer>) -> Self {
        let tail = ring.tail.load(Ordering::Relaxed);
        Self { ring, tail, end: 0, published: 0, gap: None }
    }

    /// The ring.
    pub fn ring(&self) -> &Arc<RingBuffer> {
        &self.ring
    }

    /// Puts one run: the numbers from `first` on, as many as the ring's runs have at most. When
    /// the ring is full the put policy decides.
    ///
    /// # Errors
    ///
    /// [`PutError`] with the run, when the policy gave up or the ring is closed; or when the run is
    /// not above the one before it, or does not end below 2^63.
    pub fn put(&mut self, first: u64) -> Result<(), PutError> {
        let length = self.ring.run_length();
        let end = first.checked_add(length).ok_or(PutError::misplaced(first))?;
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
                let closed = self.ring.why_gone().is_some();
                return Err(PutError { first, closed, misplaced: false });
            }
        }
        Ok(())
    }

    /// Puts runs from `source` until the ring is full, or closed, or the source has none; returns
    /// how many. The source is asked only when there is room, so that no run is lost.
    ///
    /// All takers that wait are woken. The put policy is not asked.
    ///
    /// # Errors
    ///
    /// [`PutError`] for a run that is not above the one before it, or does not end below 2^63.
    /// What the source gave before is put.
    pub fn publish(
        &mut self,
        mut source: impl FnMut() -> Option<Range<u64>>,
    ) -> Result<u64, PutError> {
        let (mut published, mut more) = (0, true);
        loop {
            // Again, even if that was little: where the open run is used up, its slot becomes free
            // when the next one is there.
            let batch = self.publish_batch(|| {
                let run = source();
                more = run.is_some();
                run
            })?;
            published += batch;
            if batch == 0 || !more {
                return Ok(published);
            }
        }
    }

    /// [`publish`](Self::publish) for a few runs at most.
    pub(crate) fn publish_batch(
        &mut self,
        mut source: impl FnMut() -> Option<Range<u64>>,
    ) -> Result<u64, PutError> {
        // A forked child that published would revive wiped slots.
        if self.ring.why_gone().is_some() {
            return Ok(0);
        }
        let room = self.room();
        let mut batch = Batch { producer: self, count: 0 };
        while batch.count < room {
            let Some(numbers) = source() else { break };
            // The source may have forked, and a wiped slot must stay so.
            if batch.producer.ring.is_forked() {
                break;
            }
            batch.put(numbers)?;
        }
        Ok(batch.count)
    }

    /// How many runs may be put now, a batch at most.
    fn room(&self) -> u64 {
        let Self { ring, tail, .. } = self;
        loop {
            let Ok(open) = ring.open_run() else { return 0 };
            let used_up = open.end <= ring.state.numbers.next();
            if used_up && *tail > open.index + 1 {
                // Takers may be through with the next run without having opened it. The slot is
                // there: nobody else writes slots.
                if let Some(next) = ring.run(open.index + 1) {
                    ring.open(next);
                }
                continue;
            }
            // The open run's slot stays until the next run is opened.
            let end =
                (open.index + u64::from(used_up) + ring.runs).min(open.index + ring.state.slots());
            return end.saturating_sub(*tail).min(BATCH);
        }
    }

    /// Does what the put policy says about a full ring; returns whether there is room now.
    fn wait_for_room(&self) -> bool {
        let ring = &self.ring;
        let ready = || ring.why_gone().is_some() || self.room() > 0;
        let policy = &ring.options.put_policy;
        policy.after_full(ready, |timeout| {
            // A forked child must not touch the event's lock.
            if !ring.is_forked() {
                ring.demand.wait(timeout, ready);
            }
        }) && ring.why_gone().is_none()
    }

    /// Throws away what is published and not yet taken; returns how many numbers that was.
    pub fn discard(&mut self) -> u64 {
        self.discard_below(u64::MAX)
    }

    /// [`discard`](Self::discard) for the numbers below `oldest`. Once it returns no take gets any
    /// of them that did not begin before.
    pub fn discard_below(&mut self, oldest: u64) -> u64 {
        let ring = &self.ring;
        let Ok(open) = ring.open_run() else { return 0 };
        let Some(fresh) = self.first_run(open.index, |run| run.end > oldest) else {
            let (Some(last), next) = (ring.run(self.tail - 1), ring.state.numbers.next()) else {
                return 0;
            };
            if open.index == last.index && next >= last.end {
                return 0;
            }
            let next = ring.discard_to(last, last.end);
            self.gap = Some(next);
            return self.count_discarded(open.index, next, last.before + last.end - last.first);
        };
        let mut first = fresh.first.max(oldest);
        if fresh.index == open.index {
            if ring.state.numbers.next() >= first {
                return 0;
            }
        } else if first == fresh.first {
            first = ring.begin_after_gap(ring.state.numbers.next(), fresh.first..fresh.end);
        }
        let (next, _) = ring.open_from(fresh, first);
        self.count_discarded(open.index, next, fresh.published_below(first))
    }

    /// The first run from this index on of which `found` is true, and with it of all after it.
    fn first_run(&self, index: u64, found: impl Fn(&Run) -> bool) -> Option<Run> {
        self.ring.first_run(index, self.tail, found)
    }

    /// Counts what was discarded of the runs from this index on, when `next` was the next number;
    /// so many numbers had been published below what follows.
    fn count_discarded(&self, index: u64, next: u64, published: u64) -> u64 {
        let first = self.first_run(index, |run| run.end > next);
        let discarded = first.map_or(0, |run| published.saturating_sub(run.published_below(next)));
        self.ring.counters.discarded.fetch_add(discarded, Ordering::Relaxed);
        discarded
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
    count: u64,
}

impl Batch<'_> {
    fn put(&mut self, numbers: Range<u64>) -> Result<(), PutError> {
        let producer = &mut *self.producer;
        let Range { start, end } = numbers;
        if start < producer.end || start >= end || end > MAX_END {
            return Err(PutError::misplaced(start));
        }
        let first = match producer.gap.take() {
            Some(next) => producer.ring.begin_after_gap(next, start..end),
            None => start,
        };
        let index = producer.tail + self.count;
        let run = Run { index, first, end, before: producer.published };
        producer.ring.state.slot(index).publish(run);
        producer.end = end;
        producer.published += end - first;
        self.count += 1;
        Ok(())
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let Self { producer, count } = self;
        if *count > 0 {
            producer.tail += *count;
            // Release: pairs with the Acquire loads of the tail: who sees it sees the flags of
            // all runs below it, or later ones.
            producer.ring.tail.store(producer.tail, Ordering::Release);
            producer.ring.notify(&producer.ring.published);
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.ring.close_for(CloseReason::Closed);
    }
}

impl RingBuffer {
    /// Ends a ring that was closed: throws away what is left, whatever takes draw from now on, and
    /// what its producer, which may be at it, still publishes. Returns a number below which all lie
    /// that were issued, `None` if none was ever published; the same each time.
    pub(crate) fn end(&self) -> Option<u64> {
        *self.ended.lock().ok()?.get_or_insert_with(|| self.end_once())
    }

    fn end_once(&self) -> Option<u64> {
        let open = self.open_run().ok()?;
        // Before the raise: whoever opens a run after that sees it, and so does who finds in such
        // a run a number that was drawn before.
        self.freshness.expire();
        // Before the raise, too: takes that see the limit shut draw nothing, those that do not are
        // raised above it. Whoever opens a run now is late, and changes neither.
        self.state.numbers.set_limit(Limit::CLOSED);
        let next = self.raise(MAX_END);
        // After the raise, which has seen the raises of all who opened runs: these are below the tail.
        let tail = self.tail.load(Ordering::Acquire);
        let last = self.run(tail - 1)?;
        let published = last.published_below(u64::MAX);
        self.counters.ended.store(published, Ordering::Relaxed);
        let run = self.first_run(open.index, tail, |run| run.end > next);
        let left = run.map_or(0, |run| published - run.published_below(next));
        self.counters.discarded.fetch_add(left, Ordering::Relaxed);
        let before = run.and_then(|run| Some((run, self.run(run.index - 1)?)));
        self.state.advance(last.index);
        match (run, before) {
            // A word that stands between two runs is nobody's number.
            (_, Some((run, before))) if next <= run.first && before.end > 0 => Some(before.end),
            (Some(run), _) => Some(next.max(run.first)),
            (None, _) => (last.end > 0).then_some(last.end),
        }
    }

    /// Throws away what is left below the end of this run and of all before it.
    fn discard_to(&self, last: Run, end: u64) -> u64 {
        let next = self.raise(end);
        self.state.advance(last.index);
        self.state.numbers.set_limit(Limit::used_up(end));
        next
    }

    fn begin_after_gap(&self, next: u64, numbers: Range<u64>) -> u64 {
        match &self.options.after_gap {
            Some(offset) => offset.begin(next, numbers.start, numbers.end),
            None => numbers.start,
        }
    }

    /// The first run from `index` to `tail` of which `found` is true, and with it of all after it.
    /// For the producer, or for an end: where another run has a slot by now, its own was passed.
    fn first_run(&self, index: u64, tail: u64, found: impl Fn(&Run) -> bool) -> Option<Run> {
        let (mut start, mut end) = (index, tail);
        while start < end {
            let middle = start + (end - start) / 2;
            if self.run(middle).is_some_and(|run| found(&run)) {
                end = middle;
            } else {
                start = middle + 1;
            }
        }
        if start < tail { self.run(start) } else { None }
    }

    /// Whether the producer has something to do: less is left than the padding factor asks for, or
    /// the ring is closed.
    pub(crate) fn wants_runs(&self) -> bool {
        (self.is_low() && !self.is_held()) || self.why_gone().is_some()
    }

    /// Lets the takers' demand wake the producer, or not.
    pub(crate) fn hold(&self, held: bool) {
        if self.is_held() != held {
            // Relaxed: see the fence in `announce`.
            self.held.store(held, Ordering::Relaxed);
        }
    }

    /// Wakes the producer, whatever the ring holds.
    pub(crate) fn call_producer(&self) {
        self.notify(&self.demand);
    }

    /// For a padder that has filled the ring: asks the put policy's handler, if there is one, and
    /// says when to pad again if that is not to wait for the takers' demand.
    pub(crate) fn full_again(&self) -> Option<Duration> {
        self.options.put_policy.retry_when_full()
    }
}
