//! Leases across fork(2): a child does not touch its parent's leases.
#![cfg(unix)]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::{CachedUidGenerator, Layout, UidGenerator};
use uidring_etcd::EtcdStore;
use uidring_mysql::MySqlStore;
use uidring_postgres::PostgresStore;
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseOptions, LeaseState, LeaseTable};
use uidring_testkit::etcd::Etcd;
use uidring_testkit::fork::{FORKED, alone, in_child};
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::namespace::fresh;
use uidring_testkit::postgres::Postgres;
use uidring_testkit::{chain, request};

/// The child has its parent's lease in its memory, used or unused.
fn a_child_leaves_the_lease_alone(table: &dyn LeaseTable) {
    const LASTS: Duration = Duration::from_secs(5);
    let _alone = alone();
    let layout = Layout::SNOWFLAKE;
    let options = LeaseOptions::default().lasts(LASTS);
    let acquire = || table.lease(&request(layout), &options).expect("free");
    let build = |lease| {
        CachedUidGenerator::builder().layout(layout).worker(lease).namespace(fresh()).build()
    };
    let mut owner = Some(Arc::new(build(acquire()).expect("builds")));
    let mut unused = Some((acquire(), acquire()));
    let first = owner.as_ref().map(|generator| generator.next_uid().expect("ready"));
    for _ in 0..3 {
        let before = table.list().expect("listed");
        let words = in_child(|to| {
            let generator = owner.take().expect("still there");
            to.take(generator.next_uid());
            generator.close();
            drop(generator);
            let (one, two) = unused.take().expect("still there");
            drop(one);
            // It would be a second holder of the token.
            let refused = chain(&build(two).expect_err("not the child's"));
            to.check(refused.contains("was forked from"));
        });
        assert_eq!(words, [FORKED]);
        // Meanwhile only the parent renews.
        for (now, before) in table.list().expect("listed").iter().zip(before) {
            assert_eq!((now.token, &now.owner), (before.token, &before.owner));
            assert!(matches!(now.state, LeaseState::Held(_)), "{now:?}");
        }
    }
    // Beyond that lease: the parent's connection and thread are undisturbed.
    let begin = Instant::now();
    while begin.elapsed() < LASTS + Duration::from_millis(500) {
        let uid = owner.as_ref().map(|generator| generator.next_uid().expect("renewed"));
        assert!(first < uid);
        thread::sleep(Duration::from_millis(10));
    }
    drop(owner);
    assert_eq!(table.list().expect("listed")[0].state, LeaseState::Free);
}

#[test]
fn a_child_leaves_a_lease_in_a_file_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    a_child_leaves_the_lease_alone(
        &SqliteStore::new(folder.path().join("workers.db")).create(true).leases(),
    );
}

#[test]
fn a_child_leaves_a_lease_on_a_server_alone() {
    let database = MariaDb::start().database();
    let server = MySqlStore::from_url(&database.url()).expect("a URL");
    let leases = server.leases();
    leases.create().expect("made");
    a_child_leaves_the_lease_alone(&leases);
}

#[test]
fn a_child_leaves_a_lease_in_etcd_alone() {
    let server = Etcd::start();
    let store = EtcdStore::new(&server.endpoints()).expect("endpoints");
    a_child_leaves_the_lease_alone(&store.leases());
}

#[test]
fn a_child_leaves_a_lease_in_postgresql_alone() {
    let database = Postgres::start().database();
    let server = PostgresStore::from_url(&database.url()).expect("a URL");
    let leases = server.leases();
    leases.create().expect("made");
    a_child_leaves_the_lease_alone(&leases);
}
