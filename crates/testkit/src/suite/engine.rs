//! For stores on a database server: all of a [`Store`] but what differs between the engines.

use std::marker::PhantomData;
use std::time::Duration;

use uidring::segment::{SegmentStore, SegmentTag};
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest, WorkerSource};
use uidring_store::{LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};

use super::store::{Cause, Change, Place, Row, Rows, Server, Site, Store, Tags, Terms};
use super::tables;

/// An engine, and with which settings its servers start.
pub trait Engine: Sync + 'static {
    /// The present time, in a statement.
    const NOW: &'static str;

    /// Starts a server for so many connections as there may be leases, with a database.
    fn server(&self) -> Box<dyn Database>;

    /// Returns a database that may be on a server that other tests use at the same time.
    fn shared_server(&self) -> Box<dyn Database>;

    /// Opens the tables, with this deadline of an operation and of a connection.
    fn open(url: &str, deadline: Duration) -> Result<Tables, Error>;

    /// As for a [`Store`].
    fn cause_of(error: &str) -> Option<Cause> {
        tables::server_cause(error)
    }

    /// Returns the statements that make this change beside loads.
    fn beside_loads(change: String) -> String {
        change
    }
}

/// The tables of a database.
pub struct Tables {
    pub worker_nodes: Box<dyn WorkerTable>,
    pub leases: Box<dyn LeaseTable>,
    /// Made with its first tag.
    pub segments: Box<dyn Segments>,
}

/// A table of segments.
pub trait Segments: SegmentStore + SegmentTable {}

impl<T: SegmentStore + SegmentTable> Segments for T {}

/// A database of a private server.
pub trait Database: Send + Sync {
    /// Its URL for a user who may do anything there.
    fn url(&self) -> String;
    /// The same by another host and port.
    fn url_at(&self, address: &str) -> String;
    /// Executes a statement as that user.
    fn execute(&self, sql: &str);
    /// Its server.
    fn server(&self) -> &dyn Server;
    /// The server's port of 127.0.0.1.
    fn port(&self) -> u16;
}

#[cfg(any(feature = "mariadb", feature = "postgres"))]
impl<K: crate::database::Databases> Database for crate::database::Database<K> {
    fn url(&self) -> String {
        Self::url(self)
    }

    fn url_at(&self, address: &str) -> String {
        Self::url_at(self, address)
    }

    fn execute(&self, sql: &str) {
        Self::execute(self, sql);
    }

    fn server(&self) -> &dyn Server {
        &**Self::server(self)
    }

    fn port(&self) -> u16 {
        Self::server(self).port()
    }
}

impl<E: Engine> Store for E {
    fn start(&self) -> Box<dyn Site> {
        DatabaseSite::<E>::with_tables(self.server())
    }

    fn share(&self) -> Box<dyn Site> {
        DatabaseSite::<E>::with_tables(self.shared_server())
    }

    fn worker_ids(&self, place: &Place) -> Result<Box<dyn WorkerSource>, Error> {
        Ok(E::open(&place.address, place.deadline)?.worker_nodes)
    }

    fn lease(&self, place: &Place, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
        tables::lease(&*E::open(&place.address, place.deadline)?.leases, request, terms)
    }

    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(E::open(&place.address, place.deadline)?.segments)
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        E::cause_of(error)
    }
}

/// A database with all tables.
struct DatabaseSite<E> {
    database: Box<dyn Database>,
    engine: PhantomData<fn() -> E>,
}

impl<E: Engine> DatabaseSite<E> {
    fn with_tables(database: Box<dyn Database>) -> Box<dyn Site> {
        let site = Self { database, engine: PhantomData };
        let tables = site.tables();
        tables.worker_nodes.create().expect("made");
        tables.leases.create().expect("made");
        let tag = NewSegmentTag::new("made with the table", 1).expect("allowed");
        tables.segments.create_tag(&tag).expect("made");
        Box::new(site)
    }

    /// With the deadline that stores have by default.
    fn tables(&self) -> Tables {
        E::open(&self.database.url(), Duration::from_secs(10)).expect("a URL")
    }
}

impl<E: Engine> Site for DatabaseSite<E> {
    fn address(&self, _: usize) -> String {
        self.database.url()
    }

    fn prune(&self) {
        self.tables().worker_nodes.prune(Duration::ZERO).expect("pruned");
    }

    fn rows(&self) -> &dyn Rows {
        self
    }

    fn tags(&self) -> &dyn Tags {
        self
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(self.database.server())
    }

    fn port(&self) -> Option<u16> {
        Some(self.database.port())
    }

    fn address_at(&self, port: u16) -> String {
        self.database.url_at(&format!("127.0.0.1:{port}"))
    }
}

impl<E: Engine> Rows for DatabaseSite<E> {
    fn row(&self, worker_id: u64) -> Option<Row> {
        tables::row(&*self.tables().leases, worker_id)
    }

    fn change(&self, worker_id: u64, change: Change) {
        self.database.execute(&tables::change(worker_id, change, E::NOW));
    }
}

impl<E: Engine> Tags for DatabaseSite<E> {
    fn put(&self, tag: &SegmentTag) {
        tables::put(tag).iter().for_each(|sql| self.database.execute(sql));
    }

    fn set_step(&self, tag: &str, step: i64) {
        self.database.execute(&E::beside_loads(tables::set_step(tag, step)));
    }
}
