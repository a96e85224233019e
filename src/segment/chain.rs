//! The segments of one tag: the current one, and those that come after it.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::ticket_view::{Drawn, Span, TicketView};
use crate::error::{Chain, Error, TakeError, check_option, error_traits};
use crate::sync::{EventCount, ForkGuarded, ForkToken, Forked};

/// Ranges of ids, one after another, that any number of takers use up. Each take is one atomic
/// addition; a take that finds the end of a range goes on with the next one.
///
/// A [`SegmentGenerator`](crate::SegmentGenerator) has one for each tag. It can be used alone, too, for
/// ranges that come from elsewhere.
///
/// - No id of a range is given out twice, and no id that is not of a range.
/// - Order: if one take returns before another begins, its id is the smaller.
/// - Every id is given out, except those of a range that is [discarded](Self::discard), and one for each
///   taker whose thread is stopped twice between two instructions, each time for as long as the others
///   need for several ranges; [`lapped`](ChainStats::lapped) counts these.
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
    /// Where takers wait for the next segment.
    ready: EventCount,
}

/// What changes once or twice a segment.
#[derive(Debug, Default)]
struct SegmentQueue {
    current: Option<Span>,
    /// More of the current segment is used than the mark allows.
    marked: bool,
    /// The last segments before it, the oldest first.
    past: VecDeque<Span>,
    /// The segments after it.
    waiting: VecDeque<Range<u64>>,
    /// The end of the last range that was pushed.
    end: u64,
    /// Takers have found nothing, and [`ChainEvent::Dried`] has been reported.
    dry: bool,
    closed: bool,
    prefetch: u32,
    reserved: u64,
    discarded: u64,
    lapped: u64,
}

/// How many of the last segments are remembered for takers that come late with a ticket. In the models
/// few enough that some are forgotten.
const PAST: usize = if cfg!(uidring_loom) { 2 } else { 8 };

/// Statistics of a [`SegmentChain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainStats {
    /// The id that the next take would get, were there no others.
    pub position: Option<u64>,
    /// Ids that are left in memory.
    pub left: u64,
    /// Segments that are left in memory, the current one included.
    pub segments: usize,
    /// Ids that were pushed.
    pub reserved: u64,
    /// Ids that were discarded.
    pub discarded: u64,
    /// Ids that may have been lost because their taker's thread was stopped for too long.
    pub lapped: u64,
}

/// A range that must not follow those before it.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The range is empty, or does not fit 63 bits.
    #[error("invalid range {start}..{end}: the end must be above the start, and at most 2^63 - 1")]
    NoRange {
        /// Where it begins.
        start: u64,
        /// Where it ends.
        end: u64,
    },
    /// Ids of the range may have been given out before.
    #[error("the range starts at {start}, and ids up to {end} were in use before")]
    Backwards {
        /// Where it begins.
        start: u64,
        /// One above the last id of the ranges before it.
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

/// What happens in a chain. Whoever handles it reads a clock, so it is handled after the chain's lock is
/// released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainEvent {
    /// The current segment has no id left.
    UsedUp,
    /// The next segment has become the current one.
    Begun,
    /// There was no next segment. Reported once until there is one again.
    Dried,
}

/// How much a chain has in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supply {
    marked: bool,
    segments: usize,
}

/// The result of a take that the fast path could not finish.
#[derive(Debug)]
pub(super) struct Settled {
    /// None where nothing is left.
    pub(super) id: Option<u64>,
    pub(super) supply: Supply,
    /// What has happened in the chain meanwhile.
    pub(super) events: Vec<ChainEvent>,
}

impl Supply {
    /// Whether another segment is to be loaded, to have `depth` of them.
    pub(super) fn is_short_of(self, depth: usize) -> bool {
        self.marked && self.segments < depth
    }
}

impl SegmentChain {
    /// Returns an empty chain. Once `prefetch` percent of a segment, 1 to 99, are used,
    /// [`is_low`](Self::is_low) returns true.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] for another percentage.
    pub fn new(prefetch: u32) -> Result<Self, Error> {
        check_option("prefetch", prefetch, 1..=99)?;
        Ok(Self::with_life(ForkToken::current(), prefetch))
    }

