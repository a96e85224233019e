//! The trait of all generators.

use std::time::Duration;

use crate::error::{Error, FillError, TakeError};
use crate::layout::{Decoded, Layout};
use crate::uid::Uid;

/// A generator hands out each uid once, and never one that a generator with the same layout and another worker id could
/// hand out.
///
/// All methods take `&self`. Those of this crate's generators may be called from any number of threads at once. If one
/// take returns before another begins, its uid is smaller. With a [`PerThreadGenerator`](crate::PerThreadGenerator)
/// this holds only within a thread, and a [new worker id](crate::generator::OnClockBack::NewWorkerId) breaks the order.
///
/// Cached and clock-driven generators also have these methods without the trait. Use the trait in generic code, and
/// [`AsyncUidGenerator`] in tasks. A [`LocalGenerator`](crate::LocalGenerator) is no `UidGenerator`: it belongs to one
/// thread, and its takes need `&mut self`.
pub trait UidGenerator {
    /// Returns the next uid, or an error at once. Never waits.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`] or [`TakeError::BorrowLimit`] if nothing is ready, whatever the take policy. The other errors
    /// are those of [`next_uid`](Self::next_uid).
    fn try_next_uid(&self) -> Result<Uid, TakeError>;

    /// Writes as many uids as are ready, at most `out.len()`, to the front of `out` in increasing order, and returns
    /// how many. Never waits. An empty `out` does nothing.
    ///
    /// # Errors
    ///
    /// As [`try_next_uid`](Self::try_next_uid), if not even one was ready.
    fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError>;

    /// Sleeps until a uid may be ready, for at most `timeout`. May return early.
    fn wait(&self, timeout: Option<Duration>);

    /// Returns the layout of the uids.
    fn layout(&self) -> &Layout;

    /// Returns the worker id of future uids. It only changes if the builder of a cached generator [allows
    /// that](crate::generator::CachedBuilder::on_clock_back).
    fn worker_id(&self) -> u64;

    /// Closes the generator. Waiting takers are released, and every later take fails with [`TakeError::Closed`].
    /// Closing again changes nothing.
    fn close(&self);

    /// Returns the next uid. If nothing is ready, the take policy decides.
    ///
    /// # Errors
    ///
    /// As the policy says: [`TakeError::Empty`], [`TakeError::BorrowLimit`] or [`TakeError::DeadlineExceeded`].
    /// Whatever the policy: [`TakeError::TimeExhausted`], [`TakeError::LeaseLost`], [`TakeError::Forked`],
    /// [`TakeError::Closed`] and the clock's errors.
    fn next_uid(&self) -> Result<Uid, TakeError>;

    /// Fills all of `out` with increasing uids, which need not be consecutive. Whenever nothing is ready, the take
    /// policy applies anew.
    ///
    /// # Errors
    ///
    /// [`FillError`] has the number of uids written before the error. Those are good.
    fn fill(&self, out: &mut [Uid]) -> Result<(), FillError>;

    /// Returns an endless iterator over [`next_uid`](Self::next_uid). After an error, it tries again.
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

    /// Returns the fields of a uid of this generator's layout.
    ///
    /// # Errors
    ///
    /// [`Error::UidOutOfLayout`] for a uid that cannot be of this layout.
    fn decode(&self, uid: Uid) -> Result<Decoded, Error> {
        self.layout().decode(uid)
    }
}

/// Takes for tasks, from any generator and on any runtime. They wait without blocking the thread.
///
/// The futures are `Send`, so that generic code can spawn them, and they do not allocate. Therefore this trait has no
/// trait objects; [`UidGenerator`] does.
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
    /// Async [`next_uid`](UidGenerator::next_uid): pending while that would wait. If a uid is ready, the first poll
    /// returns it.
    ///
    /// A poll that takes a uid returns it, so dropping the future loses none.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`].
    fn next_uid_async(&self) -> impl Future<Output = Result<Uid, TakeError>> + Send;

    /// Appends `count` increasing uids to `out`. Whenever nothing is ready, the take policy applies anew.
    ///
    /// Uids that were appended before an error, or before the future was dropped, are good.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`]. After a fork during the call, nothing is appended.
    fn fill_async(
        &self,
        out: &mut Vec<Uid>,
        count: usize,
    ) -> impl Future<Output = Result<(), TakeError>> + Send;
}

/// An endless iterator over a generator's uids, from [`UidGenerator::uids`]. After an error, it tries again.
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
