//! Disposable worker ids from a table of a server.

mod rows;

use std::time::Duration;

use uidring::{Error, Layout, Worker, WorkerRequest, WorkerSource};

use self::rows::{Assign, ListNodes, Newest, PrunePart};
pub use self::rows::{Usage, insert_node};
use super::client::Client;
use super::connection::Operation;
use super::create::Create;
use super::engine::{Engine, Purpose};
use super::error::with_note;
use super::range::{Record, Recorded};
use super::store::ServerStore;
use super::tables::WORKER_NODE;
use crate::{
    IsLeased, NodeIdentity, Pruned, WorkerNode, WorkerRange, WorkerTable, WorkerUsage,
    age_in_seconds, announce_end,
};

/// The table `WORKER_NODE` of a server. Every assignment inserts a row, whose generated key is the worker
/// id: used by one start, and never again.
///
/// The connection is closed after the assignment: the generator does not need the server any more.
///
/// An assignment blocks. It has a runtime of its own, and may be called within another one, whose thread
/// it blocks meanwhile: there, build generators in `tokio::task::spawn_blocking`.
#[derive(Clone, Debug)]
pub struct ServerWorkerNodes<E: Engine> {
    store: ServerStore<E>,
    create_table_if_missing: bool,
    max_clock_difference: Option<Duration>,
}

impl<E: Engine> ServerStore<E> {
    /// The table `WORKER_NODE`: a fresh worker id for each start.
    pub fn worker_nodes(&self) -> ServerWorkerNodes<E> {
        ServerWorkerNodes::new(self.clone())
    }
}

impl<E: Engine> ServerWorkerNodes<E> {
    /// The table of this server.
    pub fn new(store: ServerStore<E>) -> Self {
        let max_clock_difference = store.settings.max_clock_difference;
        Self { store, create_table_if_missing: false, max_clock_difference }
    }

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
    pub fn store(&self) -> &ServerStore<E> {
        &self.store
    }
}

impl<E: Engine> ServerWorkerNodes<E> {
    /// Does the work in a connection of its own.
    fn run<W: Operation<E>>(&self, work: &W) -> Result<W::Done, Error> {
        Client::new(&self.store, Purpose::Admin).run(work)
    }
}

impl<E: Engine> WorkerSource for ServerWorkerNodes<E> {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.assign(&request.layout).map(Worker::from)
    }
}

impl<E: Engine> WorkerTable for ServerWorkerNodes<E> {
    /// What may pass (no connection, a server that is starting, a deadlock) is tried again until
    /// the server's deadline. If the connection breaks while the row is being inserted, another row is
    /// inserted: the first one's key is spent without being used.
    fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        let assign = Assign {
            node: NodeIdentity::from_env()?,
            layout: *layout,
            create_table: self.create_table_if_missing,
            max_clock_difference: self.max_clock_difference,
        };
        let (worker_id, range) = self.run(&assign)?;
        let place = self.store.to_string();
        announce_end(&place, layout, range, worker_id, IsLeased::No, || self.usage());
        Ok(worker_id)
    }

    fn create(&self) -> Result<(), Error> {
        self.run(&Create(&[WORKER_NODE]))
    }

    fn range(&self) -> Result<Option<WorkerRange>, Error> {
        self.run(&Recorded)
    }

    fn record_range(&self, range: WorkerRange) -> Result<(), Error> {
        let done = self.run(&Record(range))?;
        done.map_err(|refusal| refusal.error(self.store.to_string(), range))
    }

    fn list(&self) -> Result<Vec<WorkerNode>, Error> {
        self.run(&ListNodes)
    }

    fn usage(&self) -> Result<WorkerUsage, Error> {
        self.run(&Usage)
    }

    /// Removes part by part, each with the server's whole deadline.
    fn prune(&self, older_than: Duration) -> Result<Pruned, Error> {
        let newest = self.run(&Newest)?;
        let mut removed = 0;
        while let Some(newest) = newest {
            let part = PrunePart { newest, age: age_in_seconds(older_than) };
            let rows = self.run(&part).map_err(|error| match removed {
                0 => error,
                _ => with_note(error, &format!("; rows removed before: {removed}")),
            })?;
            removed += rows;
            if rows < PrunePart::ROWS {
                break;
            }
        }
        Ok(Pruned { removed, newest })
    }
}
