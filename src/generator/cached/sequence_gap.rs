//! Where sequences start that do not follow the tick before.

use crate::error::Error;
use crate::generator::SequenceStart;
use crate::layout::Layout;
use crate::ring::AfterGap;

/// The start of the sequence in the first tick, and in one before which uids were discarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct SequenceGap {
    start: SequenceStart,
    limit: u64,
    max_sequence: u64,
}

impl SequenceGap {
    pub(super) fn new(layout: &Layout, start: SequenceStart) -> Result<Self, Error> {
        let limit = start.check(layout)?;
        Ok(Self { start, limit, max_sequence: layout.max_sequence() })
    }

    pub(super) fn first(self) -> u64 {
        fastrand::u64(..self.limit)
    }

    pub(super) fn after_gap(self) -> AfterGap {
        AfterGap::new(move |next| match self.start {
            SequenceStart::Zero | SequenceStart::RandomBelow(_) => self.first(),
            SequenceStart::Continue { .. } | SequenceStart::Spread => {
                (next & self.max_sequence) % self.limit
            }
        })
    }
}
