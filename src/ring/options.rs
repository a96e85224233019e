//! The shape of a ring.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, check_option};
use crate::policy::PutPolicy;
use crate::sync::{Event, RingWords, Slot, WipeOnForkMemory};

/// The shape of a ring, and what its producer does when it is full.
#[derive(Clone, Debug)]
pub struct RingOptions {
    capacity_bits: u32,
    run_bits: u32,
    padding_factor: u32,
    pub(super) spaced: bool,
    pub(super) put_policy: PutPolicy,
    pub(super) after_gap: RunStart,
    pub(super) demand: Option<Arc<Event>>,
    pub(super) shared: Option<WipeOnForkMemory<RingWords>>,
}

pub(crate) const MAX_CAPACITY_BITS: u32 = 29;

impl RingOptions {
    /// Options of a ring of `2^capacity_bits` numbers, where `capacity_bits` is 1 to 29. It has two
    /// runs of consecutive numbers unless [`run_bits`](Self::run_bits) says otherwise.
    pub fn new(capacity_bits: u32) -> Self {
        Self {
            capacity_bits,
            run_bits: capacity_bits.saturating_sub(1),
            padding_factor: 50,
            spaced: false,
            put_policy: PutPolicy::default(),
            after_gap: RunStart::ZERO,
            demand: None,
            shared: None,
        }
    }

    /// Sets the greatest length of a run to `2^run_bits` numbers, at most half the capacity. Each run needs
    /// a slot of 64 bytes.
    #[must_use]
    pub fn run_bits(mut self, run_bits: u32) -> Self {
        self.run_bits = run_bits;
        self
    }

    /// Sets the percentage of the runs (1 to 99, by default 50) below which takers wake a producer that
    /// waits in [`Producer::wait_for_demand`](super::Producer::wait_for_demand). The run that is
    /// being taken from does not count. A [`Padder`](crate::padding::Padder) that foresees the next padding
    /// is woken only at half of it.
    #[must_use]
    pub fn padding_factor(mut self, percent: u32) -> Self {
        self.padding_factor = percent;
        self
    }

    /// Sets what [`Producer::put`](super::Producer::put) does when the ring is full.
    #[must_use]
    pub fn put_policy(mut self, policy: PutPolicy) -> Self {
        self.put_policy = policy;
        self
    }

    /// Declares that runs are far apart: more numbers lie between the end of one and the start of the
    /// next than there will ever be takers.
    ///
    /// A take is then one atomic addition instead of a compare-and-swap. At the end of a run, each
    /// taker may draw a number past it, which is issued to nobody. If a run that is put only after
    /// that has this number, the number is lost.
    /// [`RingStats::dropped`](super::RingStats::dropped) counts all such draws.
    #[must_use]
    pub fn spaced(mut self) -> Self {
        self.spaced = true;
        self
    }

    /// Sets where a run begins if all numbers before it were discarded; at its first number if not set.
    pub(crate) fn after_gap(mut self, start: RunStart) -> Self {
        self.after_gap = start;
        self
    }

    /// Sets where the producer waits for demand, if it serves several rings at once.
    pub(crate) fn demand(mut self, demand: Arc<Event>) -> Self {
        self.demand = Some(demand);
        self
    }

    /// Sets the memory, if processes share it. It must have [`runs`](Self::runs) slots and serve only one ring, whose
    /// [`demand`](Self::demand) must be in the same memory.
    pub(crate) fn shared(mut self, memory: WipeOnForkMemory<RingWords>) -> Self {
        self.shared = Some(memory);
        self
    }

    /// Whether the runs are [far apart](Self::spaced), and the base-2 logarithm of their length.
    pub(crate) fn spacing(&self) -> (bool, u32) {
        (self.spaced, self.run_bits)
    }

    /// How many numbers a run has at most.
    pub fn run_length(&self) -> u64 {
        1_u64.checked_shl(self.run_bits).unwrap_or(u64::MAX)
    }

    /// How many runs the ring holds.
    pub(crate) fn runs(&self) -> u64 {
        1 << (self.capacity_bits - self.run_bits)
    }

    /// The memory of the slots, in bytes.
    pub fn memory(&self) -> u64 {
        let slots = 1_u64.checked_shl(self.capacity_bits.saturating_sub(self.run_bits));
        slots.unwrap_or(u64::MAX).saturating_mul(size_of::<Slot>() as u64)
    }

    /// The number of runs, the open one included, at or below which the ring is low. At least one, so that an
    /// empty ring always asks for more, and less than all, so that there is room.
    pub(super) fn threshold(&self) -> u64 {
        let most = self.runs() - 1;
        match self.put_policy {
            // A producer that waits for room must learn of every run that is used up.
            PutPolicy::Wait => most,
            _ => (self.runs() * u64::from(self.padding_factor)).div_ceil(100).min(most),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        check_option("capacity_bits", self.capacity_bits, 1..=MAX_CAPACITY_BITS)?;
        check_option("run_bits", self.run_bits, 0..=self.capacity_bits - 1)?;
        check_option("padding_factor", self.padding_factor, 1..=99)
    }
}

/// Where a run begins if it does not directly follow the run before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunStart {
    /// The start's offset from the run's first number is below this.
    pub(crate) limit: u64,
    /// The bits of a number that are its offset in its run.
    pub(crate) offset_mask: u64,
    /// How many numbers a run has. An offset of this or more means that the last run was used up.
    pub(crate) length: u64,
    pub(crate) is_random: IsRandom,
}

/// Which runs begin at a random offset. The others begin at the offset that would have come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsRandom {
    Never,
    First,
    Always,
}

impl RunStart {
    /// At the first number.
    const ZERO: Self = Self { limit: 1, offset_mask: 0, length: 1, is_random: IsRandom::Never };

    /// Returns where the very first run begins, as an offset.
    pub(crate) fn first(self) -> u64 {
        if self.is_random == IsRandom::Never { 0 } else { fastrand::u64(..self.limit) }
    }

    /// Returns where a later run begins, as an offset. Without the gap, `next` would have been the next number.
    pub(crate) fn after(self, next: u64) -> u64 {
        let offset = next & self.offset_mask;
        match self.is_random {
            IsRandom::Always => fastrand::u64(..self.limit),
            _ if offset < self.length => offset % self.limit,
            _ => 0,
        }
    }

    /// Returns where to begin among these numbers.
    pub(super) fn begin(self, next: u64, numbers: Range<u64>) -> u64 {
        let first = numbers.start + self.after(next);
        if first < numbers.end { first } else { numbers.start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_of_the_largest_ring_does_not_overflow() {
        let threshold =
            |bits, percent| RingOptions::new(bits).run_bits(0).padding_factor(percent).threshold();
        assert_eq!(threshold(MAX_CAPACITY_BITS, 99), 531_502_203);
        assert_eq!(threshold(26, 50), 1 << 25);
        assert_eq!((threshold(1, 1), threshold(1, 99)), (1, 1));
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let refused =
            |options: RingOptions| matches!(options.check(), Err(Error::OptionOutOfRange { .. }));
        assert!(refused(RingOptions::new(30).run_bits(6)));
        assert!(refused(RingOptions::new(3).run_bits(3)), "one run");
        assert!(refused(RingOptions::new(10).run_bits(6).padding_factor(0)));
        assert!(refused(RingOptions::new(10).run_bits(6).padding_factor(100)));
        assert!(refused(RingOptions::new(0)) && !refused(RingOptions::new(1)));
        let huge = RingOptions::new(u32::MAX).run_bits(64);
        assert!(huge.run_length() == u64::MAX && huge.memory() == u64::MAX && refused(huge));
    }
}
