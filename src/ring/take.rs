//! The takers' side of the ring.

use std::ops::Range;
use std::time::Duration;

use super::RingBuffer;
use crate::error::TakeError;
use crate::sync::Ordering;

/// After so many lost races `try_fill` claims with one addition, which cannot lose.
const CLAIM_ATTEMPTS: u32 = 4;

/// So many runs `try_fill` claims at a time.
const FILL_PORTION: u64 = 8;

impl RingBuffer {
    /// Takes the next number, or says at once why there is none. Never waits: in the common case
    /// it is one atomic addition and a few loads.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`] when nothing is published; [`TakeError::Closed`] or
    /// [`TakeError::TimeExhausted`] when nothing ever will be.
    #[inline]
    pub fn try_take(&self) -> Result<u64, TakeError> {
        // Acquire: pairs with the Release in `check_dry`: who sees the mark gone sees the runs
        // that made it go.
        if self.dry.load(Ordering::Acquire) != 0 {
            self.check_dry()?;
        }
        let ticket = self.draw();
        match self.redeem(ticket) {
            Some(number) => Ok(number),
            None => self.take_slowly(ticket),
        }
    }

    /// Takes up to `out.len()` numbers in one claim; returns how many were written to the front of
    /// `out`. Never waits, and never draws a ticket for which nothing was published, but for a
    /// race with other takers that it loses four times.
    ///
    /// # Errors
    ///
    /// As [`try_take`](Self::try_take), if there was not even one.
    pub fn try_fill(&self, out: &mut [u64]) -> Result<usize, TakeError> {
        self.try_fill_with(out, |number| number)
    }

