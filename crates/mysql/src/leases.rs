//! Leases of worker ids from a table of a MySQL or MariaDB server.

use std::ops::RangeInclusive;
use std::time::Duration;

use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp, Worker, WorkerRequest, WorkerSource};
use uidring_store::TableError;
use uidring_store::leases::{
    self, Answer, Ask, Asker, Held, HeldRow, LeaseOptions, LeaseRow, LeaseTable, Loss, Place,
};

use super::MySqlStore;
use super::kept::Kept;
use super::lease_care::{End, HowToEnd, List, Reuse};
use super::lease_holding::{GiveBack, Renew};
use super::lease_rows::{CreateLeases, Take};
use super::session::{ISOLATION, LOCK_WAIT};

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
    server: MySqlStore,
    create_tables_if_missing: bool,
    options: LeaseOptions,
}

impl MySqlLeases {
    pub(crate) fn new(server: MySqlStore) -> Self {
        Self { server, create_tables_if_missing: false, options: LeaseOptions::default() }
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
    pub fn server(&self) -> &MySqlStore {
        &self.server
    }

    /// A connection that the server ends when it has heard nothing for so long.
    fn connect(&self, lasts: Duration) -> Kept {
        // With autocommit off, every statement would need a COMMIT, and with another completion type
        // a COMMIT would end the connection. A server that waits long for a client that was paused
        // keeps what it has locked; and who waits long for a lock holds up a start that might have
        // another row.
        let session = format!(
            "SET SESSION autocommit = 1, SESSION completion_type = 'NO_CHAIN',
             SESSION innodb_lock_wait_timeout = {LOCK_WAIT}, SESSION wait_timeout = {}",
            lasts.as_secs().clamp(1, 3_600)
        );
        Kept::new(self.server.clone(), vec![ISOLATION.into(), session])
    }

    fn care(&self) -> Kept {
        self.connect(Duration::from_secs(60))
    }

    fn end(&self, worker_id: u64, how: HowToEnd) -> Result<LeaseRow, Error> {
        let place = self.server.to_string();
        let (is_done, row) = self.care().run(&End { worker_id, how })?;
        match row {
            Some(row) => row.ended(is_done, place),
            None => Err(Error::from(TableError::NoSuchLease { place, worker_id })),
        }
    }
}

impl WorkerSource for MySqlLeases {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.lease(request, &self.options).map(Worker::from)
    }
}

impl LeaseTable for MySqlLeases {
    fn create(&self) -> Result<(), Error> {
        self.care().run(&CreateLeases)
    }

    fn lease(&self, request: &WorkerRequest, options: &LeaseOptions) -> Result<Lease, Error> {
        let lasts = options.length();
        let kept = self.connect(lasts);
        let create_tables = self.create_tables_if_missing;
        leases::acquire(Asking { kept, create_tables, lasts }, request, options)
    }

    fn list(&self) -> Result<Vec<LeaseRow>, Error> {
        self.care().run(&List { worker_id: None })
    }

    fn fence(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        self.end(worker_id, HowToEnd::Fence)
    }

    fn release(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        self.end(worker_id, HowToEnd::Free)
    }

    fn reuse(
        &self,
        worker_ids: RangeInclusive<u64>,
        layout: &Layout,
        used_until: Timestamp,
    ) -> Result<(), Error> {
        let horizon = leases::used_until(layout, &worker_ids, used_until)?;
        let fingerprint = layout.to_string();
        let work = Reuse { worker_ids, fingerprint: &fingerprint, horizon };
        let done = self.care().run(&work)?;
        done.map_err(|denial| denial.error(self.server.to_string(), &fingerprint))
    }
}

/// A connection in which worker ids are asked for.
struct Asking {
    kept: Kept,
    create_tables: bool,
    lasts: Duration,
}

impl Asker for Asking {
    type Row = Row;

    fn place(&self) -> String {
        self.kept.server().to_string()
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer, Error> {
        self.kept.run(&Take { ask, create_tables: self.create_tables })
    }

    fn keep(mut self) -> Row {
        self.kept.limit(self.lasts / 3);
        Row { kept: self.kept, lasts_micros: self.lasts.as_micros() as u64 }
    }
}

/// A row that is held, and the connection to it.
struct Row {
    kept: Kept,
    lasts_micros: u64,
}

impl HeldRow for Row {
    fn renew(&mut self, held: &Held, horizon: Place) -> Result<Result<(), Loss>, Error> {
        let (lasts_micros, is_cluster) = (self.lasts_micros, self.kept.server().is_cluster());
        self.kept.run_once(&Renew { held, horizon, lasts_micros, is_cluster })
    }

    fn release(&mut self, held: &Held, last: Option<Place>) -> Result<Result<(), Loss>, Error> {
        self.kept.run(&GiveBack { held, last })
    }
}
