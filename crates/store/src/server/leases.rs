//! Leases of worker ids from a server's table.

mod hold;
mod rows;
mod take;

use std::ops::RangeInclusive;
use std::time::Duration;

use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp, Worker, WorkerRequest, WorkerSource};

use self::hold::{Release, Renew};
use self::rows::{EndLease, Ending, ListLeases, Reuse};
use self::take::Acquire;
use super::client::Client;
use super::create::Create;
use super::engine::{Engine, Purpose};
use super::nodes::Usage;
use super::store::{Server, ServerStore};
use super::tables::{Table, UIDRING_LEASE, WORKER_NODE};
use crate::WorkerUsage;
use crate::leases::{
    AcquireRequest, Acquired, Horizon, LeaseOptions, LeaseRow, LeaseStore, LeaseTable, LeasedRow,
    RowStore, acquire, changed_row, issued_until, readable,
};

/// The table `UIDRING_LEASE` of a server, shared by all hosts.
///
/// Each lease keeps a connection of its own, which is opened again if it broke. A renewal takes at most a third of the
/// lease, whatever the server's deadline.
#[derive(Clone, Debug)]
pub struct ServerLeases {
    server: Server,
    creates: &'static [Table],
    options: LeaseOptions,
}

impl<E: Engine> ServerStore<E> {
    /// Returns the table `UIDRING_LEASE`, whose worker ids are held, renewed and given back.
    pub fn leases(&self) -> ServerLeases {
        let (server, options) = (self.server(), LeaseOptions::default());
        ServerLeases { server, creates: &[], options }
    }
}

impl ServerLeases {
    /// Sets how generators lease worker ids; the defaults of [`LeaseOptions`] if not set.
    #[must_use]
    pub fn options(mut self, options: LeaseOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets whether a start creates missing tables; if not set, that is an error. The account needs the right to create
    /// them only if they are missing.
    #[must_use]
    pub fn create_tables_if_missing(mut self, create: bool) -> Self {
        self.creates = if create { &[WORKER_NODE, UIDRING_LEASE] } else { &[] };
        self
    }

    fn connect(&self, lasts: Duration) -> Client {
        Client::new(&self.server, Purpose::Lease(lasts))
    }

    fn admin(&self) -> Client {
        self.connect(Duration::from_secs(60))
    }

    fn end(&self, worker_id: u64, ending: Ending) -> Result<LeaseRow, Error> {
        let (is_done, row) = self.admin().run(&EndLease { worker_id, ending })?;
        changed_row(row, is_done, worker_id, self.server.to_string())
    }
}

impl WorkerSource for ServerLeases {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.lease(request, &self.options).map(Worker::from)
    }
}

impl LeaseTable for ServerLeases {
    fn create(&self) -> Result<(), Error> {
        self.admin().run(&Create(&[WORKER_NODE, UIDRING_LEASE]))
    }

    fn lease(&self, request: &WorkerRequest, options: &LeaseOptions) -> Result<Lease, Error> {
        let lasts = options.length();
        let client = self.connect(lasts);
        acquire(LeaseClient { client, creates: self.creates, lasts }, request, options)
    }

    fn list(&self) -> Result<Vec<LeaseRow>, Error> {
        let rows = self.admin().run(&ListLeases)?;
        Ok(readable(rows, &self.server))
    }

    fn fence(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        self.end(worker_id, Ending::Fence)
    }

    fn release(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        self.end(worker_id, Ending::Free)
    }

    fn reuse(
        &self,
        worker_ids: RangeInclusive<u64>,
        layout: &Layout,
        used_until: Timestamp,
    ) -> Result<(), Error> {
        let horizon = issued_until(layout, &worker_ids, used_until)?;
        let fingerprint = layout.to_string();
        let work = Reuse { worker_ids, fingerprint: &fingerprint, horizon };
        let done = self.admin().run(&work)?;
        done.map_err(|denial| denial.error(self.server.to_string(), layout))
    }
}

/// A client that acquires a lease, then renews and releases it.
pub struct LeaseClient {
    client: Client,
    creates: &'static [Table],
    lasts: Duration,
}

impl LeaseStore for LeaseClient {
    type Rows = Self;

    fn location(&self) -> String {
        self.client.server().to_string()
    }

    fn usage(&mut self) -> Result<WorkerUsage, Error> {
        self.client.run(&Usage)
    }

    fn acquire(&mut self, request: &AcquireRequest) -> Result<Acquired, Error> {
        self.client.run_creating(&Acquire { request }, self.creates)
    }

    fn hold(mut self) -> Self {
        self.client.limit(self.lasts / 3);
        self
    }
}

impl RowStore for LeaseClient {
    fn renew(&mut self, row: &LeasedRow, horizon: Horizon) -> Result<(), Error> {
        let is_cluster = self.client.server().settings.is_cluster;
        let lasts_micros = self.lasts.as_micros() as u64;
        self.client.run_once(&Renew { row, horizon, lasts_micros, is_cluster })
    }

    fn release(&mut self, row: &LeasedRow, last: Option<Horizon>) -> Result<(), Error> {
        self.client.run(&Release { row, last })
    }
}
