//! How many worker ids are used, and when they run out.

use std::time::Duration;

use uidring::adapter::log;
use uidring::{Error, Layout, Timestamp};

use crate::{Fitting, WorkerRange};

const DAY_MILLIS: f64 = 86_400_000.0;
const HOUR: Duration = Duration::from_secs(3_600);

/// How many worker ids a table has used, and how many recent starts use per day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkerUsage {
    /// Rows in the table: all starts except pruned ones.
    pub rows: u64,
    /// The greatest worker id in the table; `None` in an empty one.
    pub newest: Option<u64>,
    /// The last one that the table's counter has handed out or was set to, if the store knows.
    pub last_key: Option<u64>,
    /// Worker ids used per day over the last 30 days, or since the table's first row if that is younger. `None` if
    /// there are fewer than two rows, or the first is less than an hour old.
    pub per_day: Option<f64>,
    /// The recorded range of this store.
    pub range: Option<WorkerRange>,
    /// The store's clock.
    pub now: Timestamp,
}

impl WorkerUsage {
    /// The days over which starts are counted: the window.
    pub const WINDOW_DAYS: u32 = 30;

    /// Computes [`per_day`](Self::per_day) from the greatest worker id before the window, and the worker id and time of
    /// the first row in it.
    #[must_use]
    pub fn with_rate(self, before: Option<u64>, first: Option<(u64, Timestamp)>) -> Self {
        let per_day = self.newest.and_then(|newest| match (before, first) {
            // The counter stood at `before` when the window began.
            (Some(before), _) => {
                Some(newest.saturating_sub(before) as f64 / f64::from(Self::WINDOW_DAYS))
            }
            (None, Some((first, since))) if newest > first => {
                let time = self.now.saturating_since(since);
                let days = time.as_millis() as f64 / DAY_MILLIS;
                (time >= HOUR).then(|| newest.saturating_sub(first) as f64 / days)
            }
            (None, _) => None,
        });
        Self { per_day, ..self }
    }

    /// Returns the greatest worker id so far, by the rows and the counter; `None` if there was none.
    pub fn last(&self) -> Option<u64> {
        // Below its first worker id, a counter has handed out nothing.
        let first = self.range.map_or(1, WorkerRange::first);
        self.newest.max(self.last_key.filter(|key| *key >= first))
    }

    /// Returns how many worker ids of layout and store are above the greatest so far.
    pub fn left(&self, layout: &Layout) -> u64 {
        Fitting::new(layout, self.range).left_after(self.last())
    }

    /// Returns when the worker ids run out at this rate: now if none is left, `None` without a rate.
    pub fn runs_out(&self, layout: &Layout) -> Option<Timestamp> {
        let left = self.left(layout);
        if left == 0 {
            return Some(self.now);
        }
        let days = left as f64 / self.per_day.filter(|&rate| rate > 0.0)?;
        Some(self.now.saturating_add(Duration::try_from_secs_f64(days * 86_400.0).ok()?))
    }
}

/// Whether a worker id is given back when its process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsLeased {
    /// A start has used it up.
    No,
    /// It is given back.
    Yes,
}

/// If a start got one of the last tenth of the worker ids, logs that and the day on which they run out. `is_leased`
/// says whether the start gives it back.
pub fn announce_end(
    place: &str,
    layout: &Layout,
    range: Option<WorkerRange>,
    worker_id: u64,
    is_leased: IsLeased,
    usage: impl FnOnce() -> Result<WorkerUsage, Error>,
) {
    let fitting = Fitting::new(layout, range);
    let left = fitting.left_after(Some(worker_id));
    if !fitting.is_low(left) {
        return;
    }
    // The start has its worker id, so it must not fail because the day is unknown.
    let end = usage().ok().and_then(|usage| usage.runs_out(layout).zip(usage.per_day));
    let end = match end {
        _ if left == 0 => String::new(),
        Some((day, rate)) => {
            format!(", and at {rate:.1} starts a day they end on {}", day.date())
        }
        _ => ", and it is too early to tell when they end".into(),
    };
    log!(
        warn,
        "{place}: of {fitting}, {left} {} left{end}; {}plan {}",
        if left == 1 { "is" } else { "are" },
        match is_leased {
            IsLeased::No => "starts with --worker lease give theirs back, or ",
            IsLeased::Yes => "",
        },
        match range {
            None => "a layout with more worker bits",
            Some(_) => "another database with another range",
        }
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout::SNOWFLAKE;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn usage(newest: u64, before: Option<u64>, first: Option<(u64, &str)>) -> WorkerUsage {
        let first = first.map(|(id, time)| (id, at(time)));
        let (newest, last_key, per_day, range) = (Some(newest), None, None, None);
        WorkerUsage { rows: 5, newest, last_key, per_day, range, now: at("2026-06-11") }
            .with_rate(before, first)
    }

    #[test]
    fn the_forecast_goes_by_the_starts_of_late() {
        let young = usage(123, None, Some((23, "2026-06-01")));
        assert_eq!(young.per_day, Some(10.0));
        assert_eq!(young.left(&LAYOUT), 900);
        assert_eq!(young.runs_out(&LAYOUT), Some(at("2026-09-09")));
        // Old rows, then most of a year without starts, then a hundred starts two hours ago.
        let burst = usage(120, Some(20), Some((21, "2026-06-10T22:00:00Z")));
        assert_eq!(burst.per_day, Some(100.0 / 30.0));
        // Two old rows and a new one.
        let rare = usage(3, Some(2), Some((3, "2026-06-11")));
        assert_eq!(rare.per_day, Some(1.0 / 30.0));
    }

    #[test]
    fn rows_of_old_alone_are_no_starts_of_late() {
        for rows in [1, 5] {
            let idle = WorkerUsage { rows, ..usage(7, Some(7), None) };
            assert_eq!((idle.per_day, idle.runs_out(&LAYOUT)), (Some(0.0), None));
        }
    }

    #[test]
    fn without_a_rate_there_is_no_day() {
        let hasty = usage(2, None, Some((1, "2026-06-10T23:00:01Z")));
        assert_eq!((hasty.per_day, hasty.runs_out(&LAYOUT)), (None, None));
        // What pruning leaves.
        let single = usage(700, None, Some((700, "2026-05-20")));
        assert_eq!((single.per_day, single.runs_out(&LAYOUT)), (None, None));
        let empty = WorkerUsage { rows: 0, newest: None, last_key: Some(0), ..single };
        let empty = empty.with_rate(None, None);
        assert_eq!((empty.per_day, empty.left(&LAYOUT)), (None, 1_023));
    }

    #[test]
    fn what_is_left_is_in_the_range() {
        let range = Some("100-199".parse().expect("a range"));
        for (newest, left) in [(None, 100), (Some(99), 100), (Some(150), 49), (Some(199), 0)] {
            let usage = WorkerUsage { newest, range, ..usage(7, None, None) };
            assert_eq!(usage.left(&LAYOUT), left);
        }
    }

    #[test]
    fn where_none_are_left_the_end_is_now() {
        for newest in [1_023, 5_000] {
            for usage in [
                usage(newest, None, Some((1, "2026-06-10T23:59:00Z"))),
                usage(newest, None, Some((0, "2026-06-01"))),
                usage(newest, Some(newest), None),
            ] {
                assert_eq!((usage.left(&LAYOUT), usage.runs_out(&LAYOUT)), (0, Some(usage.now)));
            }
        }
    }
}
