//! A generator that is not yet opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uidring::generator::{CachedBuilder, ClockedBuilder};
use uidring::policy::TakePolicy;
use uidring::segment::SegmentStore;
use uidring::{Error, PerThreadGenerator, SegmentGenerator};

use crate::generator::{AnyGenerator, OtherGenerator, TagGenerator};

/// A generator with checked options that is not yet opened. Code can set what a URL cannot.
#[derive(Debug)]
#[non_exhaustive]
pub enum Prepared {
    /// Takes from a ring that a thread keeps full.
    Cached(Box<CachedBuilder>),
    /// The same, with a block of uids for each thread.
    PerThread(Box<CachedBuilder>),
    /// Reads the clock at each take.
    Clocked(Box<ClockedBuilder>),
    /// Takes the numbers of a tag.
    Segment(PreparedTag),
}

/// The tag of a generator that is not yet opened.
#[non_exhaustive]
pub struct PreparedTag {
    /// The source of the tag's segments.
    pub store: Box<dyn SegmentStore>,
    /// The tag.
    pub tag: String,
    /// What a take does if no id is ready, if the URL sets it.
    pub take_policy: Option<TakePolicy>,
    /// How long a load may take, including retries.
    pub deadline: Duration,
}

impl Prepared {
    /// Builds the generator. Blocks until the store has answered.
    ///
    /// # Errors
    ///
    /// As [`Options::open`](crate::Options::open).
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
