//! The monotonic clock: deadlines, elapsed time, and how often a log line may be written.

use std::fmt::Debug;
#[cfg(any(test, feature = "simulation"))]
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[cfg(any(test, feature = "simulation"))]
use crate::sync::AtomicI64;
use crate::sync::{AtomicU64, Ordering, boot_time};

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

/// Rate-limits a log line to one per ten seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogThrottle(Option<Stopwatch>);

impl LogThrottle {
    /// Returns whether the line may be written now.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|last| last.elapsed() >= Duration::from_secs(10));
        if is_due {
            self.0 = Some(Stopwatch::start());
        }
        is_due
    }
}

/// [`LogThrottle`] for several threads.
#[derive(Debug, Default)]
pub(crate) struct SharedLogThrottle {
    /// When the line may be written next, in seconds of the monotonic clock.
    next: AtomicU64,
}

impl SharedLogThrottle {
    pub(crate) fn is_due(&self) -> bool {
        let now = SystemMonotonic.moment().0.as_secs();
        // Relaxed: the value publishes nothing else. Of threads that race, one wins.
        let next = self.next.load(Ordering::Relaxed);
        let relaxed = Ordering::Relaxed;
        now >= next && self.next.compare_exchange(next, now + 11, relaxed, relaxed).is_ok()
    }
}
