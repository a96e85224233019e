//! The segments of one tag: the current one and its successors.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::ticket_view::{Drawn, Span, TicketView};
use crate::error::{Chain, Error, TakeError, check_option, error_traits};
use crate::sync::{EventCount, ForkGuarded, ForkToken, Forked};

/// Consecutive ranges of ids that any number of takers use up. A take is one atomic addition. At a range's end, takes
/// continue with the next.
///
/// A [`SegmentGenerator`](crate::SegmentGenerator) has one per tag. You can also use it alone, with ranges from
/// elsewhere.
///
/// - Each id of a range is given out at most once, and no other ids are.
/// - If one take returns before another begins, its id is smaller.
/// - Ids are only lost if their range is [discarded](Self::discard), or if a taker's thread is stopped twice in a take,
///   each time for as long as the others need for several ranges. The latter loses one id per taker, and
///   [`lapped`](ChainStats::lapped) counts these.
/// - A forked child gets [`TakeError::Forked`].
///
/// ```
/// use uidring::TakeError;
/// use uidring::segment::SegmentChain;
///
/// let chain = SegmentChain::new(10)?;
/// chain.push(1_000..1_003)?;
/// chain.push(5_000..5_001)?;
/// let ids: Vec<_> = (0..4).map_while(|_| chain.try_take().ok()).collect();
/// assert_eq!(ids, [1_000, 1_001, 1_002, 5_000]);
/// assert_eq!(chain.try_take(), Err(TakeError::Empty));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SegmentChain {
    view: TicketView,
    queue: ForkGuarded<SegmentQueue>,
    ready: EventCount,
}

/// State that changes once or twice per segment.
#[derive(Debug, Default)]
struct SegmentQueue {
    current: Option<Span>,
    /// The current segment has passed its mark.
    marked: bool,
    /// The last segments before it, oldest first.
    past: VecDeque<Span>,
    waiting: VecDeque<Range<u64>>,
    end: u64,
    /// Suppresses [`ChainEvent::Dried`] until the next segment begins: it has been reported already, or the chain is new
    /// or was discarded.
    dry: bool,
    closed: bool,
    prefetch: u32,
    reserved: u64,
    discarded: u64,
    lapped: u64,
}

/// How many past segments are remembered for takers that come late with a ticket. Few enough in the models that some
/// are forgotten.
const PAST: usize = if cfg!(uidring_loom) { 2 } else { 8 };

/// Statistics of a [`SegmentChain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainStats {
    /// The id of the next take; `None` if nothing is left.
    pub position: Option<u64>,
    /// Ids left in memory.
    pub left: u64,
    /// Segments left in memory, including the current one.
    pub segments: usize,
    /// Ids pushed.
    pub reserved: u64,
    /// Ids discarded.
    pub discarded: u64,
    /// Ids that may have been lost because their taker's thread was stopped for too long.
    pub lapped: u64,
}

/// Why a range cannot be pushed.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The range is empty, or does not fit in 63 bits.
    #[error("invalid range {start}..{end}: the end must be above the start, and at most 2^63 - 1")]
    NoRange {
        /// The range's start.
        start: u64,
        /// The range's end.
        end: u64,
    },
    /// Ids of the range may have been given out before.
    #[error("the range starts at {start}, and ids up to {end} were in use before")]
    Backwards {
        /// The range's start.
        start: u64,
        /// One above the last id of the earlier ranges.
        end: u64,
    },
    /// This process is a forked child of the one that made the chain.
    #[error("this process was forked from the one that made the chain")]
    Forked,
}

error_traits!(PushError);

impl From<Forked> for PushError {
    fn from(_: Forked) -> Self {
        Self::Forked
    }
}

/// An event in a chain. Handling it reads a clock, so this happens after the chain's lock is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainEvent {
    /// The current segment has no id left.
    UsedUp,
    /// The next segment has become current.
    Begun,
    /// There was no next segment. Reported once until there is one again.
    Dried,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Supply {
    marked: bool,
    segments: usize,
}

#[derive(Debug)]
pub(super) struct Settled {
    /// `None` if nothing is left.
    pub(super) id: Option<u64>,
    pub(super) supply: Supply,
    pub(super) events: Vec<ChainEvent>,
}

impl Supply {
    /// Whether to load another segment, to have `depth` of them.
    pub(super) fn is_short_of(self, depth: usize) -> bool {
        self.marked && self.segments < depth
    }
}

impl SegmentChain {
    /// Returns an empty chain. [`is_low`](Self::is_low) returns true once `prefetch` percent of a segment, 1 to 99, are
    /// used.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] for any other percentage.
    pub fn new(prefetch: u32) -> Result<Self, Error> {
        check_option("prefetch", prefetch, 1..=99)?;
        Ok(Self::with_life(ForkToken::current(), prefetch))
    }

    pub(super) fn with_life(life: ForkToken, prefetch: u32) -> Self {
        let queue = SegmentQueue { dry: true, prefetch, ..SegmentQueue::default() };
        let queue = ForkGuarded::new(life, queue);
        let ready = EventCount::new(life);
        Self { view: TicketView::new(life), queue, ready }
    }

