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
    /// How many published numbers are below `number`, which must not be below the end of the run
    /// before this one.
    pub(super) fn published_below(&self, number: u64) -> u64 {
        self.before.saturating_add(number.clamp(self.first, self.end) - self.first)
    }
}

/// The flag of a slot that has held no run yet, is being written, or was wiped by a fork.
const NO_RUN: u64 = 0;

/// A sequence lock: the producer writes, any number of takers read, and nobody waits for a reader. The
/// flag is the sequence. A reader has the run whole if the flag was the run's index both before and
/// after it read the fields. No index repeats, so a thread that slept for a whole lap of the ring can
/// tell a newer run from its own.
impl Slot {
    /// Writes the run. Only the producer may call this.
    pub(super) fn write(&self, Run { index, first, end, before }: Run) {
        // Release: pairs with the Acquire loads of the flag in `read`. A taker that finds its run
        // gone from this slot also sees, as the producer did, that the cursor has passed that run,
        // so it does not look here again.
        self.flag.store(NO_RUN, Ordering::Release);
        // Pairs with the Acquire loads of the fields in `read`: a reader that sees a new field sees
        // this NO_RUN, or a later flag, when it reads the flag again.
        fence(Ordering::Release);
        for (field, value) in self.fields().into_iter().zip([first, end, before]) {
            field.store(value, Ordering::Relaxed);
        }
        // Release: pairs with the first Acquire load of the flag in `read`. A reader that sees the
        // index sees the fields.
        self.flag.store(index, Ordering::Release);
    }

    /// The run of this index, if that is what the slot holds.
    pub(super) fn read(&self, index: u64) -> Option<Run> {
        // Acquire: pairs with the Release store of the index in `write`. No run has the index 0,
        // which is what a forked child finds in the cursor.
        if index == NO_RUN || self.flag.load(Ordering::Acquire) != index {
            return None;
        }
        // Acquire: pairs with the Release fence in `write`, and keeps the second look at the
        // flag after these loads.
        let [first, end, before] = self.fields().map(|field| field.load(Ordering::Acquire));
        // The loads above keep this one after them. Acquire: pairs with the Release stores in
        // `write`. A thread that finds another flag also sees that the cursor has passed this run.
        let is_there = self.flag.load(Ordering::Acquire) == index;
        // A process that shares the ring may have written anything.
        let is_possible = first <= end && end <= MAX_END;
        (is_there && is_possible).then_some(Run { index, first, end, before })
    }

    fn fields(&self) -> [&AtomicU64; 3] {
        [&self.first, &self.end, &self.before]
    }
}
