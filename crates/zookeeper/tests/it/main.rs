//! A registry on real ZooKeeper servers.
#![cfg(unix)]

mod access;
mod ensemble;
mod leaf;
mod line;

mod faults;
mod outages;
mod registry;
mod restored;
mod storm;
#[cfg(feature = "tls")]
mod tls;
mod versions;
