//! Foresees how long a run waits for the clock.

use std::time::Duration;

use uidring::Layout;
use uidring_any::{AnyGenerator, OtherGenerator};
use uidring_store::values::{CENTURY, shown};

use crate::text::{span, thousands};

/// The shortest wait to report.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// The layout to suggest. It has many uids per second, and worker ids up to 1,023.
const FAST: &str = "31/10/22";
const FAST_RATE: u64 = 1 << 22;
const FAST_WORKERS: u64 = 1 << 10;

/// What bounds a generator's uids.
#[derive(Clone, Copy)]
pub struct Pace {
    pub layout: Layout,
    pub worker_id: u64,
    /// Whether the worker id is leased from a table, whose layout is fixed.
    pub is_leased: bool,
    /// How far ahead of the clock the next uid is.
    pub lead: Duration,
    /// How far ahead uids may be; `None` for a clock-driven generator.
    pub max_borrow: Option<Duration>,
}

impl Pace {
    /// Returns what limits a generator's pace, if anything does.
    pub fn of(generator: &AnyGenerator) -> Option<Self> {
        let (worker_id, lease, lead, max_borrow) = match generator {
            AnyGenerator::Other(OtherGenerator::Clocked(generator)) => {
                let stats = generator.stats();
                (stats.worker_id, stats.lease, Duration::ZERO, None)
            }
            generator => {
                let generator = generator.as_cached()?;
                let stats = generator.stats();
                (stats.worker_id, stats.lease, stats.lead, Some(generator.max_borrow()?))
            }
        };
        let layout = *generator.as_uid_generator()?.layout();
        Some(Self { layout, worker_id, is_leased: lease.is_some(), lead, max_borrow })
    }

    /// If `count` uids take long, returns how long, and why.
    pub fn foresee(&self, count: u64) -> Option<(Duration, String)> {
        let rate =
            self.layout.uids_per_tick() * (1_000 / self.layout.tick().millis().unsigned_abs());
        // How far the last uid is ahead of the present.
        let last = Duration::try_from_secs_f64(count as f64 / rate as f64).unwrap_or(Duration::MAX);
        let last = last.saturating_add(self.lead);
        let wait = last.saturating_sub(self.max_borrow.unwrap_or_default());
        if wait < LONG_WAIT {
            return None;
        }
        let why = match self.max_borrow {
            Some(limit) => format!("none may be more than {} ahead of the clock", shown(limit)),
            None => "this generator goes by the clock".into(),
        };
        let mut help = String::new();
        if self.max_borrow.is_none() {
            help += "; `--generator cached` borrows the future";
        } else if last < CENTURY / 2 {
            // Round up with a unit to spare, because the clock and the last uid are somewhere within their ticks.
            let unit = match last.as_secs() {
                ..10_800 => 60,
                10_800..172_800 => 3_600,
                _ => 86_400,
            };
            let enough = Duration::from_secs(unit * (last.as_secs() / unit + 2));
            help += &format!("; `--max-borrow {}` lets them all be borrowed", shown(enough));
        }
        if rate < FAST_RATE / 2 && self.worker_id < FAST_WORKERS {
            let place = if self.is_leased { ", with leases in another database," } else { "" };
            let rate = thousands(FAST_RATE);
            help += &format!(
                "; `--layout {FAST}`{place} has {rate} a second, for ids kept apart from those of this layout"
            );
        }
        Some((
            wait,
            format!(
                "{} uids take about {}: layout {} has {} a second, and {why}{help}",
                thousands(count),
                span(wait),
                self.layout.bits(),
                thousands(rate)
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use uidring::{Bits, Tick};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);

    fn pace(max_borrow: Option<Duration>) -> Pace {
        let layout = Layout::UID_GENERATOR;
        Pace { layout, worker_id: 1, is_leased: true, lead: Duration::ZERO, max_borrow }
    }

    #[test]
    fn a_wait_is_what_neither_rate_nor_limit_covers() {
        let wait = |pace: &Pace, count| pace.foresee(count).map(|(wait, _)| wait.as_secs());
        let leased = pace(Some(LIMIT));
        assert_eq!(wait(&leased, 600 * 8_192), None);
        assert_eq!(wait(&leased, 660 * 8_192), Some(60));
        assert_eq!(wait(&Pace { lead: LIMIT / 2, ..leased }, 660 * 8_192), Some(360));
        assert_eq!(wait(&pace(None), 60 * 8_192), Some(60));
        assert!(wait(&pace(Some(LIMIT)), u64::MAX).is_some());
    }

    #[test]
    fn what_makes_it_fast_is_named() {
        let text = |pace: Pace| pace.foresee(10_000_000).expect("long").1;
        assert_eq!(
            text(pace(Some(LIMIT))),
            "10,000,000 uids take about 10 min: layout 28/22/13 has 8,192 a second, and none may be more than \
             10m ahead of the clock; `--max-borrow 22m` lets them all be borrowed; `--layout 31/10/22`, with \
             leases in another database, has 4,194,304 a second, for ids kept apart from those of this layout"
        );
        let bits = Bits { time: 41, worker: 20, sequence: 2 };
        let layout = Layout::new(bits, Tick::Millisecond, Layout::UID_GENERATOR.epoch());
        let layout = layout.expect("possible");
        let millis = text(Pace { layout, is_leased: false, ..pace(None) });
        assert!(millis.contains("`--layout 31/10/22` has"), "{millis}");
        let years = pace(Some(LIMIT)).foresee(100_000_000_000).expect("long").1;
        assert!(years.contains("; `--max-borrow 143d` lets them all"), "{years}");
        let by_clock = text(Pace { worker_id: 1_024, is_leased: false, ..pace(None) });
        assert!(
            by_clock.ends_with("goes by the clock; `--generator cached` borrows the future"),
            "{by_clock}"
        );
    }
}
