//! Many starts at once, more than there are leases: as many as are free get one each, and the others learn
//! that all are held. 300 of them, or as many as UIDRING_ETCD_HERD says.

use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};
use std::{env, thread};

use uidring::{Bits, Layout, Tick};
use uidring_etcd::{LeaseOptions, LeaseTable, TableError, WorkerTable};
use uidring_testkit::etcd::Etcd;
use uidring_testkit::request;

use crate::support::fresh;

const FREE: u64 = 200;

#[test]
fn as_many_starts_as_leases_are_free_get_one() {
    let bits = Bits { time: 41, worker: 8, sequence: 10 };
    let epoch = "2026-01-01".parse().expect("a time");
    let layout = Layout::new(bits, Tick::Millisecond, epoch).expect("possible");
    let starts = env::var("UIDRING_ETCD_HERD").map_or(300, |text| text.parse().expect("a number"));
    let server = Etcd::start();
    let store = fresh(&server).deadline(Duration::from_secs(60));
    let store = store.attempt_timeout(Duration::from_secs(30));
    while store.worker_ids().assign(&layout).expect("left") < layout.max_worker_id() {}
    let until = "2026-06-01".parse().expect("a time");
    store.leases().reuse(1..=FREE, &layout, until).expect("added");

    let requests = || server.metric("grpc_server_handled_total{");
    let (before, begin) = (requests(), Instant::now());
    let options = LeaseOptions::default().lasts(Duration::from_secs(120)).owner("herd");
    let (together, held) = (Barrier::new(starts), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..starts {
            scope.spawn(|| {
                together.wait();
                let lease = store.leases().lease(&request(layout), &options);
                held.lock().expect("no panic").push(lease);
            });
        }
    });
    let (took, sent) = (begin.elapsed(), requests() - before);
    eprintln!("{starts} starts: {took:?}, {} requests each", sent / starts as f64);
    let mut had = BTreeSet::new();
    let held = held.into_inner().expect("no panic");
    for start in &held {
        match start {
            Ok(lease) => assert!(had.insert(lease.worker_id()), "{lease:?} twice"),
            Err(error) => {
                let all =
                    matches!(error.store(), Some(TableError::NoFreeWorkerId { held: FREE, .. }));
                assert!(all, "{error:?}");
            }
        }
    }
    assert_eq!(had, (1..=FREE).collect());
    // Each start reads all once, tries some, and the rest reads what has changed.
    assert!(sent / (starts as f64) < 60.0, "{sent} requests");
}
