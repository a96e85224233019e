//! Worker ids and segments from tables of a MySQL or MariaDB server, which all hosts share.

mod blocking;
mod error;
mod explain;
mod inspection;
mod kept;
mod leaf_alloc;
mod lease_care;
mod lease_holding;
mod lease_rows;
mod leases;
mod segments;
mod server;
mod session;
mod table;

use std::time::Duration;

use uidring::{Error, Layout, Worker, WorkerRequest, WorkerSource};
use uidring_store::NodeIdentity;
pub use uidring_store::{
    LeaseOptions, LeaseRow, LeaseState, LeaseTable, NewSegmentTag, Pruned, SegmentTable,
    TableError, WorkerNode, WorkerTable, WorkerUsage,
};

pub use self::error::MySqlError;
pub use self::leases::MySqlLeases;
pub use self::segments::MySqlSegments;
pub use self::server::MySqlStore;
use self::table::{Assign, Create, List, Usage, prune};

/// The table `WORKER_NODE` of a MySQL or MariaDB server. Every assignment inserts a row, whose
/// generated key is the worker id: used by one start, and never again.
///
/// A table made by the script of Baidu's UidGenerator works unchanged, and ids go on where it
/// stands. The connection is closed after the assignment: the generator does not need the server
/// any more.
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_mysql::MySqlStore;
///
/// let store = MySqlStore::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.worker_nodes()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
///
/// An assignment blocks. It works on a thread of its own, with a runtime of its own, so that it may be
/// called within one, whose thread it blocks meanwhile: there, build generators in
/// `tokio::task::spawn_blocking`.
#[derive(Clone, Debug)]
pub struct MySqlWorkerNodes {
    server: MySqlStore,
    create_table_if_missing: bool,
    max_clock_difference: Option<Duration>,
}

impl MySqlWorkerNodes {
    pub(crate) fn new(server: MySqlStore) -> Self {
        Self { server, create_table_if_missing: false, max_clock_difference: None }
    }

    /// Whether an assignment makes the table if it is missing; by default it is an error. Only where
    /// it is missing does the account need the right to create it.
    #[must_use]
    pub fn create_table_if_missing(mut self, create: bool) -> Self {
        self.create_table_if_missing = create;
        self
    }

    /// How far this host's clock and the server's may be apart; by default nobody looks. An
    /// assignment that finds more is refused before it costs a worker id.
    ///
    /// When they start, the clocks of hosts that all compare theirs with the server's differ by twice
    /// this at most, and what the network takes. Worker ids are distinct in any case: this is for
    /// those who want uids of several hosts to be roughly in the order of time.
    #[must_use]
    pub fn max_clock_difference(mut self, limit: Duration) -> Self {
        self.max_clock_difference = Some(limit);
        self
    }

    /// Where the table is.
    pub fn server(&self) -> &MySqlStore {
        &self.server
    }
}

impl WorkerSource for MySqlWorkerNodes {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.assign(&request.layout).map(Worker::from)
    }
}

impl WorkerTable for MySqlWorkerNodes {
    /// What may pass (no connection, a server that is starting, a deadlock) is tried again until
    /// the server's [deadline](MySqlStore::deadline). If the connection breaks while the row is
    /// being inserted, another row is inserted: the first one's key is spent without being used.
    fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        let assign = Assign {
            node: NodeIdentity::from_env()?,
            layout: *layout,
            create_table: self.create_table_if_missing,
            max_clock_difference: self.max_clock_difference,
        };
        blocking::run(&self.server, self.server.run(&assign))
    }

    fn create(&self) -> Result<(), Error> {
        blocking::run(&self.server, self.server.run(&Create))
    }

    fn list(&self) -> Result<Vec<WorkerNode>, Error> {
        blocking::run(&self.server, self.server.run(&List))
    }

    fn usage(&self) -> Result<WorkerUsage, Error> {
        blocking::run(&self.server, self.server.run(&Usage))
    }

    fn prune(&self, older_than: Duration) -> Result<Pruned, Error> {
        blocking::run(&self.server, prune(&self.server, older_than))
    }
}
