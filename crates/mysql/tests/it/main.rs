//! The tables of a real MySQL-compatible server, and what may go wrong on the way to it.
#![cfg(unix)]

mod certificates;
mod limits;
mod restores;
mod segment_faults;
mod segment_refusals;
mod segment_tags;
mod segments;
#[path = "../server/mod.rs"]
mod server;
mod worker_nodes;

use server::MariaDbServers;

uidring_testkit::server_tests!(MariaDbServers);
