//! Detects clocks that go back far, for example at the end of a glitch.

use std::fmt;
use std::time::Duration;

use crate::sync::log;
use crate::timestamp::Timestamp;

/// Smaller steps back are not reported: ordinary clock corrections stay below this.
pub(super) const BOUND: Duration = Duration::from_secs(60);

/// Tracks how far the clock is behind the latest time it has shown. Logs once when that reaches [`BOUND`].
pub(super) struct StepBack {
    latest: Timestamp,
    is_told: bool,
    hook: Option<Box<dyn Fn() + Send>>,
}

impl StepBack {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { latest: now, is_told: false, hook: None }
    }

    pub(super) fn on_clock_back(&mut self, hook: Box<dyn Fn() + Send>) {
        self.hook = Some(hook);
    }

    /// Returns how far the clock, which reads `now`, is behind. For the log: `next` is the time of the worker's next
    /// uid, and `limit` is how far ahead of the clock uids may be.
    pub(super) fn look(
        &mut self,
        now: Timestamp,
        next: Timestamp,
        worker_id: u64,
        limit: Option<Duration>,
    ) -> Duration {
        self.latest = self.latest.max(now);
        let behind = self.latest.saturating_since(now);
        let was_told = std::mem::replace(&mut self.is_told, behind >= BOUND);
        if self.is_told && !was_told {
            let lead = next.saturating_since(now);
            let meanwhile = match limit {
                Some(limit) if limit < lead => {
                    "after those that are ready, takes wait or fail until it has caught up"
                }
                _ => "uids stay ahead until the clock has caught up",
            };
            let advice = match self.hook {
                Some(_) => {
                    "The source is asked for another worker id, to go on at the clock's time".into()
                }
                None => format!(
                    "If the clock is right now, a new generator with another worker id starts at its time; \
                     with this one, wait until {next}"
                ),
            };
            log!(
                warn,
                "the clock went back by {behind:?}, to {now}: uids of worker id {worker_id} are \
                 {lead:?} ahead of it, and {meanwhile}. {advice}"
            );
        }
        behind
    }

    pub(super) fn call_hook(&self) {
        if let (true, Some(hook)) = (self.is_told, &self.hook) {
            hook();
        }
    }
}

impl fmt::Debug for StepBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepBack").field("latest", &self.latest).finish_non_exhaustive()
    }
}
