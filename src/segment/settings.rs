//! The settings of a generator.

use std::sync::Arc;
use std::time::Duration;

use super::step::StepRule;
use crate::clock::{Clock, SystemClock};
use crate::policy::TakePolicy;

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) take_policy: TakePolicy,
    pub(super) prefetch: u32,
    pub(super) depth: u64,
    pub(super) max_depth: u64,
    pub(super) step_rule: StepRule,
    pub(super) refresh: Duration,
    pub(super) retry: Retry,
    /// Measures how long a segment lasts.
    pub(super) clock: Arc<dyn Clock>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            take_policy: TakePolicy::default(),
            prefetch: 10,
            depth: 2,
            max_depth: 4,
            step_rule: StepRule::default(),
            refresh: Duration::from_secs(60),
            retry: Retry { first: Duration::from_millis(10), longest: Duration::from_secs(1) },
            clock: Arc::new(SystemClock),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub(super) first: Duration,
    pub(super) longest: Duration,
}

impl Retry {
    /// Returns the pauses after refusals, which do not pass by themselves: from the longest pause up to the refresh
    /// interval.
    pub(super) fn of_refusals(self, refresh: Duration) -> Self {
        Self { first: self.longest, longest: refresh.max(self.longest) }
    }

    /// Returns the pause after `failed` failures in a row. It doubles each time.
    pub(super) fn pause(self, failed: u32) -> Duration {
        let doublings = failed.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let Settings { retry, .. } = Settings::default();
        let pauses = [1, 2, 3, 7, 8, 1_000].map(|failed| retry.pause(failed).as_millis());
        assert_eq!(pauses, [10, 20, 40, 640, 1_000, 1_000]);
        let refusals = retry.of_refusals(Duration::from_secs(60));
        let pauses = [1, 2, 6, 7, 1_000].map(|failed| refusals.pause(failed).as_secs());
        assert_eq!(pauses, [1, 2, 32, 60, 60]);
    }
}
