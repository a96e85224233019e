//! Worker ids, leases and segments from tables of a PostgreSQL server, which all hosts share.

mod client;
mod dialect;
mod driver;
mod error;
mod failure;
mod leases;
mod segments;
mod session;
mod store;
mod tables;
mod values;
mod worker_nodes;

pub use uidring_store::{
    LeaseOptions, LeaseRow, LeaseState, LeaseTable, NewSegmentTag, Pruned, SegmentTable,
    TableError, WorkerNode, WorkerTable, WorkerUsage,
};

pub use self::error::PostgresError;
pub use self::leases::PostgresLeases;
pub use self::segments::PostgresSegments;
pub use self::store::PostgresStore;
pub use self::worker_nodes::PostgresWorkerNodes;
