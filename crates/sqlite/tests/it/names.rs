//! A second name that a file gets while it is in use.

use std::fs;

use uidring::Layout;
use uidring::segment::{SegmentRequest, SegmentStore};
use uidring_sqlite::{NewSegmentTag, SegmentTable, SqliteStore, WorkerTable};
use uidring_testkit::chain;

/// A backup by `cp -al` must not stop a service.
#[test]
fn who_has_the_file_in_use_goes_on_and_a_start_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let layout = Layout::UID_GENERATOR;
    let nodes = SqliteStore::new(&path).create(true).worker_nodes();
    let mut segments = SqliteStore::new(&path).create(true).segments();
    assert_eq!(nodes.assign(&layout).expect("assigned"), 1);
    segments.create_tag(&NewSegmentTag::new("a", 10).expect("allowed")).expect("made");

    fs::hard_link(&path, folder.path().join("backup.db")).expect("linked");
    for id in 2..=4 {
        assert_eq!(nodes.assign(&layout).expect("it goes on"), id);
    }
    let wanted = [SegmentRequest { tag: "a".into(), step: 0 }];
    segments.load(&wanted, &mut |_, done| assert_eq!(done.expect("it goes on").start, 1));
    for name in ["a.db", "backup.db"] {
        let start = SqliteStore::new(folder.path().join(name)).create(true).worker_nodes();
        let error = chain(&start.assign(&layout).expect_err("refused"));
        assert!(error.contains("2 names (hard links)"), "{error}");
    }
}

/// Each had opened the file by its only name. What the one commits by the new name is missing beside the old one.
#[test]
fn a_file_that_was_moved_and_linked_back_is_used_by_one_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let [old, new] = ["old.db", "new.db"].map(|name| folder.path().join(name));
    let layout = Layout::UID_GENERATOR;
    let by_old = SqliteStore::new(&old).create(true).worker_nodes();
    assert_eq!(by_old.assign(&layout).expect("assigned"), 1);
    fs::rename(&old, &new).expect("moved");
    let by_new = SqliteStore::new(&new).worker_nodes();
    assert_eq!(by_new.assign(&layout).expect("its only name"), 2);
    fs::hard_link(&new, &old).expect("linked");
    let error = chain(&by_old.assign(&layout).expect_err("refused"));
    assert!(error.contains("2 names (hard links)"), "{error}");
    assert_eq!(by_new.assign(&layout).expect("it goes on"), 3);
    fs::remove_file(&old).expect("removed");
    assert_eq!(by_new.assign(&layout).expect("alone again"), 4);
}
