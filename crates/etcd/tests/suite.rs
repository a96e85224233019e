//! An etcd server under the suite of all stores; see `uidring_testkit::suite`.
#![cfg(unix)]

mod store;

use uidring_testkit::suite;

use store::EtcdKeys;

suite! {
    mod etcd: EtcdKeys,
    worker_ids: yes,
    prune: yes,
    leases: yes,
    rows: yes,
    segments: "uidring-etcd has none",
    server: yes,
    network: yes,
    herd: yes,
    own_clock: yes,
}
