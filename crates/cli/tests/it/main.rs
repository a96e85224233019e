//! The program `uidring`, run as its users run it. Only on Unix can the user's data directory be moved
//! out of the way.
#![cfg(all(unix, feature = "sqlite"))]

mod support;

mod bad_inputs;
#[cfg(feature = "bench")]
mod bench;
mod check;
#[cfg(all(
    feature = "bench",
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "zookeeper"
))]
mod docs;
mod ending;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(target_os = "linux")]
mod faketime;
mod files;
mod format;
mod generate;
#[cfg(all(
    feature = "bench",
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "zookeeper"
))]
mod help;
#[cfg(all(feature = "mysql", target_os = "linux"))]
mod lease_torture;
#[cfg(feature = "mysql")]
mod leases;
mod messages;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "mysql")]
mod mysql_faults;
#[cfg(feature = "server")]
mod ordinals;
mod parse;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(all(
    feature = "bench",
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "zookeeper"
))]
mod readme;
#[cfg(feature = "mysql")]
mod segments;
#[cfg(feature = "server")]
mod serve;
#[cfg(all(feature = "server", feature = "mysql", target_os = "linux"))]
mod serve_faults;
mod sqlite;
mod time;
#[cfg(feature = "zookeeper")]
mod zookeeper;
