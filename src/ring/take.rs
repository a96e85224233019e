//! The takers' side of the ring.

use std::time::Duration;

use super::tickets::Tickets;
use super::{Age, RingBuffer};
use crate::error::TakeError;
use crate::sync::Ordering;

/// A ticket that waits for its run: its number will be nobody else's. See
/// [`RingBuffer::try_take_keeping`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "its number is lost unless the next try gets it"]
pub struct Ticket(u64);

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
        match self.try_draw() {
            Ok(number) => Ok(number),
            Err(ticket) => self.take_slowly(ticket),
        }
    }

    /// [`try_take`](Self::try_take) for a taker that will try again: a ticket whose run is not
    /// there yet is kept, and is what the next try begins with, so that no number is lost by
    /// waiting. One that is not brought back is [abandoned](Self::abandon).
    ///
    /// # Errors
    ///
    /// As [`try_take`](Self::try_take).
    #[inline]
    pub fn try_take_keeping(&self, kept: &mut Option<Ticket>) -> Result<u64, TakeError> {
        if kept.is_none() {
            match self.try_draw() {
                Ok(number) => return Ok(number),
                Err(ticket) => *kept = ticket,
            }
        }
        self.take_kept(kept)
    }

    /// Gives up a ticket: the number that comes to stand at its place, if any does, is given to
    /// nobody.
    pub fn abandon(&self, ticket: Ticket) {
        drop(ticket);
        self.counters.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    /// The fast path: a number; or a ticket without one, or none where the dry mark is up.
    #[inline]
    pub(crate) fn try_draw(&self) -> Result<u64, Option<Ticket>> {
        // Before the ticket: the addition lets no load pass it, and the one of the slot should not
        // have to wait for those of the slots' address and length.
        let tickets = self.tickets();
        // Acquire: pairs with the Release in `check_dry`: who sees the mark gone sees the runs
        // that made it go.
        let dry = self.dry.load(Ordering::Acquire);
        if dry != 0 {
            return Err(None);
        }
        match self.draw(tickets) {
            (_, Some(number)) => Ok(number),
            (ticket, None) => Err(Some(Ticket(ticket))),
        }
    }

    /// Sleeps until something may have been published, the ring is closed, or `timeout` is over.
    /// It draws no ticket: waiting as such costs no number.
    pub fn wait(&self, timeout: Option<Duration>) {
        // A child must not touch the event: at the fork another thread may have held its lock.
        if !self.is_forked() {
            self.runs.wait(timeout, || self.why_gone().is_some() || !self.is_dry());
        }
    }

    /// A new ticket, and the number that belongs to it if its run is there.
    #[inline]
    fn draw(&self, tickets: Tickets<'_>) -> (u64, Option<u64>) {
        // Relaxed: each ticket comes out of this addition once, which needs no more than the
        // order of the cursor's own values; what was published is ordered by the slot's flag.
        let ticket = self.cursor.fetch_add(1, Ordering::Relaxed);
        let number = tickets.redeem(ticket);
        // After the slot was read: the producer that is woken may overwrite it at once. A ticket
        // without a number announces itself later, if at all: in a forked child, where no ticket
        // has one, waking is forbidden.
        if number.is_some() && tickets.is_last(ticket) {
            self.announce(tickets.run(ticket) + 1);
        }
        (ticket, number)
    }

    /// A take that came without a number from the fast path, and will not come back.
    #[cold]
    fn take_slowly(&self, ticket: Option<Ticket>) -> Result<u64, TakeError> {
        let mut kept = ticket;
        let taken = self.take_kept(&mut kept);
        if let Some(ticket) = kept {
            self.abandon(ticket);
        }
        taken
    }

    /// Goes on with a ticket whose run was not there, or with a new one if the ring is not dry.
    #[cold]
    fn take_kept(&self, kept: &mut Option<Ticket>) -> Result<u64, TakeError> {
        let tickets = self.tickets();
        let mut ticket = match kept.take() {
            Some(Ticket(ticket)) => ticket,
            None => {
                // Acquire: as in the fast path.
                let dry = self.dry.load(Ordering::Acquire);
                if dry != 0 {
                    self.check_dry(dry)?;
                }
                match self.draw(tickets) {
                    (_, Some(number)) => return Ok(number),
                    (ticket, None) => ticket,
                }
            }
        };
        loop {
            if self.is_forked() {
                return Err(TakeError::Forked);
            }
            let run = tickets.run(ticket);
            // Before the tail: once the ring is closed its tail stands still, so that a run above
            // it will never come.
            let why = self.why_empty();
            // Acquire: pairs with the Release store of the tail.
            if self.tail.load(Ordering::Acquire) <= run {
                *kept = Some(Ticket(ticket));
                self.mark_dry(run);
                return Err(why);
            }
            // Published between the two looks? If the slot still holds another run, ours was
            // skipped or overwritten, and this ticket is worth nothing.
            if let Some(number) = tickets.redeem(ticket) {
                if tickets.is_last(ticket) {
                    self.announce(run + 1);
                }
                if self.freshness().covers(Age::of(number)) {
                    return Ok(number);
                }
                // Whoever kept the ticket came back too late for it.
                self.counters.discarded.fetch_add(1, Ordering::Relaxed);
            } else {
                // Lapped: the producer has seen a cursor above this ticket, so that nobody misses
                // its announcement.
                self.counters.lapped.fetch_add(1, Ordering::Relaxed);
            }
            match self.draw(tickets) {
                (_, Some(number)) => return Ok(number),
                (drawn, None) => ticket = drawn,
            }
        }
    }

    /// Marks the ring as dry up to `run`, which was met unpublished, so that no further ticket is
    /// drawn before it is published, and asks for more.
    #[cold]
    pub(super) fn mark_dry(&self, run: u64) {
        // Relaxed: the mark says nothing of other memory; the maximum keeps a late writer from
        // taking back the mark of a later run.
        self.dry.fetch_max(run + 1, Ordering::Relaxed);
        self.announce(run);
    }

    /// Looks whether this dry mark is out of date, and takes it down if so. The mark is the one
    /// that was found: one that was read anew could be down already, which says nothing without
    /// the Acquire of the first look.
    #[cold]
    pub(super) fn check_dry(&self, dry: u64) -> Result<(), TakeError> {
        if self.is_forked() {
            return Err(TakeError::Forked);
        }
        let why = self.why_empty();
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

    pub(super) fn why_empty(&self) -> TakeError {
        self.why_gone().unwrap_or(TakeError::Empty)
    }
}
