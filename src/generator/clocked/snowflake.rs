//! Twitter's datacenter and worker fields in place of the worker id.

use super::ClockedUidGenerator;
use crate::error::Error;
use crate::layout::{Layout, check_field};
use crate::timestamp::Timestamp;
use crate::uid::Uid;
use crate::worker::{FixedWorkerId, Worker, WorkerRequest, WorkerSource};

/// Bits of each field.
const BITS: u32 = 5;
const MAX: u64 = (1 << BITS) - 1;

/// A datacenter and a worker, 0 to 31 each. Together they are the worker id of [`Layout::SNOWFLAKE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnowflakeNode {
    /// The datacenter, 0 to 31.
    pub datacenter_id: u64,
    /// The worker in its datacenter, 0 to 31.
    pub worker_id: u64,
}

impl SnowflakeNode {
    /// Splits a 10-bit worker id into the two fields.
    ///
    /// # Errors
    ///
    /// [`Error::WorkerIdOutOfRange`] above 1,023.
    pub fn from_worker_id(worker_id: u64) -> Result<Self, Error> {
        Layout::SNOWFLAKE.check_worker_id(worker_id)?;
        Ok(Self { datacenter_id: worker_id >> BITS, worker_id: worker_id & MAX })
    }

    /// Returns both fields as one 10-bit worker id.
    ///
    /// # Errors
    ///
    /// [`Error::FieldOutOfRange`] for a datacenter or worker above 31.
    pub fn as_worker_id(self) -> Result<u64, Error> {
        check_field("datacenter id", self.datacenter_id, MAX)?;
        check_field("worker id", self.worker_id, MAX)?;
        Ok(self.datacenter_id << BITS | self.worker_id)
    }
}

impl WorkerSource for SnowflakeNode {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        FixedWorkerId(self.as_worker_id()?).acquire(request)
    }

    fn is_fixed(&self) -> bool {
        true
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

impl<C> ClockedUidGenerator<C> {
    /// Returns the fields of a uid of this generator's layout, with datacenter and worker apart.
    ///
    /// # Errors
    ///
    /// [`Error::UidOutOfLayout`] for a uid that cannot be of this layout. [`Error::WorkerIdOutOfRange`] if the layout's
    /// worker field is wider than 10 bits and the uid uses that.
    pub fn parts(&self, uid: Uid) -> Result<SnowflakeParts, Error> {
        let decoded = self.layout.decode(uid)?;
        Ok(SnowflakeParts {
            timestamp: decoded.timestamp,
            node: SnowflakeNode::from_worker_id(decoded.worker_id)?,
            sequence: decoded.sequence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_fill_the_worker_id() {
        let node = SnowflakeNode { datacenter_id: 31, worker_id: 1 };
        assert_eq!(node.as_worker_id().expect("in range"), 0b11111_00001);
        assert_eq!(SnowflakeNode::from_worker_id(0b11111_00001).expect("in range"), node);
        for (datacenter_id, worker_id) in [(32, 0), (0, 32), (u64::MAX, 0)] {
            let node = SnowflakeNode { datacenter_id, worker_id };
            let error = node.acquire(&Layout::SNOWFLAKE.into()).expect_err("out of range");
            assert!(matches!(error, Error::FieldOutOfRange { max: 31, .. }));
        }
        assert!(SnowflakeNode::from_worker_id(1_024).is_err());
    }
}
