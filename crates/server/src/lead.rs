//! Watches names whose uids run ahead of the clock, to warn before they reach the limit, where clients wait or get
//! errors.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
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
    /// The last [`Cause`] found.
    cause: AtomicU8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    Nothing,
    /// Clients ask for more than the layout has, or did in the life of an earlier holder; uids are close to the limit.
    Demand,
    /// The clock has gone back.
    Clock,
}

impl Lead {
    /// Checks the generator, and logs changes. Only one thread calls it.
    pub fn look(&self, name: &str, generator: &CachedUidGenerator) {
        let (stats, limit) = (generator.stats(), generator.max_borrow());
        let before = self.cause();
        let cause = Cause::of(&stats, limit, before != Cause::Nothing);
        if cause == before {
            return;
        }
        // Relaxed, as below: nothing else depends on it.
        self.cause.store(cause as u8, Ordering::Relaxed);
        let problem = Problem { cause, stats: &stats, limit };
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
            Cause::Nothing => {
                let lead = stats.lead;
                tracing::warn!(name, ?lead, "uids are less far ahead of the clock again");
            }
        }
    }

    /// Describes the problem, if the lead is long.
    pub fn problem(&self, generator: &CachedUidGenerator) -> Option<String> {
        let cause = self.cause();
        (cause != Cause::Nothing).then(|| {
            let limit = generator.max_borrow();
            Problem { cause, stats: &generator.stats(), limit }.to_string()
        })
    }

    fn cause(&self) -> Cause {
        let all = [Cause::Nothing, Cause::Demand, Cause::Clock];
        all[usize::from(self.cause.load(Ordering::Relaxed))]
    }
}

impl Cause {
    /// Hysteresis: once long, the lead stays so until it has halved.
    fn of(stats: &CachedStats, limit: Option<Duration>, was_long: bool) -> Self {
        let limit = limit.filter(|limit| *limit >= SHORTEST_LIMIT);
        // The part that a clock going back adds is not demand.
        let lead = stats.lead.saturating_sub(stats.clock_behind);
        let is_near = |limit| lead >= if was_long { limit / 2 } else { limit / 10 * 9 };
        if stats.clock_behind >= if was_long { STEP_BACK / 2 } else { STEP_BACK } {
            Self::Clock
        } else if limit.is_some_and(is_near) {
            Self::Demand
        } else {
            Self::Nothing
        }
    }
}

struct Problem<'a> {
    cause: Cause,
    stats: &'a CachedStats,
    limit: Option<Duration>,
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cause == Cause::Clock {
            write!(f, "the clock went back by {} s; ", self.stats.clock_behind.as_secs())?;
        }
        write!(f, "uids are {} s ahead of the clock", self.stats.lead.as_secs())?;
        self.limit.map_or(Ok(()), |limit| write!(f, ", and may be {} s", limit.as_secs()))
    }
}
