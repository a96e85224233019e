//! The store of a segment generator.

use crate::error::{Chain, Error, StoreErrorKind, error_traits};
use crate::timestamp::Timestamp;

/// The callback of [`SegmentStore::load`]. Gets the index of the request, and the result.
pub type Loaded<'a> = dyn FnMut(usize, Result<LoadedSegment, LoadError>) + 'a;

/// The source of segments: a table `leaf_alloc` or a replacement.
///
/// Its methods block. One thread at a time calls them, which takes no ids.
pub trait SegmentStore: Send + 'static {
    /// Returns all tags.
    ///
    /// # Errors
    ///
    /// The store's own.
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error>;

    /// Reserves a range for each of `wanted`, in one or more transactions. Calls `loaded` once for each, as soon as its
    /// result is known, with the index in `wanted`. A tag that cannot be loaded must not stop the others.
    ///
    /// A range that was reserved but not passed to `loaded`, because the connection broke in between, is lost and never
    /// reserved again.
    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>);
}

impl<S: SegmentStore + ?Sized> SegmentStore for Box<S> {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        (**self).tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        (**self).load(wanted, loaded);
    }
}

/// A column `max_id` or `step`. The error says why it cannot be read: `is NULL`, `is of type Text`.
pub type TagNumber = Result<i64, &'static str>;

/// A row of `leaf_alloc`, with the columns of the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentTag {
    /// Column `biz_tag`.
    pub tag: String,
    /// The first id that is not reserved yet.
    pub max_id: TagNumber,
    /// The least number of ids that a load reserves.
    pub step: TagNumber,
    /// What the tag is for.
    pub description: Option<String>,
    /// The last change of the row, if the column can be read.
    pub update_time: Option<Timestamp>,
}

impl SegmentTag {
    /// Returns a row with first id 1 and step 1000, without description and time of change.
    pub fn new(tag: impl Into<String>) -> Self {
        let (max_id, step) = (Ok(1), Ok(1_000));
        Self { tag: tag.into(), max_id, step, description: None, update_time: None }
    }

    /// Sets the first id that is not reserved yet.
    #[must_use]
    pub fn max_id(self, max_id: i64) -> Self {
        Self { max_id: Ok(max_id), ..self }
    }

    /// Sets the least number of ids that a load reserves.
    #[must_use]
    pub fn step(self, step: i64) -> Self {
        Self { step: Ok(step), ..self }
    }

    /// Returns `max_id` and `step`, if the row can be served.
    pub(super) fn usable(&self) -> Result<(u64, u64), LoadError> {
        let step = positive(&self.tag, "step", self.step)?;
        Ok((positive(&self.tag, "max_id", self.max_id)?, step))
    }

    /// Returns the error if the row has no more ids.
    pub(super) fn used_up(&self) -> Option<LoadError> {
        let max_id = self.max_id.ok().filter(|max_id| *max_id == i64::MAX)?;
        Some(LoadError::UsedUp { tag: self.tag.clone(), max_id })
    }
}

fn positive(tag: &str, column: &str, value: TagNumber) -> Result<u64, LoadError> {
    let is = match value {
        Ok(value) if value > 0 => return Ok(value.unsigned_abs()),
        Ok(value) => format!("is {value}"),
        Err(why) => why.into(),
    };
    let problem = format!("its {column} {is}, and has to be an integer from 1");
    Err(LoadError::InvalidRow { tag: tag.into(), problem })
}

/// A request for a range of ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRequest {
    /// The tag.
    pub tag: String,
    /// How many ids, unless the table's step is greater.
    pub step: u64,
}

impl SegmentRequest {
    /// Returns the range that a load takes from a row with these columns. The range's end is the row's new `max_id`.
    /// After an error, leave the row as it is.
    ///
    /// If the column has no room for `step` ids, the range has the table's step, or what is left.
    ///
    /// # Errors
    ///
    /// [`LoadError::InvalidRow`] and [`LoadError::UsedUp`].
    pub fn range(&self, max_id: TagNumber, step: TagNumber) -> Result<LoadedSegment, LoadError> {
        let table_step = positive(&self.tag, "step", step)?;
        let start = positive(&self.tag, "max_id", max_id)?;
        let max = i64::MAX.unsigned_abs();
        if start == max {
            return Err(LoadError::UsedUp { tag: self.tag.clone(), max_id: start.cast_signed() });
        }
        let ends =
            [table_step.max(self.step), table_step].map(|length| start.saturating_add(length));
        let end = ends.into_iter().find(|end| *end <= max).unwrap_or(max);
        Ok(LoadedSegment { start, end, table_step })
    }
}

