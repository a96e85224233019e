//! Exhaustive models: of the leases of a table, of the reservation in a ZooKeeper registry, and of the load of
//! a segment. [`stateright`] visits every state that each can come to within its bounds, and every property is
//! looked at in each. docs/lease-model.md has the figures.
//!
//! The models are written to be read beside the code: comments name the file whose step a step stands for. An
//! action is one thing that a real history records, so that a trace of the code can be replayed as one of the
//! model's.
//!
//! - [`leases`]: `UIDRING_LEASE`, its owners, and what they issue.
//! - [`reservation`]: an instance's nodes in ZooKeeper, sessions, and what its processes issue.
//! - [`segments`]: a row of `leaf_alloc`, its loaders, and what they issue.
//!
//! What time does is part of a model only where a promise depends on it; see [`Clocks`].

mod check;
pub mod leases;
mod network;
pub mod reservation;
mod scale;
pub mod segments;

pub use self::check::{Checked, Mutated, check, check_mutation};
pub use self::network::Network;
pub use self::scale::{Bits, Full, Number, Ranges, Scale, Small, Uids};

/// What clocks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clocks {
    /// Anything. Time is no part of the state: at each step a lease may have run out by the store's clock, or
    /// not, and the deadline of an owner may have passed, or not. Every history of any real clocks, set in any
    /// direction at any time, is one of these.
    Anything,
    /// They run as the margin of a lease assumes, so that time is counted: an owner's clock is slower than the
    /// store's by one unit of three at most. What is promised only then is checked only then.
    Calm,
}
