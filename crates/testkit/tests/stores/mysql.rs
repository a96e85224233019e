//! A MySQL-compatible server.

use std::sync::Arc;
use std::time::Duration;

use uidring::segment::{SegmentStore, SegmentTag};
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest, WorkerSource};
use uidring_mysql::MySqlStore;
use uidring_store::{LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::suite::{Cause, Change, Place, Row, Rows, Server, Site, Store, Tags, Terms};

pub struct MySql;

/// A database with all tables.
struct Tables(Database);

fn open(url: &str) -> Result<MySqlStore, Error> {
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
        open(&self.0.url()).expect("a URL")
    }
}

impl Store for MySql {
    fn start(&self) -> Box<dyn Site> {
        // A lease keeps its connection.
        Tables::on(&MariaDb::start_with(&["--max-connections=1200"]))
    }

    fn share(&self) -> Box<dyn Site> {
        Tables::on(&MariaDb::shared())
    }

    fn worker_ids(&self, place: &Place) -> Result<Box<dyn WorkerSource>, Error> {
        Ok(Box::new(open(&place.address)?.worker_nodes()))
    }

    fn lease(&self, place: &Place, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
        super::lease(&open(&place.address)?.leases(), request, terms)
    }

    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(Box::new(open(&place.address)?.segments()))
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        super::server_cause(error)
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

    fn port(&self) -> u16 {
        self.0.server().port()
    }

    fn address_at(&self, port: u16) -> String {
        self.0.url_at(&format!("127.0.0.1:{port}"))
    }
}

impl Rows for Tables {
    fn row(&self, worker_id: u64) -> Option<Row> {
        super::row(&self.store().leases(), worker_id)
    }

    fn change(&self, worker_id: u64, change: Change) {
        self.0.execute(&super::change(worker_id, change, "UTC_TIMESTAMP(3)"));
    }
}

impl Tags for Tables {
    fn put(&self, tag: &SegmentTag) {
        super::put(tag).iter().for_each(|sql| self.0.execute(sql));
    }

    fn set_step(&self, tag: &str, step: i64) {
        self.0.execute(&super::set_step(tag, step));
    }
}
