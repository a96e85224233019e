//! Attacks a store of worker ids, leases and segments. Some processes run several threads and are killed, stopped and
//! continued; others live briefly and start and end all the time. Every id that they get is accounted for.
//!
//! [`attack!`](crate::attack!) makes the tests of a [`Store`](crate::suite::Store). Each test runs the attack in its
//! own process, the driver, whose temporary folder is on the file system under test. The driver starts the attackers;
//! both run this test binary. An attack lasts 3 s, or `UIDRING_ATTACK_SECONDS`.

mod account;
mod attacker;
mod target;
mod torment;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use std::{env, fs, thread};

use uidring::StoreErrorKind;
use uidring::segment::SegmentTag;

use self::account::Account;
pub use self::target::{Kind, Target};
use self::target::{TAGS, layout, millis, place};
use self::torment::{Slot, Tally};
use crate::child::this_test;
use crate::suite::{Site, Terms, is_none_free, kind};
use crate::{chain, request};

/// Makes a module of tests that attack a [`Store`](crate::suite::Store) for these [kinds](crate::attack::Kind), on a
/// disk and in memory. Call it from an integration test: cargo sets `CARGO_TARGET_TMPDIR` only there.
#[macro_export]
macro_rules! attack {
    (mod $name:ident: $store:expr, [$($kind:ident),+]) => {
        mod $name {
            use super::*;

            static TARGET: $crate::attack::Target = $crate::attack::Target {
                name: stringify!($name),
                store: &$store,
                kinds: &[$($crate::attack::Kind::$kind),+],
                module: module_path!(),
            };

            #[test]
            fn on_disk() {
                $crate::attack::on_disk(TARGET, env!("CARGO_TARGET_TMPDIR"));
            }

            #[test]
            fn in_memory() {
                $crate::attack::in_memory(TARGET);
            }

            /// Not a test by itself: the process that conducts an attack.
            #[test]
            fn driver() {
                $crate::attack::drive(TARGET);
            }

            /// Not a test by itself: an attacking process.
            #[test]
            fn attacker() {
                $crate::attack::attack_as_told(TARGET);
            }
        }
    };
}

/// How much longer an attack goes on if a kind got no ids.
const PATIENCE: Duration = Duration::from_secs(120);

const DRIVER: &str = "UIDRING_ATTACK_DRIVER";
const SECONDS: &str = "UIDRING_ATTACK_SECONDS";

/// Attacks on the file system of this folder; pass cargo's `CARGO_TARGET_TMPDIR`.
pub fn on_disk(target: Target, folder: &str) {
    attack(target, Path::new(folder));
}

/// Attacks on Linux's in-memory file system.
pub fn in_memory(target: Target) {
    attack(target, Path::new("/dev/shm"));
}

fn attack(target: Target, folder: &Path) {
    let status = this_test(&target.test("driver"))
        .env("TMPDIR", folder)
        .env(DRIVER, target.name)
        .status()
        .expect("starts");
    assert!(status.success(), "the attack on {} in {} has failed", target.name, folder.display());
}

/// The body of the test `driver`: does nothing unless an attack started it.
pub fn drive(target: Target) {
    if env::var(DRIVER).is_err() {
        return;
    }
    let seconds = env::var(SECONDS).map_or(3, |text| text.parse().expect("seconds"));
    let folder = tempfile::Builder::new().prefix("uidring-").tempdir().expect("a folder");
    let records = folder.path().join("records");
    fs::create_dir_all(records.join("ids")).expect("made");
    let site = target.store.start();
    prepare(target, &*site);
    let tally = Tally::default();
    let attack = |with_outages| {
        let end = SystemTime::now() + Duration::from_secs(seconds);
        thread::scope(|scope| {
            for slot in Slot::all(target.kinds) {
                let (site, records, tally) = (&*site, &records, &tally);
                scope.spawn(move || slot.live(target, site, records, end, tally));
            }
            let tally = &tally;
            scope.spawn(move || torment::watch_for_stalls(end, tally));
            if let Some(server) = site.server().filter(|_| with_outages) {
                let was_away = |since, until| {
                    tally.outages.lock().expect("whole").push((millis(since), millis(until)));
                };
                torment::SERVER.trouble(
                    server,
                    &tally.counts,
                    || SystemTime::now() < end,
                    was_away,
                );
            }
        });
        Account::read(&records)
    };
    let limit = SystemTime::now() + Duration::from_secs(seconds) + PATIENCE;
    let mut account = attack(true);
    // On a busy machine, the server may have been down all the time.
    while target.kinds.iter().any(|kind| account.count(*kind) == 0) && SystemTime::now() < limit {
        account = attack(false);
    }
    report(target, &env::temp_dir(), seconds, &account, &tally);
}

/// Leases all worker ids once, before others use up the counter that they come from, and adds the tags.
fn prepare(target: Target, site: &dyn Site) {
    if target.kinds.contains(&Kind::Leases) {
        let terms = Terms { lasts: PATIENCE, wait_for: Duration::ZERO };
        let mut all = Vec::new();
        for number in 0..layout().workers() {
            let place = place(site.address(0), usize::MAX, format!("first-{number}"));
            let lease = || target.store.lease(&place, &request(layout()), &terms);
            // On a busy machine, a server that has just started may answer late.
            let lease = lease().or_else(|error| match kind(&error) {
                Some(StoreErrorKind::Unreachable | StoreErrorKind::TimedOut) => lease(),
                _ => Err(error),
            });
            match lease {
                Ok(lease) => all.push(lease),
                Err(error) if !all.is_empty() && is_none_free(&error) => break,
                Err(error) => panic!("lease {number} of a new store: {}", chain(&error)),
            }
        }
    }
    if target.kinds.contains(&Kind::Segments) {
        TAGS.iter().for_each(|tag| site.tags().put(&SegmentTag::new(*tag).step(5)));
    }
}

/// The body of the test `attacker`: does nothing unless a driver started it.
pub fn attack_as_told(target: Target) {
    attacker::run(target);
}

fn report(target: Target, place: &Path, seconds: u64, account: &Account, tally: &Tally) {
    let (explained, unexplained) = account.judge(target.store, tally);
    let counts: Vec<_> = Kind::ALL
        .iter()
        .filter(|kind| target.kinds.contains(kind))
        .map(|kind| format!("{} {}", account.count(*kind), kind.name()))
        .collect();
    let twice = &account.ids.twice;
    eprintln!(
        "attack on {} in {}, {seconds} s: ids: {}; twice: {}; {} processes; {}, {} stalls; errors explained: \
         {explained:?}, not explained: {}",
        target.name,
        place.display(),
        counts.join(", "),
        twice.len(),
        tally.starts.load(Ordering::Relaxed),
        tally.counts,
        tally.stalls.lock().expect("whole").len(),
        unexplained.len()
    );
    let some = |texts: &[String]| texts[..texts.len().min(20)].join("\n");
    assert!(twice.is_empty(), "ids that came twice:\n{}", some(twice));
    assert!(unexplained.is_empty(), "errors that nothing explains:\n{}", some(&unexplained));
    for kind in target.kinds {
        assert!(account.count(*kind) > 0, "no {} at all", kind.name());
    }
}
