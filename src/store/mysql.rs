//! Worker ids and segments from tables of a MySQL or MariaDB server, which all hosts share.

mod blocking;
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

pub use self::leases::MySqlLeases;
pub use self::segments::MySqlSegments;
pub use self::server::MySqlServer;
use self::table::{Assign, Create, List, Usage, prune};
use super::{Pruned, WorkerNode, WorkerTable, WorkerUsage};
use crate::error::Error;
use crate::layout::Layout;
use crate::worker::{NodeIdentity, WorkerIdAssigner};

/// The table `WORKER_NODE` of a MySQL or MariaDB server. Every assignment inserts a row, whose
/// generated key is the worker id: used by one start, and never again.
///
/// A table made by the script of Baidu's UidGenerator works unchanged, and ids go on where it
/// stands. The connection is closed after the assignment: the generator does not need the server
/// any more.
///
/// ```no_run
/// # async fn start() -> Result<(), uidring::Error> {
/// use uidring::{CachedUidGenerator, Layout, MySqlServer, MySqlWorkerNodes};
///
/// let layout = Layout::UID_GENERATOR;
/// let server = MySqlServer::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let worker_id = MySqlWorkerNodes::new(server).assign(&layout).await?;
/// let generator = CachedUidGenerator::builder().layout(layout).worker_id(worker_id).build()?;
/// # Ok(())
/// # }
/// ```
///
/// Without a runtime, or from code that is not async, [`assign_blocking`](Self::assign_blocking)
/// does the same; it is also what [`WorkerIdAssigner`] calls.
#[derive(Clone, Debug)]
pub struct MySqlWorkerNodes {
    server: MySqlServer,
    create_table_if_missing: bool,
    max_clock_difference: Option<Duration>,
}

impl MySqlWorkerNodes {
    /// The table in the database that the server's URL names.
    pub fn new(server: MySqlServer) -> Self {
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

    /// Inserts a row, commits it, and returns its key.
    ///
    /// What may pass (no connection, a server that is starting, a deadlock) is tried again until
    /// the server's [deadline](MySqlServer::deadline). If the connection breaks while the row is
    /// being inserted, another row is inserted: the first one's key is spent without being used.
    ///
    /// # Errors
    ///
    /// [`Error::WorkerIdsUsedUp`] where the key is over the layout's greatest worker id;
    /// [`Error::Database`] where the server cannot be reached, refuses, or generates no key or one
    /// that is not above all others; [`Error::ClockDiffers`]; [`Error::NodeIdentity`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, and in one without its I/O and time drivers: they have to be
    /// enabled (`enable_all` of its builder).
    pub async fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        let assign = Assign {
            node: NodeIdentity::from_env()?,
            layout: *layout,
            create_table: self.create_table_if_missing,
            max_clock_difference: self.max_clock_difference,
        };
        self.server.run(&assign).await
    }

    /// [`assign`](Self::assign) for code that is not async. It has a thread of its own do it, with a
    /// runtime of its own, and so works within a runtime too, whose thread it blocks meanwhile.
    ///
    /// # Errors
    ///
    /// As for [`assign`](Self::assign).
    pub fn assign_blocking(&self, layout: &Layout) -> Result<u64, Error> {
        blocking::run(&self.server, self.assign(layout))
    }

    /// Where the table is.
    pub fn server(&self) -> &MySqlServer {
        &self.server
    }
}

impl WorkerIdAssigner for MySqlWorkerNodes {
    fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        self.assign_blocking(layout)
    }
}

impl WorkerTable for MySqlWorkerNodes {
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
