//! Why no id was handed out, by any generator.

use uidring::segment::SegmentError;
use uidring::{Error, FillError, TakeError};

/// Why an [`AnyGenerator`](crate::AnyGenerator) handed out no id.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnyTakeError {
    /// What a cached or clock-driven generator says.
    #[error(transparent)]
    Uid(#[from] TakeError),
    /// What a generator of segments says.
    #[error(transparent)]
    Segment(Box<SegmentError>),
}

/// A [`fill`](crate::AnyGenerator::fill) that stopped early.
pub type AnyFillError = FillError<AnyTakeError>;

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
