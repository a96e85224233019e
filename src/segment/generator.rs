//! The generator, and the handle to one of its tags.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::SegmentError;
use super::shared::Shared;
use super::stats::SegmentStats;
use super::tag::{Tag, Takes};
use crate::error::FillError;
use crate::sync::NoBlockScope;

/// Hands out ids of many tags from ranges that a store reserves.
///
/// It recreates Leaf's segment mode. A take is one atomic addition in the tag's current segment. Once part of the
/// segment is used, 10 % by default, a thread that serves all tags loads the next one. If nothing is left in memory,
/// the take policy decides; by default, the take waits.
///
/// - Ids are unique, as long as the table never reserves a range twice. A row whose `max_id` goes back below what this
///   generator has reserved is refused.
/// - Ids of one tag in one generator increase: if one take returns before another begins, its id is smaller. Two
///   generators on one table have ranges of their own, without any order between them.
/// - Ids in memory are lost when the process ends: at most [`depth`](super::SegmentBuilder::depth) segments, or
///   [`max_depth`](super::SegmentBuilder::max_depth) for tags that have run dry, each as long as its step.
///   [`SegmentStats::left`] is their number.
///
/// All methods take `&self`, and any number of threads may call them at once. Dropping the generator closes it.
///
/// ```
/// use uidring::SegmentGenerator;
/// use uidring::segment::{MemorySegments, SegmentTag};
///
/// let table = MemorySegments::new();
/// table.create(SegmentTag::new("orders").step(1_000))?;
/// let generator = SegmentGenerator::builder(table).build()?;
/// assert_eq!(generator.next_id("orders")?, 1);
///
/// // A handle saves the look-up of the tag.
/// let orders = generator.tag("orders")?;
/// assert_eq!(orders.next_id()?, 2);
/// let mut batch = [0; 100];
/// orders.fill(&mut batch)?;
/// assert_eq!(batch[99], 102);
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Debug)]
pub struct SegmentGenerator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A handle to one tag of a [`SegmentGenerator`], which saves the look-up. Clones are handles to the same tag. A handle
/// does not keep the generator alive: once that is dropped, takes fail with [`SegmentError::Closed`].
#[derive(Clone, Debug)]
pub struct SegmentHandle {
    tag: Arc<Tag>,
    shared: Arc<Shared>,
}

/// How long a drop waits for the thread, which may be waiting for the store.
const PATIENCE: Duration = Duration::from_secs(1);

impl SegmentGenerator {
    pub(super) fn new(shared: Arc<Shared>, thread: JoinHandle<()>) -> Self {
        Self { shared, thread: Some(thread) }
    }

    /// Returns the next id of a tag. If none is in memory, the take policy decides.
    ///
    /// # Errors
    ///
    /// - [`SegmentError::UnknownTag`] for a tag that was not there when the tags were last read, and
    ///   [`SegmentError::RemovedTag`] for one that is gone.
    /// - [`SegmentError::UsedUp`] and [`SegmentError::InvalidRow`] once nothing is left in memory.
    /// - [`SegmentError::Empty`] or [`SegmentError::DeadlineExceeded`] as the policy says, or
    ///   [`SegmentError::StoreDown`] if loading has failed.
    /// - [`SegmentError::Forked`] and [`SegmentError::Closed`].
    #[inline]
    pub fn next_id(&self, tag: &str) -> Result<u64, SegmentError> {
        self.takes(tag)?.next_id()
    }

    /// Async [`next_id`](Self::next_id): pending while that would wait. If an id is in memory, the first poll returns
    /// it.
    ///
    /// A poll that takes an id returns it, so dropping the future loses none. See docs/async.md.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id).
    #[inline]
    pub async fn next_id_async(&self, tag: &str) -> Result<u64, SegmentError> {
        self.takes(tag)?.next_id_async().await
    }

    /// Returns the next id of a tag, if one is in memory. Never waits for the store. A tag's first take has its first
    /// segment loaded.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id).
    #[inline]
    pub fn try_next_id(&self, tag: &str) -> Result<u64, SegmentError> {
        self.takes(tag)?.try_next_id()
    }

    /// Fills all of `out` with increasing ids of a tag, which need not be consecutive. Whenever none is in memory, the
    /// take policy applies anew.
    ///
    /// # Errors
    ///
    /// [`FillError`] has the number of ids written before the error. Those are good.
    pub fn fill(&self, tag: &str, out: &mut [u64]) -> Result<(), FillError<SegmentError>> {
        match self.takes(tag) {
            Ok(takes) => takes.fill(out),
            Err(error) => Err(FillError { filled: 0, error }),
        }
    }

    /// Writes as many ids of a tag as are in memory to the front of `out`, in increasing order, and returns how many.
    /// Never waits. An empty `out` does nothing.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id), if there was not even one id.
    pub fn try_fill(&self, tag: &str, out: &mut [u64]) -> Result<usize, SegmentError> {
        self.takes(tag)?.try_fill(out)
    }

    /// Appends `count` increasing ids of a tag to `out` without blocking the thread. Whenever none is in memory, the
    /// take policy applies anew.
    ///
    /// Ids that were appended before an error, or before the future was dropped, are good.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id). After a fork during the call, nothing is appended.
    pub async fn fill_async(
        &self,
        tag: &str,
        out: &mut Vec<u64>,
        count: usize,
    ) -> Result<(), SegmentError> {
        self.takes(tag)?.fill_async(out, count).await
    }