    /// A chain for the process of the token.
    pub(super) fn with_life(life: ForkToken, prefetch: u32) -> Self {
        let queue = SegmentQueue { dry: true, prefetch, ..SegmentQueue::default() };
        let queue = ForkGuarded::new(life, queue);
        let ready = EventCount::new(life);
        Self { view: TicketView::new(life), queue, ready }
    }

    /// Appends a range, and wakes takers that wait. A closed chain discards it.
    ///
    /// # Errors
    ///
    /// [`PushError`] for a range that is not above all ranges before it, whether they were used or not; and
    /// in a forked child.
    pub fn push(&self, ids: Range<u64>) -> Result<(), PushError> {
        self.append(ids).map(drop)
    }

    /// [`push`](Self::push) that returns what has happened in the chain.
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
    /// [`TakeError::Empty`] when all segments are used up; [`TakeError::Closed`];
    /// [`TakeError::Forked`].
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

    /// Takes up to `out.len()` ids, writes them to the front of `out` in increasing order, and
    /// returns how many. Never waits for a segment. With an empty `out` it does nothing.
    ///
    /// # Errors
    ///
    /// As [`try_take`](Self::try_take), if there was not even one.
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

    /// Sleeps until there may be something to take, the chain is closed, or `timeout` is over.
    pub fn wait(&self, timeout: Option<Duration>) {
        self.wait_or(timeout, || self.queue.lock().map_or(true, |queue| queue.closed));
    }

    /// [`wait`](Self::wait) until `over`, too; whoever makes that true calls [`wake`](Self::wake).
    pub(super) fn wait_or(&self, timeout: Option<Duration>, over: impl Fn() -> bool) {
        self.ready.wait(timeout, || self.view.is_open() || over());
    }

    /// Where takers wait.
    pub(super) fn ready(&self) -> &EventCount {
        &self.ready
    }

    pub(super) fn wake(&self) {
        self.ready.notify();
    }

    /// Returns whether to push another range: more of the last segment is used than the mark allows, or
    /// nothing is left.
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

    /// Discards what is left, and returns how many ids that were. Ranges that are pushed later are given
    /// out.
    pub fn discard(&self) -> u64 {
        self.queue.lock().map_or(0, |mut queue| queue.discard(&self.view))
    }

    /// Closes the chain: discards what is left and what is pushed later, and releases takers that wait.
    /// Every take from now on gets [`TakeError::Closed`]. A second close changes nothing.
    pub fn close(&self) {
        // A forked child has no waiting takers.
        let Ok(mut queue) = self.queue.lock() else { return };
        queue.closed = true;
        queue.discard(&self.view);
        drop(queue);
        self.ready.notify();
    }

    /// Returns statistics; all zero in a forked child.
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

    /// Finds an id for a take that the fast path could not finish, and brings the view up to date.
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
    /// Follows the cursor: past the mark, and past the end to the next segment.
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
        // The mark of a short segment is before its first id: it has been passed already.
        let mark = Some(self.mark(length)).filter(|mark| *mark > 0);
        // Not the last segment's lane, on which takers may still be about to draw.
        let lane = self.past.back().map_or(0, |last| 1 - last.lane);
        self.current = view.open(lane, ids, mark.unwrap_or(length));
        self.dry = false;
        self.marked = mark.is_none();
        if self.current.is_none() {
            // This takes 2^63 draws of a lane.
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

    /// Returns the id of a ticket that was drawn with a view of an earlier segment of its lane: its taker
    /// was stopped between look and draw. The ticket may be one of a later segment. Then it is nobody
    /// else's.
    fn find(&mut self, drawn: &Drawn) -> Option<u64> {
        let spans = self.past.iter().chain(&self.current).rev();
        match spans.filter(|s| s.lane == drawn.lane).find(|s| s.first <= drawn.ticket) {
            // One beyond the end is no id: it was drawn before the lane's next segment began.
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
        // No taker found it dry.
        self.dry = true;
        self.discarded += count;
        count
    }

    fn supply(&self) -> Supply {
        let segments = self.waiting.len() + usize::from(self.current.is_some());
        Supply { marked: self.marked || self.current.is_none(), segments }
    }
}
