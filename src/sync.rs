//! Atomics and locks (std's, or loom's in models), and what is built on them: memory that a fork wipes,
//! eventcounts, and calls into a caller's code.
//!
//! The rest of the library locks only through [`ForkGuarded`] and [`EventCount`]. Neither touches its mutex
//! in a forked child: a thread of the parent may have held it at the fork, and then nobody releases it. No
//! lock is held while a caller's code runs, log subscribers included; [`assert_no_lock_held`] checks this in
//! debug builds.

mod boot_time;
mod event;
mod event_count;
mod fork_token;
mod futex;
mod guarded;
mod interruption;
#[cfg(uidring_loom)]
mod mortal;
mod no_block_scope;
mod outside;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(uidring_loom)
))]
mod owner;
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(uidring_loom)
)))]
#[path = "sync/owner/none.rs"]
mod owner;
mod push_list;
mod recent;
mod shards;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(uidring_loom)
))]
mod shared_memory;
mod start_thread;
pub(crate) mod threads;
mod wipe_on_fork;

pub(crate) use self::boot_time::{boot_time, coarse_millis};
pub(crate) use self::event::Event;
pub(crate) use self::event_count::EventCount;
#[cfg(not(uidring_loom))]
pub(crate) use self::event_count::wake_all;
pub(crate) use self::fork_token::ForkToken;
pub(crate) use self::futex::MAX_SLEEP;
pub(crate) use self::guarded::{ForkGuarded, Forked};
pub(crate) use self::imp::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering, fence};
pub use self::interruption::{interrupt_starts, starts_are_interrupted};
#[cfg(all(test, uidring_loom))]
pub(crate) use self::mortal::dies_after;
pub(crate) use self::no_block_scope::NoBlockScope;
pub use self::outside::record;
pub(crate) use self::outside::{assert_no_lock_held, contained, log};
pub(crate) use self::owner::{MarkThread, Owner};
pub(crate) use self::push_list::PushList;
pub(crate) use self::shards::Shards;
pub(crate) use self::start_thread::start_thread;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(uidring_loom)
))]
pub(crate) use self::wipe_on_fork::RegionHeader;
#[cfg(uidring_loom)]
pub use self::wipe_on_fork::become_forked_child;
pub(crate) use self::wipe_on_fork::{HotWords, RingWords, Slot, WipeOnForkMemory};

#[cfg(not(uidring_loom))]
mod imp {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering, fence,
    };
    pub use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread_local;
}

#[cfg(uidring_loom)]
mod imp {
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU32, Ordering, fence,
    };
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread_local;

    pub(crate) use super::mortal::AtomicU64;
}
