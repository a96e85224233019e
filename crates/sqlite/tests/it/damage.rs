//! Damaged files of SQLite stores hand out nothing, or the very id that is due: none twice, and none
//! after a jump.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, panic};

use rusqlite::Connection;
use tempfile::TempDir;
use uidring::segment::{SegmentRequest, SegmentStore};
use uidring::{Fields, Layout, Uid};
use uidring_sqlite::SqliteStore;
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::{chain, request};

const LAYOUT: Layout = Layout::UID_GENERATOR;

/// What a file is used for; a set of them is a sum.
const WORKERS: u8 = 1;
const LEASES: u8 = 2;
/// A row that nobody can use stops nobody else.
const PASSED_OVER: u8 = 0;
const SEGMENTS: u8 = 4;
const ALL: u8 = 7;

/// Files in a folder in memory, if possible: there are many.
struct Files {
    folder: TempDir,
    count: usize,
    /// The bytes of a sound file.
    sound: Vec<u8>,
}

impl Files {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
        let folder = tempfile::tempdir_in(place).expect("a folder");
        let path = folder.path().join("sound.db");
        make(&path);
        let sound = fs::read(&path).expect("reads");
        Self { folder, count: 0, sound }
    }

    /// A path where a sound file is.
    fn copy(&mut self) -> PathBuf {
        self.count += 1;
        let path = self.folder.path().join(format!("{}.db", self.count));
        fs::write(&path, &self.sound).expect("writes");
        path
    }
}

/// Worker ids 1 to 40, of which the first is leased and was used up to a tick; tag `a`, from which 1 to
/// 20 were loaded, and other tags.
fn make(path: &Path) {
    let lease = SqliteStore::new(path)
        .create(true)
        .leases()
        .lease(&request(LAYOUT), &LeaseOptions::default())
        .expect("new");
    lease.release().expect("released");
    let nodes = SqliteStore::new(path).create(true).worker_nodes();
    for id in 2..=40 {
        assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), id);
    }
    for tag in ["a", "b", "c"] {
        let tag = NewSegmentTag::new(tag, 10).expect("allowed");
        SqliteStore::new(path).create(true).segments().create_tag(&tag).expect("made");
    }
    assert_eq!(load(path), Ok(1));
    assert_eq!(load(path), Ok(11));
    execute(path, "UPDATE UIDRING_LEASE SET HORIZON_TICK = 1000, HORIZON_SEQUENCE = 7");
}

fn execute(path: &Path, sql: &str) {
    let connection = Connection::open(path).expect("opens");
    connection.execute_batch(sql).expect(sql);
}

/// Also what integrity checks and constraints would refuse.
fn force(path: &Path, sql: &str) {
    execute(
        path,
        &format!("PRAGMA writable_schema = ON; PRAGMA ignore_check_constraints = ON; {sql}"),
    );
}

pub fn assign(path: &Path) -> Result<u64, String> {
    SqliteStore::new(path)
        .create(true)
        .worker_nodes()
        .assign(&LAYOUT)
        .map_err(|error| chain(&error))
}

/// The first id of the next range.
pub fn load(path: &Path) -> Result<u64, String> {
    let mut done = None;
    let wanted = [SegmentRequest { tag: "a".into(), step: 0 }];
    SqliteStore::new(path)
        .create(true)
        .segments()
        .load(&wanted, &mut |_, result| done = Some(result));
    let done = done.expect("handed over");
    done.map(|range| range.start).map_err(|error| chain(&error))
}

/// What the next holder of worker id 1 starts above.
fn lease(path: &Path) -> Result<(u64, Option<Uid>), String> {
    let lease = SqliteStore::new(path)
        .create(true)
        .leases()
        .lease(&request(LAYOUT), &LeaseOptions::default());
    lease.map(|lease| (lease.worker_id(), lease.after())).map_err(|error| chain(&error))
}

