//! Commits that are lost are found before anything is handed out again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use rusqlite::Connection;
use tempfile::TempDir;
use uidring::Layout;
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::{chain, request};

use crate::damage::{assign, load};

const LAYOUT: Layout = Layout::UID_GENERATOR;

fn new_path() -> (TempDir, PathBuf) {
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).expect("a folder");
    let path = folder.path().join("store.db");
    (folder, path)
}

fn beside(path: &Path, end: &str) -> PathBuf {
    path.with_extension(format!("db{end}"))
}

fn lease(path: &Path) -> Result<u64, String> {
    let lease = SqliteStore::new(path)
        .create(true)
        .leases()
        .lease(&request(LAYOUT), &LeaseOptions::default());
    lease.map(|lease| lease.worker_id()).map_err(|error| chain(&error))
}

fn refuses_all(path: &Path, lost: &str) {
    for error in [
        assign(path).expect_err("refused"),
        load(path).expect_err("refused"),
        lease(path).expect_err("refused"),
    ] {
        assert!(error.contains(lost) && error.contains("db-commits"), "{error}");
        assert!(error.contains("docs/sqlite.md"), "{error}");
    }
}

/// Worker ids 1 to 3, and ids 1 to 20 of a tag.
fn make(path: &Path) {
    (1..=3).for_each(|id| assert_eq!(assign(path), Ok(id)));
    let tag = NewSegmentTag::new("a", 10).expect("allowed");
    SqliteStore::new(path).create(true).segments().create_tag(&tag).expect("made");
    assert_eq!((load(path), load(path)), (Ok(1), Ok(11)));
}

#[test]
fn an_older_copy_is_refused() {
    let (folder, path) = new_path();
    make(&path);
    let copy = folder.path().join("copy");
    fs::copy(&path, &copy).expect("copied");
    assert_eq!((assign(&path), load(&path)), (Ok(4), Ok(21)));
    fs::copy(&copy, &path).expect("put back");
    refuses_all(&path, "commits are lost: it has 7 of the 9");
    // It can still be read.
    assert_eq!(
        SqliteStore::new(&path).create(true).worker_nodes().list().expect("listed").len(),
        3
    );
    // What the docs say to do, if nothing of what is lost is in use.
    fs::remove_file(beside(&path, "-commits")).expect("removed");
    assert_eq!((assign(&path), load(&path)), (Ok(4), Ok(21)));
}

/// The counts agree then, but they are not of the same commits.
#[test]
fn another_history_of_the_same_length_is_refused() {
    let (folder, path) = new_path();
    make(&path);
    let copy = folder.path().join("copy.db");
    fs::copy(&path, &copy).expect("copied");
    assert_eq!((assign(&path), assign(&copy)), (Ok(4), Ok(4)));
    fs::rename(&copy, &path).expect("put in its place");
    refuses_all(&path, "commits are lost: it has 8 of the 8");
}

/// As SQLite's log is for them.
#[test]
fn whom_the_file_is_for_the_count_is_for() {
    let (_folder, path) = new_path();
    assert_eq!(assign(&path), Ok(1));
    fs::remove_file(beside(&path, "-commits")).expect("removed");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).expect("set");
    let owner = fs::metadata(&path).expect("there").uid();
    // A superuser can make it another's, and then the count has to be the other's, too.
    let (other, group) = if owner == 0 { (1234, Some(4321)) } else { (owner, None) };
    let is_for = || {
        let [file, count] =
            ["", "-commits"].map(|end| fs::metadata(beside(&path, end)).expect("there"));
        assert_eq!((count.mode(), count.uid(), count.gid()), (file.mode(), file.uid(), file.gid()));
    };
    chown(&path, Some(other), group).expect("own");
    assert_eq!(assign(&path), Ok(2));
    is_for();
    // Set only where it is made.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
    assert_eq!(assign(&path), Ok(3));
    let mode = fs::metadata(beside(&path, "-commits")).expect("there").mode();
    assert_eq!(mode & 0o777, 0o660);
}

#[test]
fn a_file_that_is_gone_is_not_made_again() {
    let (_folder, path) = new_path();
    assert_eq!(assign(&path), Ok(1));
    fs::remove_file(&path).expect("removed");
    let list = || SqliteStore::new(&path).create(true).worker_nodes().list().map(drop);
    let listed = chain(&list().expect_err("refused"));
    for error in [listed, assign(&path).expect_err("refused")] {
        assert!(error.contains("db-commits exists, but the file is gone"), "{error}");
    }
    assert!(!path.exists());
    fs::remove_file(beside(&path, "-commits")).expect("removed");
    assert_eq!(assign(&path), Ok(1));
}

