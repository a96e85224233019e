//! What the tests share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use uidring::{Bits, CachedUidGenerator, Layout, Tick, Uid};
use uidring_etcd::{EtcdStore, LeaseOptions, LeaseTable};
use uidring_testkit::etcd::Etcd;
use uidring_testkit::{namespace, request};

/// A prefix that no other test has.
pub fn fresh(server: &Etcd) -> EtcdStore {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let store = EtcdStore::new(&server.endpoints()).expect("endpoints");
    let prefix = format!("/test{}", NEXT.fetch_add(1, Ordering::Relaxed));
    store.prefix(&prefix).expect("a prefix").deadline(Duration::from_secs(20))
}

/// Three worker ids: 1, 2 and 3.
pub fn small() -> Layout {
    let bits = Bits { time: 41, worker: 2, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// Longer than any test, on however busy a machine.
pub fn options() -> LeaseOptions {
    LeaseOptions::default().lasts(Duration::from_secs(120)).owner("tests")
}

/// Those of a process of its own.
pub fn generator(store: &EtcdStore, options: &LeaseOptions) -> CachedUidGenerator {
    let lease = store.leases().lease(&request(small()), options).expect("free");
    CachedUidGenerator::builder()
        .layout(small())
        .worker(lease)
        .namespace(namespace::fresh())
        .build()
        .expect("possible")
}

pub fn tick(uid: Uid) -> u64 {
    small().decode(uid).expect("of the layout").tick
}
