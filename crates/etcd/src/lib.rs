//! Worker ids and leases from an etcd cluster that all hosts share. Needs etcd 3.4 or later.

mod any_store;
mod client;
mod counter;
mod examine;
mod key_value;
mod leases;
mod node;
mod problem;
mod store;
mod url;
mod worker_ids;

pub use uidring_store::{
    LeaseOptions, LeaseRow, LeaseState, LeaseTable, Pruned, RangeRefusal, ServerError, Shortage,
    StoreKind, TableError, WorkerNode, WorkerRange, WorkerTable, WorkerUsage,
};

pub use self::leases::EtcdLeases;
pub use self::store::EtcdStore;
pub use self::url::KIND;
pub use self::worker_ids::EtcdWorkerIds;