#[test]
fn a_log_that_is_removed_is_missed() {
    let (_folder, path) = new_path();
    make(&path);
    // Its transaction keeps the log from being written back.
    let reader = Connection::open(&path).expect("opens");
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM WORKER_NODE").expect("reads");
    let count = "SELECT COUNT(*) FROM WORKER_NODE";
    reader.query_row(count, [], |row| row.get::<_, i64>(0)).expect("reads");
    assert_eq!(assign(&path), Ok(4));
    for end in ["-wal", "-shm"] {
        fs::remove_file(beside(&path, end)).expect("removed");
    }
    std::mem::forget(reader);
    let status = process("assign", Duration::ZERO, &path).wait_with_output().expect("ends");
    let text = String::from_utf8_lossy(&status.stderr).into_owned();
    assert!(
        !status.status.success() && text.contains("commits are lost: it has 7 of the 8"),
        "{text}"
    );
}

/// A crash between the commit and its count.
#[test]
fn a_count_that_is_behind_is_none_to_worry_about() {
    let (_folder, path) = new_path();
    make(&path);
    for behind in [[3_u64, 5].map(u64::to_le_bytes).concat(), vec![0; 16], vec![0; 8], vec![]] {
        fs::write(beside(&path, "-commits"), behind).expect("written");
        assign(&path).expect("assigned");
        let count = fs::read(beside(&path, "-commits")).expect("read");
        let committed: u64 = Connection::open(&path)
            .and_then(|c| c.query_row("SELECT COMMITS FROM UIDRING_FILE", [], |row| row.get(0)))
            .map(i64::cast_unsigned)
            .expect("read");
        assert_eq!(count[..8], committed.to_le_bytes());
    }
}

#[test]
fn what_cannot_be_counted_is_not_handed_out() {
    let (_folder, path) = new_path();
    make(&path);
    fs::remove_file(beside(&path, "-commits")).expect("removed");
    fs::create_dir(beside(&path, "-commits")).expect("made");
    let error = assign(&path).expect_err("refused");
    assert!(error.contains("with -commits must be a file"), "{error}");
    fs::remove_dir(beside(&path, "-commits")).expect("removed");
    assert_eq!(assign(&path), Ok(4));
}

const VARIABLE: &str = "UIDRING_TEST_COMMITS";

fn process(what: &str, long: Duration, path: &Path) -> Child {
    Command::new(env::current_exe().expect("this test"))
        .args(["commits::process_of_its_own", "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, format!("{what} {} {}", long.as_millis(), path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// Not a test of its own.
#[test]
fn process_of_its_own() {
    let Ok(orders) = env::var(VARIABLE) else { return };
    let parts: Vec<_> = orders.splitn(3, ' ').collect();
    let [what, millis, path] = parts[..] else { panic!("{orders}") };
    let path = Path::new(path);
    if what == "assign" {
        println!("\nid {}", assign(path).expect("assigned"));
        return;
    }
    let end = Instant::now() + Duration::from_millis(millis.parse().expect("a number"));
    let is_over = AtomicBool::new(false);
    let (ids, errors): (Vec<u64>, BTreeSet<String>) = thread::scope(|scope| {
        // What drops this process's locks of SQLite: a backup, a checksum.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                drop(File::open(path).expect("opens"));
            }
        });
        let work = || {
            let (mut ids, mut errors) = (Vec::new(), BTreeSet::new());
            while Instant::now() < end {
                match assign(path) {
                    Ok(id) => ids.push(id),
                    Err(error) => drop(errors.insert(error)),
                }
            }
            (ids, errors)
        };
        let done =
            [(); 2].map(|()| scope.spawn(work)).map(|thread| thread.join().expect("no panic"));
        is_over.store(true, Ordering::Relaxed);
        let [(ids, errors), (more_ids, more_errors)] = done;
        (ids.into_iter().chain(more_ids).collect(), errors.into_iter().chain(more_errors).collect())
    });
    println!();
    ids.iter().for_each(|id| println!("id {id}"));
    errors.iter().for_each(|error| println!("error {error}"));
}

/// Which docs/sqlite.md forbids, because starts may fail then. No id comes twice.
#[test]
fn programs_that_open_and_close_the_file_get_no_id_twice() {
    let (_folder, path) = new_path();
    assert_eq!(assign(&path), Ok(1));
    let all: Vec<_> =
        (0..3).map(|_| process("disturbed", Duration::from_millis(1_500), &path)).collect();
    let mut ids = vec![1];
    // Without its locks, SQLite may read anything: lost commits, another version, damage, no database at all.
    let is_named = |error: &str| {
        let named = format!("the worker file {} could not be ", path.display());
        assert!(error.starts_with(&named), "{error}");
    };
    for child in all {
        let output = child.wait_with_output().expect("ends");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        ids.extend(text.lines().filter_map(|line| line.strip_prefix("id ")?.parse::<u64>().ok()));
        text.lines().filter_map(|line| line.strip_prefix("error ")).for_each(is_named);
    }
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "ids that came twice");
    assert!(ids.len() > 1, "ids go on");
    if let Err(error) = assign(&path) {
        is_named(&error);
    }
}
