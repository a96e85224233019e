//! A cluster of three, each member in a network namespace of its own: members are killed, frozen and cut
//! off, while several holders take uids; see `uidring_testkit::storm`.

use std::time::{Duration, Instant};

use uidring::{Error, Layout};
use uidring_etcd::{EtcdStore, WorkerTable};
use uidring_testkit::cluster;
use uidring_testkit::etcd::Cluster;
use uidring_testkit::storm;

use crate::support::small;

/// As many as there are worker ids.
const HOLDERS: usize = 3;

const LASTS: Duration = Duration::from_secs(1);

/// Longer than the lease, so that all holders lose theirs if nobody renews it.
const FAULT: Duration = Duration::from_secs(2);

/// An election, the time that others have to watch a lost lease, and as much for a busy machine.
const BOUND: Duration = Duration::from_secs(10);

#[test]
fn nothing_comes_twice_whatever_becomes_of_the_members() {
    let cluster = Cluster::start_in_namespaces();
    let store = EtcdStore::new(&cluster.endpoints()).expect("endpoints");
    let store = store.attempt_timeout(Duration::from_secs(1)).deadline(Duration::from_secs(3));
    let taken = storm::run(
        "etcd",
        (HOLDERS, BOUND),
        &mut &cluster,
        &cluster::faults(),
        |_| FAULT,
        |taken, holder| {
            taken.hold_leases(holder, &store.leases(), small(), (LASTS, Duration::MAX));
        },
    );
    storm::assert_within_horizons(&store.leases(), &taken.last_ticks(small()));
}

#[test]
fn a_client_with_the_minority_gets_an_error_that_may_pass_and_others_go_on() {
    let cluster = Cluster::start_in_namespaces();
    let deadline = Duration::from_secs(2);
    let leader = cluster.leader();
    let minority =
        EtcdStore::new(&cluster.server(leader).endpoints()).expect("endpoints").deadline(deadline);
    minority.worker_ids().assign(&Layout::UID_GENERATOR).expect("all is well");
    cluster.network().isolate(leader);
    let start = Instant::now();
    let error = minority.worker_ids().assign(&Layout::UID_GENERATOR).expect_err("a minority");
    let Error::Store(said) = &error else { panic!("{error:?}") };
    assert!(said.may_pass(), "{error:?}");
    assert!(error.to_string().contains("majority"), "{error}");
    assert!(start.elapsed() < deadline * 2, "{:?}", start.elapsed());
    let all = EtcdStore::new(&cluster.endpoints()).expect("endpoints");
    let id = all.worker_ids().assign(&Layout::UID_GENERATOR).expect("a majority");
    assert!(id > 1, "{id}");
    cluster.network().rejoin(leader);
    // What the minority was asked for may be executed now; it was spent.
    let later = minority.deadline(BOUND).worker_ids().assign(&Layout::UID_GENERATOR);
    assert!(later.expect("a majority again") > id);
}
