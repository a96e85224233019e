//! Disposable worker ids: each start inserts a row of `WORKER_NODE` and uses its key.

use uidring_store::server::ServerWorkerNodes;

use crate::MySqlStore;

/// The table `WORKER_NODE`: a [`WorkerTable`](crate::WorkerTable) of which each start gets a worker id of its
/// own.
///
/// A table made by the script of Baidu's UidGenerator works unchanged, and ids go on where it stands.
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_mysql::MySqlStore;
///
/// let store = MySqlStore::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.worker_nodes()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
pub type MySqlWorkerNodes = ServerWorkerNodes<MySqlStore>;

impl MySqlStore {
    /// The table `WORKER_NODE`: a fresh worker id for each start.
    pub fn worker_nodes(&self) -> MySqlWorkerNodes {
        ServerWorkerNodes::new(self.clone())
    }
}
