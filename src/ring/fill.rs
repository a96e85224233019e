//! Taking many numbers at once.

use super::RingBuffer;
use crate::error::TakeError;
use crate::sync::Ordering;

/// So many runs are claimed at a time.
const PORTION: usize = 16;

/// After so many lost races a single take, which cannot lose, brings the fill forward.
const ATTEMPTS: u32 = 4;

impl RingBuffer {
    /// Takes up to `out.len()` numbers; returns how many were written to the front of `out`, in
    /// increasing order if the runs were put so. Never waits.
    ///
    /// Unlike [`try_take`](Self::try_take) it draws no ticket before it knows the numbers that
    /// belong to it, so that none is lost, however long the taker sleeps in between.
    ///
    /// # Errors
    ///
    /// As [`try_take`](Self::try_take), if there was not even one.
    pub fn try_fill(&self, out: &mut [u64]) -> Result<usize, TakeError> {
        self.try_fill_with(out, |number| number)
    }

    /// [`try_fill`](Self::try_fill) for any type that is made from a number.
    pub(crate) fn try_fill_with<T>(
        &self,
        out: &mut [T],
        make: impl Fn(u64) -> T,
    ) -> Result<usize, TakeError> {
        let mut filled = 0;
        while filled < out.len() {
            match self.fill_portion(&mut out[filled..], &make) {
                Ok(count) => filled += count,
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn fill_portion<T>(&self, out: &mut [T], make: &impl Fn(u64) -> T) -> Result<usize, TakeError> {
        // Acquire: as in `try_take`.
        if self.dry.load(Ordering::Acquire) != 0 {
            self.check_dry()?;
        }
        let bits = self.shape.run_bits;
        let mut firsts = [0; PORTION];
        for _ in 0..ATTEMPTS {
            // Relaxed: the cursor orders nothing; each slot is ordered by its own flag.
            let cursor = self.cursor.load(Ordering::Relaxed);
            let run = cursor >> bits;
            let wanted = cursor + out.len() as u64;
            let mut end = run << bits;
            for (first, run) in firsts.iter_mut().zip(run..) {
                if end >= wanted {
                    break;
                }
                let Some(number) = self.slot(run).read(run) else { break };
                *first = number;
                end = (run + 1) << bits;
            }
            let end = end.min(wanted);
            if end <= cursor {
                // Before the tail, as in `take_slowly`.
                let why = self.why_empty();
                if self.tail.load(Ordering::Acquire) <= run {
                    self.mark_dry(run);
                    return Err(why);
                }
                // Published since, or the others have moved the cursor on.
                continue;
            }
            // Relaxed: what was read is what these runs hold, whatever comes after; all that is
            // left to know is that nobody else has drawn their tickets.
            let claim =
                self.cursor.compare_exchange(cursor, end, Ordering::Relaxed, Ordering::Relaxed);
            if claim.is_ok() {
                if end >> bits != run {
                    self.announce(end >> bits);
                }
                return Ok(self.write(cursor, end, &firsts, out, make));
            }
        }
        out[0] = make(self.try_take()?);
        Ok(1)
    }

    /// Writes the numbers of the tickets from `cursor` to `end`, whose runs begin with `firsts`.
    fn write<T>(
        &self,
        cursor: u64,
        end: u64,
        firsts: &[u64; PORTION],
        out: &mut [T],
        make: &impl Fn(u64) -> T,
    ) -> usize {
        let bits = self.shape.run_bits;
        let mut ticket = cursor;
        let mut places = out.iter_mut();
        for first in firsts {
            if ticket == end {
                break;
            }
            let run_end = (((ticket >> bits) + 1) << bits).min(end);
            let numbers = first + (ticket & (self.run_length() - 1))..;
            for (number, place) in numbers.zip(places.by_ref().take((run_end - ticket) as usize)) {
                *place = make(number);
            }
            ticket = run_end;
        }
        (end - cursor) as usize
    }
}
