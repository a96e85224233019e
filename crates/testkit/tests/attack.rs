//! Every store under the same attack, on a disk and in memory; see `uidring_testkit::attack`. Here are the
//! stores.
//!
//! It takes 3 s for each store and file system, or as many as UIDRING_ATTACK_SECONDS says;
//! `scripts/attack` runs it for longer.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use uidring::segment::SegmentStore;
use uidring::worker::Lease;
use uidring::{Error, Layout};
use uidring_etcd::EtcdStore;
use uidring_mysql::MySqlStore;
use uidring_postgres::PostgresStore;
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::attack::{self, Cause, Kind, Place, Server, Store, TAGS, Target};
use uidring_testkit::etcd::Etcd;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::postgres::{self, Postgres};
use uidring_testkit::request;
use uidring_testkit::zookeeper::ZooKeeper;
use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperServers};

const TARGETS: &[&dyn Target] = &[&Sqlite, &MySql, &PostgreSql, &Leaf, &EtcdKeys];

const ALL: &[Kind] = &[Kind::Workers, Kind::Leases, Kind::Segments];

/// Short ones, so that a process can be paused for longer.
fn options() -> LeaseOptions {
    LeaseOptions::default().lasts(Duration::from_secs(1)).wait_for(Duration::from_secs(2))
}

/// Has all worker ids leased once, before others use up the counter that they come from.
fn lease_all(table: &dyn LeaseTable) {
    table.create().expect("made");
    let layout = attack::layout();
    let lease = |_| table.lease(&request(layout), &LeaseOptions::default()).expect("free");
    let all: Vec<_> = (1..layout.workers()).map(lease).collect();
    assert_eq!(all.iter().map(Lease::worker_id).max(), Some(layout.max_worker_id()));
    all.into_iter().for_each(|lease| lease.release().expect("released"));
}

/// What every store says of leases.
fn lease_cause(error: &str) -> Option<Cause> {
    if error.contains("no worker id is free") || error.contains("ahead; set the clock") {
        Some(Cause::NoneFree)
    } else if error.contains("lease of the worker id is lost")
        // Before it was in use.
        || (error.contains("the lease of worker id") && error.contains(" has it (token"))
    {
        Some(Cause::Lost)
    } else {
        None
    }
}

/// What every server's store says.
fn server_cause(error: &str) -> Option<Cause> {
    let away = [
        "no answer within",
        "a statement did not end within",
        "the server closed the connection",
        "is the server running",
        "onnection reset by peer",
        // By somebody who was stopped.
        "another transaction has it locked",
        // Another thread's start, whose first renewal waits for the server, has lost the lease that
        // this one was given: the register refuses the later one.
        "is in use: a generator of this process",
    ];
    let is_away = away.iter().any(|text| error.contains(text));
    lease_cause(error).or(is_away.then_some(Cause::Away))
}

struct Sqlite;

/// A file for each kind: where all share one, there is hardly a moment at which nobody has it open, and
/// it is then that a file is tidied up.
struct SqliteFolder(TempDir);

fn file(folder: &str, kind: Kind) -> PathBuf {
    Path::new(folder).join(format!("{kind:?}.db"))
}

impl Target for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn kinds(&self) -> &'static [Kind] {
        ALL
    }

    fn start(&self) -> Box<dyn Store> {
        let store = SqliteFolder(tempfile::tempdir().expect("a folder"));
        let folder = store.address(0);
        lease_all(&SqliteStore::new(file(&folder, Kind::Leases)).leases());
        for tag in TAGS {
            let tag = NewSegmentTag::new(tag, 5).expect("allowed");
            SqliteStore::new(file(&folder, Kind::Segments))
                .segments()
                .create_tag(&tag)
                .expect("made");
        }
        Box::new(store)
    }

    fn worker_id(&self, place: &Place) -> Result<u64, Error> {
        SqliteStore::new(file(&place.address, Kind::Workers))
            .worker_nodes()
            .assign(&Layout::UID_GENERATOR)
    }

    fn lease(&self, place: &Place, layout: &Layout) -> Result<Lease, Error> {
        SqliteStore::new(file(&place.address, Kind::Leases))
            .leases()
            .lease(&request(*layout), &options())
    }

    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(Box::new(SqliteStore::new(file(&place.address, Kind::Segments)).segments()))
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        let is_locked = error.contains("another process keeps it locked");
        // As on a server.
        let is_late = error.contains("is in use: a generator of this process");
        lease_cause(error).or(is_locked.then_some(Cause::Locked)).or(is_late.then_some(Cause::Away))
    }
}

