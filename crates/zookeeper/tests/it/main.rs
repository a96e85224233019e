//! A registry on real ZooKeeper servers.
#![cfg(unix)]

mod leaf;
mod line;

mod faults;
mod outages;
mod registry;
mod versions;
