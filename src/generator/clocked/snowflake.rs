//! Twitter's two fields instead of the worker id.

use super::{ClockedBuilder, SnowflakeGenerator};
use crate::error::Error;
use crate::layout::Layout;
use crate::timestamp::Timestamp;
use crate::uid::Uid;

/// Bits of each of the two fields.
const BITS: u32 = 5;
const MAX: u64 = (1 << BITS) - 1;

/// Datacenter and worker, 5 bits each: together the worker id of [`Layout::SNOWFLAKE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnowflakeNode {
    datacenter_id: u64,
    worker_id: u64,
}

impl SnowflakeNode {
    /// # Errors
    ///
    /// [`Error::FieldOutOfRange`] for a datacenter or worker above 31.
    pub fn new(datacenter_id: u64, worker_id: u64) -> Result<Self, Error> {
        for (field, value) in [("datacenter id", datacenter_id), ("worker id", worker_id)] {
            if value > MAX {
                return Err(Error::FieldOutOfRange { field, value, max: MAX });
            }
        }
        Ok(Self { datacenter_id, worker_id })
    }

    /// The two fields of a worker id of 10 bits.
    ///
    /// # Errors
    ///
    /// [`Error::WorkerIdOutOfRange`] above 1,023.
    pub fn from_worker_id(worker_id: u64) -> Result<Self, Error> {
        Layout::SNOWFLAKE.check_worker_id(worker_id)?;
        Ok(Self { datacenter_id: worker_id >> BITS, worker_id: worker_id & MAX })
    }

    /// The datacenter, 0 to 31.
    pub fn datacenter_id(self) -> u64 {
        self.datacenter_id
    }

    /// The worker in its datacenter, 0 to 31.
    pub fn worker_id(self) -> u64 {
        self.worker_id
    }

    /// Both as the one worker id of 10 bits that uidring's layouts have.
    pub fn as_worker_id(self) -> u64 {
        self.datacenter_id << BITS | self.worker_id
    }
}

/// The fields of a Snowflake uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnowflakeParts {
    /// The millisecond of the uid.
    pub timestamp: Timestamp,
    /// Its datacenter and worker.
    pub node: SnowflakeNode,
    /// Its number within the millisecond.
    pub sequence: u64,
}

impl<C> SnowflakeGenerator<C> {
    /// The fields of a uid of this generator's layout, datacenter and worker apart.
    ///
    /// # Errors
    ///
    /// [`Error::UidOutOfLayout`] for a uid that cannot be of this layout;
    /// [`Error::WorkerIdOutOfRange`] where the layout is one with a wider worker field and the uid
    /// uses it.
    pub fn parts(&self, uid: Uid) -> Result<SnowflakeParts, Error> {
        let decoded = self.layout.decode(uid)?;
        Ok(SnowflakeParts {
            timestamp: decoded.timestamp,
            node: SnowflakeNode::from_worker_id(decoded.worker_id)?,
            sequence: decoded.sequence,
        })
    }
}

impl<C> ClockedBuilder<super::TwitterRules, C> {
    /// Sets datacenter and worker instead of the worker id.
    #[must_use]
    pub fn node(self, node: SnowflakeNode) -> Self {
        self.worker_id(node.as_worker_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_fill_the_worker_id() {
        let node = SnowflakeNode::new(31, 1).expect("in range");
        assert_eq!(node.as_worker_id(), 0b11111_00001);
        assert_eq!(SnowflakeNode::from_worker_id(0b11111_00001).expect("in range"), node);
        for (datacenter, worker) in [(32, 0), (0, 32), (u64::MAX, 0)] {
            assert!(matches!(
                SnowflakeNode::new(datacenter, worker),
                Err(Error::FieldOutOfRange { max: 31, .. })
            ));
        }
        assert!(SnowflakeNode::from_worker_id(1_024).is_err());
    }
}
