//! The segments of one tag: the current one, and those that wait for their turn.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::ticket_view::{Drawn, Span, TicketView};
use crate::error::{Error, TakeError, check_option};
use crate::sync::{Event, ForkGuarded, Forked, Pages};

/// Ranges of ids, one after another, that any number of takers use up: each take is one atomic
/// addition, and the one that finds the end of a range goes on with the next.
///
/// A [`SegmentGenerator`](crate::SegmentGenerator) has one for each tag. It is of use without one,
/// too, where ranges come from elsewhere.
///
/// - No id of a range is given out twice, and none that is not of a range.
/// - Order: if one take returns before another begins, its id is the smaller.
/// - Every id is given out, but those of a range that is [thrown away](Self::discard), and one where
///   a taker's thread is stopped twice between two instructions, each time for as long as the others
///   need for several ranges; [`lapped`](ChainStats::lapped) counts these.
/// - The child of a fork gets [`TakeError::Forked`].
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
    words: TicketView,
    links: ForkGuarded<SegmentQueue>,
    /// Where takers wait for the next segment.
    ready: Event,
}

/// What changes once or twice a segment.
#[derive(Debug)]
struct SegmentQueue {
    current: Option<Span>,
    /// More of the current segment is used than the mark allows.
    marked: bool,
    /// The last ones before it, the oldest first.
    past: VecDeque<Span>,
    /// Those to come.
    waiting: VecDeque<Range<u64>>,
    /// The end of the last range that was pushed.
    end: u64,
    /// Takers have found nothing, and it is told.
    dry: bool,
    closed: bool,
    prefetch: u32,
    reserved: u64,
    discarded: u64,
    lapped: u64,
}

/// So many of the last segments are known to takers that come late with a ticket; few enough for the
/// model checker to have some forgotten.
const PAST: usize = if cfg!(uidring_loom) { 2 } else { 8 };

/// A look at a [`SegmentChain`].
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
    /// Ids that were thrown away.
    pub discarded: u64,
    /// Ids that may have been lost because their taker's thread was stopped for too long.
    pub lapped: u64,
}

/// A range that must not follow those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The range is empty, or does not fit 63 bits.
    #[error(
        "the range {start} to {end} is none: it must end above its start, and at 2^63 - 1 at most"
    )]
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

impl From<Forked> for PushError {
    fn from(_: Forked) -> Self {
        Self::Forked
    }
}

/// What happens in a chain, for those who keep account of it. They read a clock for that, so it is
/// told after the chain's lock is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainEvent {
    /// The current segment has no id left.
    UsedUp,
    /// Another one is the current one.
    Begun,
    /// There was none to go on with. Told once until there is one again.
    Dried,
}

/// How well a chain is stocked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supply {
    marked: bool,
    segments: usize,
}

/// What came of a take that needed a closer look.
#[derive(Debug)]
pub(super) struct Settled {
    /// None where nothing is left.
    pub(super) id: Option<u64>,
    pub(super) supply: Supply,
    /// What has happened by it.
    pub(super) events: Vec<ChainEvent>,
}

impl Supply {
    /// Whether it is time to get another segment, if there are to be so many.
    pub(super) fn is_short_of(self, depth: usize) -> bool {
        self.marked && self.segments < depth
    }
}

impl SegmentChain {
    /// An empty chain. Once so many percent of a segment, 1 to 99, are used,
    /// [`is_low`](Self::is_low) says so.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] for another percentage, [`Error::OutOfMemory`].
    pub fn new(prefetch: u32) -> Result<Self, Error> {
        check_option("prefetch", prefetch, 1..=99)?;
        let life = Pages::new(0).ok_or(Error::OutOfMemory { bytes: 64 })?;
        Ok(Self::with_life(life, prefetch))
    }

    /// One of many, with one mark of life.
    pub(super) fn with_life(life: Pages, prefetch: u32) -> Self {
        let links = SegmentQueue {
            current: None,
            marked: false,
            past: VecDeque::new(),
            waiting: VecDeque::new(),
            end: 0,
            dry: true,
            closed: false,
            prefetch,
            reserved: 0,
            discarded: 0,
            lapped: 0,
        };
        let links = ForkGuarded::new(life.life(), links);
        let ready = Event::new(life.life());
        Self { words: TicketView::new(life), links, ready }
    }

