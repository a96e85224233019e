//! Leases of worker ids from a table of a MySQL or MariaDB server.

mod acquire;
mod admin;
mod hold;

use std::ops::RangeInclusive;
use std::time::Duration;

use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp, Worker, WorkerRequest, WorkerSource};
use uidring_store::leases::{
    self, AcquireRequest, Acquired, Horizon, LeaseOptions, LeaseRow, LeaseStore, LeaseTable,
    LeasedRow, Loss, RowStore,
};

use self::acquire::{Acquire, CreateLeases};
use self::admin::{End, List, Reuse};
use self::hold::{Release, Renew};
use crate::MySqlStore;
use crate::client::Client;
use crate::dialect::DIALECT;

/// The table `UIDRING_LEASE` of a MySQL or MariaDB server, which all hosts share.
///
/// A lease has a connection of its own, which is kept, and opened anew when it broke. A renewal takes
/// a third of the lease at most, whatever the server's [deadline](MySqlStore::deadline).
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_mysql::MySqlStore;
///
/// let store = MySqlStore::from_url_file("/run/secrets/uidring-mysql-url")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.leases()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MySqlLeases {
    store: MySqlStore,
    create_tables_if_missing: bool,
    options: LeaseOptions,
}

impl MySqlStore {
    /// The table `UIDRING_LEASE`: worker ids that are held, renewed and given back.
    pub fn leases(&self) -> MySqlLeases {
        MySqlLeases {
            store: self.clone(),
            create_tables_if_missing: false,
            options: LeaseOptions::default(),
        }
    }
}

impl MySqlLeases {
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
    pub fn store(&self) -> &MySqlStore {
        &self.store
    }

    /// A client whose connection the server ends when it has heard nothing for so long.
    fn connect(&self, lasts: Duration) -> Client {
        // With autocommit off, every statement would need a COMMIT, and with another completion type
        // a COMMIT would end the connection. A server that waits long for a client that was paused
        // keeps what it has locked.
        let session = format!(
            "SET SESSION autocommit = 1, SESSION completion_type = 'NO_CHAIN',
             SESSION wait_timeout = {}",
            lasts.as_secs().clamp(1, 3_600)
        );
        Client::lasting(&self.store, Some(session))
    }

    /// A client for an operator's command.
    fn admin(&self) -> Client {
        self.connect(Duration::from_secs(60))
    }

    fn end(&self, worker_id: u64, update: String) -> Result<LeaseRow, Error> {
        let (is_done, row) = self.admin().run(&End { worker_id, update })?;
        leases::changed_row(row, is_done, worker_id, self.store.to_string())
    }
}

impl WorkerSource for MySqlLeases {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.lease(request, &self.options).map(Worker::from)
    }
}

impl LeaseTable for MySqlLeases {
    fn create(&self) -> Result<(), Error> {
        self.admin().run(&CreateLeases)
    }

    fn lease(&self, request: &WorkerRequest, options: &LeaseOptions) -> Result<Lease, Error> {
        let lasts = options.length();
        let client = self.connect(lasts);
        let create_tables = self.create_tables_if_missing;
        leases::acquire(Acquiring { client, create_tables, lasts }, request, options)
    }

    fn list(&self) -> Result<Vec<LeaseRow>, Error> {
        self.admin().run(&List { worker_id: None })
    }

    fn fence(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        self.end(worker_id, DIALECT.fence())
    }

    fn release(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        self.end(worker_id, DIALECT.free())
    }

    fn reuse(
        &self,
        worker_ids: RangeInclusive<u64>,
        layout: &Layout,
        used_until: Timestamp,
    ) -> Result<(), Error> {
        let horizon = leases::issued_until(layout, &worker_ids, used_until)?;
        let fingerprint = layout.to_string();
        let work = Reuse { worker_ids, fingerprint: &fingerprint, horizon };
        let done = self.admin().run(&work)?;
        done.map_err(|denial| denial.error(self.store.to_string(), &fingerprint))
    }
}

/// A client that acquires a lease.
struct Acquiring {
    client: Client,
    create_tables: bool,
    lasts: Duration,
}

impl LeaseStore for Acquiring {
    type Rows = Rows;

    fn location(&self) -> String {
        self.client.store().to_string()
    }

    fn acquire(&mut self, request: &AcquireRequest) -> Result<Acquired, Error> {
        self.client.run(&Acquire { request, create_tables: self.create_tables })
    }

    fn hold(mut self) -> Rows {
        self.client.limit(self.lasts / 3);
        Rows { client: self.client, lasts_micros: self.lasts.as_micros() as u64 }
    }
}

/// A client that renews and releases a lease.
struct Rows {
    client: Client,
    lasts_micros: u64,
}

impl RowStore for Rows {
    fn renew(&mut self, row: &LeasedRow, horizon: Horizon) -> Result<Result<(), Loss>, Error> {
        let (lasts_micros, is_cluster) = (self.lasts_micros, self.client.store().is_cluster);
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
