//! What each engine promises, through its URL.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{env, thread};

use uidring_any::uidring::{Error, StoreErrorKind, TakeError};
use uidring_any::{AnyGenerator, AnyTakeError, NewSegmentTag, Options, open};

use uidring_testkit::child::{Child, this_test};
use uidring_testkit::etcd::Etcd;
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::postgres::Postgres;
use uidring_testkit::zookeeper::ZooKeeper;

const URL: &str = "UIDRING_TEST_URL";
const TAKES: usize = 5_000;
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("w.db").display());
    let options = ["worker=disposable", "order=per-thread", "worker=lease", "tag=orders"];
    keeps_its_promises(&url, &options);
}

#[test]
fn mysql() {
    let database = MariaDb::shared().database();
    let url = format!("{}?deadline=60s", database.url());
    keeps_its_promises(&url, &["worker=disposable", "worker=lease", "tag=orders"]);
}

#[test]
fn postgres() {
    let database = Postgres::shared().database();
    let url = format!("{}?deadline=60s", database.url());
    keeps_its_promises(&url, &["worker=disposable", "worker=lease", "tag=orders"]);
}

#[test]
fn etcd() {
    let etcd = Etcd::shared();
    let url = format!("etcd://{}/{}/?deadline=60s", etcd.address(), etcd.next_number());
    keeps_its_promises(&url, &["worker=disposable", "worker=lease"]);
}

#[test]
fn zookeeper() {
    let server = ZooKeeper::shared();
    let url = format!("zookeeper://{}?name={}", server.hosts(), server.name());
    keeps_its_promises(&url, &["layout=snowflake"]);
}

