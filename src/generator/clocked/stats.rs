//! Statistics of a clock-driven generator.

use std::time::Duration;

use super::{CLOSED, ClockedUidGenerator};
use crate::clock::{Clock, read};
use crate::worker::LeaseStats;

/// Statistics of a [`ClockedUidGenerator`]. The fields are read one after another, while takes go on. Uids are not
/// counted, because a take is a single atomic addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct ClockedStats {
    /// The worker id of all uids.
    pub worker_id: u64,
    /// Takes and fills that had to wait: for the next tick, the clock, or the store of a lease.
    pub waits: u64,
    /// Takes and fills that the take policy gave up.
    pub rejects: u64,
    /// Takes and fills that the clock policy refused because the clock was behind the last uid. `try_` calls have no
    /// policy and are not counted.
    pub clock_refusals: u64,
    /// How far the last uid's timestamp is ahead of the clock, after the clock went back. Zero after
    /// [`close`](crate::UidGenerator::close).
    #[cfg_attr(
        feature = "serde",
        serde(rename = "lead_millis", with = "crate::serde_forms::millis")
    )]
    pub lead: Duration,
    /// How long the layout's time field lasts.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "remaining_life_millis", with = "crate::serde_forms::millis")
    )]
    pub remaining_life: Duration,
    /// The lease, if the worker id is leased.
    pub lease: Option<LeaseStats>,
}

impl<C: Clock> ClockedUidGenerator<C> {
    /// Returns statistics. Reads the clock.
    ///
    /// ```
    /// use uidring::ClockedUidGenerator;
    ///
    /// let generator = ClockedUidGenerator::snowflake().worker_id(7).build()?;
    /// let stats = generator.stats();
    /// assert_eq!((stats.worker_id, stats.rejects, stats.lease), (7, 0, None));
    /// # Ok::<(), uidring::Error>(())
    /// ```
    pub fn stats(&self) -> ClockedStats {
        let now = read(&self.clock);
        let next = self.memory.hot().next();
        let last_tick = next.saturating_sub(self.worker_part + 1) >> self.tick_shift;
        let lead = if next < CLOSED {
            self.layout.time_of(last_tick.min(self.layout.max_tick())).saturating_since(now)
        } else {
            Duration::ZERO
        };
        ClockedStats {
            worker_id: self.worker_id,
            waits: self.counters.waits(),
            rejects: self.counters.rejects(),
            clock_refusals: self.counters.clock_refusals(),
            lead,
            remaining_life: self.layout.remaining_life(now),
            lease: self.lease.as_ref().and_then(|lease| lease.stats(&self.layout, now)),
        }
    }
}
