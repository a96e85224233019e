//! What people do with a table of tags, and what a load makes of a row.

use crate::error::Error;
use crate::segment::store::{LoadError, LoadedSegment, SegmentRequest, SegmentTag};

/// A table `leaf_alloc`: what can be done with it besides loading segments from it.
///
/// Its methods block; they are for the people who look after the table.
pub trait SegmentTable {
    /// Adds a tag.
    ///
    /// # Errors
    ///
    /// [`Error::TagExists`]; what the store says: [`Error::SegmentFile`], [`Error::Database`].
    fn create_tag(&self, tag: &NewSegmentTag) -> Result<(), Error>;

    /// All tags, by name.
    ///
    /// # Errors
    ///
    /// What the store says.
    fn list_tags(&self) -> Result<Vec<SegmentTag>, Error>;
}

/// A tag that is to be created.
///
/// ```
/// # fn main() -> Result<(), uidring::Error> {
/// use uidring::store::NewSegmentTag;
///
/// let tag = NewSegmentTag::new("orders", 1_000)?.start(50_000)?.description("order numbers")?;
/// assert!(NewSegmentTag::new("orders", 0).is_err());
/// # drop(tag);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSegmentTag {
    pub(super) tag: String,
    pub(super) step: i64,
    pub(super) start: i64,
    pub(super) description: Option<String>,
}

/// Characters that columns `biz_tag` and `description` hold.
const TAG_CHARS: usize = 128;
const DESCRIPTION_CHARS: usize = 256;

/// What column `step`, an INT, holds.
const MAX_STEP: i64 = i32::MAX as i64;

impl NewSegmentTag {
    /// A tag of 1 to 128 characters, of which a load reserves `step` ids, 1 to 2^31 - 1. Its first id
    /// is 1.
    ///
    /// # Errors
    ///
    /// [`Error::TagText`], [`Error::OptionOutOfRange`], and [`Error::UrlForTag`] for a tag with `://`
    /// in it.
    pub fn new(tag: impl Into<String>, step: u64) -> Result<Self, Error> {
        let tag = tag.into();
        if tag.contains("://") {
            return Err(Error::UrlForTag);
        }
        check_length("tag", &tag, 1, TAG_CHARS)?;
        let step = in_range("step", step, MAX_STEP)?;
        Ok(Self { tag, step, start: 1, description: None })
    }

    /// The first id, from 1; so great at the most that one load fits below 2^63 - 1.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`].
    pub fn start(mut self, start: u64) -> Result<Self, Error> {
        self.start = in_range("start", start, i64::MAX - self.step)?;
        Ok(self)
    }

    /// What the tag is for, in 256 characters at the most.
    ///
    /// # Errors
    ///
    /// [`Error::TagText`].
    pub fn description(mut self, description: impl Into<String>) -> Result<Self, Error> {
        let description = description.into();
        check_length("description", &description, 0, DESCRIPTION_CHARS)?;
        self.description = Some(description);
        Ok(self)
    }

    /// The refusal for a row that is there.
    pub(super) fn exists(found: SegmentTag) -> Error {
        Error::TagExists { tag: found.tag, max_id: found.max_id, step: found.step }
    }
}

fn check_length(what: &'static str, text: &str, min: usize, max: usize) -> Result<(), Error> {
    let length = text.chars().count();
    if (min..=max).contains(&length) {
        return Ok(());
    }
    Err(Error::TagText { what, length, min, max })
}

fn in_range(option: &'static str, value: u64, max: i64) -> Result<i64, Error> {
    i64::try_from(value)
        .ok()
        .filter(|value| (1..=max).contains(value))
        .ok_or_else(|| Error::OptionOutOfRange { option, value, min: 1, max: max.unsigned_abs() })
}

/// The range that a load takes from a row with these columns, of which the row's new `max_id` is the
/// end; or why the row has to stay as it is.
pub(super) fn range(
    request: &SegmentRequest,
    max_id: i64,
    step: i64,
) -> Result<LoadedSegment, LoadError> {
    let tag = || request.tag.clone();
    let invalid = |column: &str, value: i64| LoadError::InvalidRow {
        tag: tag(),
        problem: format!("its {column} is {value}, and has to be 1 or more"),
    };
    let table_step = u64::try_from(step).ok().filter(|&step| step > 0);
    let table_step = table_step.ok_or_else(|| invalid("step", step))?;
    let start = u64::try_from(max_id).ok().filter(|&start| start > 0);
    let start = start.ok_or_else(|| invalid("max_id", max_id))?;
    let length = table_step.max(request.step);
    let end = start.checked_add(length).filter(|&end| i64::try_from(end).is_ok());
    let end = end.ok_or_else(|| LoadError::UsedUp { tag: tag(), max_id, step: length })?;
    Ok(LoadedSegment { start, end, table_step })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range_of(step: u64, row: (i64, i64)) -> Result<LoadedSegment, LoadError> {
        range(&SegmentRequest { tag: "t".into(), step }, row.0, row.1)
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
        let max = i64::MAX;
        assert_eq!(range_of(0, (max - 10, 10)).expect("just fits").end, max.unsigned_abs());
        for (wanted, row) in
            [(0, (max - 9, 10)), (0, (max, 1)), (u64::MAX, (1, 1)), (11, (max - 10, 10))]
        {
            let error = range_of(wanted, row).expect_err("too long");
            assert!(
                matches!(error, LoadError::UsedUp { max_id, .. } if max_id == row.0),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_not_positive_is_refused_by_name() {
        for (row, name) in [((1, 0), "step is 0"), ((1, -5), "step is -5"), ((0, 1), "max_id is 0")]
        {
            let error = range_of(1, row).expect_err("refused").to_string();
            assert!(error.contains(name) && error.contains("`t`"), "{error}");
        }
    }

    #[test]
    fn new_tags_fit_their_columns() {
        let long = "\u{e9}".repeat(128);
        assert!(NewSegmentTag::new(long.clone(), 1).is_ok(), "characters, not bytes");
        for tag in [String::new(), format!("{long}x")] {
            let error = NewSegmentTag::new(tag, 1).expect_err("refused").to_string();
            assert!(error.contains("1 to 128"), "{error}");
        }
        for step in [0, 1 << 31, u64::MAX] {
            assert!(NewSegmentTag::new("t", step).is_err(), "{step}");
        }
        let tag = NewSegmentTag::new("t", (1 << 31) - 1).expect("the greatest step");
        assert!(tag.clone().description("x".repeat(256)).is_ok());
        assert!(tag.clone().description("x".repeat(257)).is_err());
        let last = (1 << 63) - (1 << 31);
        assert!(tag.clone().start(last).is_ok());
        for start in [0, last + 1, u64::MAX] {
            assert!(tag.clone().start(start).is_err(), "{start}");
        }
        let error = NewSegmentTag::new("mysql://u:s3cret@h/d", 1).expect_err("a URL");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
}
