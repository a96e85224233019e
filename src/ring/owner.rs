//! What the owner of a shared ring checks, because any process that shares the memory may write there.

use super::slot::Run;
use super::{CloseReason, RingBuffer};
use crate::error::TakeError;
use crate::sync::{Ordering, fence, log};

/// More takers than any host has. Each may draw one number past the end of the last run.
const MOST_TAKERS: u64 = 1 << 24;

impl RingBuffer {
    /// Returns the next number, for the producer. In a shared ring, checks that a correct taker could have left it
    /// there.
    pub(super) fn look_at_next(&self) -> Result<u64, TakeError> {
        if !self.is_owner_of_shared {
            return Ok(self.hot().next());
        }
        let seen = self.seen();
        let next = self.hot().next();
        let is_possible = (seen..=self.last_end().saturating_add(MOST_TAKERS)).contains(&next);
        if !is_possible && self.why_closed().is_none() {
            return Err(self.spoilt("the next number", next));
        }
        self.own.hot().raise(next);
        Ok(next)
    }

    /// Ends a shared ring whose memory holds a value that no correct taker writes.
    #[cold]
    pub(super) fn spoilt(&self, what: &'static str, found: u64) -> TakeError {
        if self.is_owner_of_shared && self.why_closed().is_none() {
            self.close_for(CloseReason::Closed);
            self.end();
            log!(error, what, found, "a process that shares the ring has spoilt it; it is closed");
        }
        TakeError::Closed
    }

    /// [`HotWords::claim`] where a peer may have lowered the next number. If it does that while several threads claim, they
    /// may still get the same number.
    #[cold]
    pub(super) fn claim_as_owner(&self, open: Run, next: u64, end: u64) -> Result<bool, TakeError> {
        let seen = self.seen();
        if !self.hot().claim(next, end) {
            return Ok(false);
        }
        // Whoever opened the run had raised the word to its first number.
        if next < open.first.max(seen) {
            return Err(self.spoilt("the next number", next));
        }
        self.own.hot().raise(end);
        Ok(true)
    }

    /// For the owner of a shared ring: a number that the next number has reached. It is the next number of its own memory.
    fn seen(&self) -> u64 {
        let seen = self.own.hot().next();
        // Pairs with the Release of `raise`: what the caller loads or claims from now on is at least as great.
        fence(Ordering::Acquire);
        seen
    }
}
