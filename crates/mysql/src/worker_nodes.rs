//! Disposable worker ids: each start inserts a row of `WORKER_NODE` and uses its key.

pub mod rows;

use std::time::Duration;

use uidring::{Error, Layout, Worker, WorkerRequest, WorkerSource};
use uidring_store::{NodeIdentity, Pruned, WorkerNode, WorkerTable, WorkerUsage, age_in_seconds};

use self::rows::{Assign, Create, List, Newest, PRUNE_ROWS, PrunePart, Usage};
use crate::MySqlStore;
use crate::client::Client;
use crate::client::connection::Operation;
use crate::error::advice::with_note;

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
/// An assignment blocks. It has a runtime of its own, and may be called within another one, whose thread
/// it blocks meanwhile: there, build generators in `tokio::task::spawn_blocking`.
#[derive(Clone, Debug)]
pub struct MySqlWorkerNodes {
    store: MySqlStore,
    create_table_if_missing: bool,
    max_clock_difference: Option<Duration>,
}

impl MySqlStore {
    /// The table `WORKER_NODE`: a fresh worker id for each start.
    pub fn worker_nodes(&self) -> MySqlWorkerNodes {
        MySqlWorkerNodes {
            store: self.clone(),
            create_table_if_missing: false,
            max_clock_difference: None,
        }
    }
}

impl MySqlWorkerNodes {
    /// Whether an assignment makes the table if it is missing; by default it is an error. Only where
    /// it is missing does the account need the right to create it.
    #[must_use]
    pub fn create_table_if_missing(mut self, create: bool) -> Self {
        self.create_table_if_missing = create;
        self
    }

    /// How far this host's clock and the server's may be apart; not checked by default. An
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
    pub fn store(&self) -> &MySqlStore {
        &self.store
    }

    /// Does the work in a connection of its own.
    fn run<W: Operation>(&self, work: &W) -> Result<W::Done, Error> {
        Client::new(&self.store).run(work)
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
        self.run(&assign)
    }

    fn create(&self) -> Result<(), Error> {
        self.run(&Create)
    }

    fn list(&self) -> Result<Vec<WorkerNode>, Error> {
        self.run(&List)
    }

    fn usage(&self) -> Result<WorkerUsage, Error> {
        self.run(&Usage)
    }

    /// Removes part by part, each with the server's whole deadline.
    fn prune(&self, older_than: Duration) -> Result<Pruned, Error> {
        let newest = self.run(&Newest)?;
        let mut removed = 0;
        if let Some(newest) = newest {
            let part = PrunePart { newest, age: age_in_seconds(older_than) };
            loop {
                let rows = self.run(&part).map_err(|error| match removed {
                    0 => error,
                    _ => with_note(error, &format!("; rows removed before: {removed}")),
                })?;
                removed += rows;
                if rows < PRUNE_ROWS {
                    break;
                }
            }
        }
        Ok(Pruned { removed, newest })
    }
}
