//! Owners of leased worker ids on hosts with bad clocks, and a store that is hard to reach: random
//! histories of them, in virtual time. One thread does everything, so that a seed tells all.
//!
//! Generators, builders and the state of a lease in use are the real ones; the store is the table
//! of `store.rs`, and a lease's thread is played. docs/lease-model.md tells what is shown, and what
//! is not.
//!
//! The crate of a store has its own store run beside the model's, which must answer as that does; or it
//! makes a model of its protocol of the same parts. This module is outside the promise of semantic
//! versioning: any release may change it.

mod beside;
mod check;
mod counts;
mod event;
mod histories;
mod holding;
mod host;
mod issuer;
mod messages;
mod sim;
#[cfg(all(test, not(uidring_loom)))]
mod simulation;
mod store;
mod trace;
mod world;

pub use self::beside::{Setting, StoreUnderTest, StoredLease};
pub use self::check::Property;
pub use self::counts::Counts;
pub use self::histories::{COUNT, Histories, History, SEED};
pub use self::host::{Host, Suspended};
pub use self::issuer::{Generator, Issued, Issuer};
pub use self::sim::{Begun, ByHand};
pub use self::trace::{Answer, Follower, LeaseSeen, RingSeen, RowSeen, Snapshot, Step, Take};
pub use crate::clock::monotonic::ManualMonotonic;
pub use crate::sync::lock;
pub use crate::worker::{RenewalState, Renewer, Request, Task};

#[test]
fn histories_of_leases() {
    Histories::from_env(5_000, "cargo test --lib histories_of_leases").run();
}
