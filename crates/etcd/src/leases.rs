//! Leases of worker ids in an etcd cluster.

mod acquire;
mod admin;
mod glance;
mod hold;
mod row;
mod view;

use std::ops::RangeInclusive;
use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp, Worker, WorkerRequest, WorkerSource};
use uidring_store::leases::{
    self, AcquireRequest, Acquired, LeaseOptions, LeaseRow, LeaseStore, LeaseTable,
};
use uidring_store::{WorkerTable, WorkerUsage};

use self::acquire::take;
use self::glance::glance;
use self::hold::Holder;
use self::row::Row;
use self::view::View;
use crate::EtcdStore;
use crate::client::Client;
use crate::counter::Counter;

/// The leases of an etcd cluster. Each worker id has a key.
///
/// Others consider a lease expired once they have seen its key unchanged for its length and a tenth more, by their own
/// clocks. A start that finds only worker ids of dead holders takes a new one. If the layout has none left, it must
/// wait: set [`LeaseOptions::wait_for`].
///
/// A renewal is one transaction, and may take a third of the lease at most, whatever the store's
/// [deadline](EtcdStore::deadline).
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_etcd::EtcdStore;
///
/// let store = EtcdStore::new("etcd1:2379,etcd2:2379,etcd3:2379")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.leases()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EtcdLeases {
    store: EtcdStore,
    options: LeaseOptions,
}

impl EtcdStore {
    /// Returns a source of worker ids that are leased: held, renewed and given back.
    pub fn leases(&self) -> EtcdLeases {
        EtcdLeases { store: self.clone(), options: LeaseOptions::default() }
    }
}

impl EtcdLeases {
    /// Sets how generators lease worker ids. If not set, the defaults of [`LeaseOptions`] apply.
    #[must_use]
    pub fn options(mut self, options: LeaseOptions) -> Self {
        self.options = options;
        self
    }

    fn client(&self) -> Client {
        Client::new(&self.store)
    }

    fn changed(&self, changed: admin::Changed, worker_id: u64) -> Result<LeaseRow, Error> {
        let (is_done, row) = changed?.unzip();
        let row = row.map(|row| row.shown(SystemClock.now()));
        leases::changed_row(row, is_done == Some(true), worker_id, self.store.to_string())
    }
}

impl WorkerSource for EtcdLeases {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.lease(request, &self.options).map(Worker::from)
    }
}

impl LeaseTable for EtcdLeases {
    /// Creates the counter, which is all that leases need.
    fn create(&self) -> Result<(), Error> {
        self.client().run(|client| Counter::open(client).map(drop))
    }

    fn lease(&self, request: &WorkerRequest, options: &LeaseOptions) -> Result<Lease, Error> {
        let (client, lasts) = (self.client(), options.length());
        let (view, taken) = (View::default(), None);
        let acquiring = Acquiring { client, is_new: true, view, taken, lasts };
        leases::acquire(acquiring, request, options)
    }

    fn list(&self) -> Result<Vec<LeaseRow>, Error> {
        admin::list(&mut self.client())
    }

    fn fence(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        self.changed(admin::fence(&mut self.client(), worker_id), worker_id)
    }

    /// A lease that has apparently expired, but was not fenced, is first watched for its whole length.
    fn release(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        self.changed(admin::free(&mut self.client(), worker_id), worker_id)
    }

    fn reuse(
        &self,
        worker_ids: RangeInclusive<u64>,
        layout: &Layout,
        used_until: Timestamp,
    ) -> Result<(), Error> {
        let horizon = leases::issued_until(layout, &worker_ids, used_until)?;
        admin::reuse(&mut self.client(), &worker_ids, layout, horizon)
    }
}

/// A client acquiring a lease, and what it has seen so far.
struct Acquiring {
    client: Client,
    /// It has not tried to take a lease yet, nor read all leases.
    is_new: bool,
    view: View,
    taken: Option<Row>,
    lasts: Duration,
}

impl LeaseStore for Acquiring {
    type Rows = Holder;

    fn location(&self) -> String {
        self.client.store.to_string()
    }

    fn usage(&mut self) -> Result<WorkerUsage, Error> {
        self.client.store.worker_ids().usage()
    }

    fn acquire(&mut self, request: &AcquireRequest) -> Result<Acquired, Error> {
        let Self { client, is_new, view, taken, .. } = self;
        client.run(|client| {
            let found = if *is_new { glance(client, request, is_new)? } else { None };
            *is_new = false;
            let done = match found {
                Some(found) => Ok(found),
                None => take(client, view, request)?,
            };
            Ok(done.map(|(leased, row)| {
                *taken = Some(row);
                leased
            }))
        })
    }

    fn hold(mut self) -> Holder {
        self.client.limit(self.lasts / 3);
        // The common code holds a lease only after it acquired a row.
        let known = self.taken.unwrap_or_else(|| unreachable!("a row was taken"));
        Holder { client: self.client, known }
    }
}
