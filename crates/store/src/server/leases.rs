//! Leases of worker ids from a table of a server: what is done with it, whatever the server.

use std::ops::RangeInclusive;
use std::time::Duration;

use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp, Worker, WorkerRequest, WorkerSource};

use super::Server;
use super::client::Client;
use super::connection::Operation;
use super::nodes::Usage;
use super::segments::SegmentServer;
use crate::WorkerUsage;
use crate::leases::{
    AcquireRequest, Acquired, Denial, Horizon, LeaseOptions, LeaseRow, LeaseStore, LeaseTable,
    LeasedRow, Loss, RowStore, acquire, changed_row, issued_until, readable,
};

/// Creates the tables if they do not exist.
pub struct CreateLeases;

/// Takes a row that nobody holds, or adds one.
pub struct Acquire<'a> {
    /// For whom.
    pub request: &'a AcquireRequest,
    /// Whether missing tables are made.
    pub create_tables: bool,
}

/// Returns all rows, or one; of each that somebody has damaged, what is wrong with it.
pub struct ListLeases {
    /// The only one, if not all.
    pub worker_id: Option<u64>,
}

/// Ends a lease, and returns whether that changed the row, and the row as it is then.
pub struct EndLease {
    /// Whose.
    pub worker_id: u64,
    /// How.
    pub ending: Ending,
}

/// How an operator ends a lease.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// Whoever holds it.
    Fence,
    /// Only if nobody holds it any more.
    Free,
}

/// Adds free rows for worker ids that `WORKER_NODE` has handed out.
pub struct Reuse<'a> {
    /// The worker ids.
    pub worker_ids: RangeInclusive<u64>,
    /// The layout as it stands in the table.
    pub fingerprint: &'a str,
    /// What they may have issued.
    pub horizon: Horizon,
}

/// Renews a lease.
pub struct Renew<'a> {
    /// As it was taken.
    pub row: &'a LeasedRow,
    /// What may be issued from now on.
    pub horizon: Horizon,
    /// How long the lease lasts.
    pub lasts_micros: u64,
    /// Any server that answers is a good one.
    pub is_cluster: bool,
}

/// Frees the row.
pub struct Release<'a> {
    /// As it was taken.
    pub row: &'a LeasedRow,
    /// The last that was issued.
    pub last: Option<Horizon>,
}

/// A server with tables `UIDRING_LEASE`.
pub trait LeaseServer: SegmentServer {
    /// Returns the options of a client whose connection may end when nothing was heard of it for so long.
    fn lease_options(&self, lasts: Duration) -> Self::Options {
        let _ = lasts;
        self.options()
    }
}

/// The table `UIDRING_LEASE` of a server, which all hosts share.
///
/// A lease has a connection of its own, which is kept, and opened anew when it broke. A renewal takes
/// a third of the lease at most, whatever the server's deadline.
#[derive(Clone, Debug)]
pub struct ServerLeases<S> {
    store: S,
    create_tables_if_missing: bool,
    options: LeaseOptions,
}

impl<S> ServerLeases<S> {
    /// The table of this server.
    pub fn new(store: S) -> Self {
        Self { store, create_tables_if_missing: false, options: LeaseOptions::default() }
    }

    /// How worker ids are leased by generators; the defaults of [`LeaseOptions`] if not set.
    #[must_use]
    pub fn options(mut self, options: LeaseOptions) -> Self {
        self.options = options;
        self
    }

    /// Whether a start makes the tables if they are missing; by default it is an error. Only where
    /// they are missing does the account need the right to create them.
    #[must_use]
    pub fn create_tables_if_missing(mut self, create: bool) -> Self {
        self.create_tables_if_missing = create;
        self
    }

    /// Where the table is.
    pub fn store(&self) -> &S {
        &self.store
    }
}

impl<S: LeaseServer> ServerLeases<S> {
    fn connect(&self, lasts: Duration) -> Client<S> {
        Client::with_options(&self.store, self.store.lease_options(lasts))
    }

