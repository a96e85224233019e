//! Atomics of the model checker that can stop their thread for good before any operation, as SIGKILL stops a process.

#![cfg_attr(not(test), allow(dead_code))]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loom::sync::atomic::{AtomicU64 as Inner, Ordering};

loom::thread_local!(
    /// How many operations the thread has left, if it is to die.
    static LEFT: Cell<Option<u32>> = Cell::new(None);
);

/// The panic that ends a thread.
struct Death;

/// Runs `work`, but stops it once it has done this many operations; then returns `None`. `work` must hold nothing
/// whose destructor changes what others share, because a killed process runs no destructors.
pub(crate) fn dies_after<T>(operations: u32, work: impl FnOnce() -> T) -> Option<T> {
    LEFT.with(|left| left.set(Some(operations)));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    LEFT.with(|left| left.set(None));
    match outcome {
        Ok(done) => Some(done),
        Err(panic) if panic.is::<Death>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

fn count() {
    LEFT.with(|left| match left.get() {
        None => {}
        Some(0) => {
            left.set(None);
            resume_unwind(Box::new(Death));
        }
        Some(operations) => left.set(Some(operations - 1)),
    });
}

#[derive(Debug, Default)]
pub(crate) struct AtomicU64(Inner);

macro_rules! counted {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[track_caller]
        pub(crate) fn $name(&self, $($argument: $type),*) -> $result {
            count();
            self.0.$name($($argument),*)
        }
    )*};
}

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        Self(Inner::new(value))
    }

    /// A load by the kernel, which does not die.
    pub(crate) fn by_kernel(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    counted! {
        load(order: Ordering) -> u64;
        store(value: u64, order: Ordering) -> ();
        fetch_add(value: u64, order: Ordering) -> u64;
        fetch_sub(value: u64, order: Ordering) -> u64;
        fetch_and(value: u64, order: Ordering) -> u64;
        fetch_or(value: u64, order: Ordering) -> u64;
        fetch_max(value: u64, order: Ordering) -> u64;
        fetch_min(value: u64, order: Ordering) -> u64;
        compare_exchange(
            before: u64, after: u64, success: Ordering, failure: Ordering
        ) -> Result<u64, u64>;
    }

    #[track_caller]
    pub(crate) fn fetch_update(
        &self,
        success: Ordering,
        failure: Ordering,
        change: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        count();
        self.0.fetch_update(success, failure, change)
    }
}
