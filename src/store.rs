//! Worker ids from data bases.

pub mod sqlite;
