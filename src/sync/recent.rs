//! Remembers the shard that each thread found last, so that finding it again costs only a few loads.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

struct Recent {
    shard: Cell<*const ()>,
    /// The id of the `Shards` that it is in; 0 for none.
    of: Cell<u64>,
    /// Whether `note` is running.
    is_changing: Cell<bool>,
}

thread_local! {
    // Without a destructor, so that an access need not check whether it still exists.
    static RECENT: Recent = const {
        Recent { shard: Cell::new(ptr::null()), of: Cell::new(0), is_changing: Cell::new(false) }
    };
}

/// Returns the shard that the current thread noted last, if it was noted with this id.
#[inline]
pub(super) fn shard_of(id: u64) -> Option<*const ()> {
    RECENT.with(|recent| {
        // Check the id before and after: a signal handler in between may note another shard.
        let is_ours = recent.of.get() == id;
        compiler_fence(Ordering::SeqCst);
        let shard = recent.shard.get();
        compiler_fence(Ordering::SeqCst);
        (is_ours && recent.of.get() == id).then_some(shard)
    })
}

/// Notes a shard that the current thread has found. A signal handler that interrupts this notes nothing.
#[inline]
pub(super) fn note(of: u64, shard: *const ()) {
    RECENT.with(|recent| {
        if recent.is_changing.replace(true) {
            return;
        }
        compiler_fence(Ordering::SeqCst);
        recent.of.set(0);
        compiler_fence(Ordering::SeqCst);
        recent.shard.set(shard);
        compiler_fence(Ordering::SeqCst);
        recent.of.set(of);
        compiler_fence(Ordering::SeqCst);
        recent.is_changing.set(false);
    });
}

/// Forgets the current thread's shard. Call before the thread gives its number back.
#[cfg(not(uidring_loom))]
pub(super) fn forget() {
    RECENT.with(|recent| recent.of.set(0));
}
