//! Watches names whose uids run ahead of the clock, to warn before they reach the limit, where clients wait or get
//! errors.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use uidring::CachedUidGenerator;
use uidring::generator::CachedStats;

/// A shorter limit is meant for a steady rate, and is reached every day.
const SHORTEST_LIMIT: Duration = Duration::from_secs(60);

/// How far the clock must go back to be a problem.
const STEP_BACK: Duration = Duration::from_secs(60);

/// Whether a name's uids are too far ahead of the clock.
#[derive(Debug, Default)]
pub struct Lead {
    /// The last problem found.
    cause: Mutex<Option<Cause>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    /// Clients ask for more than the layout has, or did in the life of an earlier holder; uids are close to the limit.
    Demand,
    /// The clock has gone back.
    Clock,
}

impl Lead {
    /// Checks the generator, and logs changes. Only one thread calls it.
    pub fn look(&self, name: &str, generator: &CachedUidGenerator) {
        let stats = generator.stats();
        let before = self.cause();
        let cause = Cause::of(&stats, generator.max_borrow(), before.is_some());
        if cause == before {
            return;
        }
        *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = cause;
        let Some(cause) = cause else {
            let lead = stats.lead;
            tracing::warn!(name, ?lead, "uids are less far ahead of the clock again");
            return;
        };
        let problem = cause.problem(&stats, generator.max_borrow());
        match cause {
            Cause::Clock => tracing::warn!(
                name,
                "{problem}; if the clock is right now, a restart with another worker id starts at the clock: a \
                 disposable one is always another, a leased one if another is free; with the same worker:N, ids repeat"
            ),
            Cause::Demand => tracing::warn!(
                name,
                "{problem}; at the limit, clients wait and get errors. Clients ask for more uids than the layout has, or \
                 asked the worker id's last holder for them; a layout with more sequence bits has more uids a second"
            ),
        }
    }

    /// Describes the problem, if the lead is long.
    pub fn problem(&self, generator: &CachedUidGenerator) -> Option<String> {
        self.cause().map(|cause| cause.problem(&generator.stats(), generator.max_borrow()))
    }

    fn cause(&self) -> Option<Cause> {
        *self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cause {
    /// Hysteresis: once long, the lead stays so until it has halved.
    fn of(stats: &CachedStats, limit: Option<Duration>, was_long: bool) -> Option<Self> {
        let limit = limit.filter(|limit| *limit >= SHORTEST_LIMIT);
        // The part that a clock going back adds is not demand.
        let lead = stats.lead.saturating_sub(stats.clock_behind);
        let is_near = |limit| lead >= if was_long { limit / 2 } else { limit / 10 * 9 };
        if stats.clock_behind >= if was_long { STEP_BACK / 2 } else { STEP_BACK } {
            return Some(Self::Clock);
        }
        limit.is_some_and(is_near).then_some(Self::Demand)
    }

    fn problem(self, stats: &CachedStats, limit: Option<Duration>) -> String {
        let mut text = String::new();
        if self == Self::Clock {
            text = format!("the clock went back by {} s; ", stats.clock_behind.as_secs());
        }
        text += &format!("uids are {} s ahead of the clock", stats.lead.as_secs());
        if let Some(limit) = limit {
            text += &format!(", and may be {} s", limit.as_secs());
        }
        text
    }
}
