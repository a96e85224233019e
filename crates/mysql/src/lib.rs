//! Worker ids, leases and segments from tables of a MySQL or MariaDB server, shared by all hosts.

mod dialect;
mod failure;
mod session;
mod store;

use uidring_store::ServerError;
use uidring_store::server::{ServerLeases, ServerSegments, ServerWorkerNodes};
pub use uidring_store::{
    LeaseOptions, LeaseRow, LeaseState, LeaseTable, NewSegmentTag, Pruned, RangeRefusal,
    SegmentTable, Shortage, StoreKind, TableError, WorkerNode, WorkerRange, WorkerTable,
    WorkerUsage,
};

pub use self::store::{MySql, MySqlStore};

/// How MySQL stores are named and opened.
pub static KIND: StoreKind = MySqlStore::KIND;

/// The table `WORKER_NODE`: a [`WorkerTable`] that gives each start its own worker id.
///
/// A table made by the script of Baidu's UidGenerator works unchanged: ids continue where it left off.
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_mysql::MySqlStore;
///
/// let store = MySqlStore::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.worker_nodes()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
pub type MySqlWorkerNodes = ServerWorkerNodes;

/// The table `UIDRING_LEASE`: a [`LeaseTable`] of worker ids that are held, renewed and released.
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_mysql::MySqlStore;
///
/// let store = MySqlStore::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.leases()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
pub type MySqlLeases = ServerLeases;

/// The table `leaf_alloc`: a [`SegmentStore`](uidring::segment::SegmentStore), and the [`SegmentTable`] of its tags.
///
/// A table made by the script of Meituan's Leaf works unchanged, and can be shared with Leaf. Each load is one
/// transaction, which locks the rows of its tags for five round trips.
///
/// ```no_run
/// use uidring::SegmentGenerator;
/// use uidring_mysql::MySqlStore;
///
/// let store = MySqlStore::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let generator = SegmentGenerator::builder(store.segments()).build()?;
/// println!("{}", generator.next_id("orders")?);
/// # Ok::<(), uidring::Error>(())
/// ```
pub type MySqlSegments = ServerSegments;

/// Why a MySQL or MariaDB server could not be used. The source of `Server` is an error of the driver, such as
/// [`mysql_async::ServerError`], or of the system.
pub type MySqlError = ServerError;
