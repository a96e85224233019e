//! Namespaces for generators that stand for those of different processes.

use std::sync::atomic::{AtomicU64, Ordering};

/// A namespace that nobody else has: whatever else runs in this process, a generator in it starts as
/// the first of a process does.
pub fn fresh() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("fresh-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
