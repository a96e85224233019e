//! Worker ids, leases and segments from tables of a PostgreSQL server, shared by all hosts.

mod dialect;
mod driver;
mod failure;
mod session;
mod store;
mod tables;
mod values;

use uidring_store::ServerError;
use uidring_store::server::{ServerLeases, ServerSegments, ServerWorkerNodes};
pub use uidring_store::{
    LeaseOptions, LeaseRow, LeaseState, LeaseTable, NewSegmentTag, Pruned, RangeRefusal,
    SegmentTable, Shortage, StoreKind, TableError, WorkerNode, WorkerRange, WorkerTable,
    WorkerUsage,
};

pub use self::store::{Postgres, PostgresStore};

/// How PostgreSQL stores are named and opened.
pub static KIND: StoreKind = PostgresStore::KIND;

/// The table `WORKER_NODE`: a [`WorkerTable`] that gives each start its own worker id.
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_postgres::PostgresStore;
///
/// let store = PostgresStore::from_url_file("/run/secrets/uidring-postgres-url")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.worker_nodes()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
pub type PostgresWorkerNodes = ServerWorkerNodes;

/// The table `UIDRING_LEASE`: a [`LeaseTable`] of worker ids that are held, renewed and released.
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_postgres::PostgresStore;
///
/// let store = PostgresStore::from_url_file("/run/secrets/uidring-postgres-url")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.leases()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
pub type PostgresLeases = ServerLeases;

/// The table `leaf_alloc`: a [`SegmentStore`](uidring::segment::SegmentStore), and the [`SegmentTable`] of its tags.
///
/// Each load is one transaction, which locks the rows of its tags for three round trips.
///
/// ```no_run
/// use uidring::SegmentGenerator;
/// use uidring_postgres::PostgresStore;
///
/// let store = PostgresStore::from_url_file("/run/secrets/uidring-postgres-url")?;
/// let generator = SegmentGenerator::builder(store.segments()).build()?;
/// println!("{}", generator.next_id("orders")?);
/// # Ok::<(), uidring::Error>(())
/// ```
pub type PostgresSegments = ServerSegments;

/// Why a PostgreSQL server could not be used. The source of `Server` is an error of the driver
/// ([`tokio_postgres::Error`]) or of the system.
pub type PostgresError = ServerError;
