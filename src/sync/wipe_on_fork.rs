//! Memory that a forked child finds wiped, and what a ring keeps in it.

#[cfg(all(unix, not(uidring_loom)))]
mod mapped;
#[cfg(all(unix, not(uidring_loom)))]
mod mapping;
#[cfg(uidring_loom)]
mod modelled;
#[cfg(not(any(unix, uidring_loom)))]
mod plain;
#[cfg(all(unix, not(uidring_loom)))]
mod wiping;

use super::AtomicU64;

#[cfg(all(unix, not(uidring_loom)))]
pub(crate) use self::mapped::WipeOnForkMemory;
#[cfg(uidring_loom)]
pub use self::modelled::become_forked_child;
#[cfg(uidring_loom)]
pub(crate) use self::modelled::{WipeOnForkMemory, is_forked_child};
#[cfg(not(any(unix, uidring_loom)))]
pub(crate) use self::plain::{WipeOnForkMemory, is_forked_child};
#[cfg(all(unix, not(uidring_loom)))]
pub(super) use self::wiping::{Entry, wiped_by_kernel};

/// The words that takers and the producer share. Their methods are in `ring::hot_words`.
///
/// All are 0 in a forked child, and in new memory all but `life`. Words that change at different rates are on
/// different pairs of cache lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct HotWords {
    /// The complement of the next number. Changed by every take. In a child it is above every limit, also
    /// one that was read before the fork.
    pub(crate) next: AtomicU64,
    _apart: LinePair,
    /// Up to where takes may add: a `ring::Limit`. Changed when a run is opened or used up.
    pub(crate) limit: AtomicU64,
    /// The index of the open run. Changed when a run is opened.
    pub(crate) cursor: AtomicU64,
    _far_apart: LinePair,
    /// 2^63 minus the oldest number that is fresh; 0 if none is. Changed about once a refresh.
    pub(crate) freshness: AtomicU64,
    /// 1, and 0 in a forked child. Never changed.
    life: AtomicU64,
}

/// Moves the field after it to the next pair of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LinePair;

/// A run in the ring, on a cache line of its own. Its methods are in `ring::slot`.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// The run's index; 0 while there is no run or it is being written.
    pub(crate) flag: AtomicU64,
    pub(crate) first: AtomicU64,
    pub(crate) end: AtomicU64,
    pub(crate) before: AtomicU64,
}
