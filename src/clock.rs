//! The one place that reads the time: the wall clock for timestamps, the monotonic clock for
//! deadlines.

#[cfg(not(uidring_loom))]
mod ticker;

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

#[cfg(not(uidring_loom))]
pub use self::ticker::TickerClock;
use crate::sync::{AtomicI64, AtomicU64, Ordering, boot_time, unlocked};
use crate::timestamp::Timestamp;

/// A wall clock, which may be set: it can jump forwards and backwards.
pub trait Clock: Debug + Send + Sync {
    /// The present time.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// Reads a clock, which is a caller's code: no lock is held, and it may have forked the process.
#[inline]
pub fn read(clock: &(impl Clock + ?Sized)) -> Timestamp {
    unlocked();
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

/// A clock that stands still until it is set; for tests. Clones share one time.
///
/// ```
/// use std::time::Duration;
/// use uidring::{Clock, ManualClock};
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
    /// A clock that stands at `now`.
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

/// A point of the monotonic clock at which waiting ends; none means that it never does.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// So far from now. A time beyond what the monotonic clock can express is never reached.
    pub fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// What is left: `None` without a deadline, zero once it has passed.
    pub fn remaining(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }
}

/// A stopwatch on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts it.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// A point of a monotonic clock: the time since its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// `None` beyond what can be expressed, which never comes.
    pub fn after(self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Self)
    }

    /// Zero if the other one is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// A monotonic clock, which nobody sets: the operating system's, or one that tests move.
pub trait Monotonic: Debug + Send + Sync {
    /// The present moment.
    fn moment(&self) -> Moment;
}

/// The operating system's monotonic clock. It counts the time in which the machine is suspended,
/// where the system has such a clock: whatever lasts by the clock of another machine goes on lasting
/// there. `Instant` does not count it, not on Linux and macOS.
#[derive(Clone, Copy, Debug)]
pub struct SystemMonotonic;

impl Monotonic for SystemMonotonic {
    fn moment(&self) -> Moment {
        static BEGINNING: OnceLock<Instant> = OnceLock::new();
        Moment(boot_time().unwrap_or_else(|| BEGINNING.get_or_init(Instant::now).elapsed()))
    }
}

/// A monotonic clock that stands still until it is moved. Clones share one time.
#[cfg(any(test, feature = "simulation"))]
#[derive(Clone, Debug)]
pub struct ManualMonotonic(Arc<AtomicI64>);

#[cfg(any(test, feature = "simulation"))]
impl ManualMonotonic {
    /// A clock that stands at its beginning.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Moves the clock on.
    pub fn advance(&self, nanos: u64) {
        self.0.fetch_add(nanos as i64, Ordering::Relaxed);
    }
}

#[cfg(any(test, feature = "simulation"))]
impl Monotonic for ManualMonotonic {
    fn moment(&self) -> Moment {
        Moment(Duration::from_nanos(self.0.load(Ordering::Relaxed) as u64))
    }
}

/// Says now and then that it is time: at first, and then every ten seconds at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seldom(Option<Stopwatch>);

impl Seldom {
    /// Whether it is time.
    pub fn is_time(&mut self) -> bool {
        let is_time = self.0.is_none_or(|last| last.elapsed() >= Duration::from_secs(10));
        if is_time {
            self.0 = Some(Stopwatch::start());
        }
        is_time
    }
}

/// [`Seldom`] for several threads.
#[derive(Debug, Default)]
pub(crate) struct SharedSeldom {
    /// When it will be time, in seconds of the monotonic clock.
    next: AtomicU64,
}

impl SharedSeldom {
    pub(crate) fn is_time(&self) -> bool {
        let now = SystemMonotonic.moment().0.as_secs();
        // Relaxed: it stands for itself. Of those who meet here one is told.
        let next = self.next.load(Ordering::Relaxed);
        let relaxed = Ordering::Relaxed;
        now >= next && self.next.compare_exchange(next, now + 11, relaxed, relaxed).is_ok()
    }
}
