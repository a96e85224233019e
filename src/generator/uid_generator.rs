//! The trait that all generators share.

use std::time::Duration;

use crate::error::{Error, FillError, TakeError};
use crate::layout::{Decoded, Layout};
use crate::uid::Uid;

/// What every generator does: it hands out each uid once, and none that a generator with the same layout and
/// another worker id could hand out.
///
/// All methods take `&self`, and those of the generators themselves may be called from any number of threads at
/// once. If one take returns before another begins, its uid is smaller; with a
/// [`PerThreadGenerator`](crate::PerThreadGenerator), only where both are the same thread's.
///
/// Cached and clock-driven generators have these methods of their own, too: the trait is for code that takes any. A task takes by
/// [`AsyncUidGenerator`]. A [`LocalGenerator`](crate::LocalGenerator) is no `UidGenerator`: it belongs to one
/// thread, and its takes need `&mut self`.
pub trait UidGenerator {
    /// The next uid, or at once the reason why there is none now. It never waits.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`] or [`TakeError::BorrowLimit`] if nothing is ready; the other ones
    /// whatever the policy.
    fn try_next_uid(&self) -> Result<Uid, TakeError>;

    /// As many uids as are ready now, up to `out.len()`, written to the front of `out` in
    /// increasing order; returns how many. It never waits. With an empty `out` it does nothing.
    ///
    /// # Errors
    ///
    /// As [`try_next_uid`](Self::try_next_uid), if there was not even one.
    fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError>;

    /// Sleeps until a uid may be ready, or for `timeout` at most. It may return early.
    fn wait(&self, timeout: Option<Duration>);

    /// How the uids are made up.
    fn layout(&self) -> &Layout;

    /// The worker id in the uids from now on; it changes only where the builder of a cached generator
    /// [allows that](crate::generator::CachedBuilder::on_clock_back).
    fn worker_id(&self) -> u64;

    /// Ends the generator: takers that wait are released, and every take from now on gets
    /// [`TakeError::Closed`]. A second close changes nothing.
    fn close(&self);

    /// The next uid; when nothing is ready, the take policy decides.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`], [`TakeError::BorrowLimit`] or [`TakeError::DeadlineExceeded`] as the policy
    /// says; [`TakeError::TimeExhausted`], [`TakeError::LeaseLost`], [`TakeError::Forked`],
    /// [`TakeError::Closed`] and the clock's errors whatever the policy.
    fn next_uid(&self) -> Result<Uid, TakeError>;

    /// Fills the whole of `out` with increasing uids; whenever nothing is ready, the take policy
    /// decides anew. Uids of one call need not be neighbours.
    ///
    /// # Errors
    ///
    /// [`FillError`] says how many uids were filled in before the error: those are good.
    fn fill(&self, out: &mut [Uid]) -> Result<(), FillError>;

    /// An endless iterator over [`next_uid`](Self::next_uid); after an error it tries anew.
    ///
    /// ```
    /// use uidring::{CachedUidGenerator, UidGenerator};
    ///
    /// let generator = CachedUidGenerator::builder().worker_id(7).build()?;
    /// let generator: &dyn UidGenerator = &generator;
    /// let uids = (&generator).uids().take(100).collect::<Result<Vec<_>, _>>()?;
    /// assert!(uids.is_sorted());
    /// # Ok::<(), uidring::Error>(())
    /// ```
    fn uids(&self) -> Uids<'_, Self>
    where
        Self: Sized,
    {
        Uids { generator: self }
    }

    /// The fields of a uid of this generator's layout.
    ///
    /// # Errors
    ///
    /// [`Error::UidOutOfLayout`] for a uid that cannot be of this layout.
    fn decode(&self, uid: Uid) -> Result<Decoded, Error> {
        self.layout().decode(uid)
    }
}

/// Takes for tasks, of any generator. They wait without blocking their thread, on any runtime.
///
/// The futures are `Send`, so generic code can spawn them, and allocate nothing. Therefore this trait has no trait
/// objects; [`UidGenerator`] has.
///
/// ```
/// use uidring::{AsyncUidGenerator, TakeError, Uid};
///
/// /// For a task of any runtime.
/// fn order_id(ids: impl AsyncUidGenerator + Send) -> impl Future<Output = Result<Uid, TakeError>> + Send {
///     async move { ids.next_uid_async().await }
/// }
/// # let ids = uidring::CachedUidGenerator::builder().worker_id(7).build()?;
/// # futures_executor::block_on(order_id(&ids))?;
/// # futures_executor::block_on(order_id(std::sync::Arc::new(ids)))?;
/// # Ok::<(), uidring::Error>(())
/// ```
pub trait AsyncUidGenerator: UidGenerator + Sync {
    /// [`next_uid`](UidGenerator::next_uid) for a task: where that waits, the future is pending. When a uid is ready,
    /// so is the future at its first poll.
    ///
    /// The future takes a uid in the poll that returns it, so that none is lost if it is dropped.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`].
    fn next_uid_async(&self) -> impl Future<Output = Result<Uid, TakeError>> + Send;

    /// Appends `count` increasing uids to `out`; whenever nothing is ready, the take policy decides anew.
    ///
    /// Uids that were appended before an error, or before the future is dropped, are good.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`]. After a fork amid the call, nothing was appended.
    fn fill_async(
        &self,
        out: &mut Vec<Uid>,
        count: usize,
    ) -> impl Future<Output = Result<(), TakeError>> + Send;
}

/// An endless iterator over the uids of a generator, such as [`UidGenerator::uids`]; after an error
/// it tries anew.
#[derive(Clone, Copy, Debug)]
pub struct Uids<'a, G> {
    generator: &'a G,
}

impl<G: UidGenerator> Iterator for Uids<'_, G> {
    type Item = Result<Uid, TakeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.generator.next_uid())
    }
}
