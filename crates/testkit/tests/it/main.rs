//! Tables of leases, each in a SQLite file and on real servers, and how those servers start.
#![cfg(unix)]

mod database_urls;
mod lease_tables;
mod start_again;
mod unwind_safe;
