//! The only module that reads the time: the wall clock for timestamps, the monotonic clock for deadlines.

#[cfg(not(uidring_loom))]
mod alarm;
#[cfg(uidring_loom)]
#[path = "clock/alarm/none.rs"]
mod alarm;
pub(crate) mod monotonic;
#[cfg(not(uidring_loom))]
mod ticker;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub(crate) use self::alarm::Alarm;
pub(crate) use self::monotonic::{
    Deadline, LogThrottle, Moment, Monotonic, SharedLogThrottle, Stopwatch, SystemMonotonic,
};
#[cfg(not(uidring_loom))]
pub use self::ticker::TickerClock;
use crate::sync::{AtomicI64, Ordering, assert_no_lock_held};
use crate::timestamp::Timestamp;

/// A wall clock. It may be set, so it can jump forwards and backwards.
pub trait Clock: Debug + Send + Sync {
    /// Returns the present time.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for Box<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// Reads a clock. This is user code: no lock may be held, and it may fork.
#[doc(hidden)]
#[inline]
#[doc(hidden)]
pub fn read(clock: &(impl Clock + ?Sized)) -> Timestamp {
    assert_no_lock_held();
    clock.now()
}

/// The operating system's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// A clock for tests that stands still until you set it. Clones share one time.
///
/// ```
/// use std::time::Duration;
/// use uidring::clock::{Clock, ManualClock};
///
/// let clock = ManualClock::new("2026-06-01".parse()?);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), "2026-06-01T00:00:01Z".parse()?);
/// clock.set("2026-05-01".parse()?); // it can go backwards
/// assert_eq!(clock.now(), "2026-05-01".parse()?);
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Returns a clock that stands at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.as_millis())))
    }

    /// Sets the clock, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        // Relaxed, like the read: the clock publishes no other data.
        self.0.store(now.as_millis(), Ordering::Relaxed);
    }

    /// Moves the clock forwards.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().saturating_add(by));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}
