//! Whether this process is about to end, so that no start may wait any longer.

use std::sync::atomic::{AtomicBool, Ordering};

// Relaxed everywhere: it publishes no other data, and waiting starts look again soon.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends the waits of all starts in this process, now and later: they give back what they hold, and fail
/// with `Error::Interrupted`.
pub fn interrupt_starts() {
    IS_INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Returns whether [`interrupt_starts`] was called.
pub fn starts_are_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}
