//! Taking many numbers at once.

use std::ops::Range;

use super::RingBuffer;
use super::take::Wake;
use crate::error::TakeError;

/// The greatest length of a block. Odd, so that the first numbers of blocks have each remainder
/// modulo a power of two equally often: a short-lived taker may issue only the first one.
const MAX_BLOCK: u64 = if cfg!(uidring_loom) { 3 } else { 255 };

impl RingBuffer {
    /// Takes up to `out.len()` numbers; returns how many were written to the front of `out`, in
    /// increasing order. Never waits.
    ///
    /// # Errors
    ///
    /// As [`try_take`](Self::try_take), if there was no number, or in a child forked during the call.
    pub fn try_fill(&self, out: &mut [u64]) -> Result<usize, TakeError> {
        self.fill(out, |number| number, Wake::Producer)
    }

    /// [`try_fill`](Self::try_fill) with values made from the numbers. The caller wakes the producer if the ring is low.
    pub(crate) fn fill_without_wake<T>(
        &self,
        out: &mut [T],
        make: impl Fn(u64) -> T,
    ) -> Result<usize, TakeError> {
        self.fill(out, make, Wake::Nobody)
    }

    fn fill<T>(
        &self,
        out: &mut [T],
        make: impl Fn(u64) -> T,
        wake: Wake,
    ) -> Result<usize, TakeError> {
        let mut filled = 0;
        while filled < out.len() {
            let rest = &mut out[filled..];
            match self.take_up_to(rest.len() as u64, wake) {
                Ok(numbers) => {
                    let count = (numbers.end - numbers.start) as usize;
                    count_up(&mut rest[..count], numbers.start, &make);
                    filled += count;
                }
                // What was filled in before a fork is the parent's.
                Err(error) if filled == 0 || error == TakeError::Forked => return Err(error),
                Err(_) => break,
            }
        }
        Ok(filled)
    }

    /// Takes a block of 1 to 255 consecutive numbers of one run, for a taker that then hands them
    /// out by itself. Never waits.
    ///
    /// # Errors
    ///
    /// As [`try_take`](Self::try_take).
    pub fn try_take_block(&self) -> Result<Range<u64>, TakeError> {
        self.take_up_to(MAX_BLOCK, Wake::Producer)
    }

    /// [`try_take_block`](Self::try_take_block) without waking the producer, as
    /// [`fill_without_wake`](Self::fill_without_wake).
    pub(crate) fn take_block_without_wake(&self) -> Result<Range<u64>, TakeError> {
        self.take_up_to(MAX_BLOCK, Wake::Nobody)
    }

    fn take_up_to(&self, wanted: u64, wake: Wake) -> Result<Range<u64>, TakeError> {
        match self.claim(wanted, wake)? {
            Some(numbers) => Ok(numbers),
            None => self.try_take().map(|number| number..number + 1),
        }
    }
}

/// Writes the numbers from `start` on.
///
/// Sixteen stores an iteration, so that the loop's overhead is small beside them. With four, the
/// time varies by a quarter, depending on whether the loop's code lies on one cache line or two.
#[inline]
fn count_up<T>(out: &mut [T], start: u64, make: &impl Fn(u64) -> T) {
    let (blocks, rest) = out.as_chunks_mut::<16>();
    let mut first = start;
    for block in blocks {
        for (place, number) in block.iter_mut().zip(first..) {
            *place = make(number);
        }
        first += 16;
    }
    for (place, number) in rest.iter_mut().zip(first..) {
        *place = make(number);
    }
}
