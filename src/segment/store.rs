//! What a segment generator asks of a database.

use crate::error::Error;

/// Where segments come from: a table `leaf_alloc`, or what stands in for one.
///
/// Its methods block. They are called by one thread at a time, apart from those who take ids.
pub trait SegmentStore: Send + 'static {
    /// All tags.
    ///
    /// # Errors
    ///
    /// What the store says.
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error>;

    /// Reserves a range for each of `wanted`, each in a transaction of its own, and hands over what
    /// came of it, by its place in `wanted`, as soon as it is known. Each is handed over once.
    ///
    /// A range that was reserved and not handed over, because the connection broke in between, is
    /// lost; it is never reserved again.
    fn load(
        &mut self,
        wanted: &[SegmentRequest],
        loaded: &mut dyn FnMut(usize, Result<LoadedSegment, LoadError>),
    );
}

/// A row of `leaf_alloc`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentTag {
    /// Column `biz_tag`.
    pub tag: String,
    /// The first id that is not reserved yet.
    pub max_id: i64,
    /// How many ids a load reserves at least.
    pub step: i64,
    /// What the tag is for.
    pub description: Option<String>,
    /// The last change of the row, in UTC.
    pub update_time: String,
}

/// A wish for a range of ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRequest {
    /// The tag.
    pub tag: String,
    /// How many ids; the table's step if that is greater.
    pub step: u64,
}

/// A range that is reserved: `start..end`, as `max_id` was before and after.
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The table has no such tag, or not any more.
    #[error("the table has no tag `{tag}`")]
    NoSuchTag {
        /// The tag.
        tag: String,
    },
    /// The row holds what cannot be served: a step or a start that is not positive.
    #[error("tag `{tag}` cannot be served: {problem}; set its row right")]
    InvalidRow {
        /// The tag.
        tag: String,
        /// What is wrong with the row.
        problem: String,
    },
    /// A range of this length would go beyond what the column can hold.
    #[error("tag `{tag}` is used up: max_id {max_id} plus {step} is over 2^63 - 1")]
    UsedUp {
        /// The tag.
        tag: String,
        /// The column, which was left as it is.
        max_id: i64,
        /// The length that was asked for.
        step: u64,
    },
    /// The store could not be asked; it may be another time.
    #[error(transparent)]
    Store(#[from] Error),
}
