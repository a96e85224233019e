//! A generator that is not opened yet.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uidring::generator::{CachedBuilder, ClockedBuilder};
use uidring::policy::TakePolicy;
use uidring::segment::SegmentStore;
use uidring::{Error, PerThreadGenerator, SegmentGenerator};

use crate::{AnyGenerator, OtherGenerator, TagGenerator};

/// A generator whose options are checked, and which is not opened yet: code can set what a URL cannot.
#[derive(Debug)]
#[non_exhaustive]
pub enum Prepared {
    /// With a ring that a thread keeps full.
    Cached(Box<CachedBuilder>),
    /// The same, in which each thread counts through blocks of its own.
    PerThread(Box<CachedBuilder>),
    /// With the clock, which each take reads.
    Clocked(Box<ClockedBuilder>),
    /// With the numbers of a tag.
    Segment(PreparedTag),
}

/// The tag of a generator that is not opened yet.
#[non_exhaustive]
pub struct PreparedTag {
    /// The source of the tag's segments.
    pub store: Box<dyn SegmentStore>,
    /// The tag.
    pub tag: String,
    /// What a take does if no id is ready, if the URL says so.
    pub take_policy: Option<TakePolicy>,
    /// How long a load may take with all its attempts.
    pub deadline: Duration,
}

impl Prepared {
    /// Builds the generator. It blocks until the store has answered.
    ///
    /// # Errors
    ///
    /// Those of [`Options::open`](crate::Options::open).
    pub fn open(self) -> Result<AnyGenerator, Error> {
        Ok(match self {
            Self::Cached(builder) => AnyGenerator::Cached(builder.build()?),
            Self::PerThread(builder) => AnyGenerator::Other(OtherGenerator::PerThread(
                PerThreadGenerator::new(Arc::new(builder.build()?)),
            )),
            Self::Clocked(builder) => {
                AnyGenerator::Other(OtherGenerator::Clocked(builder.build()?))
            }
            Self::Segment(PreparedTag { store, tag, take_policy, .. }) => {
                let builder = SegmentGenerator::builder(store);
                let builder = builder.take_policy(take_policy.unwrap_or_default());
                AnyGenerator::Segment(TagGenerator::new(builder.build()?, &tag)?)
            }
        })
    }
}

impl fmt::Debug for PreparedTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedTag").field("tag", &self.tag).finish_non_exhaustive()
    }
}
