//! A clock that reads one atomic word.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Clock;
use crate::sync::{HotWords, Ordering, WipeOnForkMemory, start_thread};
use crate::timestamp::Timestamp;

/// The operating system's wall clock, read by a background thread once per millisecond. A reading is one atomic load,
/// where the system's takes 20 ns or more.
///
/// It is late by as long as its thread has not run: less than a tenth of a millisecond on an idle machine, but
/// unbounded on a busy one. Meanwhile a clock-driven generator continues in an earlier tick, or waits for the next. No
/// uid repeats.
///
/// The thread wakes at the start of each millisecond, and ends when the last clone is dropped. A forked child has no
/// such thread; there the clock reads the operating system's.
///
/// ```
/// use uidring::ClockedUidGenerator;
/// use uidring::clock::TickerClock;
///
/// let generator =
///     ClockedUidGenerator::snowflake().worker_id(7).clock(TickerClock::start()?).build()?;
/// assert!(generator.next_uid()? < generator.next_uid()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TickerClock {
    /// Its word `next` is the time in milliseconds, or 0 in a forked child.
    memory: WipeOnForkMemory<HotWords>,
    /// Held only by the clones: the thread ends when none is left.
    in_use: Arc<()>,
}

impl TickerClock {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If there is no memory or no thread.
    pub fn start() -> io::Result<Self> {
        let memory = WipeOnForkMemory::new(0).ok_or(io::ErrorKind::OutOfMemory)?;
        let clock = Self { memory: memory.clone(), in_use: Arc::default() };
        let in_use = Arc::downgrade(&clock.in_use);
        let left = look(&memory);
        let work = move || go(&memory, &in_use, left);
        start_thread("uidring-clock", work)?;
        Ok(clock)
    }
}

impl Clock for TickerClock {
    #[inline]
    fn now(&self) -> Timestamp {
        // Relaxed: the time publishes no other data. A forked child finds 0.
        match self.memory.hot().next.load(Ordering::Relaxed) {
            0 => SystemTime::now().into(),
            millis => Timestamp::from_millis(millis.cast_signed()),
        }
    }
}

/// Runs until the last clock is dropped. `left` is the rest of the present millisecond.
fn go(memory: &WipeOnForkMemory<HotWords>, in_use: &Weak<()>, mut left: Duration) {
    loop {
        thread::sleep(left);
        if in_use.strong_count() == 0 {
            return;
        }
        left = look(memory);
    }
}

/// Publishes the time, and returns how much of its millisecond is left.
fn look(memory: &WipeOnForkMemory<HotWords>) -> Duration {
    const MILLISECOND: u32 = 1_000_000;
    let now = SystemTime::now();
    let millis = Timestamp::from(now).as_millis();
    memory.hot().next.store(millis.cast_unsigned(), Ordering::Relaxed);
    // Inexact before 1970; not worth handling.
    let nanos = now.duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    Duration::from_nanos(u64::from(MILLISECOND - nanos % MILLISECOND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Deadline, SystemClock};

    #[test]
    fn it_follows_the_systems_clock_until_it_is_dropped() {
        let clock = TickerClock::start().expect("a thread");
        let end = Deadline::after(Some(Duration::from_secs(20)));
        // Not at once: both move on between the readings.
        while SystemClock.now().saturating_since(clock.now()) > Duration::from_millis(2) {
            assert_ne!(end.remaining(), Some(Duration::ZERO), "it stands still");
        }
        let first = clock.now();
        while clock.now() == first {
            assert_ne!(end.remaining(), Some(Duration::ZERO), "it stands still");
        }
        assert!(clock.now() <= SystemClock.now());
        let in_use = Arc::downgrade(&clock.in_use);
        drop(clock.clone());
        assert_eq!(in_use.strong_count(), 1, "a clone is left");
        drop(clock);
        while in_use.upgrade().is_some() {
            assert_ne!(end.remaining(), Some(Duration::ZERO), "its thread goes on");
        }
    }
}