    /// Appends a range, and wakes waiting takers. A closed chain discards it.
    ///
    /// # Errors
    ///
    /// [`PushError`] for a range that is not above all earlier ranges, used or not, and in a forked child.
    pub fn push(&self, ids: Range<u64>) -> Result<(), PushError> {
        self.append(ids).map(drop)
    }

    /// [`push`](Self::push) that returns the events.
    pub(super) fn append(&self, ids: Range<u64>) -> Result<Vec<ChainEvent>, PushError> {
        let Range { start, end } = ids;
        if start >= end || end >> 63 != 0 {
            return Err(PushError::NoRange { start, end });
        }
        let mut events = Vec::new();
        let mut queue = self.queue.lock()?;
        if start < queue.end {
            return Err(PushError::Backwards { start, end: queue.end });
        }
        queue.end = end;
        queue.reserved += end - start;
        if queue.closed {
            queue.discarded += end - start;
        } else {
            queue.waiting.push_back(ids);
            queue.advance(&self.view, &mut events);
        }
        drop(queue);
        self.ready.notify();
        Ok(events)
    }

    /// Takes the next id. Never waits for a segment.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`] if all segments are used up, [`TakeError::Closed`], and [`TakeError::Forked`].
    #[inline]
    pub fn try_take(&self) -> Result<u64, TakeError> {
        match self.draw() {
            Ok(id) => Ok(id),
            Err(missed) => self.take_slowly(missed),
        }
    }

    #[cold]
    fn take_slowly(&self, missed: Option<Drawn>) -> Result<u64, TakeError> {
        match self.settle(missed)?.id {
            Some(id) => Ok(id),
            None if self.queue.lock()?.closed => Err(TakeError::Closed),
            None => Err(TakeError::Empty),
        }
    }

    /// Takes up to `out.len()` ids, writes them to the front of `out` in increasing order, and returns how many. Never
    /// waits for a segment. An empty `out` does nothing.
    ///
    /// # Errors
    ///
    /// As [`try_take`](Self::try_take), if not even one was left.
    pub fn try_fill(&self, out: &mut [u64]) -> Result<usize, TakeError> {
        self.fill(out, &mut |missed| self.take_slowly(missed))
    }

    /// [`try_fill`](Self::try_fill) with the caller's own slow path.
    pub(super) fn fill<E>(
        &self,
        out: &mut [u64],
        slowly: &mut dyn FnMut(Option<Drawn>) -> Result<u64, E>,
    ) -> Result<usize, E> {
        let mut filled = 0;
        while let rest @ [_, ..] = &mut out[filled..] {
            filled += match self.view.claim(rest.len() as u64) {
                Some(ids) => {
                    let count = (ids.end - ids.start) as usize;
                    for (target, id) in rest.iter_mut().zip(ids) {
                        *target = id;
                    }
                    count
                }
                None => match slowly(None) {
                    Ok(id) => {
                        rest[0] = id;
                        1
                    }
                    // In a child that was forked meanwhile, what was filled in is the parent's.
                    Err(_) if filled > 0 && !self.is_forked() => break,
                    Err(error) => return Err(error),
                },
            };
        }
        Ok(filled)
    }

    /// Sleeps until there may be something to take, the chain is closed, or `timeout` has passed.
    pub fn wait(&self, timeout: Option<Duration>) {
        self.wait_or(timeout, || self.queue.lock().map_or(true, |queue| queue.closed));
    }

    /// Sleeps until there may be something to take, `over` returns true, or `timeout` has passed. Unlike
    /// [`wait`](Self::wait), it does not check whether the chain is closed: `over` has to. Whatever makes `over` true must
    /// then call [`wake`](Self::wake).
    pub(super) fn wait_or(&self, timeout: Option<Duration>, over: impl Fn() -> bool) {
        self.ready.wait(timeout, || self.view.is_open() || over());
    }

    /// Notified when a range is pushed, when the chain is closed, and by [`wake`](Self::wake).
    pub(super) fn ready(&self) -> &EventCount {
        &self.ready
    }

    pub(super) fn wake(&self) {
        self.ready.notify();
    }

    /// Returns whether to push another range: the last segment has passed its mark, or nothing is left.
    pub fn is_low(&self) -> bool {
        self.supply().is_ok_and(|supply| supply.is_short_of(2))
    }

    /// Returns the end of the last range, used or not; 0 before the first.
    pub(super) fn end(&self) -> Result<u64, Forked> {
        Ok(self.queue.lock()?.end)
    }

    pub(super) fn supply(&self) -> Result<Supply, Forked> {
        Ok(self.queue.lock()?.supply())
    }

    /// Discards the ids that are left, and returns how many they were; 0 in a forked child. Ranges pushed later are given
    /// out as usual.
    pub fn discard(&self) -> u64 {
        self.queue.lock().map_or(0, |mut queue| queue.discard(&self.view))
    }