/// What each engine promises for these options.
fn keeps_its_promises(url: &str, options: &[&str]) {
    all_processes_take_distinct_ids(url, options);
    for option in options {
        let url = format!("{url}&{option}");
        match *option {
            "worker=lease" => a_fenced_lease_ends(&url),
            "tag=orders" => tags_are_dense(&url),
            _ => {}
        }
    }
    // A password has an `@` of its own.
    if let Some((begin, rest)) = url.split_once("://").filter(|(_, rest)| rest.contains('@')) {
        let (_, host) = rest.rsplit_once('@').expect("a host");
        let wrong = format!("{begin}://nobody:s3cret@{host}&{}", options[0]);
        let error = open(&wrong).map(|_| ()).expect_err("no such user");
        let kind = match &error {
            Error::Store(error) => Some(error.kind()),
            _ => None,
        };
        assert_eq!(kind, Some(StoreErrorKind::Denied), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
}

/// Whoever is told that a holder is dead says so, and the holder issues nothing more.
fn a_fenced_lease_ends(url: &str) {
    // The engines' tests run in one process.
    let (scheme, _) = url.split_once(':').expect("a scheme");
    let url = &format!("{url}&namespace={scheme}");
    let generator = open(url).expect("opens");
    let first = generator.next_uid().expect("a uid");
    let worker_id = generator.as_uid_generator().expect("uids").worker_id();
    let store = Options::from_url(url).expect("a URL").store().expect("a store");
    store.lease_table(Default::default()).expect("leases").fence(worker_id).expect("fenced");
    let begin = Instant::now();
    let lost = AnyTakeError::Uid(TakeError::LeaseLost);
    while generator.next_uid().map(|_| ()).err().map(|error| error.to_string())
        != Some(lost.to_string())
    {
        assert!(begin.elapsed() < LIMIT, "the lease ends");
        thread::sleep(Duration::from_millis(10));
    }
    drop(generator);
    let next = open(url).expect("opens").next_uid().expect("a uid");
    assert_ne!(first, next);
}

/// Two generators of a tag take all numbers of the ranges that they have reserved.
fn tags_are_dense(url: &str) {
    let url = url.replace("tag=orders", "tag=bills");
    let store = Options::from_url(&url).expect("a URL").store().expect("a store");
    let table = store.segment_table().expect("segments");
    table.create_tag(&NewSegmentTag::new("bills", 100).expect("a tag")).expect("a tag");
    let generators = [(); 2].map(|()| open(&url).expect("opens"));
    let mut ids: Vec<u64> = thread::scope(|scope| {
        let takers = generators.each_ref().map(|generator| {
            scope.spawn(|| {
                (0..500).map(|_| generator.next_uid().expect("an id").get()).collect::<Vec<_>>()
            })
        });
        takers.map(|taker| taker.join().expect("takes")).concat()
    });
    for id in 1..=1_000 {
        // A range is left out as a whole, by a generator that has reserved it and not come to it.
        let range = (id - 1) / 100 * 100 + 1;
        assert!(ids.contains(&id) || !ids.contains(&range), "{id} of the range from {range}");
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 1_000);
}

/// Of three processes with two threads each one is killed while it takes; three more start meanwhile.
fn all_processes_take_distinct_ids(url: &str, options: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    for option in options {
        let url = format!("{url}&{option}");
        set_up(&url);
        let ids = thread::scope(|scope| {
            let lives = [0, 1, 2].map(|number| {
                let (url, folder) = (&url, folder.path());
                scope.spawn(move || {
                    let mut ids = life(url, folder, number, number == 0);
                    ids.extend(life(url, folder, number, false));
                    ids
                })
            });
            lives.map(|life| life.join().expect("a life")).concat()
        });
        assert!(ids.len() >= 5 * 2 * TAKES, "{option}: {}", ids.len());
        let distinct: HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{option}");
    }
}

/// Creates the tables and a tag, where the engine has them.
fn set_up(url: &str) {
    if url.starts_with("zookeeper:") {
        return;
    }
    let store = Options::from_url(url).expect("a URL").store().expect("a store");
    if url.contains("tag=") {
        let tag = NewSegmentTag::new("orders", 1_000).expect("a tag");
        store.segment_table().expect("segments").create_tag(&tag).expect("a tag");
    } else if url.contains("worker=lease") {
        store.lease_table(Default::default()).expect("leases").create().expect("creates");
    } else {
        store.worker_table().expect("worker ids").create().expect("creates");
    }
}

/// Returns the ids of a process, which may be killed amid its takes.
fn life(url: &str, folder: &Path, number: u32, is_killed: bool) -> Vec<u64> {
    let mut command = this_test("doors::taker");
    // The second life of an instance begins above what the first one issued.
    command.env(URL, url).env("UIDRING_INSTANCE", format!("taker:{number}"));
    command.env("XDG_DATA_HOME", folder).stdout(Stdio::piped());
    let mut child = Child::spawn(&mut command);
    let lines = BufReader::new(child.stdout().expect("piped")).lines();
    let mut ids = Vec::new();
    for line in lines {
        // The harness prints lines of its own.
        if let Some(id) = line.ok().as_deref().and_then(|line| line.strip_prefix("id ")) {
            ids.extend(id.parse::<u64>());
        }
        if is_killed && ids.len() == TAKES {
            child.kill();
        }
    }
    let status = child.wait(LIMIT).expect("it ended");
    assert_eq!(status.success(), !is_killed, "{status}");
    ids
}

/// Opens a generator, again and again where a server does not answer in time, as on a busy machine.
pub fn opened(open: impl Fn() -> Result<AnyGenerator, Error>) -> AnyGenerator {
    let is_late = |error: &Error| match error {
        Error::Store(error) => error.kind() == StoreErrorKind::Unreachable,
        _ => false,
    };
    let begin = Instant::now();
    loop {
        match open() {
            Err(error) if is_late(&error) && begin.elapsed() < LIMIT => {}
            generator => return generator.expect("opens"),
        }
    }
}

/// A process of [`life`].
#[test]
fn taker() {
    let Ok(url) = env::var(URL) else { return };
    let generator = opened(|| open(&url));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..TAKES {
                    let id = generator.next_uid().expect("an id");
                    // In one piece, so that a kill leaves whole lines.
                    let line = format!("id {id}\n");
                    io::stdout().lock().write_all(line.as_bytes()).expect("prints");
                }
            });
        }
    });
}
