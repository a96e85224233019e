//! How long a layout's time field lasts, and the warnings before its end.

use std::time::Duration;

use crate::layout::Layout;
use crate::sync::log;
use crate::timestamp::Timestamp;

const DAY: Duration = Duration::from_secs(86_400);

/// Building a generator logs a warning if less than this is left.
pub(super) const SHORT_LIFE: Duration = DAY.saturating_mul(365);

/// The warnings of a running generator. Each is logged once.
const WARNINGS: [(Duration, &str); 4] = [
    (SHORT_LIFE, "a year"),
    (DAY.saturating_mul(30), "a month"),
    (DAY.saturating_mul(7), "a week"),
    (DAY, "a day"),
];

const WINDOW: Duration = Duration::from_secs(10);

/// Predicts the end of the time field: by the clock, or sooner if ticks are used faster than they pass.
#[derive(Debug)]
pub(super) struct Forecast {
    layout: Layout,
    /// The clock and the next tick's time at the start of the interval.
    since: (Timestamp, Timestamp),
    /// Seconds of the field used per second.
    speed: f64,
    warned: usize,
}

impl Forecast {
    pub(super) fn new(layout: Layout, now: Timestamp, next: Timestamp) -> Self {
        // The builder has warned of what the clock alone leaves.
        let left = layout.remaining_life(now);
        let warned = WARNINGS.iter().take_while(|(limit, _)| left < *limit).count();
        Self { layout, since: (now, next), speed: 1.0, warned }
    }

    /// Returns what is left, given the clock and the time of the next tick, which is at most `max_borrow` ahead.
    pub(super) fn remaining(
        &mut self,
        now: Timestamp,
        next: Timestamp,
        max_borrow: Option<Duration>,
    ) -> Duration {
        let passed = now.saturating_since(self.since.0);
        if passed >= WINDOW {
            let used = next.saturating_since(self.since.1);
            self.speed = (used.as_secs_f64() / passed.as_secs_f64()).max(1.0);
            self.since = (now, next);
        } else if now < self.since.0 {
            self.since = (now, next);
        }
        let left = self.layout.remaining_life(next.max(now));
        let by_clock = self.layout.remaining_life(now);
        let at_least = max_borrow.map_or(Duration::ZERO, |limit| by_clock.saturating_sub(limit));
        let left = left.div_f64(self.speed).max(at_least);
        self.warn(left);
        left
    }

    fn warn(&mut self, left: Duration) {
        let mut due = None;
        while let Some((_, name)) = WARNINGS.get(self.warned).filter(|(limit, _)| left < *limit) {
            due = Some(name);
            self.warned += 1;
        }
        if let Some(name) = due {
            log!(
                warn,
                seconds = left.as_secs(),
                speed = self.speed,
                last_instant = %self.layout.last_instant(),
                "less than {name} of uids is left at the present rate: plan a layout with a later \
                 epoch or more time bits"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_interval_whenever_it_is_looked_at() {
        let at = |seconds| Timestamp::from_millis(seconds * 1_000);
        let layout = Layout::UID_GENERATOR;
        let begin = layout.epoch().as_millis() / 1_000;
        let mut forecast = Forecast::new(layout, at(begin), at(begin));
        let mut look = |now, next| {
            forecast.remaining(at(begin + now), at(begin + next), None);
            forecast.speed
        };
        // Ten seconds of the field each, while the interval has not passed.
        assert_eq!([look(0, 10), look(1, 20), look(9, 100)], [1.0; 3]);
        assert_eq!(look(10, 110), 11.0);
        assert_eq!(look(15, 120), 11.0, "of the interval before");
        assert_eq!(look(20, 130), 2.0);
        // Measured from the time to which the clock was set back.
        assert_eq!(look(5, 140), 2.0);
        assert_eq!(look(15, 170), 3.0);
    }

    #[test]
    fn borrowing_brings_the_end_nearer() {
        let layout = Layout::UID_GENERATOR;
        let now: Timestamp = "2034-01-01".parse().expect("a time");
        let mut forecast = Forecast::new(layout, now, now);
        assert_eq!(forecast.warned, 1, "the year was spoken of");
        let by_clock = layout.remaining_life(now);
        assert_eq!(forecast.remaining(now, now, None), by_clock);
        // 20 s pass and use 2,000 s of the field.
        let later = now.saturating_add(Duration::from_secs(20));
        let next = now.saturating_add(Duration::from_secs(2_000));
        let an_hour = Duration::from_secs(3_600);
        let limited = forecast.remaining(later, next, Some(an_hour));
        assert_eq!(limited, layout.remaining_life(later) - an_hour, "the limit ends it");
        assert_eq!(forecast.warned, 1);
        let left = forecast.remaining(later, next, None);
        let expected = (by_clock.as_secs_f64() - 2_000.0) / 100.0;
        assert!((left.as_secs_f64() - expected).abs() < 1.0, "{left:?} for {expected}");
        assert_eq!(forecast.warned, 3, "a month and a week, not yet a day");
        let end = layout.last_instant();
        assert_eq!(forecast.remaining(end.saturating_add(DAY), end, None), Duration::ZERO);
        assert_eq!(forecast.warned, 4);
    }
}
