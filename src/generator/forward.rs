//! The traits' methods as inherent methods, and the traits' implementations for references to generators.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::per_thread::PerThreadGenerator;
use super::{
    AsyncUidGenerator, CachedUidGenerator, ClockedUidGenerator, GeneratorRef, SharedRing,
    UidGenerator, Uids,
};
use crate::clock::Clock;
use crate::error::{Error, FillError, TakeError};
use crate::layout::{Decoded, Layout};
use crate::uid::Uid;
use crate::waiting;

/// The methods of [`UidGenerator`] as inherent methods.
macro_rules! inherent {
    ([$($parameters:tt)*] $generator:ty) => {
        impl<$($parameters)*> $generator {
            /// Returns the next uid. If nothing is ready, the take policy decides.
            ///
            /// # Errors
            ///
            /// As [`UidGenerator::next_uid`].
            #[inline]
            pub fn next_uid(&self) -> Result<Uid, TakeError> {
                UidGenerator::next_uid(self)
            }

            /// Returns the next uid, or an error at once. Never waits.
            ///
            /// # Errors
            ///
            /// As [`UidGenerator::try_next_uid`].
            #[inline]
            pub fn try_next_uid(&self) -> Result<Uid, TakeError> {
                UidGenerator::try_next_uid(self)
            }

            /// Async [`next_uid`](Self::next_uid): pending while that would wait. If a uid is ready, the first poll
            /// returns it.
            ///
            /// A poll that takes a uid returns it, so dropping the future loses none. See docs/async.md.
            ///
            /// # Errors
            ///
            /// As [`UidGenerator::next_uid`].
            #[inline]
            pub async fn next_uid_async(&self) -> Result<Uid, TakeError> {
                match UidGenerator::try_next_uid(self) {
                    Ok(uid) => Ok(uid),
                    Err(error) => {
                        let again = || UidGenerator::try_next_uid(self);
                        waiting::follow_policy_async(self, error, again).await
                    }
                }
            }

            /// Fills all of `out` with increasing uids. Whenever nothing is ready, the take policy applies anew.
            ///
            /// # Errors
            ///
            /// [`FillError`] has the number of uids written before the error. Those are good.
            #[inline]
            pub fn fill(&self, out: &mut [Uid]) -> Result<(), FillError> {
                UidGenerator::fill(self, out)
            }

            /// Writes as many uids as are ready to the front of `out`, in increasing order, and returns how many. Never
            /// waits.
            ///
            /// # Errors
            ///
            /// As [`UidGenerator::try_fill`].
            #[inline]
            pub fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
                UidGenerator::try_fill(self, out)
            }

            /// Returns an endless iterator over [`next_uid`](Self::next_uid). After an error, it tries again.
            pub fn uids(&self) -> Uids<'_, Self> {
                UidGenerator::uids(self)
            }

            /// Sleeps until a uid may be ready, for at most `timeout`. May return early.
            pub fn wait(&self, timeout: Option<Duration>) {
                UidGenerator::wait(self, timeout);
            }

            /// Returns the fields of a uid of this generator's layout.
            ///
            /// # Errors
            ///
            /// [`Error::UidOutOfLayout`] for a uid that cannot be of this layout.
            pub fn decode(&self, uid: Uid) -> Result<Decoded, Error> {
                UidGenerator::decode(self, uid)
            }

            /// Returns the layout of the uids.
            pub fn layout(&self) -> &Layout {
                UidGenerator::layout(self)
            }

            /// Returns the worker id of future uids. It only changes if the builder [allows
            /// that](crate::generator::CachedBuilder::on_clock_back).
            pub fn worker_id(&self) -> u64 {
                UidGenerator::worker_id(self)
            }

            /// Closes the generator, or of a [`SharedRing`] only this handle in this process. Waiting takers are released,
            /// and every later take fails with [`TakeError::Closed`]. Closing again changes nothing.
            ///
            /// [`SharedRing`]: crate::SharedRing
            pub fn close(&self) {
                UidGenerator::close(self);
            }
        }
    };
}

