//! A MySQL-compatible server.

use std::sync::Arc;
use std::time::Duration;

use uidring::segment::{SegmentStore, SegmentTag};
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest, WorkerSource};
use uidring_mysql::MySqlStore;
use uidring_store::{LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::suite::{
    Cause, Change, Place, Row, Rows, Server, Site, Store, Tags, Terms, tables,
};

/// With these settings of the server.
pub struct MySql(pub &'static [&'static str]);

/// A database with all tables.
struct Tables(Database);

fn open(place: &Place) -> Result<MySqlStore, Error> {
    Ok(at(&place.address)?.connect_timeout(place.deadline).deadline(place.deadline))
}

fn at(url: &str) -> Result<MySqlStore, Error> {
    MySqlStore::from_url(url)
}

impl Tables {
    fn on(server: &Arc<MariaDb>) -> Box<dyn Site> {
        let tables = Self(server.database());
        WorkerTable::create(&tables.store().worker_nodes()).expect("made");
        tables.store().leases().create().expect("made");
        let tag = NewSegmentTag::new("made with the table", 1).expect("allowed");
        let segments = tables.store().segments().create_table_if_missing(true);
        segments.create_tag(&tag).expect("made");
        Box::new(tables)
    }

    fn store(&self) -> MySqlStore {
        at(&self.0.url()).expect("a URL")
    }
}

impl Store for MySql {
    fn start(&self) -> Box<dyn Site> {
        // A lease keeps its connection.
        Tables::on(&MariaDb::start_with(&[&["--max-connections=1200"], self.0].concat()))
    }

    fn share(&self) -> Box<dyn Site> {
        match self.0 {
            [] => Tables::on(&MariaDb::shared()),
            _ => self.start(),
        }
    }

    fn worker_ids(&self, place: &Place) -> Result<Box<dyn WorkerSource>, Error> {
        Ok(Box::new(open(place)?.worker_nodes()))
    }

    fn lease(&self, place: &Place, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
        tables::lease(&open(place)?.leases(), request, terms)
    }

    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(Box::new(open(place)?.segments()))
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        tables::server_cause(error)
    }
}

impl Site for Tables {
    fn address(&self, _: usize) -> String {
        self.0.url()
    }

    fn prune(&self) {
        self.store().worker_nodes().prune(Duration::ZERO).expect("pruned");
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

impl Rows for Tables {
    fn row(&self, worker_id: u64) -> Option<Row> {
        tables::row(&self.store().leases(), worker_id)
    }

    fn change(&self, worker_id: u64, change: Change) {
        self.0.execute(&tables::change(worker_id, change, "UTC_TIMESTAMP(3)"));
    }
}

impl Tags for Tables {
    fn put(&self, tag: &SegmentTag) {
        tables::put(tag).iter().for_each(|sql| self.0.execute(sql));
    }

    fn set_step(&self, tag: &str, step: i64) {
        self.0.execute(&tables::set_step(tag, step));
    }
}
