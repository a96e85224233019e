//! A handle that threads share, and in which each counts for itself.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::local::continued;
use super::{CachedUidGenerator, GeneratorRef, UidGenerator};
use crate::error::{FillError, TakeError, rarely};
use crate::layout::Layout;
use crate::sync::{AtomicU64, Ordering, Shards, threads};
use crate::uid::Uid;
use crate::waiting;

/// Hands out uids of a [`CachedUidGenerator`] to any number of threads through `&self`; each thread
/// takes blocks of up to 255 uids and counts through them by itself, so that threads share a
/// cache line once in 255 takes.
///
/// Made by [`CachedUidGenerator::per_thread`], or by [`new`](Self::new) from an `Arc`. It is for
/// callers that hold one handle and have many threads, and need no order between them: the uids that
/// one thread gets increase, and another thread's later uid may be smaller. Where one order over
/// all threads matters, take from the generator itself; where a thread can own its handle, a
/// [`LocalGenerator`](crate::LocalGenerator) costs less.
///
/// A thread that ends leaves the rest of its block to the next thread that comes. A block that has
/// become older than the generator's [`max_lag`](crate::generator::CachedBuilder::max_lag) is given up; so is
/// all that is left when the handle is dropped or the generator is closed. A thread costs 64 to 128 bytes,
/// by the greatest number of threads that have used a handle at the same time.
/// With more than 32,768 of them the rest take from the generator one by one.
///
/// A signal handler that interrupts a take must not take from the same handle.
///
/// ```
/// use std::thread;
/// use uidring::CachedUidGenerator;
///
/// let generator = CachedUidGenerator::builder().worker_id(7).build()?;
/// let handle = generator.per_thread();
/// thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| println!("{:?}", handle.next_uid()));
///     }
/// });
/// # Ok::<(), uidring::Error>(())
/// ```
pub struct PerThreadGenerator<G> {
    shards: Shards<Shard>,
    generator: G,
}

impl CachedUidGenerator {
    /// A handle for many threads, in which each counts for itself.
    pub fn per_thread(&self) -> PerThreadGenerator<&Self> {
        PerThreadGenerator::new(self)
    }
}

impl<G: GeneratorRef> PerThreadGenerator<G> {
    /// A handle from a reference to a generator: `&`, or `Arc` for one that has to be stored.
    pub fn new(generator: G) -> Self {
        Self { shards: Shards::new(), generator }
    }

    /// Returns the next uid of this thread; when nothing is ready, the generator's take policy
    /// decides.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`](crate::UidGenerator::next_uid).
    #[inline]
    pub fn next_uid(&self) -> Result<Uid, TakeError> {
        match self.shards.recent().and_then(|shard| self.count_up(shard)) {
            Some(uid) => Ok(uid),
            None => rarely(|| self.next_slowly()),
        }
    }

    /// Returns the next uid of this thread, or at once the reason why there is none now. It never waits.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::try_next_uid`](crate::UidGenerator::try_next_uid).
    #[inline]
    pub fn try_next_uid(&self) -> Result<Uid, TakeError> {
        match self.shards.recent().and_then(|shard| self.count_up(shard)) {
            Some(uid) => Ok(uid),
            None => rarely(|| self.try_slowly()),
        }
    }

    /// [`next_uid`](Self::next_uid) for a task; see [`CachedUidGenerator::next_uid_async`].
    ///
    /// A task that goes from thread to thread gets uids of each thread's own block, which do not increase
    /// then.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`](crate::UidGenerator::next_uid).
    #[inline]
    pub async fn next_uid_async(&self) -> Result<Uid, TakeError> {
        if let Some(uid) = self.shards.recent().and_then(|shard| self.count_up(shard)) {
            return Ok(uid);
        }
        match self.try_slowly() {
            Ok(uid) => Ok(uid),
            Err(error) => {
                waiting::follow_policy_async(&*self.generator, error, || self.try_slowly()).await
            }
        }
    }

    /// [`CachedUidGenerator::fill_async`] that begins with what is left of this thread's block.
    ///
    /// # Errors
    ///
    /// As [`CachedUidGenerator::fill_async`].
    pub async fn fill_async(&self, out: &mut Vec<Uid>, count: usize) -> Result<(), TakeError> {
        let own = std::iter::from_fn(|| self.count_up_slowly(self.shards.find()?));
        let start = out.len();
        out.extend(own.take(count));
        let left = count - (out.len() - start);
        let going_on = GoingOn { handle: self, out };
        let filled = self.generator.fill_async(&mut *going_on.out, left).await;
        if filled == Err(TakeError::Forked) {
            going_on.out.truncate(start);
        }
        filled
    }

    /// Fills the whole of `out` with increasing uids: what is left of this thread's block, and then
    /// as [`UidGenerator::fill`](crate::UidGenerator::fill).
    ///
    /// # Errors
    ///
    /// [`FillError`] says how many uids were filled in before the error: those are good.
    pub fn fill(&self, out: &mut [Uid]) -> Result<(), FillError> {
        let filled = self.fill_from_own(out);
        let rest = self.generator.fill(&mut out[filled..]);
        let filled =
            filled + rest.as_ref().map_or_else(|error| error.filled, |()| out.len() - filled);
        self.go_on_above(out[..filled].last());
        rest.map_err(|FillError { error, .. }| FillError::new(filled, error))
    }

