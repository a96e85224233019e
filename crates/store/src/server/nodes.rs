//! Disposable worker ids from a server's table.

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
use super::store::{Server, ServerStore};
use super::tables::{Table, WORKER_NODE};
use crate::{
    IsLeased, NodeIdentity, Pruned, WorkerNode, WorkerRange, WorkerTable, WorkerUsage,
    age_in_seconds, announce_end,
};

/// The table `WORKER_NODE` of a server. Each assignment inserts a row, whose generated key is a worker id for this
/// start only.
///
/// The connection is then closed, as the generator no longer needs the server.
///
/// An assignment blocks its thread, with a runtime of its own. Within another runtime, build generators in
/// `tokio::task::spawn_blocking`.
#[derive(Clone, Debug)]
pub struct ServerWorkerNodes {
    server: Server,
    creates: &'static [Table],
    max_clock_difference: Option<Duration>,
}

impl<E: Engine> ServerStore<E> {
    /// Returns the table `WORKER_NODE`, which gives each start a fresh worker id.
    pub fn worker_nodes(&self) -> ServerWorkerNodes {
        let (server, max_clock_difference) = (self.server(), self.settings.max_clock_difference);
        ServerWorkerNodes { server, creates: &[], max_clock_difference }
    }
}

impl ServerWorkerNodes {
    /// Sets whether an assignment creates a missing table; if not set, that is an error. The account needs the right to
    /// create it only if it is missing.
    #[must_use]
    pub fn create_table_if_missing(mut self, create: bool) -> Self {
        self.creates = if create { &[WORKER_NODE] } else { &[] };
        self
    }

    /// Sets how far the clocks of host and server may differ; not checked if not set. If they differ more, the
    /// assignment fails before it uses up a worker id.
    ///
    /// The clocks of hosts that check this differ at their starts by at most twice the limit plus the network's delay,
    /// so their uids are roughly in order of time. Uniqueness does not depend on it.
    #[must_use]
    pub fn max_clock_difference(mut self, limit: Duration) -> Self {
        self.max_clock_difference = Some(limit);
        self
    }

    /// Runs the operation on a connection of its own.
    fn run<W: Operation>(&self, work: &W) -> Result<W::Done, Error> {
        self.client().run(work)
    }

    fn client(&self) -> Client {
        Client::new(&self.server, Purpose::Admin)
    }
}

impl WorkerSource for ServerWorkerNodes {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.assign(&request.layout).map(Worker::from)
    }
}

impl WorkerTable for ServerWorkerNodes {
    /// Retries failures that may pass (no connection, a starting server, a deadlock) until the deadline. If the
    /// connection breaks during the insertion, another row is inserted, and the first one's key stays unused.
    fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        let assign = Assign {
            node: NodeIdentity::from_env()?,
            layout: *layout,
            max_clock_difference: self.max_clock_difference,
        };
        let (worker_id, range) = self.client().run_creating(&assign, self.creates)?;
        let place = self.server.to_string();
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
        let done = self.client().run_creating(&Record(range), &[WORKER_NODE])?;
        done.map_err(|refusal| refusal.error(self.server.to_string(), range))
    }

    fn list(&self) -> Result<Vec<WorkerNode>, Error> {
        self.run(&ListNodes)
    }

    fn usage(&self) -> Result<WorkerUsage, Error> {
        self.run(&Usage)
    }

    /// Removes rows in parts, each with the whole deadline.
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
