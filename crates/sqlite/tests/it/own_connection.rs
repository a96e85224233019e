//! Files that a program opens by its own function.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use uidring::Layout;
use uidring::segment::{SegmentRequest, SegmentStore};
use uidring_sqlite::rusqlite::{self, Connection, OpenFlags};
use uidring_sqlite::{
    LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, SqliteError, SqliteStore, WorkerTable,
};
use uidring_testkit::{chain, request};

const LAYOUT: Layout = Layout::UID_GENERATOR;

fn open(path: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

#[test]
fn starts_through_it_get_distinct_ids() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let own = SqliteStore::new(&path).create(true).open_with(move |path| {
        assert!(path.is_absolute(), "{}", path.display());
        counted.fetch_add(1, Ordering::Relaxed);
        let connection = open(path)?;
        connection.execute_batch("PRAGMA synchronous = OFF")?;
        Ok(connection)
    });
    let plain = SqliteStore::new(&path).create(true);
    for (store, id) in [(&own, 1), (&own, 2), (&plain, 3), (&own, 4)] {
        assert_eq!(store.worker_nodes().assign(&LAYOUT).expect("assigned"), id);
    }
    let lease = own.leases().lease(&request(LAYOUT), &LeaseOptions::default()).expect("leased");
    assert_eq!(lease.worker_id(), 5);
    let mut segments = own.segments();
    segments.create_tag(&NewSegmentTag::new("a", 10).expect("allowed")).expect("created");
    let mut end = None;
    let wanted = [SegmentRequest { tag: "a".into(), step: 0 }];
    segments.load(&wanted, &mut |_, done| end = done.ok().map(|range| range.end));
    assert_eq!(end, Some(11));
    assert!(calls.load(Ordering::Relaxed) >= 6, "{calls:?}");
}

/// What the store's commits rely on cannot be had on such a connection.
#[test]
fn a_connection_that_cannot_be_put_right_is_refused() {
    type Open = fn(&Path) -> rusqlite::Result<Connection>;
    let folder = tempfile::tempdir().expect("a folder");
    let cases: [(Open, &str); 5] = [
        (|_| Connection::open_in_memory(), "another file"),
        (|path| open(path.parent().expect("a folder").join("other.db").as_path()), "another file"),
        (
            |path| {
                let connection = open(path)?;
                connection.execute_batch("BEGIN")?;
                Ok(connection)
            },
            "transaction",
        ),
        (
            |path| {
                // Without shared memory there is no write-ahead log.
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
                let uri = format!("file:{}?vfs=unix-none", path.display());
                Connection::open_with_flags(uri, flags)
            },
            "journal_mode",
        ),
        (
            |path| {
                // There is one in exclusive mode, but no lock that keeps others out.
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
                let uri = format!("file:{}?vfs=unix-none", path.display());
                let connection = Connection::open_with_flags(uri, flags)?;
                connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
                Ok(connection)
            },
            "locking_mode",
        ),
    ];
    Connection::open(folder.path().join("other.db"))
        .and_then(|other| other.execute_batch("CREATE TABLE T (ID INTEGER PRIMARY KEY)"))
        .expect("made");
    for (open, problem) in cases {
        let path = folder.path().join("a.db");
        let store = SqliteStore::new(&path).create(true).open_with(open);
        let text = chain(&store.worker_nodes().assign(&LAYOUT).expect_err("refused"));
        assert!(text.contains(problem), "{text}");
        assert!(!path.exists(), "nothing was made");
    }
}

/// As where the volume with the file is not mounted.
#[cfg(unix)]
#[test]
fn a_link_to_nothing_is_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let away = folder.path().join("volume.db");
    std::os::unix::fs::symlink(&away, &path).expect("a link");
    // It would make the file.
    let store = SqliteStore::new(&path).create(true).open_with(|path| Connection::open(path));
    let text = chain(&store.worker_nodes().assign(&LAYOUT).expect_err("refused"));
    assert!(text.contains("symbolic link to nothing"), "{text}");
    assert!(!away.exists(), "nothing was made");
}

#[test]
fn a_key_is_not_repeated() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::new(folder.path().join("a.db")).create(true).open_with(|path| {
        let connection = open(path)?;
        connection.execute_batch("PRAGMA key = 'it's s3cret'")?;
        Ok(connection)
    });
    let text = chain(&store.worker_nodes().assign(&LAYOUT).expect_err("refused"));
    assert!(!text.contains("s3cret") && text.contains("SQL"), "{text}");
}

/// The store's own connections take any path that the system takes.
#[cfg(target_os = "linux")]
#[test]
fn a_path_need_not_be_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.db"));
    let nodes = SqliteStore::new(&path).create(true).worker_nodes();
    assert_eq!([1, 2].map(|_| nodes.assign(&LAYOUT).expect("assigned")), [1, 2]);
}

#[test]
fn its_error_is_the_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::new(folder.path().join("a.db"))
        .create(true)
        .open_with(|_| Err(rusqlite::Error::InvalidParameterName("key".into())));
    let error = store.worker_nodes().assign(&LAYOUT).expect_err("not opened");
    let Some(SqliteError::File { source: Some(source), .. }) = error.store() else {
        panic!("{error:?}")
    };
    assert!(source.is::<rusqlite::Error>(), "{source:?}");
}