/// What is refused; what is not must be right. `owner` may be another one: a lease that seems to be held,
/// or used too far ahead, leads to the next new worker id, 41 or 42.
fn attempt(what: &str, path: &Path) -> (u8, Vec<String>) {
    let mut refused = 0;
    let mut errors = Vec::new();
    let mut refuse = |kind, error| {
        refused |= kind;
        errors.push(error);
    };
    let due = LAYOUT.compose(Fields { tick: 1_000, worker_id: 1, sequence: 7 }).expect("possible");
    let mut next = 41;
    match lease(path) {
        Ok((1, after)) => assert_eq!(after, Some(due), "{what}"),
        Ok((id, after)) => {
            assert_eq!((id, after), (41, None), "{what}");
            next = 42;
        }
        Err(error) => refuse(LEASES, error),
    }
    match assign(path) {
        Ok(id) => assert_eq!(id, next, "{what}"),
        Err(error) => refuse(WORKERS, error),
    }
    match load(path) {
        Ok(start) => assert_eq!(start, 21, "{what}"),
        Err(error) => refuse(SEGMENTS, error),
    }
    (refused, errors)
}

#[test]
fn a_sound_file_is_used() {
    let mut files = Files::new();
    let path = files.copy();
    assert_eq!(attempt("sound", &path), (0, vec![]));
}

type Damage = fn(&Path);

/// Overwrites the page that is the root of a table or index.
fn spoil(path: &Path, name: &str, with: impl Fn(&mut [u8])) {
    let (root, size) = {
        let connection = Connection::open(path).expect("opens");
        let root = "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master
                    WHERE name = ?1";
        let row = connection.query_row(root, [name], |row| Ok((row.get(0)?, row.get(1)?)));
        let row: (u32, u32) = row.expect("it is there");
        row
    };
    let file = OpenOptions::new().read(true).write(true).open(path).expect("opens");
    let start = u64::from(root - 1) * u64::from(size);
    let mut page = vec![0; size as usize];
    file.read_exact_at(&mut page, start).expect("reads");
    with(&mut page);
    file.write_all_at(&page, start).expect("writes");
}

fn cut(path: &Path, part: impl Fn(u64) -> u64) {
    let file = OpenOptions::new().write(true).open(path).expect("opens");
    let length = file.metadata().expect("there").len();
    file.set_len(part(length)).expect("cut");
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).expect("opens");
    file.write_all_at(bytes, at).expect("writes");
}

