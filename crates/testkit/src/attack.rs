//! An attack on a store of worker ids, leases and segments: processes of several threads that are
//! killed, stopped and continued, and short-lived ones that start and end all the time. What each of
//! them was given is accounted for.
//!
//! A store joins by implementing [`Target`] and [`Store`]. Every test runs the attack in a process of
//! its own (the driver), whose temporary folder is on the file system in question; the driver starts
//! the attackers, which are this test binary too.

mod account;
mod attacker;
mod torment;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use std::{env, fs, thread};

use uidring::segment::SegmentStore;
use uidring::worker::Lease;
use uidring::{Error, Layout};

use self::account::Account;
use self::torment::{Slot, Tally};

/// What a store is attacked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Workers,
    Leases,
    Segments,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Workers, Self::Leases, Self::Segments];

    fn name(self) -> &'static str {
        match self {
            Self::Workers => "workers",
            Self::Leases => "leases",
            Self::Segments => "segments",
        }
    }
}

/// The tags that a store of segments has at the start.
pub const TAGS: [&str; 2] = ["a", "b"];

/// What attackers need to know of a store.
#[derive(Clone, Debug)]
pub struct Place {
    /// What [`Store::address`] has answered.
    pub address: String,
    /// Stands for the host: no two processes of one slot live at the same time.
    pub slot: usize,
    /// No other start has it.
    pub unique: String,
}

/// A store as attackers use it.
pub trait Target: Sync {
    fn name(&self) -> &'static str;

    fn kinds(&self) -> &'static [Kind];

    /// Starts the store, with all its files in the temporary folder.
    fn start(&self) -> Box<dyn Store>;

    /// A worker id that no other start may get.
    fn worker_id(&self, place: &Place) -> Result<u64, Error>;

    /// A lease of one of few worker ids.
    fn lease(&self, place: &Place, layout: &Layout) -> Result<Lease, Error>;

    /// The table of [`TAGS`].
    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error>;

    /// What an error comes of; `None` for one that nothing explains.
    fn cause(&self, error: &str) -> Option<Cause>;
}

/// A store that has been started.
pub trait Store: Sync {
    /// Tells attackers where it is. Worker ids may come again at another address. `round` is the number
    /// of processes before.
    fn address(&self, round: usize) -> String;

    fn server(&self) -> Option<&dyn Server>;
}

/// A server that the driver may ill-treat.
pub trait Server: Sync {
    fn kill(&self);
    fn start_again(&self);
    fn freeze(&self);
    fn thaw(&self);
}

/// Servers of this crate may be ill-treated.
#[cfg(any(feature = "mariadb", feature = "zookeeper"))]
macro_rules! ill_treated {
    ($($server:ty),*) => {$(
        impl Server for $server {
            fn kill(&self) {
                Self::kill(self);
            }

            fn start_again(&self) {
                Self::start_again(self);
            }

            fn freeze(&self) {
                Self::freeze(self);
            }

            fn thaw(&self) {
                Self::thaw(self);
            }
        }
    )*};
}

#[cfg(feature = "mariadb")]
ill_treated!(crate::mariadb::MariaDb);
#[cfg(feature = "zookeeper")]
ill_treated!(crate::zookeeper::ZooKeeper);

/// What may explain an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// All worker ids are held, or used up.
    NoneFree,
    /// A lease was not renewed in time.
    Lost,
    /// For half of the time or more, a process was stopped, which may have held a lock, or the machine
    /// stalled.
    Locked,
    /// The server or a process was stopped, or the machine stalled, shortly before or meanwhile.
    Away,
}

/// How long after an outage its errors may come: that of a deadline.
const AFTERMATH: Duration = Duration::from_secs(15);

/// How much longer an attack goes on if there was nothing of a kind.
const PATIENCE: Duration = Duration::from_secs(120);

const DRIVER: &str = "UIDRING_ATTACK_DRIVER";
const SECONDS: &str = "UIDRING_ATTACK_SECONDS";

