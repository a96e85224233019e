//! Triggers that make something else of what was written.

use rusqlite::Connection;
use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::{CachedUidGenerator, Layout};
use uidring_sqlite::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, SqliteStore};
use uidring_testkit::{chain, request};

#[test]
fn a_range_a_step_and_a_start_are_as_they_were_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let execute =
        |sql: &str| Connection::open(&path).and_then(|c| c.execute_batch(sql)).expect("executed");
    let mut segments = SqliteStore::new(&path).create(true).segments();
    segments.create_tag(&NewSegmentTag::new("a", 10).expect("allowed")).expect("made");
    execute("UPDATE leaf_alloc SET max_id = 81");
    for event in ["INSERT", "UPDATE OF max_id", "UPDATE OF step"] {
        execute(&format!(
            "CREATE TRIGGER \"{event}\" AFTER {event} ON leaf_alloc WHEN NEW.max_id > 5
             BEGIN UPDATE leaf_alloc SET max_id = 5 WHERE biz_tag = NEW.biz_tag; END"
        ));
    }
    let late = NewSegmentTag::new("late", 10).and_then(|tag| tag.start(1_000)).expect("allowed");
    let mut errors = vec![
        chain(&segments.create_tag(&late).expect_err("refused")),
        chain(&segments.set_step("a", 20).expect_err("refused")),
    ];
    let wanted = [(); 2].map(|()| SegmentRequest { tag: "a".into(), step: 0 });
    segments.load(&wanted, &mut |_, done| errors.push(chain(&done.expect_err("refused"))));
    for error in &errors {
        assert!(error.contains("reads 5") && error.contains("triggers"), "{error}");
    }
    assert_eq!(errors.len(), 4);
    let tags = segments.list_tags().expect("listed");
    let rows: Vec<_> = tags.iter().map(|tag| (&*tag.tag, tag.max_id, tag.step)).collect();
    assert_eq!(rows, [("a", Ok(81), Ok(10))], "rolled back");
}

#[test]
fn a_horizon_stays_as_it_was_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let leases = SqliteStore::new(&path).create(true).leases();
    let lease = || leases.lease(&request(Layout::default()), &LeaseOptions::default());
    lease().expect("free").release().expect("released");
    let trigger = "CREATE TRIGGER cut AFTER UPDATE OF HORIZON_TICK ON UIDRING_LEASE WHEN NEW.HORIZON_TICK > 5
                   BEGIN UPDATE UIDRING_LEASE SET HORIZON_TICK = 5 WHERE WORKER_ID = NEW.WORKER_ID; END";
    Connection::open(&path).and_then(|c| c.execute_batch(trigger)).expect("executed");
    let builder = CachedUidGenerator::builder().worker(lease().expect("free"));
    let error = chain(&builder.build().expect_err("refused"));
    assert!(error.contains("reads tick 5 ") && error.contains("triggers"), "{error}");
}
