//! The tables of a real PostgreSQL server, and what may go wrong on the way to it.
#![cfg(unix)]

mod leases;
mod refusals;
mod restores;
mod segment_groups;
mod segments;
mod support;
mod worker_nodes;
