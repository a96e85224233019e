//! Why any generator handed out no id.

use uidring::adapter::{Chain, error_traits};
use uidring::segment::SegmentError;
use uidring::{Error, FillError, TakeError};

/// Why an [`AnyGenerator`](crate::AnyGenerator) handed out no id.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AnyTakeError {
    /// From a cached or clock-driven generator.
    #[error(transparent)]
    Uid(#[from] TakeError),
    /// From a segment generator.
    #[error(transparent)]
    Segment(Box<SegmentError>),
}

/// A [`fill`](crate::AnyGenerator::fill) that stopped early.
pub type AnyFillError = FillError<AnyTakeError>;

error_traits!(AnyTakeError);

impl From<SegmentError> for AnyTakeError {
    #[cold]
    fn from(error: SegmentError) -> Self {
        Self::Segment(Box::new(error))
    }
}

impl From<AnyTakeError> for Error {
    fn from(error: AnyTakeError) -> Self {
        match error {
            AnyTakeError::Uid(error) => error.into(),
            AnyTakeError::Segment(error) => (*error).into(),
        }
    }
}
