//! Disposable worker ids: each start inserts a row of `WORKER_NODE` and uses its key.

use uidring_store::server::ServerWorkerNodes;

use crate::PostgresStore;

/// The table `WORKER_NODE`: a [`WorkerTable`](crate::WorkerTable) of which each start gets a worker id of its
/// own.
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_postgres::PostgresStore;
///
/// let store = PostgresStore::from_url_file("/run/secrets/uidring-postgres-url")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.worker_nodes()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
pub type PostgresWorkerNodes = ServerWorkerNodes<PostgresStore>;

impl PostgresStore {
    /// The table `WORKER_NODE`: a fresh worker id for each start.
    pub fn worker_nodes(&self) -> PostgresWorkerNodes {
        ServerWorkerNodes::new(self.clone())
    }
}
