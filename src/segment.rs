//! Segments: dense numbers by tag, from ranges that a database reserves.

pub mod store;
