//! SQLite files with changed bytes: whatever is left, a run gets no worker id and no id of a segment twice, and nothing
//! panics or hangs.

use std::fs;
use std::path::Path;
use std::slice;
use std::sync::OnceLock;

use uidring::Layout;
use uidring::segment::{SegmentRequest, SegmentStore};
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};

/// Every three input bytes are an offset in the file and its new byte.
pub fn sqlite(bytes: &[u8]) {
    let mut database = template().clone();
    for change in bytes.chunks_exact(3) {
        let place = usize::from(change[0]) << 8 | usize::from(change[1]);
        let length = database.len();
        database[place % length] = change[2];
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ids.db");
    fs::write(&path, database).expect("writes");
    let (ids, segments) = use_up(&path);
    // After a change, errors are as good as ids.
    assert!(bytes.len() >= 3 || ids.len() == 2 && segments.len() == 2, "{ids:?} {segments:?}");
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "worker ids {ids:?}");
    assert!(segments.windows(2).all(|pair| pair[0].1 <= pair[1].0), "segments {segments:?}");
}

/// Takes worker ids and ranges of one tag, as far as possible.
fn use_up(path: &Path) -> (Vec<u64>, Vec<(u64, u64)>) {
    let store = SqliteStore::new(path).create(true);
    let assign = |_| store.worker_nodes().assign(&Layout::UID_GENERATOR).ok();
    let ids = (0..2).filter_map(assign).collect();
    let _ = store.worker_nodes().list();
    let _ = store.leases().list();
    let _ = store.segments().list_tags();
    let mut ranges = Vec::new();
    let mut loader = store.segments();
    let request = SegmentRequest { tag: "orders".into(), step: 10 };
    for _ in 0..2 {
        loader.load(slice::from_ref(&request), &mut |_, loaded| {
            if let Ok(segment) = loaded {
                ranges.push((segment.start, segment.end));
            }
        });
    }
    (ids, ranges)
}

/// Returns a file with a row in each table.
fn template() -> &'static Vec<u8> {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ids.db");
        let store = SqliteStore::new(&path).create(true);
        let tag = NewSegmentTag::new("orders", 10).expect("a tag");
        store.segments().create_tag(&tag).expect("creates");
        let (ids, ranges) = use_up(&path);
        assert_eq!((ids.len(), ranges.len()), (2, 2), "of a whole file");
        let connection = rusqlite::Connection::open(&path).expect("opens");
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("writes");
        drop(connection);
        fs::read(&path).expect("reads")
    })
}
