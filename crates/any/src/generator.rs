//! A generator of any kind.

use std::sync::Arc;

use uidring::generator::{CachedStats, ClockedStats};
use uidring::segment::{SegmentError, SegmentHandle, SegmentStats};
use uidring::{
    CachedUidGenerator, ClockedUidGenerator, Decoded, Error, PerThreadGenerator, SegmentGenerator,
    TakeError, Uid, UidGenerator,
};
use uidring_store::TableError;

use crate::error::{AnyFillError, AnyTakeError};

/// How many ids of a segment to convert at once.
const PORTION: usize = 256;

/// A generator of the kind that a URL chose.
///
/// Any number of threads may call its methods at once. If one take returns before another begins, its id is smaller:
/// for segments within this process, with `order=per-thread` within a thread. A take costs one predictable branch more
/// than on the generator itself.
// An explicit tag: computing it from a generator's field would take three more instructions.
#[repr(u8)]
#[expect(clippy::large_enum_variant, reason = "a program has few of them")]
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyGenerator {
    /// Takes from a ring that a thread keeps full.
    Cached(CachedUidGenerator),
    /// Takes the numbers of a tag.
    Segment(TagGenerator),
    /// Another kind. One variant for both, since a fourth variant would cost each take of the first an instruction.
    Other(OtherGenerator),
}

/// A generator of a less common kind.
#[derive(Debug)]
#[non_exhaustive]
pub enum OtherGenerator {
    /// Reads the clock at each take.
    Clocked(ClockedUidGenerator),
    /// Takes from a ring, with a block of uids for each thread.
    PerThread(PerThreadGenerator<Arc<CachedUidGenerator>>),
}

/// A segment generator, and the tag to take from.
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
    /// As [`SegmentGenerator::tag`].
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
    /// Of a clock-driven generator.
    Clocked(ClockedStats),
    /// Of a tag.
    Segment(SegmentStats),
}

impl AnyGenerator {
    /// Returns the next id. If none is ready, the option `take` decides; by default, it waits.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`] and [`SegmentHandle::next_id`].
    // If not inlined, the result goes through memory.
    #[inline(always)]
    pub fn next_uid(&self) -> Result<Uid, AnyTakeError> {
        match self {
            Self::Cached(generator) => Ok(generator.next_uid()?),
            Self::Other(generator) => Ok(generator.next_uid()?),
            Self::Segment(TagGenerator { tag, .. }) => Ok(uid(tag.next_id()?)),
        }
    }

    /// Returns the next id if one is ready. Never waits.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::try_next_uid`] and [`SegmentHandle::try_next_id`].
    #[inline(always)]
    pub fn try_next_uid(&self) -> Result<Uid, AnyTakeError> {
        match self {
            Self::Cached(generator) => Ok(generator.try_next_uid()?),
            Self::Other(generator) => Ok(generator.try_next_uid()?),
            Self::Segment(TagGenerator { tag, .. }) => Ok(uid(tag.try_next_id()?)),
        }
    }

    /// Async [`next_uid`](Self::next_uid), on any runtime. Dropping the future loses no id.
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

    /// Fills `out` with increasing ids.
    ///
    /// # Errors
    ///
    /// [`AnyFillError`] says how many valid ids were filled in before the error.
    pub fn fill(&self, out: &mut [Uid]) -> Result<(), AnyFillError> {
        match self {
            Self::Cached(generator) => generator.fill(out).map_err(|failed| failed.map(Into::into)),
            Self::Other(generator) => {
                generator.as_uid_generator().fill(out).map_err(|failed| failed.map(Into::into))
            }
            Self::Segment(TagGenerator { tag, .. }) => fill(tag, out),
        }
    }

    /// Fills the front of `out` with the ids that are ready, in increasing order, and returns how many. Never waits.
    /// An empty `out` does nothing.
    ///
    /// # Errors
    ///
    /// As [`try_next_uid`](Self::try_next_uid), if not even one was ready.
    pub fn try_fill(&self, out: &mut [Uid]) -> Result<usize, AnyTakeError> {
        match self {
            Self::Cached(generator) => Ok(generator.try_fill(out)?),
            Self::Other(generator) => Ok(generator.as_uid_generator().try_fill(out)?),
            Self::Segment(TagGenerator { tag, .. }) => Ok(try_fill(tag, out)?),
        }
    }

    /// Returns the time, worker id and sequence number of a uid.
    ///
    /// # Errors
    ///
    /// [`Error::UidOutOfLayout`] if this generator cannot have made the uid;
    /// [`TableError::Lacks`](uidring_store::TableError::Lacks) for a tag, whose ids are plain numbers.
    pub fn decode(&self, uid: Uid) -> Result<Decoded, Error> {
        match self {
            Self::Cached(generator) => generator.decode(uid),
            Self::Other(generator) => generator.as_uid_generator().decode(uid),
            Self::Segment(TagGenerator { tag, .. }) => {
                let place = format!("the tag {}", tag.name());
                let (has, what) = ("plain numbers", "layout to decode them by");
                Err(TableError::Lacks { place, has, what }.into())
            }
        }
    }

    /// Returns statistics.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Forked`], only for a tag.
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

    /// Ends the generator, and gives a leased worker id back. Waiting takers are released, and every later take fails.
    pub fn close(&self) {
        match self {
            Self::Cached(generator) => generator.close(),
            Self::Other(OtherGenerator::Clocked(generator)) => generator.close(),
            Self::Other(OtherGenerator::PerThread(generator)) => generator.generator().close(),
            Self::Segment(TagGenerator { generator, .. }) => generator.close(),
        }
    }

    /// Returns the generator whose ring the ids come from, if it has one.
    pub fn as_cached(&self) -> Option<&CachedUidGenerator> {
        match self {
            Self::Cached(generator) => Some(generator),
            Self::Other(OtherGenerator::PerThread(generator)) => Some(generator.generator()),
            _ => None,
        }
    }

    /// Returns the generator as a [`UidGenerator`]; `None` for segments, which have no layout and worker id.
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
        copy(&ids[..filled], portion);
        result.map_err(|mut failed| {
            // A forked child has no valid ids: the parent has those of earlier portions, too.
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

fn try_fill(tag: &SegmentHandle, out: &mut [Uid]) -> Result<usize, SegmentError> {
    let mut ids = [0; PORTION];
    let mut filled = 0;
    for portion in out.chunks_mut(PORTION) {
        match tag.try_fill(&mut ids[..portion.len()]) {
            Ok(more) => {
                copy(&ids[..more], portion);
                filled += more;
                if more < portion.len() {
                    break;
                }
            }
            // As in `fill`: a forked child has no valid ids, not even those of earlier portions.
            Err(error) if filled == 0 || matches!(error, SegmentError::Forked) => {
                return Err(error);
            }
            Err(_) => break,
        }
    }
    Ok(filled)
}

fn copy(ids: &[u64], out: &mut [Uid]) {
    for (out, id) in out.iter_mut().zip(ids) {
        *out = uid(*id);
    }
}
