//! Leases of worker ids from a table of a MySQL or MariaDB server.

use uidring_store::server::ServerLeases;

use crate::MySqlStore;

/// The table `UIDRING_LEASE`: a [`LeaseTable`](crate::LeaseTable) of worker ids that are held, renewed and
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
pub type MySqlLeases = ServerLeases<MySqlStore>;

impl MySqlStore {
    /// The table `UIDRING_LEASE`: worker ids that are held, renewed and given back.
    pub fn leases(&self) -> MySqlLeases {
        ServerLeases::new(self.clone())
    }
}
