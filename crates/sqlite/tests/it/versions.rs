//! Files of SQLite stores of other versions, and the previous program beside this one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rusqlite::Connection;
use tempfile::TempDir;
use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore};
use uidring::{DefaultUidGenerator, Error, Fields, Layout};
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::{chain, docs, request};

use crate::previous;

const LAYOUT: Layout = Layout::UID_GENERATOR;

fn assign(path: &Path) -> Result<u64, Error> {
    SqliteStore::new(path).create(true).worker_nodes().assign(&LAYOUT)
}

fn load(path: &Path, tag: &str) -> Result<LoadedSegment, LoadError> {
    let mut done = None;
    let wanted = [SegmentRequest { tag: tag.into(), step: 0 }];
    SqliteStore::new(path)
        .create(true)
        .segments()
        .load(&wanted, &mut |_, result| done = Some(result));
    done.expect("handed over")
}

fn query(path: &Path, sql: &str) -> Vec<i64> {
    let connection = Connection::open(path).expect("opens");
    connection.busy_timeout(Duration::from_secs(10)).expect("set");
    let mut statement = connection.prepare(sql).expect(sql);
    let columns = statement.column_count();
    statement.query_row([], |row| (0..columns).map(|column| row.get(column)).collect()).expect(sql)
}

fn execute(path: &Path, sql: &str) {
    let connection = Connection::open(path).expect("opens");
    connection.busy_timeout(Duration::from_secs(10)).expect("set");
    connection.execute_batch(sql).expect(sql);
}

fn new_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    (folder, path)
}

/// What the previous program has left: three worker ids and a lease of the fourth, used up to a tick that
/// is long ago, and ten ids of a tag.
fn previous_file() -> (TempDir, PathBuf) {
    let (folder, path) = new_path();
    for id in 1..=3 {
        assert_eq!(previous::assign(&path), Ok(id));
    }
    assert_eq!(previous::add_lease(&path, &LAYOUT.to_string()), Ok(4));
    assert_eq!(previous::renew(&path, 4, 100, 8_191), Ok(1));
    execute(&path, "UPDATE UIDRING_LEASE SET LEASE_END = NULL");
    previous::create_tag(&path, "a", 10).expect("made");
    assert_eq!(previous::load(&path, "a"), Ok(1));
    (folder, path)
}

#[test]
fn a_file_of_the_previous_program_goes_on_as_it_stands_and_is_marked() {
    let (_folder, path) = previous_file();
    // Looking at it changes nothing.
    assert_eq!(
        SqliteStore::new(&path).create(true).worker_nodes().list().expect("listed").len(),
        4
    );
    assert_eq!(
        SqliteStore::new(&path).create(true).segments().list_tags().expect("listed")[0].max_id,
        Ok(11)
    );
    assert_eq!(previous::assign(&path), Ok(5));

    assert_eq!(assign(&path).expect("assigned"), 6);
    let range = load(&path, "a").expect("loaded");
    assert_eq!((range.start, range.end), (11, 21));
    let lease = SqliteStore::new(&path)
        .create(true)
        .leases()
        .lease(&request(LAYOUT), &LeaseOptions::default());
    let lease = lease.expect("free");
    assert_eq!(
        (lease.worker_id(), lease.after()),
        (4, Some(LAYOUT.compose(Fields { tick: 100, worker_id: 4, sequence: 8_191 }).unwrap()))
    );
    lease.release().expect("released");
    assert_eq!(query(&path, "SELECT VERSION, WRITER, LAST_WORKER_ID FROM UIDRING_FILE"), [2, 0, 6]);
    assert_eq!(query(&path, "PRAGMA user_version"), [0], "that is not ours");
}

#[test]
fn each_part_of_a_previous_file_is_enough_to_mark_it() {
    for first in [
        |path: &Path| assign(path).map(drop).expect("assigned"),
        |path: &Path| _ = load(path, "a").expect("loaded"),
        |path: &Path| {
            let lease = SqliteStore::new(path)
                .create(true)
                .leases()
                .lease(&request(LAYOUT), &LeaseOptions::default());
            lease.expect("free").release().expect("released");
        },
        |path: &Path| {
            let tag = NewSegmentTag::new("b", 5).expect("allowed");
            SqliteStore::new(path).create(true).segments().create_tag(&tag).expect("made");
        },
        |path: &Path| {
            SqliteStore::new(path).create(true).leases().fence(4).map(drop).expect("fenced")
        },
    ] {
        let (_folder, path) = previous_file();
        first(&path);
        assert_eq!(query(&path, "SELECT VERSION, WRITER FROM UIDRING_FILE"), [2, 0]);
        refuses_the_previous_program(&path);
    }
}

