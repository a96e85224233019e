//! Tables of leases, each in a SQLite file and on a real MySQL-compatible server.
#![cfg(unix)]

mod earlier;
mod lease_herd;
mod lease_tables;
