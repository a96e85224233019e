//! Worker ids from databases: tables `WORKER_NODE`, where every start inserts a row.

#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::time::Duration;

use crate::error::Error;
use crate::layout::Layout;
use crate::timestamp::Timestamp;
use crate::worker::WorkerIdAssigner;

/// A table `WORKER_NODE`: what can be done with it besides assigning worker ids from it.
///
/// Its methods block; they are for the people who look after the table.
pub trait WorkerTable: WorkerIdAssigner {
    /// Makes the table, unless it is there.
    ///
    /// # Errors
    ///
    /// What the store says: [`Error::WorkerFile`], [`Error::Database`].
    fn create(&self) -> Result<(), Error>;

    /// All rows, by id.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    fn list(&self) -> Result<Vec<WorkerNode>, Error>;

    /// How many worker ids have been used, and how fast.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    fn usage(&self) -> Result<WorkerUsage, Error>;

    /// Removes the rows of starts longer ago than this, by the store's clock. The newest row stays
    /// whatever its age, so that no server can take up counting below it; a worker id is not
    /// handed out again because its row is gone.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    fn prune(&self, older_than: Duration) -> Result<Pruned, Error>;
}

/// A row of `WORKER_NODE`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerNode {
    /// The worker id.
    pub id: i64,
    /// Host name or address of the node.
    pub host_name: String,
    /// Its port, or what made it unique.
    pub port: String,
    /// 1 for a container, 2 for a machine.
    pub kind: i64,
    /// The day of the start, in UTC.
    pub launch_date: String,
    /// Last change of the row, in UTC.
    pub modified: String,
    /// Time of the start, in UTC.
    pub created: String,
}

/// What [`WorkerTable::prune`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// Rows that were removed.
    pub removed: u64,
    /// The newest row's id; `None` in an empty table.
    pub newest: Option<i64>,
}

/// How far a table has come: the greatest worker id, and how many a day the starts of late use up.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct WorkerUsage {
    /// Rows in the table: starts, less those that were pruned.
    pub rows: u64,
    /// The greatest worker id so far; `None` in an empty table.
    pub newest: Option<i64>,
    /// Worker ids that a day uses up, over the last 30 days or since the table's first start in
    /// them. `None` where that is less than an hour, from which nothing can be told.
    pub per_day: Option<f64>,
    /// The store's clock.
    pub now: Timestamp,
}

impl WorkerUsage {
    /// The days over which starts are counted.
    pub(crate) const WINDOW_DAYS: u32 = 30;

    /// `first` is the id and time of the oldest row in the window.
    pub(crate) fn new(
        rows: u64,
        newest: Option<i64>,
        first: Option<(i64, Timestamp)>,
        now: Timestamp,
    ) -> Self {
        const DAY: f64 = 86_400_000.0;
        let per_day = match (newest, first) {
            (Some(newest), Some((first, since))) => {
                let days = now.as_millis().saturating_sub(since.as_millis()) as f64 / DAY;
                (days >= 1.0 / 24.0).then(|| newest.saturating_sub(first) as f64 / days)
            }
            // Rows, but none of late.
            (Some(_), None) => Some(0.0),
            (None, _) => None,
        };
        Self { rows, newest, per_day, now }
    }

    /// Worker ids that the layout still has above the greatest so far.
    pub fn left(&self, layout: &Layout) -> u64 {
        match self.newest {
            None => layout.max_worker_id(),
            Some(newest) => {
                layout.max_worker_id().saturating_sub(u64::try_from(newest).unwrap_or(0))
            }
        }
    }

    /// When the worker ids run out if starts go on at this rate; `None` where there is none.
    pub fn runs_out(&self, layout: &Layout) -> Option<Timestamp> {
        let days = self.left(layout) as f64 / self.per_day.filter(|&rate| rate > 0.0)?;
        Some(self.now.saturating_add(Duration::try_from_secs_f64(days * 86_400.0).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn the_forecast_goes_by_the_starts_of_late() {
        let now = at("2026-06-11");
        let layout = Layout::SNOWFLAKE;
        let usage = WorkerUsage::new(90, Some(123), Some((23, at("2026-06-01"))), now);
        assert_eq!(usage.per_day, Some(10.0));
        assert_eq!(usage.left(&layout), 900);
        assert_eq!(usage.runs_out(&layout), Some(at("2026-09-09")));
    }

    #[test]
    fn without_a_rate_there_is_no_day() {
        let now = at("2026-06-11T00:30:00Z");
        let layout = Layout::SNOWFLAKE;
        let young = WorkerUsage::new(2, Some(2), Some((1, at("2026-06-11"))), now);
        assert_eq!((young.per_day, young.runs_out(&layout)), (None, None));
        let idle = WorkerUsage::new(2, Some(2), None, now);
        assert_eq!((idle.per_day, idle.runs_out(&layout)), (Some(0.0), None));
        let empty = WorkerUsage::new(0, None, None, now);
        assert_eq!((empty.per_day, empty.left(&layout)), (None, 1_023));
        let over = WorkerUsage::new(1, Some(5_000), Some((0, at("2026-06-01"))), now);
        assert_eq!((over.left(&layout), over.runs_out(&layout)), (0, Some(now)));
    }
}