/// What is damaged, and what must be refused then. Whatever else is handed out must be right.
const DAMAGES: &[(&str, u8, Damage)] = &[
    ("cut off to nothing", ALL, |path| cut(path, |_| 0)),
    ("cut off within the header", ALL, |path| cut(path, |_| 60)),
    ("cut off after the first page", ALL, |path| cut(path, |_| 4_096)),
    ("cut off in the middle", ALL, |path| cut(path, |length| length / 2)),
    ("cut off by a page", ALL, |path| cut(path, |length| length - 4_096)),
    ("cut off by a byte", 0, |path| cut(path, |length| length - 1)),
    ("no header", ALL, |path| overwrite(path, 0, &[0; 16])),
    ("another page size", ALL, |path| overwrite(path, 16, &[2, 0])),
    ("first page zeroed", ALL, |path| overwrite(path, 0, &[0; 4_096])),
    ("schema zeroed", ALL, |path| overwrite(path, 100, &[0; 3_996])),
    ("a text at the beginning", ALL, |path| overwrite(path, 0, b"not a database any more")),
    ("WORKER_NODE zeroed", WORKERS | LEASES, |path| {
        spoil(path, "WORKER_NODE", |page| page.fill(0))
    }),
    ("WORKER_NODE filled", WORKERS | LEASES, |path| {
        spoil(path, "WORKER_NODE", |page| page.fill(255))
    }),
    ("WORKER_NODE shorter", WORKERS | LEASES, |path| {
        // The number of its rows.
        spoil(path, "WORKER_NODE", |page| page[4] = page[4].saturating_sub(1));
    }),
    ("WORKER_NODE empty", 0, |path| {
        spoil(path, "WORKER_NODE", |page| {
            page.fill(0);
            // An empty leaf of a table.
            page[0] = 13;
            page[5..7].copy_from_slice(&4_096_u16.to_be_bytes());
        });
    }),
    ("counter zeroed", WORKERS | LEASES, |path| {
        spoil(path, "sqlite_sequence", |page| page.fill(0))
    }),
    ("leases zeroed", LEASES, |path| spoil(path, "UIDRING_LEASE", |page| page.fill(0))),
    ("segments zeroed", SEGMENTS, |path| spoil(path, "leaf_alloc", |page| page.fill(0))),
    ("version zeroed", ALL, |path| spoil(path, "UIDRING_FILE", |page| page.fill(0))),
    ("no version", ALL, |path| force(path, "DELETE FROM UIDRING_FILE")),
    ("version 0", ALL, |path| force(path, "UPDATE UIDRING_FILE SET VERSION = 0")),
    ("counter gone", WORKERS, |path| execute(path, "DELETE FROM sqlite_sequence")),
    ("counter twice", WORKERS, |path| {
        execute(path, "INSERT INTO sqlite_sequence VALUES ('WORKER_NODE', 40)");
    }),
    ("counter below the rows", WORKERS, |path| execute(path, "UPDATE sqlite_sequence SET seq = 7")),
    ("counter jumped", WORKERS, |path| execute(path, "UPDATE sqlite_sequence SET seq = 1000000")),
    ("counter at the end", WORKERS, |path| {
        execute(path, "UPDATE sqlite_sequence SET seq = 9223372036854775807");
    }),
    ("counter negative", WORKERS, |path| execute(path, "UPDATE sqlite_sequence SET seq = -5")),
    ("counter NULL", WORKERS, |path| execute(path, "UPDATE sqlite_sequence SET seq = NULL")),
    ("counter a text", WORKERS, |path| execute(path, "UPDATE sqlite_sequence SET seq = 'x'")),
    ("counter a fraction", WORKERS, |path| execute(path, "UPDATE sqlite_sequence SET seq = 40.5")),
    ("counter of nothing", WORKERS, |path| {
        execute(path, "UPDATE sqlite_sequence SET name = 'WORKER_NODF' WHERE name = 'WORKER_NODE'");
    }),
    ("rows gone with the counter", WORKERS, |path| {
        execute(path, "DELETE FROM WORKER_NODE; DELETE FROM sqlite_sequence");
    }),
    ("table gone", WORKERS, |path| execute(path, "DROP TABLE WORKER_NODE")),
    ("a row above the counter", WORKERS, |path| {
        execute(path, "UPDATE WORKER_NODE SET ID = 500 WHERE ID = 40");
    }),
    ("a negative row", WORKERS, |path| {
        execute(path, "UPDATE WORKER_NODE SET ID = -500 WHERE ID = 40");
    }),
    ("a row without a host", WORKERS | LEASES, |path| {
        force(
            path,
            "UPDATE sqlite_master SET sql = REPLACE(sql, 'HOST_NAME VARCHAR(64) NOT NULL',
             'HOST_NAME VARCHAR(64)') WHERE name = 'WORKER_NODE'",
        );
        execute(path, "UPDATE WORKER_NODE SET HOST_NAME = NULL WHERE ID = 3");
        force(
            path,
            "UPDATE sqlite_master SET sql = REPLACE(sql, 'HOST_NAME VARCHAR(64)',
             'HOST_NAME VARCHAR(64) NOT NULL') WHERE name = 'WORKER_NODE'",
        );
    }),
    ("an index of nothing", ALL & !WORKERS & !LEASES, |path| {
        spoil(path, "UIDRING_SEGMENT_COPY", |page| page.fill(0));
    }),
    ("max_id flipped back", SEGMENTS, |path| flip(path, "leaf_alloc", &[21, 10], &[1, 10])),
    ("max_id flipped on", SEGMENTS, |path| flip(path, "leaf_alloc", &[21, 10], &[85, 10])),
    ("max_id negative", SEGMENTS, |path| execute(path, "UPDATE leaf_alloc SET max_id = -21")),
    ("max_id a text", SEGMENTS, |path| execute(path, "UPDATE leaf_alloc SET max_id = 'x'")),
    ("max_id at the end", SEGMENTS, |path| {
        execute(path, "UPDATE leaf_alloc SET max_id = 9223372036854775807");
    }),
    ("step negative", SEGMENTS, |path| execute(path, "UPDATE leaf_alloc SET step = -1")),
    ("horizon flipped back", LEASES, |path| {
        // 1000 and 7, as they lie in the row.
        flip(path, "UIDRING_LEASE", &[0x03, 0xe8, 7], &[0x01, 0xe8, 7]);
    }),
    ("horizon's sequence flipped back", LEASES, |path| {
        flip(path, "UIDRING_LEASE", &[0x03, 0xe8, 7], &[0x03, 0xe8, 3]);
    }),
    ("horizon negative", PASSED_OVER, |path| {
        execute(path, "UPDATE UIDRING_LEASE SET HORIZON_TICK = -1000");
    }),
    ("horizon's sequence negative", PASSED_OVER, |path| {
        execute(path, "UPDATE UIDRING_LEASE SET HORIZON_SEQUENCE = -7");
    }),
];