    #[inline]
    fn takes(&self, tag: &str) -> Result<Takes<'_>, SegmentError> {
        Ok(Takes::new(self.shared.tag(tag)?, &self.shared))
    }

    /// Returns a handle to a tag. Neither asks the store nor loads a segment.
    ///
    /// # Errors
    ///
    /// [`SegmentError::UnknownTag`], [`SegmentError::RemovedTag`], [`SegmentError::Forked`] and
    /// [`SegmentError::Closed`].
    pub fn tag(&self, tag: &str) -> Result<SegmentHandle, SegmentError> {
        let tag = self.shared.tag(tag)?;
        tag.check()?;
        Ok(SegmentHandle { tag: Arc::clone(tag), shared: Arc::clone(&self.shared) })
    }

    /// Returns the names of all tags in the table, in no order.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Forked`].
    pub fn tags(&self) -> Result<Vec<String>, SegmentError> {
        if self.shared.life.is_forked_child() {
            return Err(SegmentError::Forked);
        }
        let tags = self.shared.tags();
        Ok(tags.iter().filter(|tag| !tag.is_removed()).map(|tag| tag.name().to_owned()).collect())
    }

    /// Reads the tags and waits for the result. Adds new tags, drops removed ones, and retries rows that were repaired.
    ///
    /// # Errors
    ///
    /// [`SegmentError::StoreDown`] if the store could not be asked; [`SegmentError::Forked`] and
    /// [`SegmentError::Closed`].
    pub fn refresh(&self) -> Result<(), SegmentError> {
        self.shared.refresh()
    }

    /// Async [`refresh`](Self::refresh).
    ///
    /// # Errors
    ///
    /// As [`refresh`](Self::refresh).
    pub async fn refresh_async(&self) -> Result<(), SegmentError> {
        self.shared.refresh_async().await
    }

    /// Returns statistics of a tag.
    ///
    /// # Errors
    ///
    /// [`SegmentError::UnknownTag`] and [`SegmentError::Forked`].
    pub fn stats(&self, tag: &str) -> Result<SegmentStats, SegmentError> {
        self.shared.tag(tag)?.stats()
    }

    /// Closes the generator. Waiting takers are released, and every later take fails with [`SegmentError::Closed`]. The
    /// thread ends as soon as the store returns. Closing again changes nothing.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Closes the generator at the first poll. Then waits, as a drop does but without blocking the thread, for at most
    /// a second until the generator's thread has ended and its store is dropped.
    pub async fn close_async(&self) {
        self.shared.close();
        self.shared.wait_for_end_async(PATIENCE).await;
    }
}

impl Drop for SegmentGenerator {
    /// Closes the generator, and waits for at most a second until its thread has ended and its store is dropped. If the
    /// store takes longer, both end later on their own.
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // A forked child has no such thread, and a lock held at the fork stays held.
        if self.shared.life.is_forked_child() {
            std::mem::forget(thread);
            return;
        }
        self.shared.close();
        // Do not wait in a thread that others wait for: the generator's own thread would wait for itself, and another
        // generator's might wait for one that waits for it.
        if !NoBlockScope::is_here() && self.shared.wait_for_end(PATIENCE) {
            // It does not panic: panics of user code are caught.
            let _ = thread.join();
        }
    }
}

impl SegmentHandle {
    #[inline]
    fn takes(&self) -> Takes<'_> {
        Takes::new(&self.tag, &self.shared)
    }

    /// Returns the tag's name.
    pub fn name(&self) -> &str {
        self.tag.name()
    }

    /// Returns the next id. If none is in memory, the take policy decides.
    ///
    /// # Errors
    ///
    /// As [`SegmentGenerator::next_id`].
    #[inline]
    pub fn next_id(&self) -> Result<u64, SegmentError> {
        self.takes().next_id()
    }

    /// Async [`next_id`](Self::next_id); see [`SegmentGenerator::next_id_async`].
    ///
    /// # Errors
    ///
    /// As [`SegmentGenerator::next_id`].
    #[inline]
    pub async fn next_id_async(&self) -> Result<u64, SegmentError> {
        self.takes().next_id_async().await
    }

    /// Returns the next id, if one is in memory. Never waits for the store.
    ///
    /// # Errors
    ///
    /// As [`SegmentGenerator::next_id`].
    #[inline]
    pub fn try_next_id(&self) -> Result<u64, SegmentError> {
        self.takes().try_next_id()
    }

    /// Fills all of `out` with increasing ids, as [`SegmentGenerator::fill`] does.
    ///
    /// # Errors
    ///
    /// [`FillError`] has the number of ids written before the error. Those are good.
    pub fn fill(&self, out: &mut [u64]) -> Result<(), FillError<SegmentError>> {
        self.takes().fill(out)
    }

    /// Appends `count` increasing ids to `out`, as [`SegmentGenerator::fill_async`] does.
    ///
    /// # Errors
    ///
    /// As [`SegmentGenerator::fill_async`].
    pub async fn fill_async(&self, out: &mut Vec<u64>, count: usize) -> Result<(), SegmentError> {
        self.takes().fill_async(out, count).await
    }

    /// Writes the ids in memory to the front of `out`, as [`SegmentGenerator::try_fill`] does.
    ///
    /// # Errors
    ///
    /// As [`SegmentGenerator::try_fill`].
    pub fn try_fill(&self, out: &mut [u64]) -> Result<usize, SegmentError> {
        self.takes().try_fill(out)
    }

    /// Returns why no id is available, as far as known: none is in memory, and the last load failed or the row has
    /// none. Takes, loads and asks for nothing.
    pub fn problem(&self) -> Option<SegmentError> {
        self.tag.problem()
    }

    /// Returns the tag's statistics.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Forked`].
    pub fn stats(&self) -> Result<SegmentStats, SegmentError> {
        self.tag.stats()
    }
}
