//! Every store under the suite; see `uidring_testkit::suite`.
#![cfg(unix)]

#[path = "../stores/mod.rs"]
mod stores;

use uidring_testkit::suite;

use stores::{EtcdKeys, Leaf, MySql, OrdinalFile, PostgreSql, Sqlite};

suite! {
    mod sqlite: Sqlite,
    worker_ids: yes,
    prune: yes,
    leases: yes,
    rows: yes,
    own_clock: "the clock of a file is that of its host",
}

suite! {
    mod mysql: MySql,
    worker_ids: yes,
    prune: yes,
    leases: yes,
    rows: yes,
    own_clock: yes,
}

suite! {
    mod postgres: PostgreSql,
    worker_ids: yes,
    prune: yes,
    leases: yes,
    rows: yes,
    own_clock: yes,
}

suite! {
    mod etcd: EtcdKeys,
    worker_ids: yes,
    prune: yes,
    leases: yes,
    rows: yes,
    own_clock: yes,
}

suite! {
    mod zookeeper: Leaf,
    worker_ids: yes,
    prune: "a registry forgets no instance",
    leases: yes,
    rows: "a session holds them, which only its end takes away: crates/zookeeper/tests/it/registry.rs",
    own_clock: yes,
}

suite! {
    mod ordinal: OrdinalFile,
    worker_ids: "an ordinal has one worker id",
    prune: "an ordinal has one worker id",
    leases: yes,
    rows: yes,
    own_clock: "the clock of a file is that of its host",
}
