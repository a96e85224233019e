//! The file of a SQLite store: how it comes into being, and that nobody drops its locks.
#![cfg(unix)]
// fork is the operating system's; std has none of it.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rusqlite::Connection;
use uidring::Layout;
use uidring::segment::{SegmentRequest, SegmentStore};
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::{chain, request};

const LAYOUT: Layout = Layout::UID_GENERATOR;

const VARIABLE: &str = "UIDRING_TEST_FILE";

fn assign(path: &Path) -> u64 {
    SqliteStore::new(path).create(true).worker_nodes().assign(&LAYOUT).expect("assigned")
}

/// Another process, as orders say.
fn other(orders: &str, path: &Path) -> Command {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command
        .args(["process", "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, format!("{orders} {}", path.display()))
        .stdout(Stdio::piped());
    command
}

/// Not a test of its own: another process.
#[test]
fn process() {
    let Ok(orders) = env::var(VARIABLE) else { return };
    let (orders, path) = orders.split_once(' ').expect("two");
    let path = Path::new(path);
    match orders {
        "assign" => println!("\nid {}", assign(path)),
        "assign-twice" => thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| println!("\nid {}", assign(path)));
            }
        }),
        _ => panic!("{orders}"),
    }
}

fn ids(output: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(output);
    text.lines().filter_map(|line| line.strip_prefix("id ")?.parse().ok()).collect()
}

/// Has a connection that has read, does something in the same process, and sees whether its locks are
/// there still.
#[cfg(target_os = "linux")]
fn keeps_locks(path: &Path, work: impl FnOnce()) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = format!(" {} ", std::process::id());
    let file = format!(":{} ", fs::metadata(path).expect("there").ino());
    // The list may be without a lock that is there, where others change while it is read. One that was
    // dropped does not come back.
    let has_lock = || {
        (0..20).any(|_| {
            let locks = fs::read_to_string("/proc/locks").expect("reads");
            let is_there = locks.lines().any(|line| line.contains(&own) && line.contains(&file));
            if !is_there {
                std::thread::sleep(Duration::from_millis(5));
            }
            is_there
        })
    };
    let connection = Connection::open(path).expect("opens");
    let count = "SELECT COUNT(*) FROM WORKER_NODE";
    connection.query_row(count, [], |row| row.get::<_, i64>(0)).expect("reads");
    assert!(has_lock(), "there is one");
    work();
    has_lock()
}

#[cfg(target_os = "linux")]
#[test]
fn no_lock_is_dropped_by_anything_that_is_done_with_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    assign(&path);
    let nodes = SqliteStore::new(&path).create(true).worker_nodes();
    let leases = SqliteStore::new(&path).create(true).leases();
    let segments = SqliteStore::new(&path).create(true).segments();
    let day = Duration::from_secs(86_400);
    let tag = |name| NewSegmentTag::new(name, 5).expect("allowed");
    segments.create_tag(&tag("a")).expect("made");
    let all: &[(&str, &dyn Fn())] = &[
        ("assign", &|| _ = assign(&path)),
        ("create", &|| nodes.create().expect("made")),
        ("list", &|| drop(nodes.list().expect("listed"))),
        ("usage", &|| _ = nodes.usage().expect("counted")),
        ("prune", &|| _ = nodes.prune(day).expect("pruned")),
        ("create leases", &|| leases.create().expect("made")),
        ("acquire", &|| {
            let lease = leases.lease(&request(LAYOUT), &LeaseOptions::default()).expect("free");
            lease.release().expect("released");
        }),
        ("list leases", &|| drop(leases.list().expect("listed"))),
        ("fence", &|| drop(leases.fence(leases.list().unwrap()[0].worker_id))),
        ("release", &|| drop(leases.release(leases.list().unwrap()[0].worker_id))),
        ("reuse", &|| leases.reuse(1..=1, &LAYOUT, LAYOUT.epoch()).expect("added")),
        ("create tag", &|| segments.create_tag(&tag("b")).expect("made")),
        ("list tags", &|| drop(segments.list_tags().expect("listed"))),
        ("load", &|| {
            let wanted = [SegmentRequest { tag: "a".into(), step: 0 }];
            segments.clone().load(&wanted, &mut |_, done| _ = done.expect("loaded"));
        }),
    ];
    for (what, work) in all {
        assert!(keeps_locks(&path, work), "{what} dropped the locks");
    }
    // That this is what it sees: an open and a close by anybody else.
    assert!(!keeps_locks(&path, || drop(fs::File::open(&path).expect("opens"))));
}

