//! Worker ids, leases and segments from a SQLite file: the embedded store, for one host.
//!
//! SQLite comes from rusqlite. This crate accepts a range of its versions, because cargo allows only one SQLite in a
//! program. Cargo picks the version that shares it with sqlx 0.8 or 0.9, or diesel 2.

mod any_store;
mod columns;
mod commits;
mod container;
mod create;
mod dedicated;
mod dialect;
mod disk;
mod error;
mod examine;
mod file;
mod forked;
mod format;
mod leases;
mod names;
mod opener;
mod ordinal;
mod patience;
mod problem;
mod range;
mod read_only;
mod segments;
mod store;
mod url;
mod volume;
mod worker_nodes;

pub use rusqlite;
pub use uidring_store::{
    AnyStore, LeaseOptions, LeaseRow, LeaseState, LeaseTable, NewSegmentTag, Pruned, RangeRefusal,
    SegmentTable, Shortage, StoreKind, TableError, WorkerNode, WorkerRange, WorkerTable,
    WorkerUsage,
};

pub use self::error::SqliteError;
pub use self::leases::SqliteLeases;
pub use self::ordinal::SqliteOrdinal;
pub use self::segments::SqliteSegments;
pub use self::store::SqliteStore;
pub use self::url::KIND;
pub use self::worker_nodes::SqliteWorkerNodes;
