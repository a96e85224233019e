//! Memory that a forked child finds zeroed, and what lies in it: only atomics, for which zeros, and whatever
//! else another thread or process stores, are valid values.

// `Words` is an unsafe trait.
#![allow(unsafe_code)]

#[cfg(all(unix, not(uidring_loom)))]
mod mapped;
#[cfg(all(unix, not(uidring_loom)))]
mod mapping;
#[cfg(uidring_loom)]
mod modelled;
#[cfg(not(any(unix, uidring_loom)))]
mod plain;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(uidring_loom)
))]
mod region;
#[cfg(all(unix, not(uidring_loom)))]
mod wiping;

use super::AtomicU64;
use super::futex::FutexWords;
use super::imp::AtomicU32;

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

/// Processes cannot share memory here.
#[cfg(all(
    not(uidring_loom),
    not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))
))]
fn unsupported<T>() -> std::io::Result<T> {
    Err(std::io::Error::other("only Linux on x86-64 and AArch64 has what that needs"))
}

/// The words at the beginning of such memory.
///
/// # Safety
///
/// The type consists of atomics, and all zeros are a valid value of it.
pub(crate) unsafe trait Words: Default {
    fn hot(&self) -> &HotWords;
}

/// The words that takes use. Their methods are in `ring::hot_words`.
///
/// New memory has zeros in all but `life`. In a forked child, all are 0, unless processes share the memory.
/// Words that change at different rates are on different pairs of cache lines, because processors fetch lines
/// in pairs.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct HotWords {
    /// The complement of the next number. Every take changes it. In a child, the next number is above every
    /// limit, even one that was read before the fork.
    pub(crate) next: AtomicU64,
    _apart: LinePair,
    /// Up to where takes draw by addition: a `ring::Limit`. Changed when a run is opened or used up.
    pub(crate) limit: AtomicU64,
    /// The index of the open run. Changed when a run is opened.
    pub(crate) cursor: AtomicU64,
    /// The owner's mark (see `owner`) if processes share the memory, otherwise 0.
    pub(crate) mark: AtomicU32,
    _far_apart: LinePair,
    /// 2^63 minus the oldest number that is fresh; 0 if none is. Changed about once a refresh.
    pub(crate) freshness: AtomicU64,
    /// 1, or 0 in a forked child. Set once.
    life: AtomicU64,
}

/// Moves the field after it to the next pair of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LinePair;

/// Everything that a ring's takers and producer share, except the slots. A forked child finds zeros (unless
/// processes share the memory), and a ring of zeros issues nothing.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct RingWords {
    pub(crate) hot: HotWords,
    _apart: LinePair,
    /// The next run's index: all runs below it are published. Written by the producer and read by takers, once
    /// a run.
    pub(crate) tail: AtomicU64,
    /// 0 while the ring is open, or else a `ring::CloseReason`.
    pub(crate) closed: AtomicU64,
    /// 1 while the producer's source has nothing yet, so that takers do not wake the producer.
    pub(crate) paused: AtomicU64,
    /// 1 while the producer has a forecast and comes by itself, so that takers wake it only at half the
    /// threshold.
    pub(crate) forecast: AtomicU64,
    /// When the producer last refreshed a shared ring, in `coarse_millis`.
    pub(crate) refreshed: AtomicU64,
    _far_apart: LinePair,
    pub(crate) counters: RingCounters,
    _farther_apart: LinePair,
    /// Where takers of a shared ring wait for runs.
    pub(crate) published: FutexWords,
    /// Where the producer of a shared ring waits for demand.
    pub(crate) demand: FutexWords,
}

/// The header of shared memory: facts that do not change once the ring is made. The words follow, then the
/// slots.
#[derive(Debug, Default)]
#[repr(C, align(256))]
pub(crate) struct RegionHeader {
    /// See `region::MAGIC`.
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU64,
    /// The length of the memory, in bytes.
    pub(crate) length: AtomicU64,
    /// Where the words begin, in bytes.
    pub(crate) words_at: AtomicU64,
    /// Where the slots begin, in bytes.
    pub(crate) slots_at: AtomicU64,
    pub(crate) slots: AtomicU64,
    /// A run has at most `2^run_bits` numbers.
    pub(crate) run_bits: AtomicU64,
    /// 1 if takers may draw by addition (see `ring::RingOptions::spaced`).
    pub(crate) spaced: AtomicU64,
    /// At this many runs or fewer, takers wake the producer.
    pub(crate) threshold: AtomicU64,
    /// Milliseconds since 1970.
    pub(crate) epoch: AtomicU64,
    /// In milliseconds.
    pub(crate) tick: AtomicU64,
    pub(crate) time_bits: AtomicU64,
    pub(crate) worker_bits: AtomicU64,
    pub(crate) sequence_bits: AtomicU64,
    pub(crate) worker_id: AtomicU64,
    /// The owner's mark while it lives (see `owner`).
    pub(crate) mark: AtomicU64,
}

/// Counters of rare events.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct RingCounters {
    /// Numbers that were skipped: between runs, or discarded.
    pub(crate) skipped: AtomicU64,
    /// Numbers that were drawn but issued to nobody.
    pub(crate) dropped: AtomicU64,
    pub(crate) discarded: AtomicU64,
    pub(crate) dried: AtomicU64,
    /// The last run at whose end a taker found no next run.
    pub(crate) last_dry: AtomicU64,
    /// The complement of how many numbers had been published when the ring was ended, without what the producer
    /// put later; 0 before the end.
    pub(crate) published_at_end: AtomicU64,
}

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

// SAFETY: its fields are atomics, or empty. Zeros are a valid value of each.
unsafe impl Words for HotWords {
    #[inline]
    fn hot(&self) -> &HotWords {
        self
    }
}

// SAFETY: as above.
unsafe impl Words for RingWords {
    #[inline]
    fn hot(&self) -> &HotWords {
        &self.hot
    }
}
