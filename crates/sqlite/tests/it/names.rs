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
