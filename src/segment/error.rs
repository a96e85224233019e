//! Errors of the segment generator.

use std::sync::Arc;

use super::store::LoadError;
use crate::error::{Chain, Error, FillError, StoreError, StoreErrorKind, error_traits};
use crate::sync::Forked;

/// Why no id was handed out. Holds the store's last error if that is the cause.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// No id is in memory; a segment has to be loaded first. You can try again later.
    #[error("no id is in memory at this moment; try again, or use a waiting take policy")]
    Empty,
    /// No segment came within the take policy's deadline, although the store has not failed: it is slow.
    #[error(
        "no segment was loaded within the take policy's deadline; allow more time, or a longer step"
    )]
    DeadlineExceeded,
    /// There was no such tag when the tags were last read.
    #[error("{0}, as of the last reading of its tags; create it, or read them anew")]
    UnknownTag(Arc<LoadError>),
    /// The tag is gone from the table. Once it is back, takes succeed again.
    #[error("{0} any more; create it again above the ids that were in use")]
    RemovedTag(Arc<LoadError>),
    /// The last load failed, and nothing is left in memory. Loads are retried, and takes succeed again once one does.
    #[error("no segment could be loaded")]
    StoreDown(#[source] Arc<LoadError>),
    /// The store refuses to load until somebody fixes something, and nothing is left in memory. It is asked again at
    /// growing intervals, and at each [`refresh`](crate::SegmentGenerator::refresh). Once it loads, takes succeed
    /// again.
    #[error("no segment can be loaded")]
    Refused(#[source] Arc<LoadError>),
    /// The tag's numbers are used up. The row is checked again when the tags are read.
    #[error("{0}")]
    UsedUp(Arc<LoadError>),
    /// The tag's row cannot be served. It is checked again when the tags are read.
    #[error("{0}")]
    InvalidRow(Arc<LoadError>),
    /// The generator's own thread would wait for itself: its store made this call, or other code in that thread, such
    /// as a log subscriber.
    #[error("the generator's own thread cannot wait for it; ask in another thread")]
    OwnThread,
    /// This process is a forked child of the one that built the generator, so its ids would repeat. This is permanent.
    /// The parent is not affected.
    #[error("this process was forked from the generator's; build one after the fork")]
    Forked,
    /// The generator was closed or dropped, or its store panicked.
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
    /// Converts into a [`StoreError`]; [`Error::store`] returns the original.
    fn from(error: SegmentError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}

impl From<FillError<SegmentError>> for Error {
    /// Converts into a [`StoreError`]; [`Error::store`] returns the original.
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

    /// Returns whether a later take may succeed without anybody's intervention. If so, the take policy decides what to
    /// do until then.
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
