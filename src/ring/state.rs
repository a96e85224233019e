//! The words that takers and the producer share.

use super::slot::{Run, Slot};
use crate::sync::{AtomicU64, Life, Ordering, Pages, fence};

/// The next number, the limit, the number of the open run, and the slots.
///
/// All of it lies in memory that a forked child finds zeroed. The three words only grow, and are
/// changed by read-modify-writes alone, so that each later value of one heads, or goes on with, the
/// release sequence of every earlier one.
///
/// A clone is the same state. A generator keeps one beside what else a take needs, so that the take
/// does not go by way of the ring.
#[derive(Clone, Debug)]
pub(crate) struct RingState(Pages);

/// A number that was drawn and is not below the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(super) number: u64,
    /// The last number of the run that was open before: if it is this, it needs no further look.
    pub(super) last: u64,
}

/// Numbers end below this.
pub(super) const MAX_END: u64 = 1 << 63;

/// Up to where takers may draw without a look at a slot. A limit is
///
/// | value | meaning | a take |
/// |---|---|---|
/// | 0 | no run has been opened; or this process is a forked child | looks at the slots |
/// | `2 * end - 1` | the run that ends at `end` is open | adds 1 to the word; below `end - 1` that is its number |
/// | `2 * end` | that run is used up | looks at the slots |
/// | `CLOSED` | nothing is issued any more | looks at the slots, and finds that out |
///
/// The last number of a run is not below `end - 1`: its taker looks at the slots, and there opens
/// the next run. The order of the values is the order in which they may follow each other.
#[derive(Clone, Copy)]
pub(super) struct Limit(u64);

impl Limit {
    pub(super) const CLOSED: Self = Self::used_up(MAX_END);

    /// Ends from 2^63 - 1 on share a value, so that it fits. All that this costs is that the last
    /// two numbers of all are never drawn without a look.
    pub(super) const fn open(end: u64) -> Self {
        Self(Self::used_up(end).0 - 1)
    }

    pub(super) const fn used_up(end: u64) -> Self {
        Self(2 * if end < MAX_END { end } else { MAX_END - 1 })
    }
}

impl RingState {
    /// One slot at the least. The open run is number 1, which is empty.
    pub(super) fn new(slots: usize) -> Option<Self> {
        let state = Self(Pages::new(slots)?);
        state.next_word().store(!0, Ordering::Relaxed);
        state.slot(1).publish(Run { index: 1, first: 0, end: 0, before: 0 });
        state.cursor().store(1, Ordering::Relaxed);
        Some(state)
    }

    /// The fast path of a take: a number; or one that is not below the limit; or none, where the
    /// limit is shut.
    #[inline]
    pub(crate) fn draw(&self) -> Result<u64, Option<Drawn>> {
        // Acquire: pairs with the Release of the limit's changes in `open`. Who sees a limit sees
        // the word raised to the first number of its run, so that the addition gets no less.
        let limit = self.limit().load(Ordering::Acquire);
        if limit & 1 == 0 {
            return Err(None);
        }
        // Relaxed: each number comes out of this word once, and in order, by the order of the
        // word's own values.
        let number = !self.next_word().fetch_sub(1, Ordering::Relaxed);
        if number < limit >> 1 { Ok(number) } else { Err(Some(Drawn { number, last: limit >> 1 })) }
    }

    /// To be called after a draw that was not below the limit: who has drawn a number of a run
    /// that somebody else opened sees that run published.
    pub(super) fn after_draw() {
        // Pairs with the Release of `raise`, by which whoever opened the run passed the word.
        fence(Ordering::Acquire);
    }

    /// The next number to be drawn.
    pub(super) fn next(&self) -> u64 {
        // Relaxed: what a number is worth, its run's slot tells.
        !self.next_word().load(Ordering::Relaxed)
    }

