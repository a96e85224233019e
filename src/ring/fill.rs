//! Taking many numbers at once.

use std::ops::Range;

use super::RingBuffer;
use crate::error::TakeError;
use crate::sync::Ordering;

/// So many runs are claimed at a time.
const PORTION: usize = 32;

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
        let filled = self.fill_quietly(out, |number| number)?;
        self.announce_if_low();
        Ok(filled)
    }

    /// [`try_fill`](Self::try_fill) for any type that is made from a number. It does not wake the
    /// producer of a ring that it leaves below its threshold: that is up to the caller.
    pub(crate) fn fill_quietly<T>(
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
        let mut firsts = [0; PORTION];
        let Some(tickets) = self.claim(out.len() as u64, &mut firsts)? else {
            out[0] = make(self.try_take()?);
            return Ok(1);
        };
        let count = (tickets.end - tickets.start) as usize;
        let (mut ticket, mut runs, mut rest) = (tickets.start, &firsts[..], &mut out[..count]);
        while let [first, following @ ..] = runs {
            let start = first + self.tickets().place(ticket);
            let mut end = self.tickets().run_end(ticket);
            runs = following;
            // Runs of one tick are neighbours: written in one go, their loop costs nothing.
            while let [next, following @ ..] = runs
                && end < tickets.end
                && *next == start + (end - ticket)
            {
                end = self.tickets().run_end(end);
                runs = following;
            }
            let (stretch, after) = rest.split_at_mut((end.min(tickets.end) - ticket) as usize);
            count_up(stretch, start, make);
            if after.is_empty() {
                break;
            }
            (ticket, rest) = (end, after);
        }
        Ok(count)
    }

    /// Takes what is left of the present run, for a taker that then counts for itself: at least
    /// one number, and at most a run's length. Never waits.
    ///
    /// # Errors
    ///
    /// As [`try_take`](Self::try_take).
    pub fn try_lease(&self) -> Result<Range<u64>, TakeError> {
        let lease = self.lease_quietly()?;
        self.announce_if_low();
        Ok(lease)
    }

    /// [`try_lease`](Self::try_lease) without waking the producer, as
    /// [`fill_quietly`](Self::fill_quietly).
    pub(crate) fn lease_quietly(&self) -> Result<Range<u64>, TakeError> {
        let mut first = [0];
        match self.claim(u64::MAX, &mut first)? {
            Some(tickets) => {
                let number = first[0] + self.tickets().place(tickets.start);
                Ok(number..number + (tickets.end - tickets.start))
            }
            None => self.try_take().map(|number| number..number + 1),
        }
    }

    /// Claims the tickets of up to `wanted` numbers, of as many published runs as `firsts` has
    /// places, and writes the first numbers of these runs there. `None` after too many lost races.
    fn claim(&self, wanted: u64, firsts: &mut [u64]) -> Result<Option<Range<u64>>, TakeError> {
        // Acquire: as in `try_take`.
        let dry = self.dry.load(Ordering::Acquire);
        if dry != 0 {
            self.check_dry(dry)?;
        }
        if self.is_forked() {
            return Err(TakeError::Forked);
        }
        for _ in 0..ATTEMPTS {
            // Relaxed: the cursor orders nothing; each slot is ordered by its own flag.
            let cursor = self.cursor.load(Ordering::Relaxed);
            let run = cursor >> self.shape.run_bits;
            let wanted_end = cursor.saturating_add(wanted);
            let mut end = cursor;
            for (first, run) in firsts.iter_mut().zip(run..) {
                if end >= wanted_end {
                    break;
                }
                let Some(number) = self.tickets().slot(run).read(run) else { break };
                *first = number;
                end = self.tickets().run_end(end);
            }
            if end == cursor {
                // Before the tail, as in `take_slowly`.
                let why = self.why_empty();
                if self.tail.load(Ordering::Acquire) <= run {
                    self.mark_dry(run);
                    return Err(why);
                }
                // Published since, or the others have moved the cursor on.
                continue;
            }
            let end = end.min(wanted_end);
            // Relaxed: what was read is what these runs hold, whatever comes after; all that is
            // left to know is that nobody else has drawn their tickets.
            let claim =
                self.cursor.compare_exchange(cursor, end, Ordering::Relaxed, Ordering::Relaxed);
            if claim.is_ok() {
                return Ok(Some(cursor..end));
            }
        }
        Ok(None)
    }
}

/// Writes the numbers from `start` on.
///
/// By sixteen, so that what ends an iteration is little beside its stores: a loop of four takes a
/// quarter longer or less, as its code happens to lie on one cache line or on two.
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
