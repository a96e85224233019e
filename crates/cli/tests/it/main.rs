//! The program `uidring`, run as its users run it. Only on Unix can the user's data directory be moved.
#![cfg(all(unix, feature = "sqlite"))]

mod support;

mod bad_inputs;
#[cfg(feature = "bench")]
mod bench;
mod check;
#[cfg(all(feature = "etcd", feature = "mysql", feature = "postgres", feature = "zookeeper"))]
mod doctor;
mod ending;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(target_os = "linux")]
mod faketime;
mod files;
mod format;
mod generate;
#[cfg(all(feature = "mysql", target_os = "linux"))]
mod lease_torture;
#[cfg(feature = "mysql")]
mod leases;
mod links;
mod messages;
#[cfg(feature = "server")]
mod metrics;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "mysql")]
mod mysql_faults;
#[cfg(all(feature = "etcd", feature = "mysql", feature = "postgres", feature = "zookeeper"))]
#[cfg(feature = "server")]
mod ordinals;
#[cfg(all(
    feature = "bench",
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "zookeeper"
))]
mod pages;
mod parse;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(all(feature = "etcd", feature = "mysql"))]
mod ranges;
#[cfg(all(feature = "mysql", feature = "postgres"))]
mod read_rights;
#[cfg(feature = "mysql")]
mod segments;
#[cfg(feature = "server")]
mod serve;
#[cfg(all(feature = "server", feature = "mysql"))]
mod serve_access;
#[cfg(all(feature = "server", feature = "mysql", target_os = "linux"))]
mod serve_faults;
mod sqlite;
mod time;
#[cfg(all(feature = "etcd", feature = "mysql", feature = "postgres"))]
mod used_up;
#[cfg(feature = "zookeeper")]
mod zookeeper;

/// Lists the tests that this build cannot run. The conditions are those of the modules above.
macro_rules! left_out {
    ($($module:ident: $has:meta, $reason:literal;)*) => {$(
        #[cfg(not($has))]
        #[test]
        #[ignore = $reason]
        fn $module() {
            panic!("the program is built without features that these tests need: run scripts/test");
        }
    )*};
}

left_out! {
    etcd: feature = "etcd", "needs etcd: run scripts/test";
    lease_torture: all(feature = "mysql", target_os = "linux"), "needs MariaDB: run scripts/test";
    leases: feature = "mysql", "needs MariaDB: run scripts/test";
    metrics: feature = "server", "needs the feature `server`: run scripts/test";
    mysql: feature = "mysql", "needs MariaDB: run scripts/test";
    mysql_faults: feature = "mysql", "needs MariaDB: run scripts/test";
    ordinals: feature = "server", "needs the feature `server`: run scripts/test";
    pages: all(feature = "bench", feature = "etcd", feature = "mysql", feature = "postgres", feature = "zookeeper"),
        "needs a server of each store: run scripts/test";
    postgres: feature = "postgres", "needs PostgreSQL: run scripts/test";
    read_rights: all(feature = "mysql", feature = "postgres"),
        "needs MariaDB and PostgreSQL: run scripts/test";
    segments: feature = "mysql", "needs MariaDB: run scripts/test";
    serve: feature = "server", "needs the feature `server`: run scripts/test";
    serve_access: all(feature = "server", feature = "mysql"), "needs the feature `server`: run scripts/test";
    serve_faults: all(feature = "server", feature = "mysql", target_os = "linux"), "needs MariaDB: run scripts/test";
    used_up: all(feature = "etcd", feature = "mysql", feature = "postgres"),
        "needs a server of each store: run scripts/test";
    zookeeper: feature = "zookeeper", "needs ZooKeeper: run scripts/test";
}
