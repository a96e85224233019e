//! A value of another type than its column has, which SQLite keeps as it is.

use rusqlite::Connection;
use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::{Layout, SegmentGenerator};
use uidring_sqlite::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, SqliteStore};
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

#[test]
fn a_tag_with_a_value_of_another_type_is_named_and_the_others_are_served() {
    for (column, value, found) in
        [("max_id", "'x'", "Text"), ("step", "1.5", "Real"), ("description", "x'00'", "")]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let mut segments = SqliteStore::new(&path).segments();
        for tag in ["a", "b"] {
            segments.create_tag(&NewSegmentTag::new(tag, 5).expect("allowed")).expect("made");
        }
        let update = format!("UPDATE leaf_alloc SET {column} = {value} WHERE biz_tag = 'a'");
        Connection::open(&path).and_then(|c| c.execute_batch(&update)).expect("changed");
        let wanted = [SegmentRequest { tag: "a".into(), step: 0 }];
        segments.load(&wanted, &mut |_, done| match done {
            Ok(_) => assert_eq!(column, "description"),
            Err(error) => {
                let error = chain(&error);
                for part in ["tag `a`", "leaf_alloc", column, found] {
                    assert!(error.contains(part), "{part}: {error}");
                }
            }
        });
        assert_eq!(segments.list_tags().expect("lists").len(), 2, "{column}");
        let generator = SegmentGenerator::builder(segments).build().expect("built");
        assert_eq!(generator.next_id("b").expect("served"), 1, "{column}");
    }
}
