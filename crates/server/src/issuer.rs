//! The source of a name's ids: a uid generator or a tag's segments.

use std::fmt;
use std::sync::Arc;

use uidring::adapter::Chain;
use uidring::segment::SegmentHandle;
use uidring::{CachedUidGenerator, Layout, PerThreadGenerator, Uid, UidGenerator};

use crate::error::IssueError;

/// A source of ids that all connections share.
#[expect(clippy::large_enum_variant, reason = "there is one per name")]
pub enum Issuer {
    /// Uids in one order over all connections.
    Ordered(Arc<CachedUidGenerator>),
    /// Uids that increase on each connection. Each serving thread takes from its own blocks.
    PerThread(PerThreadGenerator<Arc<CachedUidGenerator>>),
    /// Dense numbers of a tag.
    Segment(SegmentHandle),
}

/// Leaves out the generator's ring and the other tags of the table.
impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordered(_) => f.write_str("Ordered"),
            Self::PerThread(_) => f.write_str("PerThread"),
            Self::Segment(handle) => f.debug_tuple("Segment").field(&handle.name()).finish(),
        }
    }
}

impl Issuer {
    /// Returns the next id if one is ready.
    #[inline]
    pub fn ready(&self) -> Option<u64> {
        match self {
            Self::Ordered(generator) => generator.try_next_uid().ok().map(Uid::get),
            Self::PerThread(_) => None,
            Self::Segment(handle) => handle.try_next_id().ok(),
        }
    }

    /// Returns the next id. It may wait as long as the generator's take policy says, without blocking other tasks.
    ///
    /// # Errors
    ///
    /// As the generator's.
    pub async fn take(&self) -> Result<u64, IssueError> {
        Ok(match self {
            Self::Ordered(generator) => generator.next_uid_async().await?.get(),
            Self::PerThread(handle) => handle.next_uid_async().await?.get(),
            Self::Segment(handle) => handle.next_id_async().await?,
        })
    }

    /// Writes the ids that are ready, up to `out.len()`, to the front of `out` in increasing order, and returns how
    /// many. Errors count as none; [`fill`](Self::fill) reports them.
    pub fn fill_ready(&self, out: &mut [u64]) -> usize {
        match self {
            Self::Ordered(generator) => {
                let mut uids = [Uid::default(); 256];
                let mut filled = 0;
                for ids in out.chunks_mut(uids.len()) {
                    let count = generator.try_fill(&mut uids[..ids.len()]).unwrap_or(0);
                    ids.iter_mut().zip(&uids[..count]).for_each(|(id, uid)| *id = uid.get());
                    filled += count;
                    if count < ids.len() {
                        break;
                    }
                }
                filled
            }
            // Only `fill` can take from a thread's block.
            Self::PerThread(_) => 0,
            Self::Segment(handle) => handle.try_fill(out).unwrap_or(0),
        }
    }

    /// Appends `count` increasing ids, not necessarily consecutive.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take). Ids already appended remain valid.
    pub async fn fill(&self, out: &mut Vec<u64>, count: usize) -> Result<(), IssueError> {
        let mut uids = Vec::with_capacity(if self.layout().is_some() { count } else { 0 });
        let done = match self {
            Self::Ordered(generator) => generator.fill_async(&mut uids, count).await,
            Self::PerThread(handle) => handle.fill_async(&mut uids, count).await,
            Self::Segment(handle) => return Ok(handle.fill_async(out, count).await?),
        };
        out.extend(uids.into_iter().map(Uid::get));
        Ok(done?)
    }

    /// Reserves `count` consecutive ids, and returns the last one. Ids are skipped if a tick or segment ends too early.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take); [`IssueError::NotInARow`] for more than a tick or segment has.
    pub async fn reserve(&self, count: u64) -> Result<u64, IssueError> {
        // They are collected in memory first, and a truncated count must not pass for `count`.
        let max = self.longest_run().min(usize::MAX as u64);
        if count > max {
            return Err(IssueError::NotInARow { count, max });
        }
        let mut ids = Vec::new();
        // Other clients take, too, so the rest of a tick or segment may be too short repeatedly.
        for _ in 0..16 {
            let missing = count as usize - ids.len();
            self.fill(&mut ids, missing).await?;
            let gap = ids.windows(2).rposition(|pair| pair[1] != pair[0] + 1);
            match (gap, ids.last()) {
                (None, Some(last)) => return Ok(*last),
                (Some(gap), _) => drop(ids.drain(..=gap)),
                (None, None) => {}
            }
        }
        Err(IssueError::Contended)
    }

    /// The greatest number of consecutive ids.
    pub(crate) fn longest_run(&self) -> u64 {
        match self.layout() {
            Some(layout) => layout.max_sequence() + 1,
            // A segment may become longer than its table's step.
            None => u64::MAX,
        }
    }

    /// Why nothing is issued, as far as that is known without waiting. Takes a uid to find out.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Self::Segment(handle) = self {
            return handle.problem().map(|error| Chain(&error).to_string());
        }
        match self.generator()?.try_next_uid() {
            Err(error) if !error.may_pass() => Some(IssueError::from(error).to_string()),
            _ => None,
        }
    }

    /// Whether it is a uid generator that lost the lease of its worker id.
    pub(crate) fn has_lost_lease(&self) -> bool {
        let lease = self.generator().and_then(|generator| generator.stats().lease);
        lease.is_some_and(|lease| lease.is_lost)
    }

    /// Returns the layout of the uids; `None` for segments.
    pub fn layout(&self) -> Option<&Layout> {
        self.generator().map(|generator| generator.layout())
    }

    /// Returns the uid generator; `None` for segments.
    pub fn generator(&self) -> Option<&CachedUidGenerator> {
        match self {
            Self::Ordered(generator) => Some(generator),
            Self::PerThread(handle) => Some(handle.generator()),
            Self::Segment(_) => None,
        }
    }
}
