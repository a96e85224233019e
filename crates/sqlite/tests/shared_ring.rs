//! Owners of shared rings that get their worker ids from a SQLite file are killed and started again, and so are their
//! takers.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::time::Duration;

use uidring::generator::CachedBuilder;
use uidring::{Bits, CachedUidGenerator, Layout, Tick, Timestamp};
use uidring_sqlite::{LeaseOptions, SqliteStore, WorkerRange, WorkerTable};
use uidring_testkit::host_storm::{Owners, storm};

/// With room for the takes of all: 2^22 uids a second.
fn builder() -> CachedBuilder {
    let bits = Bits { time: 31, worker: 10, sequence: 22 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    CachedUidGenerator::builder().layout(layout).shared()
}

#[test]
fn owners_with_new_worker_ids_repeat_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    storm(Owners::Different, |_| {
        let store = SqliteStore::new(folder.path().join("uidring.db")).create(true);
        builder().worker_from(store.worker_nodes()).build().expect("builds")
    });
}

/// There is only one worker id. After a death it is free once its lease has expired.
#[test]
fn owners_with_one_leased_worker_id_keep_the_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let second = Duration::from_secs(1);
    storm(Owners::InOneOrder, |life| {
        let store = SqliteStore::new(folder.path().join("uidring.db")).create(true);
        if life == 1 {
            let range = WorkerRange::new(1, 1).expect("one worker id");
            store.worker_nodes().record_range(range).expect("recorded");
        }
        let leases = store.leases();
        let options = LeaseOptions::default().lasts(2 * second).wait_for(30 * second);
        // A start waits until the clock has passed what the last owner borrowed.
        builder().worker_from(leases.options(options)).max_borrow(second).build().expect("builds")
    });
}