    /// A client for an operator's command.
    fn admin(&self) -> Client<S> {
        self.connect(Duration::from_secs(60))
    }

    fn end(&self, worker_id: u64, ending: Ending) -> Result<LeaseRow, Error>
    where
        EndLease: Operation<S, Done = (bool, Option<LeaseRow>)>,
    {
        let (is_done, row) = self.admin().run(&EndLease { worker_id, ending })?;
        changed_row(row, is_done, worker_id, self.store.to_string())
    }
}

impl<S: Server> WorkerSource for ServerLeases<S>
where
    Self: LeaseTable,
{
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.lease(request, &self.options).map(Worker::from)
    }
}

impl<S> LeaseTable for ServerLeases<S>
where
    S: LeaseServer + 'static,
    CreateLeases: Operation<S, Done = ()>,
    ListLeases: Operation<S, Done = Vec<Result<LeaseRow, String>>>,
    EndLease: Operation<S, Done = (bool, Option<LeaseRow>)>,
    for<'a> Acquire<'a>: Operation<S, Done = Acquired>,
    for<'a> Reuse<'a>: Operation<S, Done = Result<(), Denial>>,
    for<'a> Renew<'a>: Operation<S, Done = Result<(), Loss>>,
    for<'a> Release<'a>: Operation<S, Done = Result<(), Loss>>,
    Usage: Operation<S, Done = WorkerUsage>,
    LeaseClient<S>: Send,
{
    fn create(&self) -> Result<(), Error> {
        self.admin().run(&CreateLeases)
    }

    fn lease(&self, request: &WorkerRequest, options: &LeaseOptions) -> Result<Lease, Error> {
        let lasts = options.length();
        let client = self.connect(lasts);
        let create_tables = self.create_tables_if_missing;
        acquire(LeaseClient { client, create_tables, lasts }, request, options)
    }

    fn list(&self) -> Result<Vec<LeaseRow>, Error> {
        let rows = self.admin().run(&ListLeases { worker_id: None })?;
        Ok(readable(rows, &self.store))
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
        done.map_err(|denial| denial.error(self.store.to_string(), layout))
    }
}

/// A client that acquires a lease, and then renews and releases it.
pub struct LeaseClient<S: Server> {
    client: Client<S>,
    create_tables: bool,
    lasts: Duration,
}

impl<S> LeaseStore for LeaseClient<S>
where
    S: LeaseServer + 'static,
    Self: RowStore,
    for<'a> Acquire<'a>: Operation<S, Done = Acquired>,
    Usage: Operation<S, Done = WorkerUsage>,
{
    type Rows = Self;

    fn location(&self) -> String {
        self.client.server().to_string()
    }

    fn usage(&mut self) -> Result<WorkerUsage, Error> {
        self.client.run(&Usage)
    }

    fn acquire(&mut self, request: &AcquireRequest) -> Result<Acquired, Error> {
        self.client.run(&Acquire { request, create_tables: self.create_tables })
    }

    fn hold(mut self) -> Self {
        self.client.limit(self.lasts / 3);
        self
    }
}

impl<S> RowStore for LeaseClient<S>
where
    S: LeaseServer + 'static,
    Self: Send,
    for<'a> Renew<'a>: Operation<S, Done = Result<(), Loss>>,
    for<'a> Release<'a>: Operation<S, Done = Result<(), Loss>>,
{
    fn renew(&mut self, row: &LeasedRow, horizon: Horizon) -> Result<Result<(), Loss>, Error> {
        let is_cluster = self.client.server().settings().is_cluster;
        let lasts_micros = self.lasts.as_micros() as u64;
        self.client.run_once(&Renew { row, horizon, lasts_micros, is_cluster })
    }

    fn release(
        &mut self,
        row: &LeasedRow,
        last: Option<Horizon>,
    ) -> Result<Result<(), Loss>, Error> {
        self.client.run(&Release { row, last })
    }
}
