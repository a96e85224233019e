//! Stores on a database server as a [`Store`] of the suite.

use std::marker::PhantomData;
use std::time::Duration;

use uidring::segment::{SegmentStore, SegmentTag};
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest, WorkerSource};
use uidring_store::server::ServerStore;
use uidring_store::{LeaseTable, SegmentTable, WorkerTable};

use super::store::{Cause, Change, Place, Row, Rows, Server, Site, Store, Tags, Terms};
use super::tables;
use crate::database::{Database, Databases};
use crate::servers::{TestedEngine, new_tag};

/// An engine's store, with the settings of its servers.
pub struct StoreOn<T> {
    settings: &'static [&'static str],
    engine: PhantomData<fn() -> T>,
}

impl<T: TestedEngine> StoreOn<T> {
    pub const fn new(settings: &'static [&'static str]) -> Self {
        Self { settings, engine: PhantomData }
    }
}

fn open<T: TestedEngine>(place: &Place) -> Result<ServerStore<T::Engine>, Error> {
    let store = ServerStore::from_url(&place.address)?;
    Ok(store.connect_timeout(place.deadline).deadline(place.deadline))
}

impl<T: TestedEngine> Store for StoreOn<T> {
    fn start(&self) -> Box<dyn Site> {
        // Each lease keeps a connection.
        let settings = [&[T::MANY_CONNECTIONS], self.settings].concat();
        DatabaseSite::<T>::with_tables(T::Kind::start_with(&settings).database())
    }

    fn share(&self) -> Box<dyn Site> {
        match self.settings {
            [] => DatabaseSite::<T>::with_tables(T::Kind::shared().database()),
            _ => self.start(),
        }
    }

    fn worker_ids(&self, place: &Place) -> Result<Box<dyn WorkerSource>, Error> {
        Ok(Box::new(open::<T>(place)?.worker_nodes()))
    }

    fn lease(&self, place: &Place, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
        tables::lease(&open::<T>(place)?.leases(), request, terms)
    }

    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(Box::new(open::<T>(place)?.segments()))
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        T::cause_of(error)
    }
}

/// A database with all tables.
struct DatabaseSite<T: TestedEngine>(Database<T::Kind>);

impl<T: TestedEngine> DatabaseSite<T> {
    fn with_tables(database: Database<T::Kind>) -> Box<dyn Site> {
        let site = Self(database);
        let store = site.store();
        store.leases().create().expect("made");
        let segments = store.segments().create_table_if_missing(true);
        segments.create_tag(&new_tag("made with the table", 1)).expect("made");
        Box::new(site)
    }

    fn store(&self) -> ServerStore<T::Engine> {
        ServerStore::from_url(&self.0.url()).expect("a URL")
    }
}

impl<T: TestedEngine> Site for DatabaseSite<T> {
    fn address(&self, _: usize) -> String {
        self.0.url()
    }

    fn prune(&self) {
        self.store().worker_nodes().prune(Duration::ZERO).expect("pruned");
    }

    fn record_range(&self, first: u64, last: u64) -> Result<(), Error> {
        self.store().worker_nodes().record_range(tables::range(first, last))
    }

    fn rows(&self) -> &dyn Rows {
        self
    }

    fn tags(&self) -> &dyn Tags {
        self
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(&**self.0.server())
    }

    fn port(&self) -> Option<u16> {
        Some(self.0.server().port())
    }

    fn address_at(&self, port: u16) -> String {
        self.0.url_at(&format!("127.0.0.1:{port}"))
    }
}

impl<T: TestedEngine> Rows for DatabaseSite<T> {
    fn row(&self, worker_id: u64) -> Option<Row> {
        tables::row(&self.store().leases(), worker_id)
    }

    fn change(&self, worker_id: u64, change: Change) {
        self.0.execute(&tables::change(worker_id, change, T::NOW));
    }
}

impl<T: TestedEngine> Tags for DatabaseSite<T> {
    fn put(&self, tag: &SegmentTag) {
        tables::put(tag).iter().for_each(|sql| self.0.execute(sql));
    }

    fn set_step(&self, tag: &str, step: i64) {
        self.0.execute(&T::beside_loads(tables::set_step(tag, step)));
    }
}