    /// Appends a range, and wakes takers that wait. Of a closed chain it is thrown away.
    ///
    /// # Errors
    ///
    /// [`PushError`] for a range that does not lie above those before it, whatever became of them; and in
    /// a forked child.
    pub fn push(&self, ids: Range<u64>) -> Result<(), PushError> {
        self.append(ids).map(drop)
    }

    /// [`push`](Self::push), and what has happened by it.
    pub(super) fn append(&self, ids: Range<u64>) -> Result<Vec<ChainEvent>, PushError> {
        let Range { start, end } = ids;
        if start >= end || end >> 63 != 0 {
            return Err(PushError::NoRange { start, end });
        }
        let mut events = Vec::new();
        let mut links = self.links.lock()?;
        if start < links.end {
            return Err(PushError::Backwards { start, end: links.end });
        }
        links.end = end;
        links.reserved += end - start;
        if links.closed {
            links.discarded += end - start;
        } else {
            links.waiting.push_back(ids);
            links.advance(&self.words, &mut events);
        }
        drop(links);
        self.ready.notify();
        Ok(events)
    }

    /// Takes the next id, or says at once that there is none. Never waits for a segment.
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
            None if self.links.lock()?.closed => Err(TakeError::Closed),
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

    /// [`try_fill`](Self::try_fill) that leaves to its caller what the fast path cannot do.
    pub(super) fn fill<E>(
        &self,
        out: &mut [u64],
        slowly: &mut dyn FnMut(Option<Drawn>) -> Result<u64, E>,
    ) -> Result<usize, E> {
        let mut filled = 0;
        while let rest @ [_, ..] = &mut out[filled..] {
            filled += match self.words.claim(rest.len() as u64) {
                Some(ids) => {
                    let count = (ids.end - ids.start) as usize;
                    for (place, id) in rest.iter_mut().zip(ids) {
                        *place = id;
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
        self.wait_or(timeout, || self.links.lock().map_or(true, |links| links.closed));
    }

    /// [`wait`](Self::wait) for something else, too, of which [`wake`](Self::wake) tells.
    pub(super) fn wait_or(&self, timeout: Option<Duration>, over: impl Fn() -> bool) {
        self.ready.wait(timeout, || self.words.is_open() || over());
    }

    pub(super) fn wake(&self) {
        self.ready.notify();
    }

    /// Whether more of the last segment is used than the mark allows, or nothing is left: time to
    /// push another.
    pub fn is_low(&self) -> bool {
        self.supply().is_ok_and(|supply| supply.is_short_of(2))
    }

    pub(super) fn supply(&self) -> Result<Supply, Forked> {
        Ok(self.links.lock()?.supply())
    }

    /// Throws away what is left; returns how many ids that were. What is pushed later is served.
    pub fn discard(&self) -> u64 {
        self.links.lock().map_or(0, |mut links| links.discard(&self.words))
    }

    /// Throws away what is left, and what may come: takers that wait are released, and every take
    /// from now on gets [`TakeError::Closed`]. A second close changes nothing.
    pub fn close(&self) {
        // A child has nobody to tell.
        let Ok(mut links) = self.links.lock() else { return };
        links.closed = true;
        links.discard(&self.words);
        drop(links);
        self.ready.notify();
    }

    /// A look at the chain. In a forked child there is nothing to see.
    pub fn stats(&self) -> ChainStats {
        let Ok(links) = self.links.lock() else { return ChainStats::default() };
        let mut left: u64 = links.waiting.iter().map(|ids| ids.end - ids.start).sum();
        let mut segments = links.waiting.len();
        let mut position = links.waiting.front().map(|ids| ids.start);
        if let Some(span) = &links.current {
            let next = self.words.next(span);
            if span.holds(next) {
                left += span.stop - next;
                segments += 1;
                position = Some(span.id(next));
            }
        }
        let SegmentQueue { reserved, discarded, lapped, .. } = *links;
        ChainStats { position, left, segments, reserved, discarded, lapped }
    }

    #[inline]
    pub(super) fn draw(&self) -> Result<u64, Option<Drawn>> {
        self.words.draw()
    }

    pub(super) fn is_forked(&self) -> bool {
        self.words.is_forked()
    }

    /// Finds an id for a take that the fast path gave up, and brings the view up to date.
    #[cold]
    pub(super) fn settle(&self, missed: Option<Drawn>) -> Result<Settled, Forked> {
        let mut events = Vec::new();
        let mut links = self.links.lock()?;
        let mut id = missed.and_then(|drawn| drawn.id().or_else(|| links.find(&drawn)));
        links.advance(&self.words, &mut events);
        while id.is_none()
            && let Some(span) = links.current
        {
            id = self.words.draw_of(&span);
            links.advance(&self.words, &mut events);
        }
        Ok(Settled { id, supply: links.supply(), events })
    }
}

impl SegmentQueue {
    /// Follows the cursor: past the mark, and past the end to the next segment.
    fn advance(&mut self, words: &TicketView, events: &mut Vec<ChainEvent>) {
        if let Some(span) = self.current {
            let next = words.next(&span);
            if next < span.stop {
                if !self.marked && next >= span.first + self.mark(span.stop - span.first) {
                    self.marked = true;
                    words.widen(&span);
                }
                return;
            }
            self.retire(words, span);
            events.push(ChainEvent::UsedUp);
        }
        match self.waiting.pop_front() {
            Some(ids) => {
                self.begin(words, &ids);
                events.push(ChainEvent::Begun);
            }
            None if !self.dry => {
                self.dry = true;
                events.push(ChainEvent::Dried);
            }
            None => {}
        }
    }

    fn begin(&mut self, words: &TicketView, ids: &Range<u64>) {
        let length = ids.end - ids.start;
        // Of a short one the mark lies before the first id: it is passed from the beginning.
        let mark = Some(self.mark(length)).filter(|mark| *mark > 0);
        // The other lane than the last one's: its takers may still be on their way.
        let lane = self.past.back().map_or(0, |last| 1 - last.lane);
        self.current = words.open(lane, ids, mark.unwrap_or(length));
        self.dry = false;
        self.marked = mark.is_none();
        if self.current.is_none() {
            // Not in this world: 2^63 tickets of a lane are drawn.
            self.discarded += length;
        }
    }

    fn mark(&self, length: u64) -> u64 {
        let percent = u128::from(length) * u128::from(self.prefetch) / 100;
        u64::try_from(percent).unwrap_or(length)
    }

    fn retire(&mut self, words: &TicketView, span: Span) {
        words.shut();
        self.current = None;
        if self.past.len() == PAST {
            self.past.pop_front();
        }
        self.past.push_back(span);
    }

    /// The id of a ticket that was drawn with a view of an earlier segment of its lane. Its taker
    /// was stopped between the look and the draw; the ticket may be one of a later segment, and if
    /// so, it is nobody else's.
    fn find(&mut self, drawn: &Drawn) -> Option<u64> {
        let spans = self.past.iter().chain(&self.current).rev();
        match spans.filter(|s| s.lane == drawn.lane).find(|s| s.first <= drawn.ticket) {
            // Beyond the end it was drawn in vain, before the next segment of the lane began.
            Some(span) => span.holds(drawn.ticket).then(|| span.id(drawn.ticket)),
            None => {
                self.lapped += 1;
                None
            }
        }
    }

    fn discard(&mut self, words: &TicketView) -> u64 {
        let mut count = self.waiting.drain(..).map(|ids| ids.end - ids.start).sum();
        if let Some(span) = self.current {
            count += words.drain(&span);
            self.retire(words, span);
        }
        // Nobody ran dry.
        self.dry = true;
        self.discarded += count;
        count
    }

    fn supply(&self) -> Supply {
        let segments = self.waiting.len() + usize::from(self.current.is_some());
        Supply { marked: self.marked || self.current.is_none(), segments }
    }
}
