//! An etcd server under the suite of all stores; see `uidring_testkit::suite`.
#![cfg(unix)]

mod store;

use uidring_testkit::suite;

use store::EtcdKeys;

suite! {
    mod etcd: EtcdKeys,
    segments: "uidring-etcd has none",
}