    /// Closes the chain: discards what is left and what is pushed later, and releases waiting takers. Later takes fail
    /// with [`TakeError::Closed`]. Closing again changes nothing.
    pub fn close(&self) {
        // A forked child has no waiting takers.
        let Ok(mut queue) = self.queue.lock() else { return };
        queue.closed = true;
        queue.discard(&self.view);
        drop(queue);
        self.ready.notify();
    }

    /// Returns statistics, all zero in a forked child.
    pub fn stats(&self) -> ChainStats {
        let Ok(queue) = self.queue.lock() else { return ChainStats::default() };
        let mut left: u64 = queue.waiting.iter().map(|ids| ids.end - ids.start).sum();
        let mut segments = queue.waiting.len();
        let mut position = queue.waiting.front().map(|ids| ids.start);
        if let Some(span) = &queue.current {
            let next = self.view.next(span);
            if span.holds(next) {
                left += span.stop - next;
                segments += 1;
                position = Some(span.id(next));
            }
        }
        let SegmentQueue { reserved, discarded, lapped, .. } = *queue;
        ChainStats { position, left, segments, reserved, discarded, lapped }
    }

    #[inline]
    pub(super) fn draw(&self) -> Result<u64, Option<Drawn>> {
        self.view.draw()
    }

    pub(super) fn is_forked(&self) -> bool {
        self.view.is_forked()
    }

    /// Finishes a take that the fast path could not: finds an id if any is left, and makes the next segment current if
    /// it is time. The caller handles the events, with no lock held.
    #[cold]
    pub(super) fn settle(&self, missed: Option<Drawn>) -> Result<Settled, Forked> {
        let mut events = Vec::new();
        let mut queue = self.queue.lock()?;
        let mut id = missed.and_then(|drawn| drawn.id().or_else(|| queue.find(&drawn)));
        queue.advance(&self.view, &mut events);
        while id.is_none()
            && let Some(span) = queue.current
        {
            id = self.view.draw_of(&span);
            queue.advance(&self.view, &mut events);
        }
        Ok(Settled { id, supply: queue.supply(), events })
    }
}

impl SegmentQueue {
    /// Catches up with the cursor. Past the mark, it opens the rest of the segment to takers; past the end, it makes the
    /// next segment current.
    fn advance(&mut self, view: &TicketView, events: &mut Vec<ChainEvent>) {
        if let Some(span) = self.current {
            let next = view.next(&span);
            if next < span.stop {
                if !self.marked && next >= span.first + self.mark(span.stop - span.first) {
                    self.marked = true;
                    view.widen(&span);
                }
                return;
            }
            self.retire(view, span);
            events.push(ChainEvent::UsedUp);
        }
        match self.waiting.pop_front() {
            Some(ids) => {
                self.begin(view, &ids);
                events.push(ChainEvent::Begun);
            }
            None if !self.dry => {
                self.dry = true;
                events.push(ChainEvent::Dried);
            }
            None => {}
        }
    }

    fn begin(&mut self, view: &TicketView, ids: &Range<u64>) {
        let length = ids.end - ids.start;
        // A short segment's mark is before its first id, so it has been passed already.
        let mark = Some(self.mark(length)).filter(|mark| *mark > 0);
        // The other lane: takers may still be about to draw on the last segment's.
        let lane = self.past.back().map_or(0, |last| 1 - last.lane);
        self.current = view.open(lane, ids, mark.unwrap_or(length));
        self.dry = false;
        self.marked = mark.is_none();
        if self.current.is_none() {
            // Happens only after 2^63 draws of a lane.
            self.discarded += length;
        }
    }

    fn mark(&self, length: u64) -> u64 {
        let percent = u128::from(length) * u128::from(self.prefetch) / 100;
        u64::try_from(percent).unwrap_or(length)
    }

    fn retire(&mut self, view: &TicketView, span: Span) {
        view.shut();
        self.current = None;
        if self.past.len() == PAST {
            self.past.pop_front();
        }
        self.past.push_back(span);
    }

    /// Returns the id of a ticket whose taker was stopped between look and draw, and so drew with the view of an earlier
    /// segment of the lane. If the ticket is in a later segment, that segment's id is this taker's alone.
    fn find(&mut self, drawn: &Drawn) -> Option<u64> {
        let spans = self.past.iter().chain(&self.current).rev();
        match spans.filter(|s| s.lane == drawn.lane).find(|s| s.first <= drawn.ticket) {
            // A ticket beyond the end is no id: it was drawn before the lane's next segment began.
            Some(span) => span.holds(drawn.ticket).then(|| span.id(drawn.ticket)),
            None => {
                self.lapped += 1;
                None
            }
        }
    }

    fn discard(&mut self, view: &TicketView) -> u64 {
        let mut count = self.waiting.drain(..).map(|ids| ids.end - ids.start).sum();
        if let Some(span) = self.current {
            count += view.drain(&span);
            self.retire(view, span);
        }
        // No taker found the chain empty, so do not report `Dried`.
        self.dry = true;
        self.discarded += count;
        count
    }

    fn supply(&self) -> Supply {
        let segments = self.waiting.len() + usize::from(self.current.is_some());
        Supply { marked: self.marked || self.current.is_none(), segments }
    }
}