/// Changes bytes that occur once in the page of a table.
fn flip(path: &Path, table: &str, from: &[u8], to: &[u8]) {
    spoil(path, table, |page| {
        let places: Vec<_> =
            (0..page.len() - from.len()).filter(|at| page[*at..].starts_with(from)).collect();
        assert_eq!(places.len(), 1, "{table}: {places:?}");
        page[places[0]..places[0] + to.len()].copy_from_slice(to);
    });
}

#[test]
fn a_damaged_file_hands_out_nothing() {
    let mut files = Files::new();
    let mut wrong = Vec::new();
    for (what, must, damage) in DAMAGES {
        let path = files.copy();
        damage(&path);
        let done = panic::catch_unwind(|| attempt(what, &path));
        match done {
            Ok((refused, errors)) if refused & must == *must => {
                for error in errors {
                    eprintln!("{what}: {}", error.replace(path.to_str().expect("UTF-8"), "FILE"));
                }
            }
            Ok((refused, errors)) => wrong.push(format!("{what}: refused {refused}: {errors:?}")),
            Err(_) => wrong.push(format!("{what}: handed out something else")),
        }
    }
    assert!(DAMAGES.len() >= 40);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Wherever a byte, or a sector, is damaged.
#[test]
fn damage_at_random_repeats_nothing() {
    let mut files = Files::new();
    let seed = env::var("UIDRING_SEED").map_or_else(|_| fastrand::u64(..), |s| s.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed);
    eprintln!("UIDRING_SEED={seed}");
    let rounds = env::var("UIDRING_ROUNDS").map_or(300, |text| text.parse().expect("a number"));
    let mut untouched = 0;
    for round in 0..rounds {
        let path = files.copy();
        let length = files.sound.len();
        let at = random.usize(..length);
        let size = if random.bool() { 1 } else { 512.min(length - at) };
        let mut bytes = files.sound[at..at + size].to_vec();
        match random.u8(..4) {
            0 => bytes.fill(0),
            1 => bytes.iter_mut().for_each(|byte| *byte = random.u8(..)),
            2 => bytes[0] ^= 1 << random.u8(..8),
            // As if a sector had been written to the wrong place.
            _ => {
                let from = random.usize(..=length - size);
                bytes.copy_from_slice(&files.sound[from..from + size]);
            }
        }
        overwrite(&path, at as u64, &bytes);
        let what = format!("seed {seed}, round {round}: {size} bytes at {at}: {bytes:?}");
        untouched += u32::from(attempt(&what, &path).0 == 0);
        fs::remove_file(&path).expect("removed");
    }
    eprintln!("{untouched} of {rounds} did no harm");
}

/// What a crash leaves is part of the file.
#[test]
fn a_log_without_its_file_is_refused() {
    let mut files = Files::new();
    let path = files.copy();
    let killed = Command::new(env::current_exe().expect("this test"))
        .args(["damage::crash", "--exact"])
        .env("UIDRING_TEST_CRASH", &path)
        .output()
        .expect("starts");
    assert!(!killed.status.success());
    let log = path.with_extension("db-wal");
    assert!(fs::metadata(&log).expect("it is left").len() > 0);
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).expect("renamed");
    for error in [assign(&path).expect_err("refused"), lease(&path).expect_err("refused")] {
        assert!(error.contains("-wal") && error.contains("is gone"), "{error}");
    }
    assert!(!path.exists(), "and none is made");
    fs::rename(&aside, &path).expect("renamed");
    assert_eq!(assign(&path), Ok(42), "41 is in the log");
}

/// Not a test of its own: a process that dies with its last worker id in the log.
#[test]
fn crash() {
    let Ok(path) = env::var("UIDRING_TEST_CRASH") else { return };
    let path = Path::new(&path);
    let other = Connection::open(path).expect("opens");
    let read = "SELECT COUNT(*) FROM WORKER_NODE";
    other.query_row(read, [], |row| row.get::<_, i64>(0)).expect("reads");
    assert_eq!(assign(path), Ok(41));
    std::process::abort();
}
