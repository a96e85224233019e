//! The next number, from which any thread draws by one addition. The word holds its complement.

use super::{AtomicU64, Life, Ordering, Pages, fence};

/// The next number, and the limit below which one may be drawn by an addition.
///
/// Both lie in memory that a forked child finds zeroed. They only grow, and are changed by
/// read-modify-writes alone, so that each later value of one heads, or goes on with, the release
/// sequence of every earlier one.
///
/// What the numbers are, and who moves the limit, is the owner's affair: for the ring the ends of its
/// runs, for the generators on the clock the ends of ticks. A clone is the same word.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(Pages);

/// A number that was drawn and is not below the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) number: u64,
    /// The last number of the run whose limit the draw saw. A draw of exactly this number is valid as it is.
    pub(crate) last: u64,
}

/// Numbers end below this.
pub(crate) const MAX_END: u64 = 1 << 63;

/// Up to where numbers may be drawn by an addition. A limit is
///
/// | value | meaning | a draw |
/// |---|---|---|
/// | 0 | no run has been opened; or this process is a forked child | is refused |
/// | `2 * end - 1` | the run that ends at `end` is open | adds 1 to the word; below `end - 1` that is its number |
/// | `2 * end` | that run is used up | is refused |
/// | `CLOSED` | nothing is issued any more | is refused |
///
/// The last number of a run is not below `end - 1`: who draws it sees to what comes next. The order
/// of the values is the order in which they may follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Limit(u64);

impl Limit {
    pub(crate) const CLOSED: Self = Self::used_up(MAX_END);

    /// Ends from 2^63 - 1 on share a value, so that it fits. All that this costs is that the last
    /// two numbers of all are never drawn without a look.
    pub(crate) const fn open(end: u64) -> Self {
        Self(Self::used_up(end).0 - 1)
    }

    /// [`open`](Self::open), for an end below 2^63 - 1. One that is above gives a limit that is never
    /// set, or that of an end which is less by a multiple of 2^63.
    #[inline]
    pub(crate) const fn open_unchecked(end: u64) -> Self {
        Self(end.wrapping_mul(2).wrapping_sub(1))
    }

    pub(crate) const fn used_up(end: u64) -> Self {
        Self(2 * if end < MAX_END { end } else { MAX_END - 1 })
    }

    /// The end of the run that it is of.
    pub(crate) const fn end(self) -> u64 {
        self.0.div_ceil(2)
    }
}

impl Numbers {
    /// Draws begin at a number; the limit is shut.
    pub(crate) fn new(next: u64, lines: usize) -> Option<Self> {
        let numbers = Self(Pages::new(lines)?);
        numbers.next_word().store(!next, Ordering::Relaxed);
        Some(numbers)
    }

    /// Draws a number of the open run; or one that is not below the limit; or none, where no run is
    /// open.
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
        // Relaxed: each number comes out of this word once, and in order, by the order of the
        // word's own values.
        let number = !self.next_word().fetch_sub(1, Ordering::Relaxed);
        if number < limit >> 1 { Ok(number) } else { Err(Some(Drawn { number, last: limit >> 1 })) }
    }

    #[inline]
    pub(crate) fn limit(&self) -> Limit {
        // Acquire: pairs with the Release of the limit's changes. Who sees a limit sees the word
        // raised to the first number of its run, so that the addition gets no less.
        Limit(self.limit_word().load(Ordering::Acquire))
    }

    /// To be called after a draw that was not below the limit: who has drawn a number of a run
    /// that somebody else opened sees that run published.
    pub(crate) fn after_draw() {
        // Pairs with the Release of `raise`, by which whoever opened the run passed the word.
        fence(Ordering::Acquire);
    }

    /// The next number to be drawn.
    pub(crate) fn next(&self) -> u64 {
        // Relaxed: what a number is worth, its run tells.
        !self.next_word().load(Ordering::Relaxed)
    }

    /// Draws the numbers from `next` up to `end`, if nobody else has.
    pub(crate) fn claim(&self, next: u64, end: u64) -> bool {
        let word = self.next_word();
        // Relaxed: as in `draw`.
        word.compare_exchange(!next, !end, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Nothing below `number` is drawn any more. Returns what was the next number.
    ///
    /// It is a read-modify-write whatever the word is: see [`after_draw`](Self::after_draw).
    pub(crate) fn raise(&self, number: u64) -> u64 {
        // Release: pairs with the fence in `after_draw`. Acquire: a later value of the cursor or
        // limit, stored after this, carries on what others have raised.
        !self.next_word().fetch_min(!number, Ordering::AcqRel)
    }

    /// Moves the limit, after the word was raised to where this limit allows for.
    pub(crate) fn set_limit(&self, limit: Limit) {
        self.limit_word().fetch_max(limit.0, Ordering::AcqRel);
    }

    /// [`set_limit`](Self::set_limit), unless it is there already.
    pub(crate) fn reach_limit(&self, limit: Limit) {
        // Relaxed: an old value is a smaller one, and only costs the addition.
        if self.limit_word().load(Ordering::Relaxed) < limit.0 {
            self.set_limit(limit);
        }
    }

    /// Whether this process is a forked child of the one that made this.
    #[inline]
    pub(crate) fn is_wiped(&self) -> bool {
        self.0.are_wiped()
    }

    /// The mark of life of its memory.
    pub(crate) fn life(&self) -> Life {
        self.0.life()
    }

    /// What the owner keeps beside the two words.
    #[inline]
    pub(crate) fn pages(&self) -> &Pages {
        &self.0
    }

    /// The complement of the next number: a wiped word is above every limit, also one that was seen before.
    #[inline]
    fn next_word(&self) -> &AtomicU64 {
        &self.0.hot()[0].0
    }

    #[inline]
    fn limit_word(&self) -> &AtomicU64 {
        &self.0.hot()[1].0
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
        let numbers = Numbers::new(0, 0).expect("memory");
        numbers.set_limit(Limit::open(MAX_END));
        numbers.next_word().store(0, Ordering::Relaxed);
        assert_eq!(numbers.draw().map_err(|drawn| drawn.map(|d| d.number)), Err(Some(u64::MAX)));
    }
}
