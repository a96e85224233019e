//! An etcd server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest, WorkerSource};
use uidring_etcd::EtcdStore;
use uidring_store::WorkerTable;
use uidring_testkit::etcd::Etcd;
use uidring_testkit::suite::{Cause, Change, Place, Row, Rows, Server, Site, Store, Terms, tables};

pub struct EtcdKeys;

/// A prefix of its own on a server.
struct Prefix {
    server: Arc<Etcd>,
    prefix: String,
}

impl Prefix {
    fn on(server: Arc<Etcd>) -> Box<dyn Site> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("/suite{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Box::new(Self { server, prefix })
    }

    fn store(&self) -> EtcdStore {
        at(&self.address(0), "leased").expect("endpoints")
    }

    /// The key of a lease, as etcd's gateway has it.
    fn key(&self, worker_id: u64) -> String {
        STANDARD.encode(format!("{}/leased/leases/{worker_id:020}", self.prefix))
    }
}

/// An address is endpoints and prefix; worker ids and leases have a prefix each below that, or leases would
/// run out of the worker ids that starts use up.
fn open(place: &Place, kind: &str) -> Result<EtcdStore, Error> {
    Ok(at(&place.address, kind)?.deadline(place.deadline))
}

fn at(address: &str, kind: &str) -> Result<EtcdStore, Error> {
    let (endpoints, prefix) = address.split_once(' ').expect("two words");
    EtcdStore::new(endpoints)?.prefix(&format!("{prefix}/{kind}"))
}

impl Store for EtcdKeys {
    fn start(&self) -> Box<dyn Site> {
        Prefix::on(Etcd::start())
    }

    fn share(&self) -> Box<dyn Site> {
        Prefix::on(Etcd::shared())
    }

    fn worker_ids(&self, place: &Place) -> Result<Box<dyn WorkerSource>, Error> {
        Ok(Box::new(open(place, "workers")?.worker_ids()))
    }

    fn lease(&self, place: &Place, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
        tables::lease(&open(place, "leased")?.leases(), request, terms)
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        let away =
            ["no answer within", "no connection", "etcdserver: ", "is in use: a generator of"];
        let is_away = away.iter().any(|text| error.contains(text));
        tables::lease_cause(error).or(is_away.then_some(Cause::Away))
    }
}

impl Site for Prefix {
    fn address(&self, _: usize) -> String {
        self.address_at(self.server.port())
    }

    fn prune(&self) {
        let ids = at(&self.address(0), "workers").expect("endpoints").worker_ids();
        ids.prune(Duration::ZERO).expect("pruned");
    }

    fn record_range(&self, first: u64, last: u64) -> Result<(), Error> {
        ["workers", "leased"].into_iter().try_for_each(|kind| {
            at(&self.address(0), kind)?.worker_ids().record_range(tables::range(first, last))
        })
    }

    fn rows(&self) -> &dyn Rows {
        self
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(&*self.server)
    }

    fn port(&self) -> Option<u16> {
        Some(self.server.port())
    }

    fn address_at(&self, port: u16) -> String {
        format!("127.0.0.1:{port} {}", self.prefix)
    }
}

impl Rows for Prefix {
    fn row(&self, worker_id: u64) -> Option<Row> {
        tables::row(&self.store().leases(), worker_id)
    }

    fn change(&self, worker_id: u64, change: Change) {
        let key = self.key(worker_id);
        let range = self.server.post("kv/range", &json!({"key": key}));
        let found = range["kvs"][0]["value"].as_str().expect("a value");
        let found = STANDARD.decode(found).expect("base64");
        let mut value: Value = serde_json::from_slice(&found).expect("JSON");
        let next = value["token"].as_i64().expect("a token") + 1;
        match change {
            Change::Fenced => {
                value["token"] = next.into();
                value["state"] = "fenced".into();
            }
            Change::Taken => {
                value["token"] = next.into();
                value["owner"] = "other/1".into();
            }
            Change::Twin => value["owner"] = "twin/1".into(),
            Change::SetBack => {
                let tick = value["horizon"]["tick"].as_i64().expect("a tick");
                value["horizon"]["tick"] = (tick - 1).into();
            }
            Change::Removed => {
                self.server.post("kv/deleterange", &json!({"key": key}));
                return;
            }
        }
        let value = STANDARD.encode(value.to_string());
        self.server.post("kv/put", &json!({"key": key, "value": value}));
    }
}
