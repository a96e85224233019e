//! Worker ids and leases on real etcd servers.
#![cfg(unix)]

mod cluster;
mod herd;
mod leases;
mod lost_answers;
mod pause;
mod refusals;
mod support;
mod worker_ids;
