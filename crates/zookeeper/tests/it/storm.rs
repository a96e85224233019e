//! Instances that are processes of their own, on an ensemble of three: processes are started, killed,
//! stopped and paused, servers killed, paused and cut off. Two processes want each name. No uid comes
//! twice, none is above what the ensemble holds, and soon after each fault both names are in use.
//!
//! It takes each fault once, or as often as fits into the seconds of UIDRING_STORM_SECONDS.

use std::collections::HashSet;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use uidring::{CachedUidGenerator, Error, Layout, TakeError, Uid};
use uidring_testkit::child::{Child, this_test};
use uidring_testkit::cluster::{self, MAJORITY_IS_KILLED, next};
use uidring_testkit::storm::{self, Fault, Taken};
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

/// Those of every cluster, and a network that loses what goes in one direction.
fn faults<'a>() -> Vec<Fault<&'a Ensemble>> {
    let mut faults: Vec<Fault<&'a Ensemble>> = cluster::faults();
    faults.push(Fault {
        what: "the leader does not reach a follower, which reaches it",
        act: |e, n| e.network().mute(n, next(n)),
        undo: |e, n| e.network().unmute(n, next(n)),
    });
    faults.push(Fault {
        what: "a follower does not reach the leader, which reaches it",
        act: |e, n| e.network().mute(next(n), n),
        undo: |e, n| e.network().unmute(next(n), n),
    });
    faults
}

/// A host, on which one process after another wants the same name.
struct Host {
    number: usize,
    folder: PathBuf,
    hosts: String,
    child: Child,
    /// What its processes take. A process notes uids before it uses them.
    record: File,
    last: u64,
}

impl Host {
    fn new(number: usize, folder: &Path, hosts: String) -> Self {
        File::create(record(folder, number)).expect("a file");
        let record = File::open(record(folder, number)).expect("a file");
        let child = start(number, folder, &hosts);
        Self { number, folder: folder.to_owned(), hosts, child, record, last: 0 }
    }

    fn kill(&mut self) {
        assert!(self.child.kill(), "process {} has ended by itself", self.number);
    }

    fn kill_and_start(&mut self) {
        self.kill();
        self.child = start(self.number, &self.folder, &self.hosts);
    }

    /// Lets the process give back its lease, and end.
    fn stop_and_start(&mut self) {
        File::create(stop_file(&self.folder, self.number)).expect("a file");
        let status = self.child.wait(BOUND).expect("it ends");
        assert!(status.success(), "process {} ended with {status}", self.number);
        self.child = start(self.number, &self.folder, &self.hosts);
    }

    /// What was taken here since the last call.
    fn fresh(&mut self) -> Vec<u64> {
        let mut bytes = Vec::new();
        self.record.read_to_end(&mut bytes).expect("reads");
        let fresh = bytes.chunks(8).map(|id| u64::from_le_bytes(id.try_into().expect("whole")));
        let fresh: Vec<u64> = fresh.collect();
        for uid in &fresh {
            assert!(*uid > self.last, "{uid} after {} on host {}", self.last, self.number);
            self.last = *uid;
        }
        fresh
    }
}

fn start(number: usize, folder: &Path, hosts: &str) -> Child {
    let _ = fs::remove_file(stop_file(folder, number));
    let mut command = this_test("storm::holder");
    command.env(VARIABLE, format!("{number}\n{}\n{hosts}", folder.display()));
    Child::spawn(command.stdout(File::create(folder.join("out")).expect("a file")))
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

/// On which of a name's two hosts, and what happens to its process.
type Disturbance = (usize, fn(&mut Host));

/// What happens to the processes, one after the other. A pause is longer than the session:
/// the other process gets the name.
const DISTURBANCES: [Disturbance; 8] = [
    (0, Host::kill_and_start),
    (1, Host::stop_and_start),
    (0, |host| host.child.freeze()),
    (0, |host| host.child.thaw()),
    (1, Host::kill_and_start),
    (0, Host::stop_and_start),
    (1, |host| host.child.freeze()),
    (1, |host| host.child.thaw()),
];

/// Has two processes take uids by a name until the end, disturbs them, and checks what they take.
fn hold(taken: &Taken, name: usize, ensemble: &Ensemble, folder: &Path) {
    let host = |number| Host::new(number, folder, ensemble.hosts());
    let mut hosts = [name, name + NAMES].map(host);
    let mut longest = Duration::ZERO;
    let (mut progress, mut checked, mut disturbed) =
        (Instant::now(), Instant::now(), Instant::now());
    let (mut calm, mut round) = (SESSION, 4 * fastrand::usize(..2));
    while !taken.is_over() {
        for host in &mut hosts {
            let fresh = host.fresh();
            if !fresh.is_empty() {
                taken.note(name, "uids", fresh);
                progress = Instant::now();
            }
        }
        if taken.fault() == MAJORITY_IS_KILLED {
            progress = Instant::now();
        }
        longest = longest.max(progress.elapsed());
        if checked.elapsed() > Duration::from_secs(1) {
            check(&hosts, ensemble, name);
            checked = Instant::now();
        }
        if disturbed.elapsed() > calm {
            let (host, disturb) = DISTURBANCES[round % DISTURBANCES.len()];
            disturb(&mut hosts[host]);
            disturbed = Instant::now();
            calm = SESSION + Duration::from_millis(fastrand::u64(1_000..4_000));
            round += 1;
        }
        thread::sleep(Duration::from_millis(10));
    }
    for host in &mut hosts {
        host.kill();
        taken.note(name, "uids", host.fresh());
    }
    check(&hosts, ensemble, name);
    eprintln!("longest without uids of {} while a majority was there: {longest:?}", name_of(name));
}

/// What was noted before the ensemble is asked must be within what it holds.
fn check(hosts: &[Host], ensemble: &Ensemble, name: usize) {
    let Some(last) = hosts.iter().map(|host| host.last).max().filter(|last| *last > 0) else {
        return;
    };
    let last = LAYOUT.decode(Uid::try_from(last).expect("a uid")).expect("fits");
    let node = format!("/snowflake/storm/reserved/{}@bounded", name_of(name));
    let (json, _) = ensemble.stat(&node).expect("the node is there");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let until = json["until"].as_i64().expect("a number");
    assert!(last.timestamp.as_millis() <= until, "{last:?} above {until}, name {name}");
}

#[test]
fn nothing_comes_twice_whatever_becomes_of_servers_and_processes() {
    let ensemble = Ensemble::start();
    let folder = tempfile::tempdir().expect("a folder");
    let lasts = |fault: &Fault<_>| match fault.what {
        _ if storm::is_long() => Duration::from_millis(fastrand::u64(200..9_000)),
        // Longer than an instance goes on by itself.
        MAJORITY_IS_KILLED => SESSION,
        // Longer than the servers need to notice.
        _ => Duration::from_secs(3),
    };
    let taken =
        storm::run("ZooKeeper", (NAMES, BOUND), &mut &ensemble, &faults(), lasts, |taken, name| {
            hold(taken, name, &ensemble, folder.path())
        });
    let owners: HashSet<_> = taken
        .numbers("uids")
        .iter()
        .map(|(uid, by)| {
            let uid = Uid::try_from(*uid).expect("a uid");
            (LAYOUT.decode(uid).expect("fits").worker_id, by.holder)
        })
        .collect();
    assert_eq!(owners.len(), NAMES, "worker ids and names: {owners:?}");
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
