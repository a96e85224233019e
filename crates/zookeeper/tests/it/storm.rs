//! Instances that are processes of their own, on an ensemble of three: processes are started, killed,
//! stopped and paused, servers killed, paused and cut off. Two processes want each name. No uid comes
//! twice, none is above what the ensemble holds, and soon after each fault both names are in use.
//!
//! It takes each fault once, or as often as fits into the seconds of UIDRING_STORM_SECONDS.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};
use std::{array, env};

use tempfile::TempDir;
use uidring::{CachedUidGenerator, Error, Layout, TakeError, Uid};
use uidring_testkit::zookeeper::Ensemble;
use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperServers};

use crate::leaf::chain;

const LAYOUT: Layout = Layout::SNOWFLAKE;
const SESSION: Duration = Duration::from_secs(4);

/// Two processes want each.
const NAMES: usize = 2;

/// What a process gets to know.
const VARIABLE: &str = "UIDRING_ZOOKEEPER_HOLDER";

/// Two elections, the end of a session, and as much for a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// What is done to the ensemble, and undone, with the number of the leader.
struct Fault {
    what: &'static str,
    act: fn(&Ensemble, usize),
    undo: fn(&Ensemble, usize),
    has_majority: bool,
}

const FAULTS: [Fault; 8] = [
    Fault {
        what: "the leader is killed",
        act: |e, n| e.server(n).kill(),
        undo: |e, n| e.server(n).spawn(),
        has_majority: true,
    },
    Fault {
        what: "the leader is cut off from the servers, and not from clients",
        act: |e, n| e.network().isolate(n),
        undo: |e, n| e.network().rejoin(n),
        has_majority: true,
    },
    Fault {
        what: "the leader's link is down",
        act: |e, n| e.network().unplug(n),
        undo: |e, n| e.network().plug_in(n),
        has_majority: true,
    },
    Fault {
        what: "the leader stands still",
        act: |e, n| e.server(n).freeze(),
        undo: |e, n| e.server(n).thaw(),
        has_majority: true,
    },
    Fault {
        what: "the leader does not reach a follower, which reaches it",
        act: |e, n| e.network().mute(n, next(n)),
        undo: |e, n| e.network().unmute(n, next(n)),
        has_majority: true,
    },
    Fault {
        what: "a follower does not reach the leader, which reaches it",
        act: |e, n| e.network().mute(next(n), n),
        undo: |e, n| e.network().unmute(next(n), n),
        has_majority: true,
    },
    Fault {
        what: "a follower's link is down",
        act: |e, n| e.network().unplug(next(n)),
        undo: |e, n| e.network().plug_in(next(n)),
        has_majority: true,
    },
    Fault {
        what: "a majority is killed",
        act: |e, n| [n, next(n)].into_iter().for_each(|n| e.server(n).kill()),
        undo: |e, n| [n, next(n)].into_iter().for_each(|n| e.server(n).spawn()),
        has_majority: false,
    },
];

fn next(server: usize) -> usize {
    (server + 1) % 3
}

/// A host, on which one process after another wants the same name.
struct Host {
    number: usize,
    folder: PathBuf,
    hosts: String,
    child: Option<Child>,
    /// How much of its record has been checked.
    checked: usize,
    last: u64,
}

impl Host {
    fn start(&mut self) {
        let words = format!("{}\n{}\n{}", self.number, self.folder.display(), self.hosts);
        let _ = fs::remove_file(stop_file(&self.folder, self.number));
        let child = Command::new(env::current_exe().expect("this test"))
            .args(["storm::holder", "--exact", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, words)
            .stdout(File::create(self.folder.join("out")).expect("a file"))
            .spawn();
        self.child = Some(child.expect("starts"));
    }

    fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it has not ended by itself");
        child.wait().expect("ours");
    }

    /// Lets the process give back its lease, and end.
    fn stop(&mut self) {
        File::create(stop_file(&self.folder, self.number)).expect("a file");
        let mut child = self.child.take().expect("it runs");
        let status = child.wait().expect("ours");
        assert!(status.success(), "process {} ended with {status}", self.number);
    }

