//! Marks threads that others wait for: those that pad, load segments, renew a lease or ask for another worker id.

use std::cell::Cell;
use std::marker::PhantomData;

use super::imp::thread_local;

#[cfg(not(uidring_loom))]
thread_local!(static DEPTH: Cell<usize> = const { Cell::new(0) });
#[cfg(uidring_loom)]
thread_local!(static DEPTH: Cell<usize> = Cell::new(0));

/// While this lives, the thread does work that takers block on. A take by a caller's code that it calls would
/// wait for itself, so it fails at once.
#[derive(Debug)]
pub(crate) struct NoBlockScope(PhantomData<*const ()>);

impl NoBlockScope {
    pub(crate) fn begin() -> Self {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Self(PhantomData)
    }

    /// Whether this thread is in such a scope.
    pub(crate) fn is_here() -> bool {
        DEPTH.with(|depth| depth.get() > 0)
    }
}

impl Drop for NoBlockScope {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}
