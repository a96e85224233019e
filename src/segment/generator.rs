//! The generator, and the handle of one of its tags.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::SegmentError;
use super::shared::Shared;
use super::stats::SegmentStats;
use super::tag::{Tag, Takes};
use crate::error::FillError;
use crate::sync::NoBlockScope;

/// Hands out numbers of many tags, each tag's from ranges that a store reserves.
///
/// It re-creates Leaf's segment mode. A take is one atomic addition in the tag's current segment. Once a
/// part of the segment is used, 10 % by default, a thread that loads for all tags loads the next one.
/// When all that is in memory is used up, the take policy decides: by default, the take waits.
///
/// - No id is given out twice, as long as the table never reserves a range twice. A row whose `max_id`
///   goes back below what this generator has reserved is refused.
/// - Order: ids of one tag increase within one generator: if one take returns before another begins,
///   its id is the smaller. There is no order between two generators on one table: each has its own
///   ranges.
/// - Ids in memory are lost when the process ends: at most [`depth`](super::SegmentBuilder::depth)
///   segments, or [`max_depth`](super::SegmentBuilder::max_depth) for tags that have run dry, each as long
///   as the step at that time. [`SegmentStats::left`] says how many that would be.
///
/// All methods take `&self` and may be called from any number of threads at once. Dropping it closes
/// it.
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

/// A handle to one tag of a [`SegmentGenerator`], which saves the look-up of the tag. Clones are handles to
/// the same tag. It does not keep the generator alive: once that is dropped, takes get
/// [`SegmentError::Closed`].
#[derive(Clone, Debug)]
pub struct SegmentHandle {
    tag: Arc<Tag>,
    shared: Arc<Shared>,
}

/// How long dropping a generator waits for its thread, which may wait for the store.
const PATIENCE: Duration = Duration::from_secs(1);

impl SegmentGenerator {
    pub(super) fn new(shared: Arc<Shared>, thread: JoinHandle<()>) -> Self {
        Self { shared, thread: Some(thread) }
    }

    /// Returns the next id of a tag; when none is in memory, the take policy decides.
    ///
    /// # Errors
    ///
    /// - [`SegmentError::UnknownTag`] for a tag that was not there when the tags were last read,
    ///   and [`SegmentError::RemovedTag`] for one that is not there any more.
    /// - [`SegmentError::UsedUp`] and [`SegmentError::InvalidRow`] once what is in memory is used up.
    /// - [`SegmentError::Empty`] or [`SegmentError::DeadlineExceeded`] as the policy says, or
    ///   [`SegmentError::StoreDown`] instead if loading has failed.
    /// - [`SegmentError::Forked`] and [`SegmentError::Closed`].
    #[inline]
    pub fn next_id(&self, tag: &str) -> Result<u64, SegmentError> {
        self.takes(tag)?.next_id()
    }

    /// [`next_id`](Self::next_id) for a task: where that waits, the future is pending, and its thread goes
    /// on with other tasks. When an id is in memory, the future is ready at its first poll.
    ///
    /// The future takes an id in the poll that returns it, so that none is lost if it is dropped.
    /// docs/async.md says more.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id).
    #[inline]
    pub async fn next_id_async(&self, tag: &str) -> Result<u64, SegmentError> {
        self.takes(tag)?.next_id_async().await
    }

    /// Returns the next id of a tag if one is in memory. Never waits for the store; the first take of a
    /// tag has its first segment loaded.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id).
    #[inline]
    pub fn try_next_id(&self, tag: &str) -> Result<u64, SegmentError> {
        self.takes(tag)?.try_next_id()
    }

    /// Fills the whole of `out` with increasing ids of a tag; whenever none is in memory, the take
    /// policy decides anew. Ids of one call need not be neighbours.
    ///
    /// # Errors
    ///
    /// [`FillError`] says how many ids were filled in before the error: those are good.
    pub fn fill(&self, tag: &str, out: &mut [u64]) -> Result<(), FillError<SegmentError>> {
        match self.takes(tag) {
            Ok(takes) => takes.fill(out),
            Err(error) => Err(FillError { filled: 0, error }),
        }
    }

