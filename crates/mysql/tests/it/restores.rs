//! An earlier state under live holders: a replica that is promoted.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::{CachedUidGenerator, Layout, TakeError};
use uidring_mysql::{MySqlSegments, MySqlStore};
use uidring_store::{LeaseOptions, LeaseTable, WorkerTable};
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::proxy::Proxy;
use uidring_testkit::servers::{self, conditions};
use uidring_testkit::{chain, namespace, request};

/// A server that follows another.
fn replica_of(primary: &MariaDb) -> Arc<MariaDb> {
    let replica = MariaDb::start_with(&["--log-bin=log", "--server-id=2", "--sync-binlog=1"]);
    primary.execute("CREATE USER replica IDENTIFIED BY 'replica'");
    primary.execute("GRANT REPLICATION SLAVE ON *.* TO replica");
    replica.execute(&format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'replica',
         MASTER_PASSWORD = 'replica', MASTER_USE_GTID = slave_pos",
        primary.port()
    ));
    replica.execute("START SLAVE");
    replica
}

/// It has the tables, and nothing of what was committed after it was stopped.
#[test]
fn a_replica_that_is_promoted_while_behind_is_another_server() {
    let primary = MariaDb::start_with(&["--log-bin=log", "--server-id=1", "--sync-binlog=1"]);
    let replica = replica_of(&primary);
    let database = primary.database();
    conditions::create(&MySqlStore::from_url(&database.url()).expect("a URL"));
    let position = primary.query::<String>("SELECT @@gtid_binlog_pos").remove(0);
    let caught_up = format!("SELECT MASTER_GTID_WAIT('{position}', 60)");
    assert_eq!(replica.query::<i64>(&caught_up), [0], "it does not follow");
    replica.execute("STOP SLAVE");

    let proxy = Proxy::to(primary.port());
    let url = database.url_at(&format!("127.0.0.1:{}", proxy.port()));
    let store = MySqlStore::from_url(&url).expect("a URL");
    let layout = Layout::UID_GENERATOR;
    let assigned = store.worker_nodes().assign(&layout).expect("assigned");
    let lease = store.leases().lease(&request(layout), &LeaseOptions::default()).expect("free");
    let builder = CachedUidGenerator::builder().worker(lease).namespace(namespace::fresh());
    let generator = builder.build().expect("built");
    let mut loaders = [store.clone(), store.clone().require_durability()].map(|s| s.segments());
    let load = |loader: &mut MySqlSegments| servers::load(loader, "t");
    let starts = loaders.each_mut().map(|loader| load(loader).expect("loaded").start);
    assert_eq!(starts, [1, 11]);

    primary.kill();
    replica.execute("RESET SLAVE ALL");
    proxy.redirect(replica.port());
    proxy.cut();
    let begin = Instant::now();
    while generator.next_uid() != Err(TakeError::LeaseLost) {
        assert!(begin.elapsed() < Duration::from_secs(60), "it goes on");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(store.worker_nodes().assign(&layout).expect("assigned"), assigned);
    // The first one's range again, which a generator would refuse; the other one does not even ask.
    let [lenient, strict] = loaders.each_mut().map(load);
    assert_eq!(lenient.expect("loaded").start, 1);
    let error = chain(&strict.expect_err("another server"));
    assert!(error.contains("another server answers"), "{error}");
}
