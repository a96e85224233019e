//! Worker ids, leases and segments from tables of a MySQL or MariaDB server, which all hosts share.

mod dialect;
mod failure;
mod session;
mod store;

use uidring_store::ServerError;
use uidring_store::server::{ServerLeases, ServerSegments, ServerWorkerNodes};
pub use uidring_store::{
    LeaseOptions, LeaseRow, LeaseState, LeaseTable, NewSegmentTag, Pruned, SegmentTable, StoreKind,
    TableError, WorkerNode, WorkerTable, WorkerUsage,
};

pub use self::store::{MySql, MySqlStore};

/// How MySQL's stores are named and opened.
pub static KIND: StoreKind = MySqlStore::KIND;

/// The table `WORKER_NODE`: a [`WorkerTable`] of which each start gets a worker id of its
/// own.
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
pub type MySqlWorkerNodes = ServerWorkerNodes<MySql>;

/// The table `UIDRING_LEASE`: a [`LeaseTable`] of worker ids that are held, renewed and
/// given back.
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_mysql::MySqlStore;
///
/// let store = MySqlStore::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.leases()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
pub type MySqlLeases = ServerLeases<MySql>;

/// The table `leaf_alloc`: a [`SegmentStore`](uidring::segment::SegmentStore), and the
/// [`SegmentTable`] of its tags.
///
/// A table made by the script of Meituan's Leaf works unchanged, and may be shared with instances of
/// Leaf. Each load is one transaction, which locks the rows of its tags for its five round trips.
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
pub type MySqlSegments = ServerSegments<MySql>;

/// Why a MySQL or MariaDB server could not be used; the source of `Server` is one of the driver's errors,
/// such as [`mysql_async::ServerError`], or the system's.
pub type MySqlError = ServerError;
