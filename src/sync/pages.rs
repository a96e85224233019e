//! Memory that a forked child finds wiped.

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
pub(crate) use self::mapped::{Life, Pages};
#[cfg(uidring_loom)]
pub use self::modelled::become_forked_child;
#[cfg(uidring_loom)]
pub(crate) use self::modelled::{Life, Pages};
#[cfg(not(any(unix, uidring_loom)))]
pub(crate) use self::plain::{Life, Pages};

/// Four words on a cache line of their own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line(
    pub(crate) AtomicU64,
    pub(crate) AtomicU64,
    pub(crate) AtomicU64,
    pub(crate) AtomicU64,
);

/// Two words that share a cache line with nothing else, nor the line that is fetched with it.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct HotPair(pub(crate) AtomicU64, pub(crate) AtomicU64);

/// What stands before the lines.
#[cfg(all(unix, not(uidring_loom)))]
#[derive(Debug, Default)]
#[repr(C)]
struct Head {
    /// The mark of life, and a word of the owner's.
    life: Line,
    /// At a fixed place, so that a look at them checks no bounds.
    hot: [HotPair; 2],
}
