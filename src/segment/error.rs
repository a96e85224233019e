//! Why no id of a tag was handed out.

use std::sync::Arc;

use super::store::LoadError;
use crate::error::{Chain, Error, FillError, StoreError, StoreErrorKind, error_traits};
use crate::sync::Forked;

/// Why no id was handed out. On the hot path it costs nothing; what the store said last comes with
/// it.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// No id is in memory now: a segment has to be loaded first. Trying again later is fine.
    #[error("no id is in memory at this moment; try again, or use a waiting take policy")]
    Empty,
    /// No segment came within the deadline of the take policy, and the store has not failed
    /// either: it is slow.
    #[error(
        "no segment was loaded within the take policy's deadline; allow more time, or a longer step"
    )]
    DeadlineExceeded,
    /// When the tags were last read, there was none of this name.
    #[error("{0}, as of the last reading of its tags; create it, or read them anew")]
    UnknownTag(Arc<LoadError>),
    /// The tag was there, and is gone from the table. Once it is there again, ids flow again.
    #[error("{0} any more; create it again above the ids that were in use")]
    RemovedTag(Arc<LoadError>),
    /// The last try to load a segment failed, and nothing is left in memory. It is tried again, and
    /// once that succeeds, ids flow again.
    #[error("no segment could be loaded")]
    StoreDown(#[source] Arc<LoadError>),
    /// The store refuses to load a segment until somebody changes something, and nothing is left in
    /// memory. It is asked again, less and less often, and when the tags are read on demand; once it
    /// loads, ids flow again.
    #[error("no segment can be loaded")]
    Refused(#[source] Arc<LoadError>),
    /// The tag's numbers are used up. The row is looked at again when the tags are read.
    #[error("{0}")]
    UsedUp(Arc<LoadError>),
    /// The tag's row cannot be served. It is looked at again when the tags are read.
    #[error("{0}")]
    InvalidRow(Arc<LoadError>),
    /// This thread loads the segments, and would wait for itself: the generator was asked by its own
    /// store, or by what is called from its thread, such as a subscriber to the log.
    #[error("the generator's own thread cannot wait for it; ask in another thread")]
    OwnThread,
    /// This process is a forked child of the one that built the generator, whose ids would come
    /// twice. This is for good; the parent is not affected.
    #[error("this process was forked from the generator's; build one after the fork")]
    Forked,
    /// The generator is gone, or its store has panicked.
    #[error("the generator is closed")]
    Closed,
}

error_traits!(SegmentError);

impl From<Forked> for SegmentError {
    fn from(_: Forked) -> Self {
        Self::Forked
    }
}

impl From<SegmentError> for Error {
    /// A [`StoreError`], of which [`Error::store`] returns this one.
    fn from(error: SegmentError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}

impl From<FillError<SegmentError>> for Error {
    /// A [`StoreError`], of which [`Error::store`] returns this one.
    fn from(error: FillError<SegmentError>) -> Self {
        StoreError::new(error.error.kind(), error).into()
    }
}

impl SegmentError {
    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Empty | Self::DeadlineExceeded => StoreErrorKind::TimedOut,
            Self::UnknownTag(cause)
            | Self::RemovedTag(cause)
            | Self::StoreDown(cause)
            | Self::Refused(cause)
            | Self::UsedUp(cause)
            | Self::InvalidRow(cause) => cause.kind(),
            Self::OwnThread | Self::Forked | Self::Closed => StoreErrorKind::Other,
        }
    }

    /// Returns whether a later take may succeed without anybody doing anything. A take policy decides what
    /// to do until then.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Empty | Self::StoreDown(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Chain;

    #[test]
    fn a_take_fits_two_registers() {
        assert!(size_of::<Result<u64, SegmentError>>() <= 16);
    }

    #[test]
    fn texts_name_the_tag_and_what_to_do() {
        let cause = Arc::new(LoadError::NoSuchTag { tag: "orders".into() });
        for error in [
            SegmentError::UnknownTag(Arc::clone(&cause)),
            SegmentError::RemovedTag(Arc::clone(&cause)),
            SegmentError::StoreDown(cause),
        ] {
            let text = Chain(&error).to_string();
            assert!(text.contains("`orders`") && !text.ends_with('.'), "{text}");
            assert!(text.starts_with(|c: char| c.is_lowercase()), "{text}");
        }
    }
}
