//! The monotonic clock: deadlines, elapsed time, and rate limits of log lines.

use std::fmt::Debug;
#[cfg(any(test, feature = "simulation"))]
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(any(test, feature = "simulation"))]
use crate::sync::AtomicI64;
#[cfg(not(uidring_loom))]
use crate::sync::PushList;
use crate::sync::{AtomicU64, Ordering, boot_time};

/// A point of the monotonic clock at which waiting ends, or none if it never does.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the deadline this long from now. One beyond what the clock can express never comes.
    pub fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Returns the time left: `None` without an end, zero once it has passed.
    pub fn remaining(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Returns whether it has passed.
    pub fn is_over(self) -> bool {
        self.remaining() == Some(Duration::ZERO)
    }
}

/// A stopwatch on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts a stopwatch.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// A point of a monotonic clock: the time since the clock's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// Returns the moment this much later, or `None` beyond what can be expressed.
    pub fn after(self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Self)
    }

    /// Returns the nanoseconds since the clock's start. 64 bits hold 584 years.
    pub(crate) fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the time since `earlier`; zero if that is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// A monotonic clock: the operating system's, or one that tests advance.
pub trait Monotonic: Debug + Send + Sync {
    /// Returns the present moment.
    fn moment(&self) -> Moment;
}

/// The operating system's monotonic clock. Where possible, it counts the time for which the machine is suspended,
/// because the lease goes on running out in its store. On Linux and macOS, `Instant` does not count that time.
#[derive(Clone, Copy, Debug)]
pub struct SystemMonotonic;

impl Monotonic for SystemMonotonic {
    fn moment(&self) -> Moment {
        Moment(boot_time().unwrap_or_else(since_first_look))
    }
}

/// Returns the time since the first call in this process. A forked child goes on from its parent's first call, if there
/// was one.
///
/// Takes no lock, because another thread could hold it at a fork, and the child would then wait for it forever.
#[cfg(not(uidring_loom))]
fn since_first_look() -> Duration {
    static FIRST: PushList<Instant> = PushList::new();
    FIRST.newest_or(|_| true, Instant::now).elapsed()
}

/// The models have no deadlines.
#[cfg(uidring_loom)]
fn since_first_look() -> Duration {
    Duration::ZERO
}

/// A monotonic clock that stands still until a test advances it. Clones share one time.
#[cfg(any(test, feature = "simulation"))]
#[derive(Clone, Debug)]
pub struct ManualMonotonic(Arc<AtomicI64>);

#[cfg(any(test, feature = "simulation"))]
impl ManualMonotonic {
    /// Returns a clock that stands at its start.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Advances the clock.
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
    /// When the next line may be written, in seconds of the monotonic clock.
    next: AtomicU64,
}

impl SharedLogThrottle {
    pub(crate) fn is_due(&self) -> bool {
        let now = SystemMonotonic.moment().0.as_secs();
        // Relaxed: the value publishes nothing else. Of racing threads, one wins.
        let next = self.next.load(Ordering::Relaxed);
        let relaxed = Ordering::Relaxed;
        now >= next && self.next.compare_exchange(next, now + 11, relaxed, relaxed).is_ok()
    }
}

#[cfg(all(test, not(uidring_loom)))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn all_threads_count_from_one_first_look() {
        let looks = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(since_first_look)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).max()
        });
        assert!(since_first_look() >= looks.expect("some"));
    }
}
