//! The tables of a real PostgreSQL server, and what may go wrong on the way to it.
#![cfg(unix)]

mod leases;
mod refusals;
mod segments;
#[path = "../server/mod.rs"]
mod server;
mod support;
mod worker_nodes;

use server::PostgresServers;

uidring_testkit::server_tests!(PostgresServers);
