//! For tests of uidring and of its stores: private servers, proxies in front of them, forked children, and the attack
//! that every store must survive.
//!
//! Errors in here panic.

#[cfg(target_os = "linux")]
pub mod attack;
#[cfg(any(feature = "etcd", feature = "mariadb", feature = "postgres", feature = "zookeeper"))]
pub mod certificates;
mod chain;
#[cfg(unix)]
pub mod child;
#[cfg(all(
    unix,
    any(feature = "etcd", feature = "mariadb", feature = "postgres", feature = "zookeeper")
))]
pub mod cluster;
#[cfg(all(unix, any(feature = "mariadb", feature = "postgres")))]
mod database;
pub mod deadline;
pub mod docs;
#[cfg(all(unix, feature = "etcd"))]
pub mod etcd;
#[cfg(unix)]
pub mod fork;
pub mod history;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod host_storm;
pub mod log;
#[cfg(all(unix, feature = "mariadb"))]
pub mod mariadb;
pub mod namespace;
#[cfg(all(
    unix,
    any(feature = "etcd", feature = "mariadb", feature = "postgres", feature = "zookeeper")
))]
pub mod network;
#[cfg(unix)]
pub mod plan;
#[cfg(all(unix, feature = "postgres"))]
pub mod postgres;
#[cfg(all(
    unix,
    any(feature = "etcd", feature = "mariadb", feature = "postgres", feature = "zookeeper")
))]
mod process;
pub mod proxy;
pub mod record;
mod request;
#[cfg(all(
    unix,
    any(feature = "etcd", feature = "mariadb", feature = "postgres", feature = "zookeeper")
))]
mod server;
#[cfg(all(unix, feature = "servers", any(feature = "mariadb", feature = "postgres")))]
pub mod servers;
pub mod splitter;
pub mod storm;
#[cfg(unix)]
pub mod suite;
#[cfg(all(unix, feature = "zookeeper"))]
pub mod zookeeper;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/host-rings.md")]
mod docs_host_rings {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/kubernetes.md")]
mod docs_kubernetes {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/leases.md")]
mod docs_leases {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/postgresql.md")]
mod docs_postgresql {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/etcd.md")]
mod docs_etcd {}

pub use self::chain::chain;
pub use self::request::request;
