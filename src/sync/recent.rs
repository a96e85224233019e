//! What each thread has found last of its own, so that it finds that again by two loads.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

struct Recent {
    shard: Cell<*const ()>,
    /// The id of the shards that it is in; 0 is no one's.
    of: Cell<u64>,
    /// Whether it is just being changed.
    is_changing: Cell<bool>,
}

thread_local! {
    // Without a destructor, so that a look at it is two loads.
    static RECENT: Recent = const {
        Recent { shard: Cell::new(ptr::null()), of: Cell::new(0), is_changing: Cell::new(false) }
    };
}

/// Returns what the current thread has noted last, if that was with this id.
#[inline]
pub(super) fn shard_of(id: u64) -> Option<*const ()> {
    RECENT.with(|recent| {
        // Twice, for a handler of a signal that comes between: it may note another one.
        let is_ours = recent.of.get() == id;
        compiler_fence(Ordering::SeqCst);
        let shard = recent.shard.get();
        compiler_fence(Ordering::SeqCst);
        (is_ours && recent.of.get() == id).then_some(shard)
    })
}

/// Notes what the current thread has found. A handler of a signal that comes between notes nothing.
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

/// To be called when the current thread gives its number back.
#[cfg(not(uidring_loom))]
pub(super) fn forget() {
    RECENT.with(|recent| recent.of.set(0));
}
