//! Namespaces for generators that stand for other processes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Returns a new namespace. A generator in it starts like the first of a process, whatever else runs here.
pub fn fresh() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("fresh-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
