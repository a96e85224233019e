//! A generator of any kind.

use std::sync::Arc;

use uidring::generator::{CachedStats, ClockedStats};
use uidring::segment::{SegmentError, SegmentHandle, SegmentStats};
use uidring::{
    CachedUidGenerator, ClockedUidGenerator, Decoded, Error, PerThreadGenerator, SegmentGenerator,
    TakeError, Uid, UidGenerator,
};
use uidring_store::TableError;

use crate::{AnyFillError, AnyTakeError};

/// How many ids of a segment are converted at once.
const PORTION: usize = 256;

/// A generator whose kind a URL chose.
///
/// Its methods may be called from any number of threads at once. If one take returns before another begins, its id is
/// smaller; ids of segments keep that order within the process, and with `order=per-thread` the ids of each thread do. A
/// take costs one branch more than a take from the generator itself; that branch always goes the same way.
// A tag of its own: the compiler would compute the kind from a field of a generator, by three instructions more.
#[repr(u8)]
#[expect(clippy::large_enum_variant, reason = "a program has few of them")]
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyGenerator {
    /// With a ring that a thread keeps full.
    Cached(CachedUidGenerator),
    /// With the numbers of a tag.
    Segment(TagGenerator),
    /// Of another kind. These are one variant, since a fourth would cost each take of the first an instruction.
    Other(OtherGenerator),
}

/// A generator of a kind that URLs seldom choose.
#[derive(Debug)]
#[non_exhaustive]
pub enum OtherGenerator {
    /// With the clock, which each take reads.
    Clocked(ClockedUidGenerator),
    /// With a ring, in which each thread counts through blocks of its own.
    PerThread(PerThreadGenerator<Arc<CachedUidGenerator>>),
}

/// A generator of segments, and the tag to take from.
#[derive(Debug)]
pub struct TagGenerator {
    tag: SegmentHandle,
    generator: SegmentGenerator,
}

impl TagGenerator {
    /// Takes the ids of this tag.
    ///
    /// # Errors
    ///
    /// Those of [`SegmentGenerator::tag`].
    pub fn new(generator: SegmentGenerator, tag: &str) -> Result<Self, SegmentError> {
        Ok(Self { tag: generator.tag(tag)?, generator })
    }
}

/// Statistics of an [`AnyGenerator`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyStats {
    /// Of a cached generator.
    Cached(CachedStats),
    /// Of a generator on the clock.
    Clocked(ClockedStats),
    /// Of a tag.
    Segment(SegmentStats),
}

impl AnyGenerator {
    /// Returns the next id. If none is ready, the option `take` decides; by default it waits.
    ///
    /// # Errors
    ///
    /// Those of [`UidGenerator::next_uid`] and [`SegmentHandle::next_id`].
    // Where it is not inlined, the result goes through memory.
    #[inline(always)]
    pub fn next_uid(&self) -> Result<Uid, AnyTakeError> {
        match self {
            Self::Cached(generator) => Ok(generator.next_uid()?),
            Self::Other(generator) => Ok(generator.next_uid()?),
            Self::Segment(TagGenerator { tag, .. }) => Ok(uid(tag.next_id()?)),
        }
    }

    /// Returns the next id if one is ready. It never waits.
    ///
    /// # Errors
    ///
    /// Those of [`UidGenerator::try_next_uid`] and [`SegmentHandle::try_next_id`].
    #[inline(always)]
    pub fn try_next_uid(&self) -> Result<Uid, AnyTakeError> {
        match self {
            Self::Cached(generator) => Ok(generator.try_next_uid()?),
            Self::Other(generator) => Ok(generator.try_next_uid()?),
            Self::Segment(TagGenerator { tag, .. }) => Ok(uid(tag.try_next_id()?)),
        }
    }

    /// [`next_uid`](Self::next_uid) for a task. It waits without blocking its thread, on any runtime, and no id is lost
    /// if the future is dropped.
    ///
    /// # Errors
    ///
    /// As [`next_uid`](Self::next_uid).
    pub async fn next_uid_async(&self) -> Result<Uid, AnyTakeError> {
        match self {
            Self::Cached(generator) => Ok(generator.next_uid_async().await?),
            Self::Other(OtherGenerator::Clocked(generator)) => {
                Ok(generator.next_uid_async().await?)
            }
            Self::Other(OtherGenerator::PerThread(generator)) => {
                Ok(generator.next_uid_async().await?)
            }
            Self::Segment(TagGenerator { tag, .. }) => Ok(uid(tag.next_id_async().await?)),
        }
    }

