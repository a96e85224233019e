//! Whether this process is about to end, so that no start should wait any longer.

use std::sync::atomic::{AtomicBool, Ordering};

// Relaxed, everywhere: it publishes no other data, and whoever waits looks again soon.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends all waits of starts in this process, for good: they give back what they hold, and fail with
/// `Error::Interrupted`.
pub fn interrupt_starts() {
    IS_INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Returns whether [`interrupt_starts`] was called.
pub fn starts_are_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}
