//! Tables in a SQLite file.
#![cfg(unix)]

mod bad_rows;
mod commits;
mod damage;
mod errors;
mod lease_histories;
mod names;
mod own_connection;
mod triggers;
mod versions;
mod virtual_time;