#[test]
fn a_file_that_counts_no_commits_begins_to() {
    let (_folder, path) = new_path();
    assert_eq!(assign(&path).expect("assigned"), 1);
    fs::remove_file(path.with_extension("db-commits")).expect("removed");
    execute(
        &path,
        "ALTER TABLE UIDRING_FILE DROP COLUMN COMMITS; ALTER TABLE UIDRING_FILE DROP COLUMN LAST_COMMIT; UPDATE UIDRING_FILE SET VERSION = 1",
    );
    assert_eq!(
        SqliteStore::new(&path).create(true).worker_nodes().list().expect("listed").len(),
        1
    );
    assert_eq!(assign(&path).expect("assigned"), 2);
    assert_eq!(assign(&path).expect("assigned"), 3);
    assert_eq!(query(&path, "SELECT VERSION, WRITER, COMMITS FROM UIDRING_FILE"), [2, 0, 2]);
}

#[test]
fn a_file_of_a_later_version_is_refused() {
    let (_folder, path) = new_path();
    assert_eq!(assign(&path).expect("assigned"), 1);
    let tag = NewSegmentTag::new("a", 5).expect("allowed");
    SqliteStore::new(&path).create(true).segments().create_tag(&tag).expect("made");
    execute(&path, "UPDATE UIDRING_FILE SET VERSION = 4");
    let before = fs::read(&path).expect("reads");
    let nodes = SqliteStore::new(&path).create(true).worker_nodes();
    let leases = SqliteStore::new(&path).create(true).leases();
    let segments = SqliteStore::new(&path).create(true).segments();
    let day = Duration::from_secs(86_400);
    let errors = [
        chain(&assign(&path).map(drop).expect_err("refused")),
        chain(&nodes.create().expect_err("refused")),
        chain(&nodes.list().map(drop).expect_err("refused")),
        chain(&nodes.usage().map(drop).expect_err("refused")),
        chain(&nodes.prune(day).map(drop).expect_err("refused")),
        chain(&leases.lease(&request(LAYOUT), &LeaseOptions::default()).expect_err("refused")),
        chain(&leases.list().map(drop).expect_err("refused")),
        chain(&leases.fence(1).map(drop).expect_err("refused")),
        chain(&segments.list_tags().map(drop).expect_err("refused")),
        chain(&segments.create_tag(&NewSegmentTag::new("b", 5).unwrap()).expect_err("no")),
        chain(&load(&path, "a").map(drop).expect_err("refused")),
    ];
    for error in errors {
        assert!(error.contains("version 4") && error.contains("up to 3"), "{error}");
    }
    assert_eq!(fs::read(&path).expect("reads"), before);
}

/// Whatever it does that hands out ids, or depends on what it has stored.
fn refuses_the_previous_program(path: &Path) {
    let counter = "SELECT (SELECT seq FROM sqlite_sequence), (SELECT SUM(max_id) FROM leaf_alloc),
                   (SELECT SUM(TOKEN) FROM UIDRING_LEASE), (SELECT COUNT(*) FROM WORKER_NODE)";
    let before = query(path, counter);
    let errors = [
        previous::assign(path).expect_err("refused"),
        previous::add_lease(path, &LAYOUT.to_string()).expect_err("refused"),
        previous::renew(path, 4, 200, 1).expect_err("refused"),
        previous::release(path, 4).expect_err("refused"),
        previous::fence(path, 4).expect_err("refused"),
        previous::load(path, "a").expect_err("refused"),
    ];
    for error in errors {
        let error = chain(&error);
        assert!(error.contains("later uidring") && error.contains("docs/sqlite.md"), "{error}");
    }
    if query(path, "SELECT COUNT(*) FROM UIDRING_LEASE WHERE LEASE_END IS NULL")[0] > 0 {
        previous::take_lease(path).expect_err("refused");
    }
    assert_eq!(query(path, counter), before);
}