#[test]
fn those_who_create_a_file_at_the_same_time_share_it() {
    for round in 0..5 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        let all: Vec<_> =
            (0..6).map(|_| other("assign-twice", &path).spawn().expect("starts")).collect();
        let mut got = Vec::new();
        for child in all {
            let output = child.wait_with_output().expect("ends");
            assert!(output.status.success(), "round {round}");
            got.extend(ids(&output.stdout));
        }
        let distinct: BTreeSet<_> = got.iter().copied().collect();
        assert_eq!((got.len(), distinct), (12, (1..=12).collect()), "round {round}");
        let left: BTreeSet<_> = fs::read_dir(path.parent().expect("has one"))
            .expect("a folder")
            .map(|entry| {
                let entry = entry.expect("an entry");
                let mode = entry.metadata().expect("there").permissions().mode();
                (entry.file_name().into_string().expect("UTF-8"), mode & 0o777)
            })
            .collect();
        let expected = ["store.db", "store.db-commits"].map(|name| (name.to_owned(), 0o600));
        assert_eq!(left, expected.into(), "nothing else is left");
    }
}

#[test]
fn an_empty_file_is_none_of_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    fs::write(&path, "").expect("written");
    let nodes = SqliteStore::new(&path).create(true).worker_nodes();
    for error in [nodes.assign(&LAYOUT).expect_err("refused"), nodes.list().expect_err("refused")] {
        assert!(chain(&error).contains("the file is empty"), "{error}");
    }
    assert_eq!(fs::metadata(&path).expect("there").len(), 0);
}

#[test]
fn two_names_of_a_file_are_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let name = folder.path().join("name.db");
    assert_eq!(assign(&path), 1);
    symlink(&path, &name).expect("linked");
    assert_eq!((assign(&name), assign(&path)), (2, 3));
    fs::remove_file(&path).expect("removed");
    SqliteStore::new(&name)
        .create(true)
        .worker_nodes()
        .assign(&LAYOUT)
        .expect_err("a link to nothing is no file");
    assert!(!path.exists());
}

/// The child's exit status.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `work` and `_exit`s; of what is not safe between fork and exec it
    // allocates, which glibc and macOS allow.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: it ends this process, of which nothing else is wanted.
        unsafe { libc::_exit(i32::from(!done.unwrap_or(false))) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, and `status` is there to be written to.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// A lease that is not in use yet has a connection open, whose locks the child takes for its own.
#[test]
fn a_forked_child_of_one_that_has_it_open_is_refused() {
    // A process of its own: other tests here have files open.
    if env::var_os("UIDRING_TEST_FORK").is_none() {
        let status = Command::new(env::current_exe().expect("this test"))
            .args(["a_forked_child_of_one_that_has_it_open_is_refused", "--exact"])
            .args(["--test-threads=1", "--nocapture"])
            .env("UIDRING_TEST_FORK", "1")
            .status();
        assert!(status.expect("starts").success());
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let elsewhere = folder.path().join("other.db");
    let nodes = SqliteStore::new(&path).create(true).worker_nodes();
    let is_refused = |path: &Path| {
        let error = SqliteStore::new(path).create(true).worker_nodes().assign(&LAYOUT).err();
        error.is_some_and(|error| chain(&error).contains("forked"))
    };
    assert_eq!(assign(&path), 1);
    assert!(in_child(|| nodes.assign(&LAYOUT).is_ok_and(|id| id == 2)), "nothing was open");
    let lease = SqliteStore::new(&path)
        .create(true)
        .leases()
        .lease(&request(LAYOUT), &LeaseOptions::default())
        .expect("new");
    assert_eq!(lease.worker_id(), 3);
    assert!(in_child(|| is_refused(&path) && is_refused(&elsewhere)));
    assert!(in_child(|| in_child(|| is_refused(&path))), "and so is a child's child");
    let output = other("assign", &path).output().expect("starts");
    assert_eq!(ids(&output.stdout), [4], "others are not");
    assert_eq!(assign(&path), 5, "and nor is the parent");
    lease.release().expect("released");
    // A thread closes the connection.
    let limit = Instant::now() + Duration::from_secs(60);
    while !in_child(|| nodes.assign(&LAYOUT).is_ok_and(|id| id == 6)) {
        assert!(Instant::now() < limit, "something is open still");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(assign(&path), 7);
}