    /// Writes what is left of this thread's block to the front of `out`, and returns how many. It comes first: what
    /// another thread left under this one's number is lower than all that is still in the ring.
    fn fill_from_own(&self, out: &mut [Uid]) -> usize {
        let own = self.shards.find();
        let mut filled = 0;
        while let Some(target) = out.get_mut(filled)
            && let Some(uid) = own.and_then(|shard| self.count_up_slowly(shard))
        {
            *target = uid;
            filled += 1;
        }
        filled
    }

    /// Gives up what is left of a block below the last uid of a fill: another task of this thread, or a
    /// handler, has begun it while the fill waited.
    fn go_on_above(&self, last: Option<&Uid>) {
        if let (Some(last), Some(shard)) = (last, self.shards.find())
            && shard.next.load(Ordering::Relaxed) <= last.get()
        {
            shard.next.store(shard.end.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The generator that the uids come from.
    pub fn generator(&self) -> &CachedUidGenerator {
        &self.generator
    }

    /// The next number of this thread's block, if that is fresh.
    #[inline]
    fn count_up(&self, shard: &Shard) -> Option<Uid> {
        // Relaxed, here and below: the shard is this thread's alone.
        let next = shard.next.load(Ordering::Relaxed);
        // In a forked child, and after a close, nothing is fresh.
        if self.generator.is_fresh(next) & (next < shard.end.load(Ordering::Relaxed)) {
            shard.next.store(next + 1, Ordering::Relaxed);
            Some(Uid::from_layout(next))
        } else {
            None
        }
    }

    /// [`count_up`](Self::count_up) when the first look found nothing fresh, or where it need not be fast.
    fn count_up_slowly(&self, shard: &Shard) -> Option<Uid> {
        let Range { start: next, end } = shard.left();
        if next < end && self.generator.is_fresh_now(next) {
            shard.next.store(next + 1, Ordering::Relaxed);
            return Some(Uid::from_layout(next));
        }
        None
    }

    fn next_slowly(&self) -> Result<Uid, TakeError> {
        self.try_slowly()
            .or_else(|error| waiting::follow_policy(&*self.generator, error, || self.try_slowly()))
    }

    /// Goes on with what the last thread of this number left, or with a new block.
    fn try_slowly(&self) -> Result<Uid, TakeError> {
        if threads::number_or_acquire().is_none() {
            return self.generator.try_next_uid();
        }
        let own = self.shards.find();
        if let Some(uid) = own.and_then(|shard| self.count_up_slowly(shard)) {
            return Ok(uid);
        }
        let seen = own.map_or(0..0, Shard::left);
        // Before a shard is made: in a forked child another thread may have been about to make some,
        // and this says `Forked`.
        let block = self.generator.try_take_block()?;
        let block = continued(block, &seen);
        let Some(shard) = self.shards.find_or_make() else {
            return Ok(Uid::from_layout(block.start));
        };
        // A clock, source or handler that took from this handle within that call may have got a
        // later block: then this thread goes on with it, or its uids would not increase. A block of a new
        // worker id may be below the last one.
        if block.start >= shard.end.load(Ordering::Relaxed) || shard.left() == seen {
            shard.next.store(block.start + 1, Ordering::Relaxed);
            shard.end.store(block.end, Ordering::Relaxed);
        }
        Ok(Uid::from_layout(block.start))
    }
}

/// Uids of one thread increase.
impl<G: GeneratorRef> UidGenerator for PerThreadGenerator<G> {
    #[inline]
    fn try_next_uid(&self) -> Result<Uid, TakeError> {
        Self::try_next_uid(self)
    }

    #[inline]
    fn next_uid(&self) -> Result<Uid, TakeError> {
        Self::next_uid(self)
    }

    fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
        let own = self.fill_from_own(out);
        let filled = match self.generator.try_fill(&mut out[own..]) {
            Ok(given) => own + given,
            // What was filled in is the parent's after a fork, and else good.
            Err(error) if own == 0 || error == TakeError::Forked => return Err(error),
            Err(_) => own,
        };
        self.go_on_above(out[..filled].last());
        Ok(filled)
    }

    fn fill(&self, out: &mut [Uid]) -> Result<(), FillError> {
        Self::fill(self, out)
    }

    fn wait(&self, timeout: Option<Duration>) {
        self.generator.wait(timeout);
    }

    fn layout(&self) -> &Layout {
        self.generator.layout()
    }

    fn worker_id(&self) -> u64 {
        self.generator.worker_id()
    }

    fn close(&self) {
        self.generator.close();
    }
}

/// A fill of a future, however it ends: one that is dropped leaves what it has got.
struct GoingOn<'a, G: GeneratorRef> {
    handle: &'a PerThreadGenerator<G>,
    out: &'a mut Vec<Uid>,
}

impl<G: GeneratorRef> Drop for GoingOn<'_, G> {
    fn drop(&mut self) {
        self.handle.go_on_above(self.out.last());
    }
}

impl<G> fmt::Debug for PerThreadGenerator<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerThreadGenerator").finish_non_exhaustive()
    }
}

/// What is left of a thread's block. One thread uses it at a time, the holder of its number; with
/// the number it is handed on, and ordered. Atomics only so that no unsafe code is needed: they are
/// loaded and stored like any other word.
///
/// A cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    next: AtomicU64,
    end: AtomicU64,
}

// What a thread costs, as the handle's documentation says.
const _: () = assert!(size_of::<Shard>() == 64);

impl Shard {
    fn left(&self) -> Range<u64> {
        self.next.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }
}
