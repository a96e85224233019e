//! Worker ids and leases on real etcd servers.
#![cfg(unix)]

mod cluster;
mod leases;
mod refusals;
mod support;
mod worker_ids;
