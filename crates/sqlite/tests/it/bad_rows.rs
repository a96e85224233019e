//! A value of another type than its column has, which SQLite keeps as it is.

use rusqlite::Connection;
use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::worker::Lease;
use uidring::{Layout, SegmentGenerator};
use uidring_sqlite::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, SqliteStore};
use uidring_store::WorkerTable;
use uidring_testkit::suite::tables::range;
use uidring_testkit::{chain, request};

#[test]
fn a_lease_with_a_value_of_another_type_is_named_and_the_others_are_there() {
    for (column, value, found) in [
        ("TOKEN", "9.3e18", "Real"),
        ("TOKEN", "1.5", "Real"),
        ("HORIZON_TICK", "'x'", "Text"),
        ("HORIZON_TICK", "5.5", "Real"),
        ("HORIZON_SEQUENCE", "5.5", "Real"),
        ("OWNER", "x'00'", "Blob"),
        ("LAYOUT", "x'00'", "Blob"),
    ] {
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
fn a_lease_outside_the_range_is_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let store = SqliteStore::new(&path).create(true);
    store.worker_nodes().record_range(range(3, 4)).expect("recorded");
    let (leases, layout) = (store.leases(), Layout::UID_GENERATOR);
    let insert = format!(
        "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LAYOUT, CREATED, RENEWED)
         VALUES (1, '', 0, '{layout}', 0, 0)"
    );
    Connection::open(&path).and_then(|c| c.execute_batch(&insert)).expect("added");
    let lease = || leases.lease(&request(layout), &LeaseOptions::default());
    let held = [(); 2].map(|()| lease().expect("free"));
    assert_eq!(held.each_ref().map(Lease::worker_id), [3, 4]);
    let text = chain(&lease().expect_err("none is free"));
    for words in ["of the 2 worker ids 3-4 of this store, 2 are held", "WORKER_ID 1: it is outside"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_tag_with_a_value_of_another_type_is_named_and_the_others_are_served() {
    for (column, value, found) in [
        ("max_id", "'x'", "is of type Text"),
        ("max_id", "930000.5", "is of type Real"),
        ("step", "1.5", "is of type Real"),
        ("description", "x'00'", ""),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let mut segments = SqliteStore::new(&path).segments();
        for tag in ["a", "b"] {
            segments.create_tag(&NewSegmentTag::new(tag, 5).expect("allowed")).expect("made");
        }
        let update = format!("UPDATE leaf_alloc SET {column} = {value} WHERE biz_tag = 'a'");
        Connection::open(&path).and_then(|c| c.execute_batch(&update)).expect("changed");
        let wanted = [SegmentRequest { tag: "a".into(), step: 0 }];
        let is_named = |error: String| {
            for part in ["tag `a`", "leaf_alloc", column, found] {
                assert!(error.contains(part), "{part}: {error}");
            }
        };
        let mut answers = Vec::new();
        segments.load(&wanted, &mut |_, done| answers.push(done));
        let [answer] = answers.try_into().expect("one answer");
        let generator = SegmentGenerator::builder(segments.clone()).build().expect("built");
        assert_eq!(generator.next_id("b").expect("served"), 1, "{column}");
        let rows = segments.list_tags().expect("lists");
        assert_eq!(rows.len(), 2, "{column}");
        let taken = generator.next_id("a").map_err(|error| chain(&error));
        if column == "description" {
            assert_eq!((answer.expect("loaded").start, taken), (1, Ok(6)));
            continue;
        }
        is_named(chain(&answer.expect_err("refused")));
        is_named(taken.expect_err("refused"));
        let number = if column == "step" { rows[0].step } else { rows[0].max_id };
        assert_eq!(number, Err(found));
        let error = segments.create_tag(&NewSegmentTag::new("a", 5).expect("allowed"));
        is_named(chain(&error.expect_err("it is there")));
        if column == "step" {
            segments.set_step("a", 5).expect("set right");
            continue;
        }
        // Nobody would know where its ids ended. (The generator may be loading tag b meanwhile.)
        for refused in [segments.delete_tag("a"), segments.set_step("a", 7)] {
            is_named(chain(&refused.expect_err("refused")));
        }
        assert_eq!(segments.list_tags().expect("lists")[0], rows[0], "nothing was changed");
    }
}
