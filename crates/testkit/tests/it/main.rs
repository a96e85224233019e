//! Tables of leases, each in a SQLite file and on real servers.
#![cfg(unix)]

mod earlier;
mod lease_herd;
mod lease_tables;