    /// Fills the whole of `out` with increasing ids.
    ///
    /// # Errors
    ///
    /// [`AnyFillError`] says how many ids were filled in before the error: those are good.
    pub fn fill(&self, out: &mut [Uid]) -> Result<(), AnyFillError> {
        match self {
            Self::Cached(generator) => generator.fill(out).map_err(|failed| failed.map(Into::into)),
            Self::Other(generator) => {
                generator.as_uid_generator().fill(out).map_err(|failed| failed.map(Into::into))
            }
            Self::Segment(TagGenerator { tag, .. }) => fill(tag, out),
        }
    }

    /// Returns the time, worker id and sequence number of a uid.
    ///
    /// # Errors
    ///
    /// [`Error::UidOutOfLayout`] for a uid that this generator cannot have made;
    /// [`TableError::Lacks`](uidring_store::TableError::Lacks) for a tag, whose ids are plain numbers.
    pub fn decode(&self, uid: Uid) -> Result<Decoded, Error> {
        match self {
            Self::Cached(generator) => generator.decode(uid),
            Self::Other(generator) => generator.as_uid_generator().decode(uid),
            Self::Segment(TagGenerator { tag, .. }) => {
                let place = format!("the tag {}", tag.name());
                Err(TableError::Lacks {
                    place,
                    has: "plain numbers",
                    what: "layout to decode them by",
                }
                .into())
            }
        }
    }

    /// Returns statistics.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Forked`] of a tag's.
    pub fn stats(&self) -> Result<AnyStats, SegmentError> {
        Ok(match self {
            Self::Cached(generator) => AnyStats::Cached(generator.stats()),
            Self::Other(OtherGenerator::Clocked(generator)) => AnyStats::Clocked(generator.stats()),
            Self::Other(OtherGenerator::PerThread(generator)) => {
                AnyStats::Cached(generator.generator().stats())
            }
            Self::Segment(TagGenerator { tag, .. }) => AnyStats::Segment(tag.stats()?),
        })
    }

    /// Ends the generator: takers that wait are released, and every later take fails. It gives a leased worker id back.
    pub fn close(&self) {
        match self {
            Self::Cached(generator) => generator.close(),
            Self::Other(OtherGenerator::Clocked(generator)) => generator.close(),
            Self::Other(OtherGenerator::PerThread(generator)) => generator.generator().close(),
            Self::Segment(TagGenerator { generator, .. }) => generator.close(),
        }
    }

    /// Returns the generator whose ring the ids come from; `None` of other kinds.
    pub fn as_cached(&self) -> Option<&CachedUidGenerator> {
        match self {
            Self::Cached(generator) => Some(generator),
            Self::Other(OtherGenerator::PerThread(generator)) => Some(generator.generator()),
            _ => None,
        }
    }

    /// Returns the generator as a [`UidGenerator`]; `None` for segments, which have no layout and no worker id.
    pub fn as_uid_generator(&self) -> Option<&(dyn UidGenerator + Send + Sync)> {
        match self {
            Self::Cached(generator) => Some(generator),
            Self::Other(generator) => Some(generator.as_uid_generator()),
            Self::Segment(_) => None,
        }
    }
}

impl OtherGenerator {
    #[inline]
    fn next_uid(&self) -> Result<Uid, TakeError> {
        match self {
            Self::Clocked(generator) => generator.next_uid(),
            Self::PerThread(generator) => generator.next_uid(),
        }
    }

    #[inline]
    fn try_next_uid(&self) -> Result<Uid, TakeError> {
        match self {
            Self::Clocked(generator) => generator.try_next_uid(),
            Self::PerThread(generator) => generator.try_next_uid(),
        }
    }

    fn as_uid_generator(&self) -> &(dyn UidGenerator + Send + Sync) {
        match self {
            Self::Clocked(generator) => generator,
            Self::PerThread(generator) => generator,
        }
    }
}

/// An id of a tag is below its `max_id`, which is an `i64`.
#[inline]
fn uid(id: u64) -> Uid {
    Uid::new(id).expect("an id of a tag is below its max_id, an i64")
}

fn fill(tag: &SegmentHandle, out: &mut [Uid]) -> Result<(), AnyFillError> {
    let mut ids = [0; PORTION];
    let mut before = 0;
    for portion in out.chunks_mut(PORTION) {
        let ids = &mut ids[..portion.len()];
        let result = tag.fill(ids);
        let filled = result.as_ref().map_or_else(|failed| failed.filled, |()| ids.len());
        for (out, id) in portion.iter_mut().zip(&ids[..filled]) {
            *out = uid(*id);
        }
        result.map_err(|mut failed| {
            // A forked child has none: its parent has those of earlier portions, too.
            failed.filled = match failed.error {
                SegmentError::Forked => 0,
                _ => before + failed.filled,
            };
            failed.map(AnyTakeError::from)
        })?;
        before += portion.len();
    }
    Ok(())
}