impl Store for SqliteFolder {
    fn address(&self, _: usize) -> String {
        self.0.path().to_str().expect("UTF-8").into()
    }

    fn server(&self) -> Option<&dyn Server> {
        None
    }
}

struct MySql;

/// A server of its own, and a database with all tables.
struct MySqlDatabase(Database);

fn mysql(url: &str) -> Result<MySqlStore, Error> {
    MySqlStore::from_url(url)
}

impl Target for MySql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn kinds(&self) -> &'static [Kind] {
        ALL
    }

    fn start(&self) -> Box<dyn Store> {
        let store = MySqlDatabase(MariaDb::start().database());
        let server = || mysql(&store.address(0)).expect("a URL");
        WorkerTable::create(&server().worker_nodes()).expect("made");
        lease_all(&server().leases());
        for tag in TAGS {
            let tag = NewSegmentTag::new(tag, 5).expect("allowed");
            let segments = server().segments().create_table_if_missing(true);
            segments.create_tag(&tag).expect("made");
        }
        Box::new(store)
    }

    fn worker_id(&self, place: &Place) -> Result<u64, Error> {
        let nodes = mysql(&place.address)?.worker_nodes();
        WorkerTable::assign(&nodes, &Layout::UID_GENERATOR)
    }

    fn lease(&self, place: &Place, layout: &Layout) -> Result<Lease, Error> {
        mysql(&place.address)?.leases().lease(&request(*layout), &options())
    }

    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(Box::new(mysql(&place.address)?.segments()))
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        server_cause(error)
    }
}

impl Store for MySqlDatabase {
    fn address(&self, _: usize) -> String {
        self.0.url()
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(&**self.0.server())
    }
}

struct PostgreSql;

/// A server of its own, and a database with all tables.
struct PostgresDatabase(postgres::Database);

fn postgres(url: &str) -> Result<PostgresStore, Error> {
    PostgresStore::from_url(url)
}

impl Target for PostgreSql {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn kinds(&self) -> &'static [Kind] {
        ALL
    }

    fn start(&self) -> Box<dyn Store> {
        let store = PostgresDatabase(Postgres::start().database());
        let server = || postgres(&store.address(0)).expect("a URL");
        WorkerTable::create(&server().worker_nodes()).expect("made");
        lease_all(&server().leases());
        for tag in TAGS {
            let tag = NewSegmentTag::new(tag, 5).expect("allowed");
            let segments = server().segments().create_table_if_missing(true);
            segments.create_tag(&tag).expect("made");
        }
        Box::new(store)
    }

    fn worker_id(&self, place: &Place) -> Result<u64, Error> {
        let nodes = postgres(&place.address)?.worker_nodes();
        WorkerTable::assign(&nodes, &Layout::UID_GENERATOR)
    }

    fn lease(&self, place: &Place, layout: &Layout) -> Result<Lease, Error> {
        postgres(&place.address)?.leases().lease(&request(*layout), &options())
    }

    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(Box::new(postgres(&place.address)?.segments()))
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        let away = ["the server ended the connection", "the server is starting or stopping"];
        let is_away = away.iter().any(|text| error.contains(text));
        server_cause(error).or(is_away.then_some(Cause::Away))
    }
}

impl Store for PostgresDatabase {
    fn address(&self, _: usize) -> String {
        self.0.url()
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(&**self.0.server())
    }
}

/// The registry in ZooKeeper: a new instance has a worker id that nobody else has, and a few instances
/// are started again and again, all over the place, as leases.
struct Leaf;

struct Registry(Arc<ZooKeeper>, TempDir);

/// So many processes use one name of a registry, in which every new instance leaves a node.
const ROUNDS: usize = 30;

/// Address and registry's name of a place, and its folder of local files.
fn parts(place: &Place) -> [&str; 3] {
    let parts: Vec<_> = place.address.splitn(3, ' ').collect();
    parts.try_into().expect("three parts")
}

fn registry(place: &Place, name: &str, instance: &str) -> Result<LeafZooKeeper, Error> {
    let [hosts, _, folder] = parts(place);
    let servers = ZooKeeperServers::new(hosts)?.session_timeout(Duration::from_secs(2));
    // Each slot of processes, which stands for a host, has local files of its own.
    let file = Path::new(folder).join(format!("{}-{name}-{instance}.json", place.slot));
    Ok(LeafZooKeeper::new(servers, name, Instance::new(instance)?)?.cache_file(file))
}

