//! Why any generator handed out no id.

use std::fmt;

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

impl fmt::Debug for AnyTakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uid(error) => fmt::Debug::fmt(error, f),
            Self::Segment(error) => fmt::Debug::fmt(error, f),
        }
    }
}

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
