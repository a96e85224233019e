//! A clock that costs one atomic load: ferroid's, whose thread counts milliseconds.
//!
//! Rivals whose clock can be set are measured with their own and with this one, so that none is slow only because of
//! the operating system's clock.

use std::time::Duration;

use ferroid::time::{MonotonicClock, TimeSource};

/// 2026-01-01T00:00:00Z, in milliseconds since 1970.
pub const EPOCH_MILLIS: u64 = 1_767_225_600_000;

/// Returns a clock of milliseconds since 2026.
pub fn since_2026() -> MonotonicClock {
    MonotonicClock::with_epoch(Duration::from_millis(EPOCH_MILLIS))
}

/// A clock of milliseconds since 1970.
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