impl Target for Leaf {
    fn name(&self) -> &'static str {
        "zookeeper"
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Workers, Kind::Leases]
    }

    fn start(&self) -> Box<dyn Store> {
        Box::new(Registry(ZooKeeper::start(), tempfile::tempdir().expect("a folder")))
    }

    fn worker_id(&self, place: &Place) -> Result<u64, Error> {
        let [_, name, _] = parts(place);
        let lease = registry(place, name, &place.unique)?.lease(&Layout::UID_GENERATOR)?;
        Ok(lease.worker_id())
    }

    fn lease(&self, place: &Place, layout: &Layout) -> Result<Lease, Error> {
        let instance = format!("instance_{}", fastrand::u64(..layout.workers() / 2));
        registry(place, "leases", &instance)?.lease(layout)
    }

    fn segments(&self, _: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        unreachable!("Leaf's segments are in a database")
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        let is_in_use = error.contains("is in use: ");
        let away = ["no answer", "onnection", "session", "timeout"];
        let is_away = away.iter().any(|text| error.contains(text));
        let other = if is_in_use { Some(Cause::NoneFree) } else { is_away.then_some(Cause::Away) };
        lease_cause(error).or(other)
    }
}

impl Store for Registry {
    fn address(&self, round: usize) -> String {
        let folder = self.1.path().display();
        format!("{} workers_{} {folder}", self.0.hosts(), round / ROUNDS)
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(&*self.0)
    }
}

/// Worker ids and leases under a prefix each, on a server of its own.
struct EtcdKeys;

struct EtcdServer(Arc<Etcd>);

fn etcd(endpoints: &str, kind: Kind) -> Result<EtcdStore, Error> {
    EtcdStore::new(endpoints)?.prefix(&format!("/{kind:?}"))
}

impl Target for EtcdKeys {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Workers, Kind::Leases]
    }

    fn start(&self) -> Box<dyn Store> {
        let store = EtcdServer(Etcd::start());
        lease_all(&etcd(&store.address(0), Kind::Leases).expect("endpoints").leases());
        Box::new(store)
    }

    fn worker_id(&self, place: &Place) -> Result<u64, Error> {
        let ids = etcd(&place.address, Kind::Workers)?.worker_ids();
        WorkerTable::assign(&ids, &Layout::UID_GENERATOR)
    }

    fn lease(&self, place: &Place, layout: &Layout) -> Result<Lease, Error> {
        etcd(&place.address, Kind::Leases)?.leases().lease(&request(*layout), &options())
    }

    fn segments(&self, _: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        unreachable!("segments are in databases")
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        let away =
            ["no answer within", "no connection", "etcdserver: ", "is in use: a generator of"];
        let is_away = away.iter().any(|text| error.contains(text));
        lease_cause(error).or(is_away.then_some(Cause::Away))
    }
}

impl Store for EtcdServer {
    fn address(&self, _: usize) -> String {
        self.0.endpoints()
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(&*self.0)
    }
}

#[test]
fn etcd_on_disk() {
    attack::on_disk("etcd", env!("CARGO_TARGET_TMPDIR"));
}

#[test]
fn etcd_in_memory() {
    attack::in_memory("etcd");
}

#[test]
fn mysql_on_disk() {
    attack::on_disk("mysql", env!("CARGO_TARGET_TMPDIR"));
}

#[test]
fn mysql_in_memory() {
    attack::in_memory("mysql");
}

#[test]
fn postgres_on_disk() {
    attack::on_disk("postgres", env!("CARGO_TARGET_TMPDIR"));
}

#[test]
fn postgres_in_memory() {
    attack::in_memory("postgres");
}

#[test]
fn zookeeper_on_disk() {
    attack::on_disk("zookeeper", env!("CARGO_TARGET_TMPDIR"));
}

#[test]
fn zookeeper_in_memory() {
    attack::in_memory("zookeeper");
}

#[test]
fn sqlite_on_disk() {
    attack::on_disk("sqlite", env!("CARGO_TARGET_TMPDIR"));
}

#[test]
fn sqlite_in_memory() {
    attack::in_memory("sqlite");
}

/// Not a test of its own: the process that conducts an attack.
#[test]
fn driver() {
    attack::drive(TARGETS);
}

/// Not a test of its own: a process that takes part in one.
#[test]
fn attacker() {
    attack::attack_as_told(TARGETS);
}
