//! Worker ids, leases and segments from tables of a MySQL or MariaDB server, which all hosts share.

mod client;
mod dialect;
mod error;
mod failure;
mod leases;
mod segments;
mod session;
mod store;
mod worker_nodes;

pub use uidring_store::{
    LeaseOptions, LeaseRow, LeaseState, LeaseTable, NewSegmentTag, Pruned, SegmentTable,
    TableError, WorkerNode, WorkerTable, WorkerUsage,
};

pub use self::error::MySqlError;
pub use self::leases::MySqlLeases;
pub use self::segments::MySqlSegments;
pub use self::store::MySqlStore;
pub use self::worker_nodes::MySqlWorkerNodes;