#[test]
fn the_previous_program_is_refused_in_a_file_of_this_one() {
    let (_folder, path) = new_path();
    for id in 1..=3 {
        assert_eq!(assign(&path).expect("assigned"), id);
    }
    let lease = SqliteStore::new(&path)
        .create(true)
        .leases()
        .lease(&request(LAYOUT), &LeaseOptions::default())
        .expect("new");
    let generator = DefaultUidGenerator::builder().layout(LAYOUT).worker(lease).build();
    generator.expect("built").next_uid().expect("held");
    let tag = NewSegmentTag::new("a", 5).expect("allowed");
    SqliteStore::new(&path).create(true).segments().create_tag(&tag).expect("made");
    load(&path, "a").expect("loaded");
    refuses_the_previous_program(&path);
    assert_eq!(assign(&path).expect("assigned"), 5);
    assert_eq!(load(&path, "a").expect("loaded").start, 6);
}

#[test]
fn people_may_still_change_it_by_hand() {
    let (_folder, path) = new_path();
    assign(&path).expect("assigned");
    SqliteStore::new(&path)
        .create(true)
        .leases()
        .lease(&request(LAYOUT), &LeaseOptions::default())
        .expect("new");
    let tag = NewSegmentTag::new("a", 5).expect("allowed");
    SqliteStore::new(&path).create(true).segments().create_tag(&tag).expect("made");
    execute(
        &path,
        "INSERT INTO WORKER_NODE (ID, HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
         VALUES (5000, 'above', 'the old table', 2, DATE('now'), DATETIME('now'), DATETIME('now'));
         UPDATE leaf_alloc SET step = 7; UPDATE leaf_alloc SET max_id = 1000;
         UPDATE UIDRING_LEASE SET HORIZON_TICK = 77, HORIZON_SEQUENCE = 3, LEASE_END = NULL",
    );
    assert_eq!(assign(&path).expect("assigned"), 5_001);
    let range = load(&path, "a").expect("loaded");
    assert_eq!((range.start, range.end), (1_000, 1_007));
    let lease = SqliteStore::new(&path)
        .create(true)
        .leases()
        .lease(&request(LAYOUT), &LeaseOptions::default());
    assert_eq!(
        lease.expect("free").after(),
        Some(LAYOUT.compose(Fields { tick: 77, worker_id: 2, sequence: 3 }).unwrap())
    );
}

#[test]
fn there_is_a_way_back_and_forth() {
    let (_folder, path) = previous_file();
    assert_eq!(assign(&path).expect("assigned"), 5);
    execute(&path, &docs::block("sqlite.md", "DROP TRIGGER UIDRING_NODE_GATE;"));
    fs::remove_file(path.with_extension("db-commits")).expect("removed");
    assert_eq!(previous::assign(&path), Ok(6));
    assert_eq!(previous::load(&path, "a"), Ok(11));
    assert_eq!(previous::renew(&path, 4, 200, 1), Ok(1));
    assert_eq!(assign(&path).expect("assigned"), 7);
    refuses_the_previous_program(&path);
}

const VARIABLE: &str = "UIDRING_TEST_PREVIOUS";

/// Not a test of its own: a process of one of the programs, which notes what it was given. Its orders are
/// the program, the number of its threads, and the file.
#[test]
fn process() {
    let Ok(orders) = env::var(VARIABLE) else { return };
    let parts: Vec<_> = orders.splitn(4, ' ').collect();
    let [program, threads, millis, path] = parts[..] else { panic!("{orders}") };
    let (program, is_disturbed) = match program.strip_suffix('?') {
        Some(program) => (program, true),
        None => (program, false),
    };
    let path = Path::new(path);
    let end = Instant::now() + Duration::from_millis(millis.parse().expect("a number"));
    let (mut ids, mut refused) = (Vec::new(), 0_u32);
    thread::scope(|scope| {
        let work = || {
            let (mut ids, mut refused) = (Vec::new(), 0);
            while Instant::now() < end {
                let done = match program {
                    "previous" => previous::assign(path).map_err(|error| chain(&error)),
                    _ => assign(path).map(u64::cast_signed).map_err(|error| chain(&error)),
                };
                match done {
                    Ok(id) => ids.push(id),
                    Err(error) if error.contains("later uidring") => refused += 1,
                    // What the previous program does to others with many threads.
                    Err(error)
                        if is_disturbed
                            && ["disk I/O error", "are lost"]
                                .iter()
                                .any(|&e| error.contains(e)) => {}
                    Err(error) => panic!("{program}: {error}"),
                }
            }
            (ids, refused)
        };
        let threads: Vec<_> =
            (0..threads.parse().expect("a number")).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let (more, others) = thread.join().expect("no panic");
            ids.extend(more);
            refused += others;
        }
    });
    println!("\nrefused {refused}");
    ids.iter().for_each(|id| println!("id {id}"));
}

