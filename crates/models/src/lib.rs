//! Exhaustive models of the leases in a table, the reservation in a ZooKeeper registry, and the load of a segment.
//! [`stateright`] checks every property in every state within a model's bounds. docs/lease-model.md has the figures.
//!
//! Read the models beside the code: comments name the file that a step models. An action is one event of a real
//! history, so traces of the code can be replayed in the model.
//!
//! - [`leases`]: `UIDRING_LEASE`, its owners, and what they issue.
//! - [`reservation`]: an instance's nodes in ZooKeeper, sessions, and what its processes issue.
//! - [`segments`]: a row of `leaf_alloc`, its loaders, and what they issue.
//!
//! Time is part of a model only where a promise depends on it; see [`Clocks`].

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
    /// Anything. The state has no time: at each step, a lease may have expired by the store's clock or not, and an
    /// owner's deadline may have passed or not. This covers all real clocks, set in any direction at any time.
    Anything,
    /// They stay within the margin of a lease: an owner's clock is slower than the store's by at most one unit in
    /// three. Time is counted, and promises that depend on it are checked.
    Calm,
}