    /// Draws the numbers from `next` on, if nobody else has.
    pub(super) fn claim(&self, next: u64, count: u64) -> bool {
        let word = self.next_word();
        // Relaxed: as in `draw`.
        word.compare_exchange(!next, !(next + count), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Nothing below `number` is drawn any more. Returns what was the next number.
    ///
    /// It is a read-modify-write whatever the word is: see [`after_draw`](Self::after_draw).
    pub(super) fn raise(&self, number: u64) -> u64 {
        // Release: pairs with the fence in `after_draw`. Acquire: a later value of the cursor or
        // limit, stored after this, carries on what others have raised.
        !self.next_word().fetch_min(!number, Ordering::AcqRel)
    }

    /// The number of the open run.
    pub(super) fn cursor_index(&self) -> u64 {
        // Acquire: pairs with the Release in `advance`: who sees a run opened sees the word raised.
        self.cursor().load(Ordering::Acquire)
    }

    /// Moves the cursor to a run, to whose first number the word was raised before. Returns whether
    /// it stood before it.
    pub(super) fn advance(&self, index: u64) -> bool {
        self.cursor().fetch_max(index, Ordering::AcqRel) < index
    }

    /// Moves the limit, after the word was raised to where this limit allows for.
    pub(super) fn set_limit(&self, limit: Limit) {
        self.limit().fetch_max(limit.0, Ordering::AcqRel);
    }

    /// [`set_limit`](Self::set_limit), unless it is there already.
    pub(super) fn reach_limit(&self, limit: Limit) {
        // Relaxed: an old value is a smaller one, and only costs the addition.
        if self.limit().load(Ordering::Relaxed) < limit.0 {
            self.set_limit(limit);
        }
    }

    /// Undoes what a thread did that was about to open a run when it forked: nothing may be drawn
    /// in the child, not even by the takes that this thread has under way.
    #[cold]
    pub(super) fn wipe(&self) {
        self.limit().store(0, Ordering::Relaxed);
        self.next_word().store(0, Ordering::Relaxed);
    }

    /// Whether this process is a forked child of the ring's own.
    #[inline]
    pub(super) fn is_wiped(&self) -> bool {
        self.0.are_wiped()
    }

    /// Its mark of life.
    pub(super) fn life(&self) -> Life {
        self.0.life()
    }

    /// The slot in which a run is, was or will be.
    pub(super) fn slot(&self, index: u64) -> Slot<'_> {
        let lines = self.0.lines();
        // The length is a power of two, so this is the remainder.
        Slot::new(&lines[index as usize & (lines.len() - 1)])
    }

    pub(super) fn slots(&self) -> u64 {
        self.0.lines().len() as u64
    }

    /// A word by itself, beside the others: see [`Freshness`](super::Freshness).
    #[inline]
    pub(super) fn freshness(&self) -> &AtomicU64 {
        self.0.word()
    }

    /// The complement of the next number: a wiped word is above every limit. That matters where a
    /// thread forks, from a handler of a signal, between its look at the limit and its addition.
    #[inline]
    fn next_word(&self) -> &AtomicU64 {
        &self.0.hot()[0].0
    }

    #[inline]
    fn limit(&self) -> &AtomicU64 {
        &self.0.hot()[1].0
    }

    fn cursor(&self) -> &AtomicU64 {
        &self.0.hot()[1].1
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
            last = used_up;
        }
        assert_eq!(Limit::open(MAX_END).0, Limit::open(MAX_END - 1).0);
        assert_eq!(Limit::CLOSED.0, last);
    }

    #[test]
    fn a_draw_from_a_wiped_word_is_above_every_limit() {
        let state = RingState::new(2).expect("memory");
        state.set_limit(Limit::open(MAX_END));
        state.next_word().store(0, Ordering::Relaxed);
        assert_eq!(state.draw().map_err(|drawn| drawn.map(|d| d.number)), Err(Some(u64::MAX)));
        state.wipe();
        assert_eq!(state.draw(), Err(None));
    }
}
