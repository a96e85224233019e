//! Worker ids from a table of a MySQL or MariaDB server, which all hosts share.

mod blocking;
mod explain;
mod server;
mod session;
mod table;

use std::time::Duration;

pub use self::server::MySqlServer;
use self::table::{Assign, Create, List, Prune, Usage};
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
}

impl MySqlWorkerNodes {
    /// The table in the database that the server's URL names.
    pub fn new(server: MySqlServer) -> Self {
        Self { server, create_table_if_missing: false }
    }

    /// Whether an assignment makes the table if it is missing; by default it is an error. The
    /// account then needs the right to create it.
    #[must_use]
    pub fn create_table_if_missing(mut self, create: bool) -> Self {
        self.create_table_if_missing = create;
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
    /// that is not above all others; [`Error::NodeIdentity`].
    pub async fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        let create_table = self.create_table_if_missing;
        let assign = Assign { node: NodeIdentity::from_env()?, layout: *layout, create_table };
        self.server.run(&assign).await
    }

    /// [`assign`](Self::assign) for code that is not async. It has a thread of its own do it, and
    /// so works within a runtime too, whose thread it blocks meanwhile.
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
        blocking::run(&self.server, self.server.run(&Prune { older_than }))
    }
}
