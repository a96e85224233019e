//! The range of worker ids that a store hands out, if one was recorded in it.

use std::fmt;
use std::str::FromStr;

use uidring::{Error, Layout};

use crate::TableError;

/// The worker ids that a store hands out, so that several stores have none in common. It reads and displays as
/// `100-199`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerRange {
    first: u64,
    last: u64,
}

impl WorkerRange {
    /// The greatest worker id of a range. No layout has as many.
    pub const MAX: u64 = (1 << 62) - 1;

    /// The worker ids from `first` to `last`, 1 to [`MAX`](Self::MAX).
    ///
    /// # Errors
    ///
    /// [`TableError::WorkerRange`].
    pub fn new(first: u64, last: u64) -> Result<Self, TableError> {
        match 1 <= first && first <= last && last <= Self::MAX {
            true => Ok(Self { first, last }),
            false => Err(TableError::WorkerRange),
        }
    }

    /// The lowest.
    pub fn first(self) -> u64 {
        self.first
    }

    /// The greatest.
    pub fn last(self) -> u64 {
        self.last
    }

    /// Whether it has this worker id.
    pub fn contains(self, worker_id: u64) -> bool {
        (self.first..=self.last).contains(&worker_id)
    }

    /// How many it has above the greatest worker id so far.
    pub fn left_after(self, newest: Option<u64>) -> u64 {
        Fitting::of(Self::MAX, Some(self)).count_from(newest.map_or(0, |newest| newest + 1))
    }

    /// Refuses to be recorded in a store that has recorded another range, or has handed out worker ids up to `newest`.
    ///
    /// All from 1 to `newest` count as handed out: a row may have been pruned while its process goes on.
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
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, TableError> {
        let number = |text: &str| text.parse().map_err(|_| TableError::WorkerRange);
        let (first, last) = text.split_once('-').ok_or(TableError::WorkerRange)?;
        Self::new(number(first)?, number(last)?)
    }
}

/// Why a range was not recorded.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRefusal {
    /// The store has recorded this one.
    Other(WorkerRange),
    /// The store has handed out worker ids up to this one.
    Used(u64),
    /// The range is recorded, and a start has this worker id outside it all the same.
    Ignored(u64),
}

impl RangeRefusal {
    /// Returns the error for callers.
    pub fn error(self, place: String, range: WorkerRange) -> Error {
        Error::from(match self {
            Self::Other(recorded) => TableError::OtherRange { place, range, recorded },
            Self::Used(newest) => TableError::RangeInUse { place, range, newest },
            Self::Ignored(worker_id) => TableError::RangeIgnored { place, range, worker_id },
        })
    }
}

/// The worker ids that a start can have: those of the layout that are in the store's range.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Fitting {
    max: u64,
    range: Option<WorkerRange>,
}

impl Fitting {
    /// Those of this layout and range.
    pub fn new(layout: &Layout, range: Option<WorkerRange>) -> Self {
        Self::of(layout.max_worker_id(), range)
    }

    /// Those up to this one, in this range.
    pub fn of(max: u64, range: Option<WorkerRange>) -> Self {
        Self { max, range }
    }

    /// The range of the store.
    pub fn range(self) -> Option<WorkerRange> {
        self.range
    }

    /// Whether this worker id is one of them.
    pub fn has(self, worker_id: u64) -> bool {
        worker_id <= self.max && self.range.is_none_or(|range| range.contains(worker_id))
    }

    /// The lowest; the layout may not have it.
    pub fn first(self) -> u64 {
        self.range.map_or(1, WorkerRange::first)
    }

    /// The greatest.
    pub fn last(self) -> u64 {
        self.range.map_or(self.max, |range| range.last().min(self.max))
    }

    /// How many they are, from this one on.
    pub fn count_from(self, worker_id: u64) -> u64 {
        (self.last() + 1).saturating_sub(worker_id.max(self.first()))
    }

    /// Returns the error of a start whose worker id would be this, which is none of them.
    pub fn error(self, place: String, next: u64) -> Error {
        Error::from(match self.range {
            Some(range) if next <= self.max => TableError::OutsideRange { place, next, range },
            _ => TableError::WorkerIdsUsedUp { place, next, max: self.max },
        })
    }
}

/// "of the layout's 1023 worker ids", or "of the 100 worker ids 100-199".
impl fmt::Display for Fitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range {
            None => write!(f, "the layout's {} worker ids", self.max),
            Some(_) => write!(
                f,
                "the {} worker ids {}-{} of this store",
                self.count_from(0),
                self.first(),
                self.last()
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

    #[test]
    fn what_fits_is_in_the_layout_and_in_the_range() {
        let layout = Layout::SNOWFLAKE;
        let all = Fitting::new(&layout, None);
        assert!(all.has(1) && all.has(1_023) && !all.has(1_024));
        assert_eq!(
            (all.count_from(0), all.count_from(1_023), all.count_from(1_024)),
            (1_023, 1, 0)
        );
        let some = Fitting::new(&layout, Some(range("1000-2000")));
        assert!(!some.has(999) && some.has(1_000) && some.has(1_023) && !some.has(1_024));
        assert_eq!((some.count_from(0), some.count_from(1_020)), (24, 4));
        let error = some.error("p".into(), 1_024);
        assert!(matches!(error.store(), Some(TableError::WorkerIdsUsedUp { max: 1_023, .. })));
        let error = some.error("p".into(), 1);
        assert!(matches!(error.store(), Some(TableError::OutsideRange { next: 1, .. })));
        assert_eq!(Fitting::new(&layout, Some(range("2000-3000"))).count_from(0), 0);
    }
}
