//! Leases of worker ids from a table of a PostgreSQL server.

use uidring_store::server::ServerLeases;

use crate::PostgresStore;

/// The table `UIDRING_LEASE`: a [`LeaseTable`](crate::LeaseTable) of worker ids that are held, renewed and
/// given back.
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_postgres::PostgresStore;
///
/// let store = PostgresStore::from_url_file("/run/secrets/uidring-postgres-url")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.leases()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
pub type PostgresLeases = ServerLeases<PostgresStore>;

impl PostgresStore {
    /// The table `UIDRING_LEASE`: worker ids that are held, renewed and given back.
    pub fn leases(&self) -> PostgresLeases {
        ServerLeases::new(self.clone())
    }
}
