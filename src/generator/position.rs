//! Positions among a worker's uids.

use crate::error::Error;
use crate::layout::Layout;
use crate::uid::Uid;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) tick: u64,
    pub(super) sequence: u64,
}

impl Position {
    /// Returns the position after a uid of any worker. The position's tick is above the layout's last one if the uid is the
    /// worker's last.
    ///
    /// # Errors
    ///
    /// As [`Layout::decode`].
    pub(super) fn after(layout: &Layout, uid: Uid) -> Result<Self, Error> {
        let last = layout.decode(uid)?;
        Ok(if last.sequence < layout.max_sequence() {
            Self { tick: last.tick, sequence: last.sequence + 1 }
        } else {
            Self { tick: last.tick + 1, sequence: 0 }
        })
    }

    pub(super) fn before(self, layout: &Layout, worker_id: u64) -> Option<Uid> {
        Some(match self.sequence.checked_sub(1) {
            Some(sequence) => layout.pack(self.tick, worker_id, sequence),
            None => layout.pack(self.tick.checked_sub(1)?, worker_id, layout.max_sequence()),
        })
    }
}