/// A reserved range, `start..end`: the row's `max_id` before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedSegment {
    /// The first id.
    pub start: u64,
    /// One above the last id.
    pub end: u64,
    /// The table's step at that time.
    pub table_step: u64,
}

/// Why no range was reserved.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The table does not have the tag.
    #[error("the table has no tag `{tag}`")]
    NoSuchTag {
        /// The tag.
        tag: String,
    },
    /// The row's step or start is not a positive integer.
    #[error("tag `{tag}` cannot be served: {problem}; set its row of leaf_alloc right")]
    InvalidRow {
        /// The tag.
        tag: String,
        /// What is wrong with the row.
        problem: String,
    },
    /// No id is left below the column's greatest number.
    #[error("tag `{tag}` is used up: its max_id is {max_id}, and the greatest id 2^63 - 2")]
    UsedUp {
        /// The tag.
        tag: String,
        /// The column's value, which is unchanged.
        max_id: i64,
    },
    /// The store could not be asked. Another attempt may succeed.
    #[error(transparent)]
    Store(#[from] Error),
    /// The store refuses until somebody fixes something, such as a missing right or table. Takers do not wait for that.
    #[error("{0}")]
    Refused(#[source] Error),
}

error_traits!(LoadError);

impl LoadError {
    pub(super) fn kind(&self) -> StoreErrorKind {
        match self {
            Self::NoSuchTag { .. } => StoreErrorKind::NotFound,
            Self::InvalidRow { .. } => StoreErrorKind::Corrupt,
            Self::UsedUp { .. } => StoreErrorKind::Exhausted,
            Self::Store(Error::Store(error)) | Self::Refused(Error::Store(error)) => error.kind(),
            Self::Store(_) => StoreErrorKind::Unreachable,
            Self::Refused(_) => StoreErrorKind::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range_of(step: u64, row: (i64, i64)) -> Result<LoadedSegment, LoadError> {
        SegmentRequest { tag: "t".into(), step }.range(Ok(row.0), Ok(row.1))
    }

    #[test]
    fn a_range_is_as_long_as_wanted_and_never_below_the_tables_step() {
        for (wanted, row, expected) in
            [(0, (1, 10), (1, 11)), (10, (1, 10), (1, 11)), (25, (500, 10), (500, 525))]
        {
            let range = range_of(wanted, row).expect("a range");
            assert_eq!((range.start, range.end, range.table_step), (expected.0, expected.1, 10));
        }
    }

    #[test]
    fn the_last_id_is_one_below_the_greatest_of_the_column() {
        let (max, end) = (i64::MAX, i64::MAX.unsigned_abs());
        for (wanted, row, expected) in [
            (0, (max - 10, 10), end),
            (0, (max - 9, 10), end),
            (20, (max - 1, 10), end),
            (0, (1, max), end),
            // If the wanted range does not fit, the rest is left to others.
            (11, (max - 10, 3), end - 7),
            (u64::MAX, (1, 5), 6),
        ] {
            let range = range_of(wanted, row).expect("some are left");
            assert_eq!((range.start, range.end), (row.0.unsigned_abs(), expected));
        }
        let error = range_of(0, (max, 1)).expect_err("none is left");
        assert!(matches!(error, LoadError::UsedUp { max_id: i64::MAX, .. }), "{error}");
    }

    #[test]
    fn what_is_not_positive_is_refused_by_name() {
        for (row, name) in [((1, 0), "step is 0"), ((1, -5), "step is -5"), ((0, 1), "max_id is 0")]
        {
            let error = range_of(1, row).expect_err("refused").to_string();
            assert!(error.contains(name) && error.contains("`t`"), "{error}");
        }
    }
}
