//! An attack on a store of worker ids, leases and segments: processes of several threads that are
//! killed, stopped and continued, and short-lived ones that start and end all the time. What each of
//! them was given is accounted for.
//!
//! A store joins by implementing [`Target`] and [`Store`]. Every test runs the attack in a process of
//! its own (the driver), whose temporary folder is on the file system in question; the driver starts
//! the attackers, which are this test binary too.

mod account;
mod attacker;
mod target;
mod torment;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};
use std::{env, fs, thread};

use self::account::Account;
pub use self::target::{Cause, Kind, Place, Server, Store, TAGS, Target, layout};
use self::torment::{Slot, Tally};

/// How much longer an attack goes on if there was nothing of a kind.
const PATIENCE: Duration = Duration::from_secs(120);

const DRIVER: &str = "UIDRING_ATTACK_DRIVER";
const SECONDS: &str = "UIDRING_ATTACK_SECONDS";

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
