//! Tables of leases, each in a SQLite file and on real servers.
#![cfg(unix)]

mod earlier;
mod lease_successors;
mod lease_tables;