    fn signal(&mut self, name: &str) {
        let child = self.child.as_mut().expect("it runs");
        assert!(child.try_wait().expect("ours").is_none(), "process {} ended", self.number);
        let sent =
            Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// What was taken here since the last call. A process notes uids before it uses them.
    fn fresh(&mut self) -> Vec<u64> {
        let bytes = fs::read(record(&self.folder, self.number)).unwrap_or_default();
        let whole = bytes.len() / 8 * 8;
        let fresh = bytes[self.checked..whole].chunks_exact(8);
        let fresh = fresh.map(|id| u64::from_le_bytes(id.try_into().expect("8"))).collect();
        self.checked = whole;
        fresh
    }

    fn length(&self) -> u64 {
        fs::metadata(record(&self.folder, self.number)).map_or(0, |metadata| metadata.len())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn record(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("record-{number}"))
}

fn stop_file(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("stop-{number}"))
}

fn name_of(number: usize) -> String {
    format!("web_{}", number % NAMES)
}

struct Storm {
    ensemble: std::sync::Arc<Ensemble>,
    hosts: [Host; 2 * NAMES],
    seen: HashSet<u64>,
    /// Who has which worker id.
    owners: HashMap<u64, usize>,
    longest: HashMap<&'static str, Duration>,
    _folder: TempDir,
}

impl Storm {
    fn start() -> Self {
        let ensemble = Ensemble::start();
        let folder = tempfile::tempdir().expect("a folder");
        let hosts = array::from_fn(|number| {
            let (folder, hosts) = (folder.path().to_owned(), ensemble.hosts());
            let mut host = Host { number, folder, hosts, child: None, checked: 0, last: 0 };
            host.start();
            host
        });
        let (seen, owners, longest) = Default::default();
        Self { ensemble, hosts, seen, owners, longest, _folder: folder }
    }

    /// How much has been noted by each name.
    fn lengths(&self) -> [u64; NAMES] {
        array::from_fn(|name| {
            self.hosts.iter().filter(|h| h.number % NAMES == name).map(Host::length).sum()
        })
    }

    /// Waits until somebody takes uids by each name, and returns how long that took.
    fn progress(&self, what: &str) -> Duration {
        let (start, before) = (Instant::now(), self.lengths());
        while self.lengths().iter().zip(before).any(|(now, before)| *now <= before) {
            let took = start.elapsed();
            assert!(took < BOUND, "{what}: no progress, {before:?} to {:?}", self.lengths());
            thread::sleep(Duration::from_millis(10));
        }
        start.elapsed()
    }

    /// Returns the longest time until then in which nobody took uids by one of the names.
    fn longest_gap(&self, end: Instant) -> Duration {
        let (mut lengths, mut since) = (self.lengths(), [Instant::now(); NAMES]);
        let mut longest = Duration::ZERO;
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
            let now = self.lengths();
            for name in 0..NAMES {
                longest = longest.max(since[name].elapsed());
                if now[name] > lengths[name] {
                    since[name] = Instant::now();
                }
            }
            lengths = now;
        }
        longest
    }

    /// Checks what was taken since the last call: what is noted before the ensemble is asked must be
    /// within what it holds.
    fn check(&mut self) {
        for number in 0..self.hosts.len() {
            let host = &mut self.hosts[number];
            let fresh = host.fresh();
            let Some(last) = fresh.iter().max().copied() else { continue };
            for uid in fresh {
                assert!(uid > host.last, "{uid} after {} on host {number}", host.last);
                host.last = uid;
                assert!(self.seen.insert(uid), "{uid} twice, the second time on host {number}");
                let fields = LAYOUT.decode(Uid::try_from(uid).expect("a uid")).expect("fits");
                let owner = *self.owners.entry(fields.worker_id).or_insert(number % NAMES);
                assert_eq!(owner, number % NAMES, "worker id {} of two names", fields.worker_id);
            }
            let last = LAYOUT.decode(Uid::try_from(last).expect("a uid")).expect("fits");
            let until = self.reserved(&name_of(number));
            assert!(last.timestamp.as_millis() <= until, "{last:?} above {until}, host {number}");
        }
    }

    fn reserved(&self, instance: &str) -> i64 {
        let node = format!("/snowflake/storm/reserved/{instance}@bounded");
        let (json, _) = self.ensemble.stat(&node).expect("the node is there");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        json["until"].as_i64().expect("a number")
    }

    fn note(&mut self, what: &'static str, took: Duration) {
        let longest = self.longest.entry(what).or_default();
        *longest = took.max(*longest);
    }

