//! A value of another type than its column has, which SQLite keeps as it is.

use rusqlite::Connection;
use uidring::Layout;
use uidring_sqlite::{LeaseOptions, LeaseTable, SqliteStore};
use uidring_testkit::{chain, request};

#[test]
fn a_lease_with_a_value_of_another_type_is_named_and_the_others_are_there() {
    for (column, value, found) in
        [("TOKEN", "9.3e18", "Real"), ("HORIZON_TICK", "'x'", "Text"), ("OWNER", "x'00'", "Blob")]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let leases = SqliteStore::new(&path).create(true).leases();
        let options = LeaseOptions::default();
        let layout = Layout::UID_GENERATOR;
        let [first, second] =
            [(); 2].map(|()| leases.lease(&request(layout), &options).expect("free"));
        first.release().expect("released");
        second.release().expect("released");
        let update = format!("UPDATE UIDRING_LEASE SET {column} = {value} WHERE WORKER_ID = 1");
        Connection::open(&path).and_then(|c| c.execute_batch(&update)).expect("changed");
        let ids: Vec<_> = leases.list().expect("lists").iter().map(|row| row.worker_id).collect();
        assert_eq!(ids, [2], "{column}");
        let error = chain(&leases.fence(1).expect_err("refused"));
        for part in ["UIDRING_LEASE", "WORKER_ID 1", column, found] {
            assert!(error.contains(part), "{part}: {error}");
        }
        if column != "OWNER" {
            let lease = leases.lease(&request(layout), &options).expect("another is free");
            assert_eq!(lease.worker_id(), 2, "{column}");
        }
    }
}
