//! The words that takers and the producer share: the next number, drawn by one atomic operation; its limit; the
//! open run; and which numbers are fresh.
//!
//! Next number, limit and cursor only grow, and only by read-modify-writes. So a release sequence continues
//! through every later value: acquiring any value synchronizes with all earlier releases. The caller decides
//! what the numbers mean and when the limit moves: in the ring at the ends of runs, in clocked generators at
//! the ends of ticks.

use crate::sync::{HotWords, Ordering, fence};

/// A number that was drawn at or past a run's last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) number: u64,
    /// The last number of the run whose limit the draw saw. If `number` is this one, its run is known to be published.
    pub(crate) last: u64,
}

/// All numbers are below this.
pub(crate) const MAX_END: u64 = 1 << 63;

/// Up to where numbers may be drawn by addition:
///
/// | value | meaning | a draw |
/// |---|---|---|
/// | 0 | no run has been opened, or this process is a forked child | is refused |
/// | `2 * end - 1` | the run that ends at `end` is open | decrements the word, which adds 1 to the number; a number below `end - 1` is the taker's |
/// | `2 * end` | that run is used up | is refused |
/// | `CLOSED` | nothing is issued any more | is refused |
///
/// A run's last number, `end - 1`, takes the slow path, because its taker must open the next run. A limit
/// only grows: the order of the values is the order in which they may follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Limit(u64);

impl Limit {
    pub(crate) const CLOSED: Self = Self::used_up(MAX_END);

    /// All ends from 2^63 - 1 on share one value, so that it fits in 64 bits. The only cost is that the
    /// last two numbers of all take the slow path.
    pub(crate) const fn open(end: u64) -> Self {
        Self(Self::used_up(end).0 - 1)
    }

    /// [`open`](Self::open) for an end below 2^63. The end 2^63 gives a limit that is never set; a greater
    /// end gives the limit of the end that is lower by 2^63.
    #[inline]
    pub(crate) const fn open_unchecked(end: u64) -> Self {
        Self(end.wrapping_mul(2).wrapping_sub(1))
    }

    pub(crate) const fn used_up(end: u64) -> Self {
        Self(2 * if end < MAX_END { end } else { MAX_END - 1 })
    }

    /// The end of this limit's run.
    pub(crate) const fn end(self) -> u64 {
        self.0.div_ceil(2)
    }
}

impl HotWords {
    /// Draws a number of the open run. The error has what was drawn at or past the run's last number, or
    /// `None` if no run is open.
    #[inline]
    pub(crate) fn draw(&self) -> Result<u64, Option<Drawn>> {
        let limit = self.limit();
        if limit.0 & 1 == 0 { Err(None) } else { self.draw_below(limit) }
    }

    /// [`draw`](Self::draw), if the run with this limit is the open one.
    #[inline]
    pub(crate) fn draw_from(&self, run: Limit) -> Result<u64, Option<Drawn>> {
        if self.limit() == run { self.draw_below(run) } else { Err(None) }
    }

    #[inline]
    fn draw_below(&self, Limit(limit): Limit) -> Result<u64, Option<Drawn>> {
        // The complement, so that a number drawn from a wiped word is above every limit. Relaxed: the word's
        // modification order alone makes the numbers distinct and ordered.
        let number = !self.next.fetch_sub(1, Ordering::Relaxed);
        if number < limit >> 1 { Ok(number) } else { Err(Some(Drawn { number, last: limit >> 1 })) }
    }

    #[inline]
    pub(crate) fn limit(&self) -> Limit {
        // Acquire: pairs with the Release in `raise_limit`. A taker that sees a limit sees the word raised to
        // the first number of its run, so the addition returns no less.
        Limit(self.limit.load(Ordering::Acquire))
    }

    /// Call this after a draw that was not below the limit. A taker that drew a number of a run opened by
    /// another thread then sees that run published.
    pub(crate) fn after_draw() {
        // Pairs with the Release in `raise`, which moved the word to that run.
        fence(Ordering::Acquire);
    }

    /// The next number to be drawn.
    pub(crate) fn next(&self) -> u64 {
        // Relaxed: the number alone proves nothing. Callers check it against a run or a tick.
        !self.next.load(Ordering::Relaxed)
    }

    /// Initializes zeroed words as an empty ring: run 1, which is empty, is the open one, and every number is fresh.
    pub(crate) fn start_at(&self, next: u64) {
        self.next.store(!next, Ordering::Relaxed);
        self.cursor.store(1, Ordering::Relaxed);
        self.freshness.store(MAX_END, Ordering::Relaxed);
    }