    fn fault(&mut self, fault: &Fault, lasts: Duration) {
        let leader = self.ensemble.leader();
        let start = Instant::now();
        (fault.act)(&self.ensemble, leader);
        let gap = self.longest_gap(start + lasts);
        if fault.has_majority {
            self.note("without uids of a name while a majority is there", gap);
        }
        (fault.undo)(&self.ensemble, leader);
        let healed = Instant::now();
        self.ensemble.leader();
        let led = healed.elapsed();
        self.progress(fault.what);
        let took = healed.elapsed();
        self.note("from the end of a fault to a leader", led);
        self.note("from the end of a fault to uids of each name", took);
        eprintln!(
            "{} for {lasts:?}: {gap:?} without uids meanwhile; then a leader after {led:?}, uids of \
             each name after {took:?}",
            fault.what
        );
    }

    /// Does something to a process.
    fn disturb(&mut self, round: usize) {
        let host = &mut self.hosts[round % (2 * NAMES)];
        match round % 3 {
            0 => {
                host.kill();
                host.start();
            }
            1 => {
                host.stop();
                host.start();
            }
            // The other process gets the name.
            _ => {
                host.signal("STOP");
                thread::sleep(SESSION + Duration::from_secs(1));
                self.hosts[round % (2 * NAMES)].signal("CONT");
            }
        }
    }
}

#[test]
fn nothing_comes_twice_whatever_becomes_of_servers_and_processes() {
    let seconds = env::var("UIDRING_STORM_SECONDS").ok();
    let seconds: Option<u64> = seconds.map(|text| text.parse().expect("seconds"));
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    let mut storm = Storm::start();
    storm.progress("at first");
    let mut round = fastrand::usize(..12);
    loop {
        for fault in &FAULTS {
            let lasts = match (seconds, fault.has_majority) {
                (Some(_), _) => Duration::from_millis(fastrand::u64(200..9_000)),
                // Longer than the servers need to notice.
                (None, true) => Duration::from_secs(3),
                // Longer than an instance goes on by itself.
                (None, false) => SESSION,
            };
            storm.fault(fault, lasts);
            if seconds.is_some() || round.is_multiple_of(2) {
                storm.disturb(round);
            }
            storm.check();
            round += 1;
        }
        if Instant::now() >= end {
            break;
        }
    }
    for host in &mut storm.hosts {
        host.kill();
    }
    storm.check();
    assert_eq!(storm.owners.len(), NAMES, "{:?}", storm.owners);
    eprintln!("uids: {}, twice: 0, longest: {:#?}", storm.seen.len(), storm.longest);
}

/// What a process of the storm does: nothing, unless the storm has started it.
#[test]
fn holder() {
    let Ok(words) = env::var(VARIABLE) else { return };
    let words: Vec<&str> = words.split('\n').collect();
    let [number, folder, hosts] = words[..] else { panic!("{words:?}") };
    let (number, folder) = (number.parse().expect("a number"), Path::new(folder));
    let servers = ZooKeeperServers::new(hosts).expect("servers");
    let servers = servers.session_timeout(SESSION).connect_deadline(Duration::from_secs(3));
    let registry =
        LeafZooKeeper::new(servers, "storm", Instance::new(&name_of(number)).expect("a name"))
            .expect("a name")
            .cache_file(folder.join(format!("host-{number}.json")));
    let record = OpenOptions::new().create(true).append(true).open(record(folder, number));
    let record = record.expect("a file");
    let stop = stop_file(folder, number);
    while !stop.exists() {
        let lease = match registry.lease(&LAYOUT) {
            Ok(lease) => lease,
            Err(error) => {
                assert!(may_pass(&error), "{}", chain(&error));
                continue;
            }
        };
        let builder = CachedUidGenerator::builder().layout(LAYOUT).worker(lease);
        let builder = builder.max_start_wait(Duration::from_secs(600));
        match builder.build() {
            Ok(generator) => take(&generator, &record, &stop),
            // While a fault lasts, the first renewal may come too late.
            Err(error) => assert!(may_pass(&error), "{}", chain(&error)),
        }
    }
}

fn take(generator: &CachedUidGenerator, mut record: &File, stop: &Path) {
    while !stop.exists() {
        match generator.try_next_uid() {
            Ok(uid) => {
                let noted = record.write(&uid.get().to_le_bytes()).expect("writes");
                assert_eq!(noted, 8);
            }
            Err(TakeError::LeaseLost) => return,
            Err(_) => {}
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn may_pass(error: &Error) -> bool {
    error.may_pass() || matches!(error, Error::LeaseLost { .. })
}