fn start(program: &str, threads: usize, life: Duration, path: &Path) -> Child {
    let orders = format!("{program} {threads} {} {}", life.as_millis(), path.display());
    Command::new(env::current_exe().expect("this test"))
        .args(["versions::process", "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, orders)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// What it was given, and how often it was refused.
fn end(child: Child) -> (Vec<i64>, u64) {
    let output = child.wait_with_output().expect("ends");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}");
    let ids = text.lines().filter_map(|line| line.strip_prefix("id ")?.parse().ok()).collect();
    let refused = text.lines().find_map(|line| line.strip_prefix("refused ")?.parse().ok());
    (ids, refused.expect("it says so"))
}

/// In memory if possible, where there is more of everything.
fn shared_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    tempfile::tempdir_in(folder).expect("a folder")
}

/// One thread at a time drops no lock of its process's, so that this is safe at any time.
#[test]
fn the_previous_program_with_one_thread_may_run_when_this_one_comes() {
    let folder = shared_folder();
    let path = folder.path().join("store.db");
    assert_eq!(previous::assign(&path), Ok(1));
    let long = Duration::from_millis(1_500);
    let before: Vec<_> = (0..2).map(|_| start("previous", 1, long, &path)).collect();
    while query(&path, "SELECT MAX(ID) FROM WORKER_NODE")[0] < 20 {
        thread::sleep(Duration::from_millis(1));
    }
    let own = start("own", 2, long, &path);
    let (mut all, refused_of_own) = end(own);
    assert!(!all.is_empty() && refused_of_own == 0);
    let mut refused = 0;
    for child in before {
        let (ids, times) = end(child);
        all.extend(ids);
        refused += times;
    }
    assert!(refused > 0);
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "ids that came twice");
    let last = query(&path, "SELECT MAX(ID) FROM WORKER_NODE")[0];
    assert_eq!(last, i64::try_from(all.len()).expect("few") + 1, "and none is lost");
}

/// With more threads it drops its locks all the time, and is kept out. That may take the file's log away
/// from others, who get an error then, and no id twice. Stops put it between the steps of that.
#[test]
fn the_previous_program_with_many_threads_is_harmless_once_the_file_is_marked() {
    let folder = shared_folder();
    let path = folder.path().join("store.db");
    assert_eq!(assign(&path).expect("assigned"), 1);
    let long = Duration::from_millis(3_000);
    let others: Vec<_> = (0..2).map(|_| start("previous?", 3, long, &path)).collect();
    let own: Vec<_> = (0..2).map(|_| start("own?", 2, long, &path)).collect();
    let end_of_stops = Instant::now() + long;
    while Instant::now() < end_of_stops {
        let other = &others[fastrand::usize(..others.len())];
        signal(other, "-STOP");
        thread::sleep(Duration::from_micros(fastrand::u64(..10_000)));
        signal(other, "-CONT");
        thread::sleep(Duration::from_micros(fastrand::u64(..3_000)));
    }
    let mut all = vec![1];
    for child in own {
        let (ids, refused) = end(child);
        assert_eq!(refused, 0);
        all.extend(ids);
    }
    for child in others {
        let (ids, refused) = end(child);
        assert!(ids.is_empty() && refused > 0, "{ids:?}, refused {refused}");
    }
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "ids that came twice");
    assert!(all.len() > 1, "ids go on");
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
}