/// Three bits of worker ids: they are scarce.
pub fn layout() -> Layout {
    use uidring::{Bits, Tick};
    let bits = Bits { time: 41, worker: 3, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// Runs an attack on the file system of this folder: cargo's `CARGO_TARGET_TMPDIR`.
pub fn on_disk(target: &str, folder: &str) {
    attack(target, Path::new(folder));
}

/// Runs an attack on Linux's file system in memory.
pub fn in_memory(target: &str) {
    attack(target, Path::new("/dev/shm"));
}

fn attack(target: &str, folder: &Path) {
    let status = Command::new(env::current_exe().expect("this test"))
        .args(["driver", "--exact", "--nocapture", "--test-threads=1"])
        .env("TMPDIR", folder)
        .env(DRIVER, target)
        .status()
        .expect("starts");
    assert!(status.success(), "the attack on {target} in {} has failed", folder.display());
}

/// What the test `driver` does: nothing, unless it was started by an attack.
pub fn drive(targets: &[&'static dyn Target]) {
    let Ok(name) = env::var(DRIVER) else { return };
    let target = find(targets, &name);
    let seconds = env::var(SECONDS).map_or(3, |text| text.parse().expect("seconds"));
    let folder = tempfile::Builder::new().prefix("uidring-").tempdir().expect("a folder");
    let records = folder.path().join("records");
    fs::create_dir(&records).expect("made");
    let store = target.start();
    let tally = Tally::default();
    let attack = |with_outages| {
        let end = SystemTime::now() + Duration::from_secs(seconds);
        thread::scope(|scope| {
            for slot in Slot::all(target.kinds()) {
                let (store, records, tally) = (&*store, &records, &tally);
                scope.spawn(move || slot.live(target.name(), store, records, end, tally));
            }
            let tally = &tally;
            scope.spawn(move || torment::watch_for_stalls(end, tally));
            if let Some(server) = store.server().filter(|_| with_outages) {
                torment::trouble(server, end, tally);
            }
        });
        Account::read(&records)
    };
    let limit = SystemTime::now() + Duration::from_secs(seconds) + PATIENCE;
    let mut account = attack(true);
    // On a busy machine a server may have been down all the time.
    while target.kinds().iter().any(|kind| account.count(*kind) == 0) && SystemTime::now() < limit {
        account = attack(false);
    }
    let place = env::temp_dir();
    report(target, &place, seconds, &account, &tally);
}

/// What the test `attacker` does: nothing, unless it was started by a driver.
pub fn attack_as_told(targets: &[&'static dyn Target]) {
    attacker::run(|name| find(targets, name));
}

fn find(targets: &[&'static dyn Target], name: &str) -> &'static dyn Target {
    targets.iter().find(|target| target.name() == name).copied().expect("a target")
}

fn report(target: &dyn Target, place: &Path, seconds: u64, account: &Account, tally: &Tally) {
    let (explained, unexplained) = account.judge(target, tally);
    let counts: Vec<_> = Kind::ALL
        .iter()
        .filter(|kind| target.kinds().contains(kind))
        .map(|kind| format!("{} {}", account.count(*kind), kind.name()))
        .collect();
    let twice = account.twice();
    eprintln!(
        "attack on {} in {}, {seconds} s: ids: {}; twice: {}; {tally}; errors explained: {explained:?}, \
         not explained: {}",
        target.name(),
        place.display(),
        counts.join(", "),
        twice.len(),
        unexplained.len()
    );
    let some = |texts: &[String]| texts[..texts.len().min(20)].join("\n");
    assert!(twice.is_empty(), "ids that came twice:\n{}", some(&twice));
    assert!(unexplained.is_empty(), "errors that nothing explains:\n{}", some(&unexplained));
    for kind in target.kinds() {
        assert!(account.count(*kind) > 0, "no {} at all", kind.name());
    }
}

/// Milliseconds since 1970, which all processes of a machine agree on.
fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("soon")
}

/// The files in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}
