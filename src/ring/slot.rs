//! One cache line of the ring: a run, and the flag that says which one it is.

use super::hot_words::MAX_END;
use crate::sync::{AtomicU64, Ordering, Slot, fence};

/// A run: consecutive numbers. Runs are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) index: u64,
    pub(super) first: u64,
    pub(super) end: u64,
    /// How many numbers all earlier runs had.
    pub(super) before: u64,
}

impl Run {
    /// How many of the numbers that were published are below this one, which is not below an
    /// earlier run's end.
    pub(super) fn published_below(&self, number: u64) -> u64 {
        self.before.saturating_add(number.clamp(self.first, self.end) - self.first)
    }
}

/// The flag of a slot that has held no run yet, or is being written; or in a forked child.
const NO_RUN: u64 = 0;

/// The producer writes, any number of takers read; nobody waits for a reader. The flag of a slot that
/// can be taken from is the run's index, so that a thread that was away for a whole lap of the ring
/// knows a newer run from its own. It is a sequence lock with the flag as its sequence: what a reader
/// gets is the run if the flag was the same before and after.
impl Slot {
    /// Writes the run down. Only the one producer may call this.
    pub(super) fn write(&self, Run { index, first, end, before }: Run) {
        // Release: a taker that finds its run gone from this slot also sees that the cursor has passed that
        // run, as the producer did, so it does not look here again.
        self.flag.store(NO_RUN, Ordering::Release);
        // Pairs with the Acquire loads of the fields in `read`: a reader that sees a new one sees
        // this NO_RUN, or a later flag, when it looks at the flag again.
        fence(Ordering::Release);
        for (field, value) in self.fields().into_iter().zip([first, end, before]) {
            field.store(value, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire load of the flag in `read`; who sees the index sees the
        // fields.
        self.flag.store(index, Ordering::Release);
    }

    /// The run of this index, if that is what the slot holds.
    pub(super) fn read(&self, index: u64) -> Option<Run> {
        // Acquire: pairs with the Release store of the index in `write`. No run has the index 0,
        // which a child finds.
        if index == NO_RUN || self.flag.load(Ordering::Acquire) != index {
            return None;
        }
        // Acquire: pairs with the Release fence in `write`, and keeps the second look at the
        // flag after these loads.
        let [first, end, before] = self.fields().map(|field| field.load(Ordering::Acquire));
        // Ordered by the loads above. Acquire: a thread that finds another flag also sees that the cursor has passed
        // this run.
        let is_there = self.flag.load(Ordering::Acquire) == index;
        // A process that shares the ring may have written anything.
        let is_possible = first <= end && end <= MAX_END;
        (is_there && is_possible).then_some(Run { index, first, end, before })
    }

    fn fields(&self) -> [&AtomicU64; 3] {
        [&self.first, &self.end, &self.before]
    }
}