    /// Writes the ids of a tag that are in memory now, up to `out.len()`, to the front of `out` in increasing
    /// order, and returns how many. Never waits. With an empty `out` it does nothing.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id), if there was no id at all.
    pub fn try_fill(&self, tag: &str, out: &mut [u64]) -> Result<usize, SegmentError> {
        self.takes(tag)?.try_fill(out)
    }

    /// Appends `count` increasing ids of a tag to `out`, for a task; whenever none is in memory, the take
    /// policy decides anew.
    ///
    /// Ids that were appended before an error, or before the future is dropped, are good.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id). After a fork amid the call, nothing was appended.
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

    /// Returns a handle to a tag.
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

    /// Returns the names of the tags in the table, in no order.
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

    /// Reads the tags now, and waits until that is done: it adds the tags that were created, drops the
    /// tags that were removed, and tries rows that were repaired again.
    ///
    /// # Errors
    ///
    /// [`SegmentError::StoreDown`] if the store could not be asked; [`SegmentError::Forked`]
    /// and [`SegmentError::Closed`].
    pub fn refresh(&self) -> Result<(), SegmentError> {
        self.shared.refresh()
    }

    /// [`refresh`](Self::refresh) for a task.
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

    /// Closes the generator: takers that wait are released, and every take from now on gets
    /// [`SegmentError::Closed`]. Its thread ends as soon as the store returns. A second close
    /// changes nothing.
    pub fn close(&self) {
        self.shared.close();
    }

    /// [`close`](Self::close) that also waits, as dropping the generator does, for at most a second until
    /// its thread has ended and its store is dropped. It does not block the task's thread.
    ///
    /// The generator is closed at the first poll.
    pub async fn close_async(&self) {
        self.shared.close();
        self.shared.wait_for_end_async(PATIENCE).await;
    }
}

impl Drop for SegmentGenerator {
    /// Closes it, and waits for at most a second until its thread has ended and its store is dropped. If
    /// the store takes longer to return, both end by themselves after that.
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // A forked child has no such thread, and a lock that was held at the fork stays held.
        if self.shared.life.is_forked_child() {
            std::mem::forget(thread);
            return;
        }
        self.shared.close();
        // A store, or another generator's clock, drops it in a thread that others wait for: this generator's own
        // would wait for itself, and another one's for a thread that waits for it.
        if !NoBlockScope::is_here() && self.shared.wait_for_end(PATIENCE) {
            // It does not panic: panics of a caller's code are caught.
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

    /// Returns the next id; when none is in memory, the take policy decides.
    ///
    /// # Errors
    ///
    /// As [`SegmentGenerator::next_id`].
    #[inline]
    pub fn next_id(&self) -> Result<u64, SegmentError> {
        self.takes().next_id()
    }

    /// [`next_id`](Self::next_id) for a task; see [`SegmentGenerator::next_id_async`].
    ///
    /// # Errors
    ///
    /// As [`SegmentGenerator::next_id`].
    #[inline]
    pub async fn next_id_async(&self) -> Result<u64, SegmentError> {
        self.takes().next_id_async().await
    }

    /// Returns the next id if one is in memory. Never waits for the store.
    ///
    /// # Errors
    ///
    /// As [`SegmentGenerator::next_id`].
    #[inline]
    pub fn try_next_id(&self) -> Result<u64, SegmentError> {
        self.takes().try_next_id()
    }

    /// Fills the whole of `out` with increasing ids, as [`SegmentGenerator::fill`] does.
    ///
    /// # Errors
    ///
    /// [`FillError`] says how many ids were filled in before the error: those are good.
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

    /// Writes the ids that are in memory now to the front of `out`, as [`SegmentGenerator::try_fill`] does.
    ///
    /// # Errors
    ///
    /// As [`SegmentGenerator::try_fill`].
    pub fn try_fill(&self, out: &mut [u64]) -> Result<usize, SegmentError> {
        self.takes().try_fill(out)
    }

    /// Returns why no id can be had, as far as that is known: none is in memory, and the last load has failed, or the
    /// row has none. Nothing is taken, loaded or asked for.
    pub fn problem(&self) -> Option<SegmentError> {
        self.tag.problem()
    }

    /// Returns statistics of the tag.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Forked`].
    pub fn stats(&self) -> Result<SegmentStats, SegmentError> {
        self.tag.stats()
    }
}
