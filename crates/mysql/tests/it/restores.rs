//! An earlier state under live holders: a backup that is restored, and a replica that is promoted.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::{CachedUidGenerator, Layout, TakeError};
use uidring_mysql::{MySqlSegments, MySqlStore};
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::proxy::Proxy;
use uidring_testkit::restores::{self, Restorable};
use uidring_testkit::{chain, namespace, request};

const TABLES: [&str; 3] = ["WORKER_NODE", "UIDRING_LEASE", "leaf_alloc"];

fn store(database: &Database) -> MySqlStore {
    MySqlStore::from_url(&database.url()).expect("a URL")
}

fn fill(database: &Database) {
    store(database).leases().create().expect("made");
    let segments = store(database).segments().create_table_if_missing(true);
    segments.create_tag(&NewSegmentTag::new("t", 10).expect("allowed")).expect("created");
}

struct Restored(Database);

impl Restorable for Restored {
    fn worker_ids(&self) -> Box<dyn WorkerTable> {
        Box::new(store(&self.0).worker_nodes())
    }

    fn leases(&self) -> Box<dyn LeaseTable> {
        Box::new(store(&self.0).leases())
    }

    fn segments(&self) -> Box<dyn SegmentStore> {
        Box::new(store(&self.0).segments())
    }

    /// What `mariadb-dump` writes: the table as it is made now, with its counter, and its rows.
    fn back_up(&self) {
        self.0.execute("CREATE TABLE backup (name VARCHAR(64), made TEXT)");
        for name in TABLES {
            let (_, made) =
                self.0.query::<(String, String)>(&format!("SHOW CREATE TABLE {name}")).remove(0);
            let made = made.replace('\'', "''");
            self.0.execute(&format!("INSERT INTO backup VALUES ('{name}', '{made}')"));
            self.0.execute(&format!("CREATE TABLE backup_{name} AS SELECT * FROM {name}"));
        }
    }

    fn restore(&self) {
        for name in TABLES {
            let select = format!("SELECT made FROM backup WHERE name = '{name}'");
            let made = self.0.query::<String>(&select).remove(0);
            self.0.execute(&format!("DROP TABLE {name}"));
            self.0.execute(&made);
            self.0.execute(&format!("INSERT INTO {name} SELECT * FROM backup_{name}"));
        }
    }

    fn execute(&self, sql: &str) {
        self.0.execute(sql);
    }

    fn set_counter(&self, next: u64) {
        self.0.execute(&format!("ALTER TABLE WORKER_NODE AUTO_INCREMENT = {next}"));
    }
}

#[test]
fn a_dump_that_is_restored_ends_live_holders() {
    let database = MariaDb::shared().database();
    fill(&database);
    restores::live_holders_notice(&Restored(database));
}

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
    fill(&database);
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
    let load = |loader: &mut MySqlSegments| {
        let wanted = [SegmentRequest { tag: "t".into(), step: 0 }];
        let mut done = None;
        loader.load(&wanted, &mut |_, result| done = Some(result));
        done.expect("an answer")
    };
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
