//! A taker that counts for itself.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::{CachedUidGenerator, UidGenerator};
use crate::error::TakeError;
use crate::ring::RingBuffer;
use crate::uid::Uid;

/// Takes whole runs of uids from a [`CachedUidGenerator`] and hands them out one by one, at the
/// cost of counting in a register: no atomic instruction but one in 256 takes.
///
/// Made by [`CachedUidGenerator::local`], or by [`new`](Self::new) from an `Arc`. It is for one
/// thread at a time: it can be sent to another, and not be shared.
///
/// Its uids increase. Between different takers there is no order within a run's length: another
/// taker's later uid may be smaller. When it is dropped, the rest of its run is issued to nobody,
/// 255 uids at the most; likewise when the run has become older than the generator's
/// [`max_lag`](crate::CachedBuilder::max_lag), or the generator is closed.
///
/// ```
/// use uidring::CachedUidGenerator;
///
/// let generator = CachedUidGenerator::builder().worker_id(7).build()?;
/// let mut local = generator.local();
/// let first = local.next_uid()?;
/// for uid in local.by_ref().take(1_000) {
///     assert!(first < uid?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LocalGenerator<G> {
    /// The numbers that are left of the run.
    run: Range<u64>,
    /// The generator's, which says how old a number may be.
    ring: Arc<RingBuffer>,
    generator: G,
    /// Not `Sync`: sharing it could only be a mistake.
    one_thread: PhantomData<Cell<()>>,
}

impl CachedUidGenerator {
    /// A taker of one's own; it takes its first run when it is first asked.
    pub fn local(&self) -> LocalGenerator<&Self> {
        LocalGenerator::new(self)
    }
}

impl<G: Deref<Target = CachedUidGenerator>> LocalGenerator<G> {
    /// A taker of one's own from any reference to a generator: `&`, or `Arc` for one that has to
    /// be stored.
    pub fn new(generator: G) -> Self {
        let ring = Arc::clone(generator.ring());
        Self { run: 0..0, ring, generator, one_thread: PhantomData }
    }

    /// The next uid; when nothing is ready, the generator's take policy decides.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`].
    #[inline]
    pub fn next_uid(&mut self) -> Result<Uid, TakeError> {
        // The look at the ring's freshness is a load of a word that seldom changes.
        if self.run.start < self.run.end && self.ring.is_fresh(self.run.start) {
            let number = self.run.start;
            self.run.start += 1;
            return Ok(Uid::from_layout(number));
        }
        self.take_run()
    }

    /// The generator that the runs come from.
    pub fn generator(&self) -> &CachedUidGenerator {
        &self.generator
    }

    /// The first uid of a new run.
    #[cold]
    fn take_run(&mut self) -> Result<Uid, TakeError> {
        let generator = &*self.generator;
        // What is left of a run that has become stale is issued to nobody.
        self.run = 0..0;
        let mut run = match generator.try_lease() {
            Ok(lease) => lease,
            Err(error) => {
                let mut lease = 0..0;
                generator.follow_policy(error, &mut || {
                    lease = generator.try_lease()?;
                    Ok(())
                })?;
                lease
            }
        };
        // A lease is never empty.
        let first = run.next().ok_or(TakeError::Empty)?;
        self.run = run;
        Ok(Uid::from_layout(first))
    }
}

/// Endless, but for errors: after one, the next call tries anew.
impl<G: Deref<Target = CachedUidGenerator>> Iterator for LocalGenerator<G> {
    type Item = Result<Uid, TakeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_uid())
    }
}

impl<G> fmt::Debug for LocalGenerator<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalGenerator").field("run", &self.run).finish_non_exhaustive()
    }
}
