//! The atomics that the takers of one tag share.

use std::ops::Range;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, ForkToken, Ordering, fence};

/// A view of the current segment, which names one of two cursors. The `segment` module explains why no ticket becomes
/// two ids.
#[derive(Debug)]
pub(super) struct TicketView {
    view: CachePadded<View>,
    /// The next ticket of each lane. They only grow. They share a cache line, as only one is in use.
    cursors: CachePadded<[AtomicU64; 2]>,
}

/// What each take reads before it draws. Written once or twice per segment.
#[derive(Debug)]
struct View {
    /// Twice the mark, plus the lane; no two segments ever have the same. 0 if there is nothing to draw from.
    open: AtomicU64,
    /// Added to a ticket, wrapping, to make an id.
    shift: AtomicU64,
    /// The ticket at which the segment ends.
    stop: AtomicU64,
    /// Differs from the process's token in a forked child.
    life: ForkToken,
}

/// A segment: the tickets `first..stop` of a lane, and what is added to make ids of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) lane: u64,
    pub(super) first: u64,
    pub(super) stop: u64,
    shift: u64,
}

/// A ticket from the mark of its view on, which the fast path could not settle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    pub(super) lane: u64,
    pub(super) ticket: u64,
    shift: u64,
    stop: u64,
}

/// A claim gives up after this many lost races.
const ATTEMPTS: u32 = 4;

impl Span {
    pub(super) fn id(&self, ticket: u64) -> u64 {
        ticket.wrapping_add(self.shift)
    }

    pub(super) fn holds(&self, ticket: u64) -> bool {
        (self.first..self.stop).contains(&ticket)
    }
}

impl Drawn {
    /// Returns its id, if it is of the segment that its taker saw. This needs no other state, so the id is not lost,
    /// however late the taker comes.
    pub(super) fn id(&self) -> Option<u64> {
        (self.ticket < self.stop).then(|| self.ticket.wrapping_add(self.shift))
    }
}

impl TicketView {
    pub(super) fn new(life: ForkToken) -> Self {
        let [open, shift, stop] = [0; 3].map(AtomicU64::new);
        Self {
            view: CachePadded::new(View { open, shift, stop, life }),
            cursors: CachePadded::new([0; 2].map(AtomicU64::new)),
        }
    }

    /// The fast path. Returns an id, or else the ticket that it drew; `None` if nothing is open.
    #[inline]
    pub(super) fn draw(&self) -> Result<u64, Option<Drawn>> {
        let Some((open, shift, stop)) = self.look() else { return Err(None) };
        // Relaxed: the order of the cursor's own values returns each ticket once. The Acquire of the look ensures that
        // none is below the segment's first.
        let ticket = self.cursor(open & 1).fetch_add(1, Ordering::Relaxed);
        if ticket < open >> 1 {
            Ok(ticket.wrapping_add(shift))
        } else {
            Err(Some(Drawn { lane: open & 1, ticket, shift, stop }))
        }
    }

    pub(super) fn claim(&self, wanted: u64) -> Option<Range<u64>> {
        let (open, shift, _) = self.look()?;
        let cursor = self.cursor(open & 1);
        for _ in 0..ATTEMPTS {
            // Relaxed, like the addition in `draw`.
            let ticket = cursor.load(Ordering::Relaxed);
            let left = (open >> 1).checked_sub(ticket).filter(|left| *left > 0)?;
            let end = ticket + wanted.min(left);
            let claim = cursor.compare_exchange(ticket, end, Ordering::Relaxed, Ordering::Relaxed);
            if claim.is_ok() {
                let first = ticket.wrapping_add(shift);
                return Some(first..first + (end - ticket));
            }
        }
        None
    }

    /// Reads the view whole: all words are of one segment, which was current at some time during the look.
    #[inline]
    fn look(&self) -> Option<(u64, u64, u64)> {
        let view = &*self.view;
        // Acquire: pairs with the Release in `set_mark`. A taker that sees a segment open sees a cursor that is not
        // below its first ticket.
        let open = view.open.load(Ordering::Acquire);
        // Acquire: pairs with the fence in `open`. A taker that sees a value of a later segment sees at the second look
        // that this one was shut.
        let shift = view.shift.load(Ordering::Acquire);
        let stop = view.stop.load(Ordering::Acquire);
        // Relaxed: ordered after the loads above by their Acquire.
        let same = view.open.load(Ordering::Relaxed) == open;
        (same && open != 0 && !view.life.is_forked_child()).then_some((open, shift, stop))
    }

    #[inline]
    fn cursor(&self, lane: u64) -> &AtomicU64 {
        &self.cursors[lane as usize & 1]
    }

    pub(super) fn is_forked(&self) -> bool {
        self.view.life.is_forked_child()
    }

    /// Returns whether there is something to draw from, or was a moment ago.
    pub(super) fn is_open(&self) -> bool {
        // Relaxed: a waiting taker reads it between the fences of its event.
        self.view.open.load(Ordering::Relaxed) != 0
    }
}

/// Only for the holder of the chain's lock.
impl TicketView {
    /// Makes these ids the current segment, with the mark after `mark` of them, at least one, on a lane that is not in
    /// use. The view must be shut. Returns `None` if the lane has no room.
    pub(super) fn open(&self, lane: u64, ids: &Range<u64>, mark: u64) -> Option<Span> {
        // All tickets drawn on the lane so far are below this. Any view that a taker has read before is of a span that
        // ended here or earlier.
        let first = self.cursor(lane).load(Ordering::Relaxed);
        let length = ids.end - ids.start;
        let stop = first.checked_add(length).filter(|stop| stop >> 63 == 0)?;
        let span = Span { lane, first, stop, shift: ids.start.wrapping_sub(first) };
        // Release: pairs with the Acquire loads of `shift` and `stop` in `look`. A taker that sees what is stored below
        // sees the view shut.
        fence(Ordering::Release);
        self.view.shift.store(span.shift, Ordering::Relaxed);
        self.view.stop.store(stop, Ordering::Relaxed);
        self.set_mark(&span, mark);
        Some(span)
    }

    pub(super) fn widen(&self, span: &Span) {
        self.set_mark(span, span.stop - span.first);
    }

    /// Sets the mark, at least one above the first ticket, so that no two segments of a lane have the same.
    fn set_mark(&self, span: &Span, after: u64) {
        let mark = span.first + after.clamp(1, span.stop - span.first);
        // Release: pairs with the Acquire of `open` in `look`, and publishes what `open` has read and written.
        self.view.open.store(mark << 1 | span.lane, Ordering::Release);
    }

    pub(super) fn shut(&self) {
        // Relaxed: the fence in `open` comes between this and any other segment.
        self.view.open.store(0, Ordering::Relaxed);
    }

    pub(super) fn next(&self, span: &Span) -> u64 {
        self.cursor(span.lane).load(Ordering::Relaxed)
    }

    pub(super) fn draw_of(&self, span: &Span) -> Option<u64> {
        let ticket = self.cursor(span.lane).fetch_add(1, Ordering::Relaxed);
        (ticket < span.stop).then(|| span.id(ticket))
    }

    /// Withdraws the rest of a span from all takers, and returns the number of ids.
    pub(super) fn drain(&self, span: &Span) -> u64 {
        let next = self.cursor(span.lane).fetch_max(span.stop, Ordering::Relaxed);
        span.stop.saturating_sub(next)
    }
}
