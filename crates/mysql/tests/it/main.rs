//! The tables of a real MySQL-compatible server, and what may go wrong on the way to it.
#![cfg(unix)]

mod certificates;
mod leases;
mod limits;
mod restores;
mod segment_faults;
mod segment_groups;
mod segment_refusals;
mod segment_tags;
mod segments;
mod worker_nodes;
