//! Tables in a SQLite file.
#![cfg(unix)]

#[path = "../previous/mod.rs"]
mod previous;

mod commits;
mod damage;
mod lease_histories;
mod names;
mod own_connection;
mod versions;
mod virtual_time;
