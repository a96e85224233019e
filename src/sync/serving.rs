//! Threads that others wait for: those that pad, load segments, renew a lease or ask for another worker id.

use std::cell::Cell;
use std::marker::PhantomData;

use super::imp::thread_local;

#[cfg(not(uidring_loom))]
thread_local!(static DEPTH: Cell<usize> = const { Cell::new(0) });
#[cfg(uidring_loom)]
thread_local!(static DEPTH: Cell<usize> = Cell::new(0));

/// For as long as it lives this thread does what takers wait for. A take in it, by a caller's code that
/// it calls, would wait for itself, and so it does not wait at all.
#[derive(Debug)]
pub(crate) struct Serving(PhantomData<*const ()>);

impl Serving {
    pub(crate) fn begin() -> Self {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Self(PhantomData)
    }

    /// Whether this thread is serving.
    pub(crate) fn is_here() -> bool {
        DEPTH.with(|depth| depth.get() > 0)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}
