//! The program `uidring`, run as its users run it. Only on Unix can the user's data directory be moved
//! out of the way.
#![cfg(all(unix, feature = "sqlite"))]

mod support;

#[cfg(feature = "bench")]
mod bench;
mod ending;
#[cfg(target_os = "linux")]
mod faketime;
mod generate;
#[cfg(all(feature = "mysql", target_os = "linux"))]
mod lease_torture;
#[cfg(feature = "mysql")]
mod leases;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "mysql")]
mod mysql_faults;
mod parse;
#[cfg(feature = "mysql")]
mod segments;
mod sqlite;
mod time;
#[cfg(feature = "zookeeper")]
mod zookeeper;
