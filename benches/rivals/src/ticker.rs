//! A clock that is one atomic load: ferroid's, whose thread counts the milliseconds.
//!
//! Rivals that take a clock from their caller are measured with their own and with this one, so
//! that none of them is slow only because the operating system's clock is.

use std::time::Duration;

use ferroid::time::{MonotonicClock, TimeSource};

/// 2026-01-01T00:00:00Z, in milliseconds since 1970.
pub const EPOCH_MILLIS: u64 = 1_767_225_600_000;

/// The milliseconds since 2026.
pub fn since_2026() -> MonotonicClock {
    MonotonicClock::with_epoch(Duration::from_millis(EPOCH_MILLIS))
}

/// The milliseconds since 1970.
#[derive(Clone, Debug)]
pub struct Ticker(MonotonicClock);

impl Ticker {
    pub fn start() -> Self {
        Self(MonotonicClock::default())
    }

    #[inline]
    pub fn millis(&self) -> u64 {
        TimeSource::<u64>::current_millis(&self.0)
    }
}