inherent!([] CachedUidGenerator);
inherent!([C: Clock] ClockedUidGenerator<C>);
inherent!([] SharedRing);

/// More methods for tasks, of generators that no forked child takes from and that may have a lease.
macro_rules! inherent_async {
    ([$($parameters:tt)*] $generator:ty) => {
        impl<$($parameters)*> $generator {
            /// Appends `count` increasing uids to `out` without blocking the thread. Whenever nothing is ready, the
            /// take policy applies anew.
            ///
            /// Uids that were appended before an error, or before the future was dropped, are good.
            ///
            /// # Errors
            ///
            /// As [`UidGenerator::next_uid`]. After a fork during the call, nothing is appended.
            pub async fn fill_async(
                &self,
                out: &mut Vec<Uid>,
                count: usize,
            ) -> Result<(), TakeError> {
                let try_fill = |block: &mut [Uid]| UidGenerator::try_fill(self, block);
                waiting::fill_async(self, out, count, try_fill).await
            }

            /// Async [`close`](Self::close): waits for at most two seconds until a leased worker id is given back.
            ///
            /// The first poll closes the generator. If the future is dropped later, the worker id is given back all the
            /// same.
            pub async fn close_async(&self) {
                if let Some((lease, last)) = self.end() {
                    lease.end_async(last).await;
                }
            }
        }
    };
}

inherent_async!([] CachedUidGenerator);
inherent_async!([C: Clock] ClockedUidGenerator<C>);

/// Implements the async trait by the types' own async methods.
macro_rules! for_tasks {
    ([$($parameters:tt)*] $generator:ty, $takes:ident) => {
        impl<$($parameters)*> AsyncUidGenerator for $generator {
            fn next_uid_async(&self) -> impl Future<Output = Result<Uid, TakeError>> + Send {
                $takes::next_uid_async(self)
            }

            fn fill_async(
                &self,
                out: &mut Vec<Uid>,
                count: usize,
            ) -> impl Future<Output = Result<(), TakeError>> + Send {
                $takes::fill_async(self, out, count)
            }
        }
    };
}

for_tasks!([] CachedUidGenerator, CachedUidGenerator);
for_tasks!([C: Clock] ClockedUidGenerator<C>, ClockedUidGenerator);
for_tasks!([] SharedRing, SharedRing);
for_tasks!([G: GeneratorRef + Sync] PerThreadGenerator<G>, PerThreadGenerator);
for_tasks!([G: AsyncUidGenerator] &G, G);
for_tasks!([G: AsyncUidGenerator] Box<G>, G);
for_tasks!([G: AsyncUidGenerator + Send] Arc<G>, G);

/// Implements the trait for references to generators.
macro_rules! forward {
    ($($reference:ty),*) => {$(
        impl<G: UidGenerator + ?Sized> UidGenerator for $reference {
            #[inline]
            fn try_next_uid(&self) -> Result<Uid, TakeError> {
                (**self).try_next_uid()
            }

            #[inline]
            fn next_uid(&self) -> Result<Uid, TakeError> {
                (**self).next_uid()
            }

            fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
                (**self).try_fill(out)
            }

            fn fill(&self, out: &mut [Uid]) -> Result<(), FillError> {
                (**self).fill(out)
            }

            fn wait(&self, timeout: Option<Duration>) {
                (**self).wait(timeout);
            }

            fn layout(&self) -> &Layout {
                (**self).layout()
            }

            fn worker_id(&self) -> u64 {
                (**self).worker_id()
            }

            fn close(&self) {
                (**self).close();
            }

            fn decode(&self, uid: Uid) -> Result<Decoded, Error> {
                (**self).decode(uid)
            }
        }
    )*};
}

forward!(&G, Box<G>, Rc<G>, Arc<G>);
