//! The same attack on every store, on a disk and in memory; see `uidring_testkit::attack`.
//!
//! It takes 3 s, or UIDRING_ATTACK_SECONDS, for each store and file system. `scripts/attack` runs it for longer.
#![cfg(target_os = "linux")]

#[path = "../../etcd/tests/store/mod.rs"]
mod etcd_store;
#[path = "../../mysql/tests/server/mod.rs"]
mod mysql_server;
#[path = "../../postgres/tests/server/mod.rs"]
mod postgres_server;
#[path = "../../sqlite/tests/store/mod.rs"]
mod sqlite_store;
#[path = "../../zookeeper/tests/store/mod.rs"]
mod zookeeper_store;

use uidring_testkit::attack;
use uidring_testkit::suite::engine::StoreOn;

use etcd_store::EtcdKeys;
use mysql_server::MariaDbServers;
use postgres_server::PostgresServers;
use sqlite_store::Sqlite;
use zookeeper_store::Leaf;

attack!(mod etcd: EtcdKeys, [Workers, Leases]);
attack!(mod mysql: StoreOn::<MariaDbServers>::new(&[]), [Workers, Leases, Segments]);
attack!(mod postgres: StoreOn::<PostgresServers>::new(&[]), [Workers, Leases, Segments]);
attack!(mod sqlite: Sqlite, [Workers, Leases, Segments]);
attack!(mod zookeeper: Leaf, [Workers, Leases]);
