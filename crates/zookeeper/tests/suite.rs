//! A ZooKeeper server under the suite of all stores; see `uidring_testkit::suite`.
#![cfg(unix)]

mod store;

use uidring_testkit::suite;

use store::Leaf;

suite! {
    mod zookeeper: Leaf,
    prune: "a registry forgets no instance",
    ranges: "ZooKeeper numbers the instances",
    rows: "a session holds them, which only its end takes away: crates/zookeeper/tests/it/registry.rs",
    segments: "Leaf has them in a database",
    herd: "a start waits for the session of whoever has its name",
}