    /// Draws the numbers from `next` up to `end`, if `next` is still the next number.
    pub(crate) fn claim(&self, next: u64, end: u64) -> bool {
        // Relaxed: as in `draw`.
        self.next.compare_exchange(!next, !end, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Raises the next number to at least `number`, so that nothing below is drawn any more. Returns the
    /// previous next number.
    ///
    /// Always a read-modify-write: even a thread that finds the word raised releases what it has seen to
    /// [`after_draw`](Self::after_draw).
    pub(crate) fn raise(&self, number: u64) -> u64 {
        // Release: pairs with the fence in `after_draw`. Acquire: the cursor and limit that this
        // thread moves next pass on what earlier raises have released.
        !self.next.fetch_min(!number, Ordering::AcqRel)
    }

    /// Raises the limit. The word must already be at least the first number of the limit's run.
    pub(crate) fn raise_limit(&self, limit: Limit) {
        // Release: pairs with the Acquire in `limit`, which then sees the word raised. Acquire: as
        // in `raise`.
        self.limit.fetch_max(limit.0, Ordering::AcqRel);
    }

    /// [`raise_limit`](Self::raise_limit), unless it is there already.
    pub(crate) fn reach_limit(&self, limit: Limit) {
        // Relaxed: a stale value is a smaller one, and costs only a needless `raise_limit`.
        if self.limit.load(Ordering::Relaxed) < limit.0 {
            self.raise_limit(limit);
        }
    }

    /// The index of the open run; 0 in a forked child.
    pub(crate) fn open_index(&self) -> u64 {
        // Acquire: pairs with the Release in `advance`. A thread that sees a run opened sees the
        // word raised to it.
        self.cursor.load(Ordering::Acquire)
    }

    /// Moves the cursor to a run. The word must already be at least that run's first number.
    pub(super) fn advance(&self, index: u64) {
        // Release: pairs with the Acquire in `open_index`. Acquire: as in `raise`.
        self.cursor.fetch_max(index, Ordering::AcqRel);
    }

    /// Whether a number below 2^63 that was drawn earlier may still be handed out. Never in a forked child.
    #[inline]
    pub(crate) fn is_fresh(&self, number: u64) -> bool {
        // Relaxed: numbers become stale with time, and no ordering makes that visible sooner. An
        // `expire` is visible through the raise that follows it.
        number.wrapping_add(self.freshness.load(Ordering::Relaxed)) >= MAX_END
    }

    /// The oldest number that may be handed out; [`MAX_END`] if none may.
    pub(crate) fn oldest(&self) -> u64 {
        MAX_END.saturating_sub(self.freshness.load(Ordering::Relaxed))
    }

    /// Marks numbers below this one stale. Has no effect after [`expire`](Self::expire) or in a forked
    /// child, where everything stays stale.
    pub(crate) fn set_oldest(&self, number: u64) {
        let freshness = MAX_END.saturating_sub(number).max(1);
        let found = self.freshness.load(Ordering::Relaxed);
        // Written only on change, so that readers keep their cached copy.
        if found != 0 && found != freshness {
            // If this fails, `expire` came between, and its value stays.
            let _ = self.freshness.compare_exchange(
                found,
                freshness,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// Marks every number stale, for good.
    pub(super) fn expire(&self) {
        self.freshness.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_each_other() {
        let ends = [1, 2, 3, 1 << 40, MAX_END - 2, MAX_END - 1];
        let mut last = 0;
        for end in ends {
            let (open, used_up) = (Limit::open(end).0, Limit::used_up(end).0);
            assert!(last < open && open < used_up, "{end}");
            assert_eq!((open & 1, open >> 1), (1, end - 1));
            assert_eq!(used_up & 1, 0);
            assert_eq!([Limit(open), Limit(used_up)].map(Limit::end), [end; 2]);
            last = used_up;
        }
        assert_eq!(Limit::open(MAX_END).0, Limit::open(MAX_END - 1).0);
        assert_eq!(Limit::CLOSED.0, last);
    }

    #[test]
    fn a_draw_from_a_wiped_word_is_above_every_limit() {
        let words = HotWords::default();
        words.raise_limit(Limit::open(MAX_END));
        assert_eq!(words.draw().map_err(|drawn| drawn.map(|d| d.number)), Err(Some(u64::MAX)));
    }
}
