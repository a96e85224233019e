//! Random histories of generators, leases and a ZooKeeper registry, in virtual time.
//!
//! Owners of leased worker ids run on hosts with bad clocks and an unreliable connection to their store. One thread
//! does everything, so a seed determines a history.
//!
//! Generators, builders and the lease's state are the real ones. The store is the table in `store.rs`, and a lease's
//! thread is simulated. docs/lease-model.md says what this shows, and what it does not.
//!
//! A store's crate runs its own store beside the model's, and the answers must be equal. Or it models its protocol with
//! the same parts, as `registry` does.

mod beside;
mod check;
mod counts;
mod event;
mod histories;
mod holding;
mod host;
mod issuer;
#[cfg(test)]
mod lives;
mod lock;
mod messages;
#[cfg(feature = "zookeeper")]
pub mod registry;
mod sim;
mod store;
mod trace;
mod world;

pub use self::beside::{Setting, StoreUnderTest, StoredLease};
pub use self::check::Property;
pub use self::counts::Counts;
pub use self::histories::{COUNT, Histories, History, SEED};
pub use self::host::{Host, Suspended};
pub use self::issuer::{Generator, Issued, Issuer};
pub use self::lock::lock;
pub use self::sim::{Begun, ByHand};
pub use self::trace::{Answer, Follower, LeaseSeen, RingSeen, RowSeen, Snapshot, Step, Take};

#[test]
fn histories_of_leases() {
    Histories::from_env(5_000, "cargo test -p uidring-simulation histories_of_leases").run();
}
