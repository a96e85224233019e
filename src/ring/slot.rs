//! One cache line of the ring: a run of uids, and the flag that says whose turn it is.

use crate::sync::{AtomicU64, Line, Ordering, fence};

/// Whose turn a slot is, stamped with the run it speaks of, so that a taker that was away for a
/// whole lap of the ring knows a newer run from its own.
///
/// `CAN_PUT(r) = 2r` and `CAN_TAKE(r) = 2r + 1`; runs count from 1, so a flag is never 0.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Flag(u64);

impl Flag {
    const fn can_put(run: u64) -> Self {
        Self(run << 1)
    }

    const fn can_take(run: u64) -> Self {
        Self(run << 1 | 1)
    }
}

/// A run: consecutive uids, of which only the first is written down.
///
/// The producer writes, any number of takers read; nobody waits for a reader. It is a sequence
/// lock with the flag as its sequence: what a reader gets was the run's first uid if the flag was
/// the same before and after.
///
/// Exactly one cache line: a run's takes touch this line and no neighbour's. Its flag is 0, which
/// is no run's, before the first run comes, and in a forked child.
#[derive(Clone, Copy)]
pub(super) struct Slot<'a> {
    flag: &'a AtomicU64,
    first: &'a AtomicU64,
}

impl<'a> Slot<'a> {
    #[inline]
    pub(super) fn new(Line(flag, first): &'a Line) -> Self {
        Self { flag, first }
    }

    /// Writes the run down. Only the one producer may call this.
    #[inline]
    pub(super) fn publish(self, run: u64, first: u64) {
        // Relaxed: the fence below keeps it before the new `first`.
        self.flag.store(Flag::can_put(run).0, Ordering::Relaxed);
        // Pairs with the Acquire load of `first` in `read`: a reader that sees the new `first`
        // sees this CAN_PUT, or a later flag, when it looks at the flag again.
        fence(Ordering::Release);
        self.first.store(first, Ordering::Relaxed);
        // Release: pairs with the Acquire load of the flag in `read`; who sees CAN_TAKE sees
        // `first`.
        self.flag.store(Flag::can_take(run).0, Ordering::Release);
    }

    /// The first uid of `run`, if that is what the slot holds.
    ///
    /// Two things may hide behind `None`: the run has not been published yet, or a later one
    /// stands in its place. The ring's tail tells them apart.
    #[inline]
    pub(super) fn read(self, run: u64) -> Option<u64> {
        let flag = Flag::can_take(run).0;
        // Acquire: pairs with the Release store of CAN_TAKE in `publish`.
        if self.flag.load(Ordering::Acquire) != flag {
            return None;
        }
        // Acquire: pairs with the Release fence in `publish`, and keeps the second look at the
        // flag behind this load.
        let first = self.first.load(Ordering::Acquire);
        // Relaxed: ordered by the load above.
        (self.flag.load(Ordering::Relaxed) == flag).then_some(first)
    }
}
