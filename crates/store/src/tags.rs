//! Operations on a table of tags, for administration.

use uidring::Error;
use uidring::adapter::check_option;
use uidring::segment::{SegmentTag, TagNumber};

use crate::TableError;

/// A table `leaf_alloc`, for administration. The methods block.
pub trait SegmentTable {
    /// Adds a tag.
    ///
    /// # Errors
    ///
    /// [`TableError::TagExists`](crate::TableError::TagExists),
    /// [`TableError::UnreadableTag`](crate::TableError::UnreadableTag), or the store's error: `SqliteError::File`,
    /// `ServerError::Server`.
    fn create_tag(&self, tag: &NewSegmentTag) -> Result<(), Error>;

    /// Returns all tags, by name.
    ///
    /// # Errors
    ///
    /// The store's error.
    fn list_tags(&self) -> Result<Vec<SegmentTag>, Error>;

    /// Sets how many ids a load of the tag reserves, 1 to 2^31 - 1, and returns the tag as it was before. Generators
    /// use the new step from their next load on.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`], [`TableError::NoSuchTag`](crate::TableError::NoSuchTag),
    /// [`TableError::UnreadableTag`](crate::TableError::UnreadableTag), or the store's error.
    fn set_step(&self, tag: &str, step: u64) -> Result<SegmentTag, Error>;

    /// Deletes a tag, and returns it as it last was. Generators stop serving it when they next read the tags. If a
    /// reply was lost, so that somebody else may have deleted it slightly later, the log says so.
    ///
    /// **The table then no longer knows which ids were issued.** If you create the tag again, its
    /// [`start`](NewSegmentTag::start) must be at least the [`max_id`](SegmentTag::max_id) returned here, or ids
    /// repeat.
    ///
    /// # Errors
    ///
    /// [`TableError::NoSuchTag`](crate::TableError::NoSuchTag),
    /// [`TableError::UnreadableTag`](crate::TableError::UnreadableTag), or the store's error.
    fn delete_tag(&self, tag: &str) -> Result<SegmentTag, Error>;
}

/// A tag to create.
///
/// ```
/// # fn main() -> Result<(), uidring::Error> {
/// use uidring_store::NewSegmentTag;
///
/// let tag = NewSegmentTag::new("orders", 1_000)?.start(50_000)?.description("order numbers")?;
/// assert!(NewSegmentTag::new("orders", 0).is_err());
/// # drop(tag);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSegmentTag {
    tag: String,
    step: i64,
    start: i64,
    description: Option<String>,
}

/// How many ranges one transaction reserves at most. Others wait for its rows, or for the file, until it ends.
pub const MOST_TOGETHER: usize = 128;

/// The widths of columns `biz_tag` and `description`, in characters.
const TAG_CHARS: usize = 128;
const DESCRIPTION_CHARS: usize = 256;

/// The maximum of column `step`, an INT.
const MAX_STEP: i64 = i32::MAX as i64;

impl NewSegmentTag {
    /// Describes a tag of 1 to 128 characters whose loads reserve `step` ids, 1 to 2^31 - 1. Its first id is 1.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`]; [`TableError::Invalid`](crate::TableError::Invalid) if the tag has another length,
    /// is blank, has control characters or contains `://`.
    pub fn new(tag: impl Into<String>, step: u64) -> Result<Self, Error> {
        let tag = tag.into();
        check_no_url(&tag)?;
        check_length("tag", &tag, 1, TAG_CHARS)?;
        if tag.trim().is_empty() || tag.contains(char::is_control) {
            let problem = "a segment's tag is blank, or has control characters; choose a name that can be seen";
            return Err(TableError::Invalid { problem: problem.into() }.into());
        }
        let step = check_step(step)?;
        Ok(Self { tag, step, start: 1, description: None })
    }

    /// Sets the first id, at least 1. One load from it must end below 2^63.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`].
    pub fn start(mut self, start: u64) -> Result<Self, Error> {
        self.start = in_range("start", start, i64::MAX - self.step)?;
        Ok(self)
    }

    /// Sets what the tag is for, in up to 256 characters.
    ///
    /// # Errors
    ///
    /// [`TableError::Invalid`](crate::TableError::Invalid) if it is longer.
    pub fn description(mut self, description: impl Into<String>) -> Result<Self, Error> {
        let description = description.into();
        check_length("description", &description, 0, DESCRIPTION_CHARS)?;
        self.description = Some(description);
        Ok(self)
    }

    /// Returns the columns `biz_tag`, `max_id`, `step` and `description` of its row.
    pub fn columns(&self) -> (&str, i64, i64, Option<&str>) {
        (&self.tag, self.start, self.step, self.description.as_deref())
    }

    /// Returns the error for a tag that exists already.
    pub fn exists(found: SegmentTag) -> Error {
        let columns =
            end_of(&found).and_then(|max_id| Ok((max_id, readable(&found, "step", found.step)?)));
        match columns {
            Ok((max_id, step)) => TableError::TagExists { tag: found.tag, max_id, step }.into(),
            Err(unreadable) => unreadable,
        }
    }
}

/// Converts the step for column `step`.
///
/// # Errors
///
/// [`Error::OptionOutOfRange`].
pub fn check_step(step: u64) -> Result<i64, Error> {
    in_range("step", step, MAX_STEP)
}

/// Returns the `max_id` of a tag that is to be changed or deleted.
///
/// # Errors
///
/// [`TableError::UnreadableTag`]: after a deletion, nobody would know where the ids end.
pub fn end_of(found: &SegmentTag) -> Result<i64, Error> {
    readable(found, "max_id", found.max_id)
}

fn readable(found: &SegmentTag, column: &'static str, number: TagNumber) -> Result<i64, Error> {
    number.map_err(|problem| {
        Error::from(TableError::UnreadableTag { tag: found.tag.clone(), column, problem })
    })
}

/// Returns the error for a tag that does not exist.
pub fn no_such_tag(tag: &str) -> Error {
    match check_no_url(tag) {
        Ok(()) => TableError::NoSuchTag { tag: tag.to_owned() }.into(),
        Err(url) => url,
    }
}

/// Refuses a URL where a tag belongs. It may hold a password, and errors name the tag.
///
/// # Errors
///
/// [`TableError::Invalid`], which does not repeat the text.
pub fn check_no_url(tag: &str) -> Result<(), Error> {
    if !tag.contains("://") {
        return Ok(());
    }
    let problem = "a URL was given for a tag, which is a name of your choice, such as `orders`";
    Err(TableError::Invalid { problem: problem.into() }.into())
}

fn check_length(what: &'static str, text: &str, min: usize, max: usize) -> Result<(), Error> {
    let length = text.chars().count();
    if (min..=max).contains(&length) {
        return Ok(());
    }
    let problem =
        format!("the {what} of a segment is {length} characters long: {min} to {max} are allowed");
    Err(TableError::Invalid { problem }.into())
}

fn in_range(option: &'static str, value: u64, max: i64) -> Result<i64, Error> {
    check_option(option, value, 1..=max.unsigned_abs())?;
    Ok(value.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

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
