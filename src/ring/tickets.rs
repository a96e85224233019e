//! From tickets to slots and numbers.

use super::slot::Slot;
use crate::sync::Line;

/// How tickets and slots belong together. A ticket is the number of a run and, in its low
/// `run_bits`, a place in the run.
#[derive(Clone, Copy)]
pub(super) struct Tickets<'a> {
    slots: &'a [Line],
    run_bits: u32,
    /// The bits of a ticket that are its place.
    places: u64,
}

impl<'a> Tickets<'a> {
    #[inline]
    pub(super) fn new(slots: &'a [Line], run_bits: u32) -> Self {
        Self { slots, run_bits, places: (1 << run_bits) - 1 }
    }

    /// The run of a ticket.
    #[inline]
    pub(super) fn run(self, ticket: u64) -> u64 {
        ticket >> self.run_bits
    }

    /// The place of a ticket in its run.
    #[inline]
    pub(super) fn place(self, ticket: u64) -> u64 {
        ticket & self.places
    }

    /// The first ticket of the run after this ticket's.
    #[inline]
    pub(super) fn run_end(self, ticket: u64) -> u64 {
        (ticket | self.places) + 1
    }

    /// Whether a ticket is the last one of its run.
    #[inline]
    pub(super) fn is_last(self, ticket: u64) -> bool {
        ticket & self.places == self.places
    }

    /// The slot in which a run is, was or will be.
    #[inline]
    pub(super) fn slot(self, run: u64) -> Slot<'a> {
        // The length is a power of two, so this is `run` modulo the length.
        Slot::new(&self.slots[run as usize & (self.slots.len() - 1)])
    }

    /// The number that belongs to a ticket, while its run is in the ring.
    #[inline]
    pub(super) fn redeem(self, ticket: u64) -> Option<u64> {
        let run = self.run(ticket);
        self.slot(run).read(run).map(|first| first + self.place(ticket))
    }
}
