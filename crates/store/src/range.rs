//! The range of worker ids that a store hands out, if one is recorded.

use std::fmt;
use std::str::FromStr;

use uidring::adapter::{Chain, error_traits};

/// The worker ids that a store hands out, so that several stores share none. It parses and displays as `100-199`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerRange {
    first: u64,
    last: u64,
}

impl WorkerRange {
    /// The greatest worker id of a range. No layout has so many.
    pub const MAX: u64 = (1 << 62) - 1;

    /// Returns the range from `first` to `last`, 1 to [`MAX`](Self::MAX).
    ///
    /// # Errors
    ///
    /// [`NoWorkerRange`] if they are no range.
    pub fn new(first: u64, last: u64) -> Result<Self, NoWorkerRange> {
        match 1 <= first && first <= last && last <= Self::MAX {
            true => Ok(Self { first, last }),
            false => Err(NoWorkerRange),
        }
    }

    /// Returns the lowest.
    pub fn first(self) -> u64 {
        self.first
    }

    /// Returns the greatest.
    pub fn last(self) -> u64 {
        self.last
    }

    /// Returns whether the range has this worker id.
    pub fn contains(self, worker_id: u64) -> bool {
        (self.first..=self.last).contains(&worker_id)
    }

    /// Refuses this range for a store that has recorded another, or has handed out worker ids up to `newest` outside
    /// it.
    ///
    /// All from 1 to `newest` count as handed out: a row may be pruned while its process still runs.
    #[doc(hidden)]
    pub fn check_new(
        self,
        recorded: Option<Self>,
        newest: Option<u64>,
    ) -> Result<(), RangeRefusal> {
        match (recorded, newest) {
            (Some(recorded), _) if recorded == self => Ok(()),
            (Some(recorded), _) => Err(RangeRefusal::Other(recorded)),
            (None, Some(newest)) if self.first > 1 || newest > self.last => {
                Err(RangeRefusal::Used(newest))
            }
            (None, _) => Ok(()),
        }
    }
}

impl fmt::Display for WorkerRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for WorkerRange {
    type Err = NoWorkerRange;

    fn from_str(text: &str) -> Result<Self, NoWorkerRange> {
        let number = |text: &str| text.parse().map_err(|_| NoWorkerRange);
        let (first, last) = text.split_once('-').ok_or(NoWorkerRange)?;
        Self::new(number(first)?, number(last)?)
    }
}

/// The text or the two numbers are no range.
#[derive(thiserror::Error)]
#[error(
    "that is no range of worker ids: write FIRST-LAST, such as 100-199; the first is at least 1, and the last not below it"
)]
pub struct NoWorkerRange;

error_traits!(NoWorkerRange);

/// Why a range cannot be recorded, or is not obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRefusal {
    /// Another range is recorded.
    Other(WorkerRange),
    /// The store has handed out worker ids up to this one.
    Used(u64),
    /// The range is recorded, but a start has this worker id outside it.
    Ignored(u64),
}

impl RangeRefusal {
    /// Says what is in the way of this range, and what to do.
    pub(crate) fn text(self, range: WorkerRange) -> String {
        match self {
            Self::Other(recorded) => format!(
                "the worker ids of this store were recorded as {recorded}, not {range}; nothing was changed: keep \
                 {recorded}, or use another store for {range}"
            ),
            Self::Used(newest) => format!(
                "worker ids up to {newest} may be in use there, and {range} does not include all of them; nothing was \
                 recorded: record a range from 1 to {newest} or above, or use a new store for {range}"
            ),
            Self::Ignored(worker_id) => format!(
                "the range {range} is recorded, but a start has worker id {worker_id}, which is outside it: it began \
                 before it could see the range, or ignores ranges, as Baidu's Java client does; end it and delete the \
                 rows of its worker id from WORKER_NODE and UIDRING_LEASE, or use a new database"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> WorkerRange {
        text.parse().expect(text)
    }

    #[test]
    fn ranges_are_read_as_they_are_written() {
        for text in ["1-1", "100-199", "1-4611686018427387903"] {
            assert_eq!(range(text).to_string(), text);
        }
        for wrong in ["", "1", "-", "0-5", "7-6", "1-", "-1-5", "a-b", "1-4611686018427387904"] {
            let text = wrong.parse::<WorkerRange>().expect_err(wrong).to_string();
            assert!(text.contains("FIRST-LAST"), "{text}");
        }
    }

    #[test]
    fn a_range_is_recorded_once_and_before_others_are_handed_out() {
        let asked = range("100-199");
        assert_eq!(asked.check_new(None, None), Ok(()));
        assert_eq!(asked.check_new(Some(asked), Some(150)), Ok(()));
        let other = range("100-198");
        assert_eq!(asked.check_new(Some(other), None), Err(RangeRefusal::Other(other)));
        assert_eq!(asked.check_new(None, Some(150)), Err(RangeRefusal::Used(150)));
        let low = range("1-5");
        assert_eq!(low.check_new(None, Some(5)), Ok(()));
        assert_eq!(low.check_new(None, Some(6)), Err(RangeRefusal::Used(6)));
    }
}
