//! Calls into a caller's code: clocks, sources, handlers, stores, backends, wakers and log subscribers. Such
//! code may fork, take ids, panic or be slow, so no lock is held while it runs.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use self::counted::{LockHeld, assert_no_lock_held};

/// Counts the locks that each thread holds, if debug assertions are on, as in the tests.
#[cfg(all(debug_assertions, not(uidring_loom)))]
mod counted {
    use std::cell::Cell;
    use std::marker::PhantomData;
    use std::panic::Location;

    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
        static LAST: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
    }

    /// While this lives, its thread counts as holding one more lock.
    #[derive(Debug)]
    pub(crate) struct LockHeld(PhantomData<*const ()>);

    impl LockHeld {
        #[track_caller]
        pub(crate) fn new() -> Self {
            COUNT.set(COUNT.get() + 1);
            LAST.set(Some(Location::caller()));
            Self(PhantomData)
        }
    }

    impl Drop for LockHeld {
        fn drop(&mut self) {
            COUNT.set(COUNT.get() - 1);
        }
    }

    /// Panics if this thread holds a lock. Call before a caller's code.
    #[track_caller]
    pub(crate) fn assert_no_lock_held() {
        let last = LAST.get();
        assert_eq!(COUNT.get(), 0, "a lock is held; the last one was taken at {last:?}");
    }
}

#[cfg(not(all(debug_assertions, not(uidring_loom))))]
mod counted {
    #[derive(Debug)]
    pub(crate) struct LockHeld;

    impl LockHeld {
        #[inline]
        pub(crate) fn new() -> Self {
            Self
        }
    }

    #[inline(always)]
    pub(crate) fn assert_no_lock_held() {}
}

thread_local!(static IN_A_RECORD: Cell<bool> = const { Cell::new(false) });

/// Runs a caller's code, with no lock held. Returns `None` if it panics. The panic's payload is the caller's,
/// too: if dropping it panics, the second payload is leaked.
#[track_caller]
pub(crate) fn contained<R>(code: impl FnOnce() -> R) -> Option<R> {
    assert_no_lock_held();
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(done) => Some(done),
        Err(panic) => {
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            dropped.unwrap_or_else(mem::forget);
            None
        }
    }
}

/// While this lives, its thread is writing a log record.
#[derive(Debug)]
pub struct Record(PhantomData<*const ()>);

impl Record {
    /// Writes the record. A panic of the subscriber goes no further.
    pub fn write(self, write: impl FnOnce()) {
        contained(write);
    }
}

/// Begins a log record. Returns `None` within another record of this thread. Otherwise a subscriber that takes
/// ids, and so causes records, could recurse without end.
#[track_caller]
pub fn record() -> Option<Record> {
    assert_no_lock_held();
    // A `Record` that is made and dropped here would end the outer one.
    (!IN_A_RECORD.replace(true)).then(|| Record(PhantomData))
}

impl Drop for Record {
    fn drop(&mut self) {
        IN_A_RECORD.set(false);
    }
}

/// Writes to the log: `log!(warn, ...)` is `tracing::warn!(...)`, but asserts that no lock is held, and
/// writes nothing within another record of the same thread.
macro_rules! log {
    ($level:ident, $($text:tt)*) => {
        if let Some(record) = $crate::sync::record() {
            record.write(|| tracing::$level!($($text)*));
        }
    };
}
pub(crate) use log;

#[cfg(all(test, debug_assertions, not(uidring_loom)))]
mod tests {
    use super::*;
    use crate::sync::{ForkGuarded, ForkToken};

    #[test]
    fn a_record_under_a_lock_is_found() {
        let guarded = ForkGuarded::new(ForkToken::current(), 1);
        assert_no_lock_held();
        let guard = guarded.lock().expect("no child");
        let found = catch_unwind(|| log!(info, "under a lock"));
        let text = found.expect_err("found").downcast::<String>().expect("a text");
        assert!(text.contains(file!()), "{text}");
        drop(guard);
        log!(info, "under none");
    }

    #[test]
    fn a_panic_is_contained_whatever_it_is_with() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                std::panic::panic_any(Panics);
            }
        }
        assert_eq!(contained(|| 1), Some(1));
        assert_eq!(contained(|| panic!("once")), None::<()>);
        assert_eq!(contained(|| std::panic::panic_any(Panics)), None::<()>);
    }

    #[test]
    fn a_record_within_a_record_is_left_out() {
        let outer = record();
        assert!(outer.is_some() && record().is_none() && record().is_none());
        drop(outer);
        assert!(record().is_some());
    }
}