    /// [`try_fill`](Self::try_fill) for any type that is made from a number.
    #[inline]
    pub(crate) fn try_fill_with<T>(
        &self,
        out: &mut [T],
        make: impl Fn(u64) -> T,
    ) -> Result<usize, TakeError> {
        let mut filled = 0;
        while filled < out.len() {
            let wanted = (out.len() - filled) as u64;
            // In portions: a claimed slot may be overwritten at once, so that a taker should not
            // have many of them still to read.
            match self.claim(wanted.min(FILL_PORTION << self.shape.run_bits)) {
                Ok(tickets) => filled += self.redeem_all(tickets, &mut out[filled..], &make),
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Sleeps until something may have been published, the ring is closed, or `timeout` is over.
    /// No ticket is held meanwhile: a taker that gives up waiting costs no number.
    pub fn wait(&self, timeout: Option<Duration>) {
        self.runs.wait(timeout, || self.is_closed().is_some() || !self.is_dry());
    }

    #[inline]
    fn draw(&self) -> u64 {
        // Relaxed: each ticket comes out of this addition once, which needs no more than the
        // order of the cursor's own values; what was published is ordered by the slot's flag.
        let ticket = self.cursor.fetch_add(1, Ordering::Relaxed);
        let place_mask = (1 << self.shape.run_bits) - 1;
        if ticket & place_mask == place_mask {
            self.announce((ticket >> self.shape.run_bits) + 1);
        }
        ticket
    }

    /// The number that belongs to a ticket, while its run is in the ring.
    #[inline]
    fn redeem(&self, ticket: u64) -> Option<u64> {
        let run = ticket >> self.shape.run_bits;
        let place = ticket & ((1 << self.shape.run_bits) - 1);
        self.slot(run).read(run).map(|first| first + place)
    }

    /// Goes on with a ticket whose run was not there.
    #[cold]
    fn take_slowly(&self, mut ticket: u64) -> Result<u64, TakeError> {
        loop {
            let run = ticket >> self.shape.run_bits;
            // Before the tail: once the ring is closed its tail stands still, so that a run above
            // it will never come.
            let why = self.why_empty();
            // Acquire: pairs with the Release store of the tail.
            if self.tail.load(Ordering::Acquire) <= run {
                self.abandon(run, 1);
                return Err(why);
            }
            // Published between the two looks? If the slot still holds another run, ours was
            // skipped or overwritten, and this ticket is worth nothing.
            if let Some(number) = self.redeem(ticket) {
                return Ok(number);
            }
            self.counters.lapped.fetch_add(1, Ordering::Relaxed);
            ticket = self.draw();
            if let Some(number) = self.redeem(ticket) {
                return Ok(number);
            }
        }
    }

    fn abandon(&self, run: u64, tickets: u64) {
        self.counters.abandoned.fetch_add(tickets, Ordering::Relaxed);
        self.mark_dry(run);
    }

    /// Marks the ring as dry up to `run`, which was met unpublished, so that no further ticket is
    /// drawn before it is published, and asks for more.
    #[cold]
    fn mark_dry(&self, run: u64) {
        // Relaxed: the mark says nothing of other memory; the maximum keeps a late writer from
        // taking back the mark of a later run.
        self.dry.fetch_max(run + 1, Ordering::Relaxed);
        self.announce(run);
    }

    /// Looks whether the dry mark is out of date, and takes it down if so.
    #[cold]
    fn check_dry(&self) -> Result<(), TakeError> {
        let why = self.why_empty();
        let dry = self.dry.load(Ordering::Relaxed);
        // Acquire: pairs with the Release store of the tail.
        if dry > self.tail.load(Ordering::Acquire) {
            self.announce(dry - 1);
            return Err(why);
        }
        // Release: pairs with the Acquire load of the mark, and hands on what this thread has
        // learned from the tail. It may fail: then another taker has met a later run unpublished.
        let _ = self.dry.compare_exchange(dry, 0, Ordering::Release, Ordering::Relaxed);
        Ok(())
    }

    fn is_dry(&self) -> bool {
        let dry = self.dry.load(Ordering::Relaxed);
        dry > self.tail.load(Ordering::Acquire)
    }

    fn why_empty(&self) -> TakeError {
        self.is_closed().unwrap_or(TakeError::Empty)
    }

    /// Claims up to `wanted` tickets of published runs. Without any, it claims nothing.
    fn claim(&self, wanted: u64) -> Result<Range<u64>, TakeError> {
        if self.dry.load(Ordering::Acquire) != 0 {
            self.check_dry()?;
        }
        let bits = self.shape.run_bits;
        // Relaxed: as in `draw`. The cursor is read before the tail: read after it, it could have
        // passed it.
        let mut cursor = self.cursor.load(Ordering::Relaxed);
        let mut attempt = 0;
        let claimed = loop {
            let why = self.why_empty();
            let published = (self.tail.load(Ordering::Acquire) << bits).saturating_sub(cursor);
            let count = wanted.min(published);
            if count == 0 {
                // Marked without a ticket, so that waiting is the same for everyone.
                self.mark_dry(cursor >> bits);
                return Err(why);
            }
            if attempt == CLAIM_ATTEMPTS {
                let cursor = self.cursor.fetch_add(count, Ordering::Relaxed);
                break cursor..cursor + count;
            }
            match self.cursor.compare_exchange_weak(
                cursor,
                cursor + count,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break cursor..cursor + count,
                Err(current) => cursor = current,
            }
            attempt += 1;
        };
        if claimed.start >> bits != claimed.end >> bits {
            self.announce(claimed.end >> bits);
        }
        Ok(claimed)
    }

    /// Writes the numbers of these tickets; returns how many there were. Tickets that the others
    /// have lapped are lost; at the first unpublished run the rest is abandoned.
    fn redeem_all<T>(&self, tickets: Range<u64>, out: &mut [T], make: &impl Fn(u64) -> T) -> usize {
        let bits = self.shape.run_bits;
        let mut filled = 0;
        let mut ticket = tickets.start;
        while ticket < tickets.end {
            let run = ticket >> bits;
            let end = ((run + 1) << bits).min(tickets.end);
            let count = (end - ticket) as usize;
            match self.redeem(ticket) {
                Some(first) => {
                    for (place, number) in out[filled..filled + count].iter_mut().zip(first..) {
                        *place = make(number);
                    }
                    filled += count;
                }
                None if self.tail.load(Ordering::Acquire) <= run => {
                    self.abandon(run, tickets.end - ticket);
                    break;
                }
                // Published a moment ago, after the first look: look once more.
                None if self.redeem(ticket).is_some() => continue,
                None => {
                    self.counters.lapped.fetch_add(count as u64, Ordering::Relaxed);
                }
            }
            ticket = end;
        }
        filled
    }
}
