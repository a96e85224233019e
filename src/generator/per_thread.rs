//! A handle shared by threads that each count in a block of their own.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::block_source::sealed::Blocks;
use super::local::continued;
use super::{AsyncUidGenerator, CachedUidGenerator, GeneratorRef, SharedRing, UidGenerator};
use crate::error::{FillError, TakeError, rarely};
use crate::layout::Layout;
use crate::sync::{AtomicU64, ForkToken, Ordering, Shards, threads};
use crate::uid::Uid;
use crate::waiting;

/// Hands out uids of a [`CachedUidGenerator`] to any number of threads through `&self`. Each thread takes blocks of up
/// to 255 uids and counts through them on its own, so threads contend for a cache line only once in 255 takes.
///
/// Get one from [`CachedUidGenerator::per_thread`], or from [`new`](Self::new) with an `Arc`. Uids increase within a
/// thread, but another thread's later uid may be smaller. If you need one order over all threads, take from the
/// generator itself. If a thread can own its handle, a [`LocalGenerator`](crate::LocalGenerator) costs less.
///
/// A thread that ends leaves the rest of its block to the next new thread. Blocks older than the generator's
/// [`max_lag`](crate::generator::CachedBuilder::max_lag) are dropped, as are all blocks when the handle is dropped or
/// the generator closed. A handle needs 64 to 128 bytes per thread, counting the most threads that have used any
/// handles at the same time. Threads beyond 32,768 get no blocks and take single uids from the generator.
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
    /// The process that made the shards. Read only if the generator survives forks.
    made_by: ForkToken,
    generator: G,
}

impl CachedUidGenerator {
    /// Returns a handle for many threads.
    pub fn per_thread(&self) -> PerThreadGenerator<&Self> {
        PerThreadGenerator::new(self)
    }
}

impl SharedRing {
    /// Returns a handle for many threads. In a forked child, an inherited handle takes single uids from the ring: make
    /// a new one there.
    pub fn per_thread(&self) -> PerThreadGenerator<&Self> {
        PerThreadGenerator::new(self)
    }
}

impl<G: GeneratorRef> PerThreadGenerator<G> {
    /// Creates a handle from a reference to a generator: `&`, or an `Arc` if you need to store the handle.
    pub fn new(generator: G) -> Self {
        Self { shards: Shards::new(), made_by: ForkToken::current(), generator }
    }

    /// Returns this thread's next uid. If nothing is ready, the generator's take policy decides.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`](crate::UidGenerator::next_uid).
    #[inline]
    pub fn next_uid(&self) -> Result<Uid, TakeError> {
        match self.recent().and_then(|shard| self.count_up(shard)) {
            Some(uid) => Ok(uid),
            None => rarely(|| self.next_slowly()),
        }
    }

    /// Returns this thread's next uid, or an error at once. Never waits.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::try_next_uid`](crate::UidGenerator::try_next_uid).
    #[inline]
    pub fn try_next_uid(&self) -> Result<Uid, TakeError> {
        match self.recent().and_then(|shard| self.count_up(shard)) {
            Some(uid) => Ok(uid),
            None => rarely(|| self.try_slowly()),
        }
    }

    /// Async [`next_uid`](Self::next_uid); see [`CachedUidGenerator::next_uid_async`].
    ///
    /// A task that moves between threads takes from each thread's block, so its uids may not increase.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`](crate::UidGenerator::next_uid).
    #[inline]
    pub async fn next_uid_async(&self) -> Result<Uid, TakeError> {
        if let Some(uid) = self.recent().and_then(|shard| self.count_up(shard)) {
            return Ok(uid);
        }
        match self.try_slowly() {
            Ok(uid) => Ok(uid),
            Err(error) => {
                waiting::follow_policy_async(&*self.generator, error, || self.try_slowly()).await
            }
        }
    }

    /// [`CachedUidGenerator::fill_async`], starting with the rest of this thread's block.
    ///
    /// # Errors
    ///
    /// As [`CachedUidGenerator::fill_async`].
    pub async fn fill_async(&self, out: &mut Vec<Uid>, count: usize) -> Result<(), TakeError> {
        let own = std::iter::from_fn(|| self.count_up_slowly(self.find()?));
        let start = out.len();
        out.extend(own.take(count));
        let left = count - (out.len() - start);
        let guard = FillGuard { handle: self, out, start };
        let filled = (*self.generator).fill_async(&mut *guard.out, left).await;
        if filled == Err(TakeError::Forked) {
            guard.out.truncate(start);
        }
        filled
    }

    /// Fills all of `out` with increasing uids: first the rest of this thread's block, then as
    /// [`UidGenerator::fill`](crate::UidGenerator::fill).
    ///
    /// # Errors
    ///
    /// [`FillError`] has the number of uids written before the error. Those are good.
    pub fn fill(&self, out: &mut [Uid]) -> Result<(), FillError> {
        let filled = self.fill_from_own(out);
        let rest = self.generator.fill(&mut out[filled..]);
        let filled =
            filled + rest.as_ref().map_or_else(|error| error.filled, |()| out.len() - filled);
        self.go_on_above(out[..filled].last());
        rest.map_err(|FillError { error, .. }| FillError::new(filled, error))
    }

    /// Writes the rest of this thread's block to the front of `out`, and returns how many. It comes first because it is
    /// lower than everything in the ring.
    fn fill_from_own(&self, out: &mut [Uid]) -> usize {
        let own = self.find();
        let mut filled = 0;
        while let Some(target) = out.get_mut(filled)
            && let Some(uid) = own.and_then(|shard| self.count_up_slowly(shard))
        {
            *target = uid;
            filled += 1;
        }
        filled
    }

    /// Drops the rest of a block that starts below a fill's last uid: another task of this thread, or a handler, began
    /// it while the fill waited.
    fn go_on_above(&self, last: Option<&Uid>) {
        if let (Some(last), Some(shard)) = (last, self.find())
            && shard.next.load(Ordering::Relaxed) <= last.get()
        {
            shard.next.store(shard.end.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Returns the generator that the uids come from.
    pub fn generator(&self) -> &G::Target {
        &self.generator
    }

    /// Returns the shard that this thread used last, if it is of this handle.
    #[inline]
    fn recent(&self) -> Option<&Shard> {
        self.shards.recent().filter(|_| !self.is_inherited())
    }

    /// Returns this thread's shard.
    fn find(&self) -> Option<&Shard> {
        self.shards.find().filter(|_| !self.is_inherited())
    }

    /// Returns whether a parent process made the shards.
    #[inline]
    fn is_inherited(&self) -> bool {
        G::Target::SURVIVES_FORKS && self.made_by.is_forked_child()
    }

    /// Returns the next number of this thread's block, if fresh.
    #[inline]
    fn count_up(&self, shard: &Shard) -> Option<Uid> {
        // Relaxed, here and below: only this thread uses the shard.
        let next = shard.next.load(Ordering::Relaxed);
        // Nothing is fresh in a forked child, or after a close.
        if self.generator.is_fresh(next) & (next < shard.end.load(Ordering::Relaxed)) {
            shard.next.store(next + 1, Ordering::Relaxed);
            Some(Uid::from_layout(next))
        } else {
            None
        }
    }

    /// [`count_up`](Self::count_up) that also looks at the present ring. For use off the fast path.
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

    /// Continues with the block left by the last thread that had this thread's number, or takes a new block.
    fn try_slowly(&self) -> Result<Uid, TakeError> {
        if self.is_inherited() || threads::number_or_acquire().is_none() {
            return self.generator.try_next_uid();
        }
        let own = self.find();
        if let Some(uid) = own.and_then(|shard| self.count_up_slowly(shard)) {
            return Ok(uid);
        }
        let seen = own.map_or(0..0, Shard::left);
        // Take first: in a forked child this fails with `Forked`. Making a shard there might wait forever for a thread
        // that only the parent has.
        let block = self.generator.try_take_block()?;
        let block = continued(block, &seen);
        let Some(shard) = self.shards.find_or_make() else {
            return Ok(Uid::from_layout(block.start));
        };
        // A clock, source or handler that took from this handle during that call may have got a
        // later block. Keep that one, or this thread's uids would not increase. If the shard is
        // unchanged, use the new block even if it is lower, as one with a new worker id may be.
        if block.start >= shard.end.load(Ordering::Relaxed) || shard.left() == seen {
            shard.next.store(block.start + 1, Ordering::Relaxed);
            shard.end.store(block.end, Ordering::Relaxed);
        }
        Ok(Uid::from_layout(block.start))
    }
}

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
            // What was filled in is good, except after a fork: then it is the parent's.
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

/// Guards an async fill. However the fill ends, the thread that drops this gives out only uids above those that were
/// filled in.
struct FillGuard<'a, G: GeneratorRef> {
    handle: &'a PerThreadGenerator<G>,
    out: &'a mut Vec<Uid>,
    /// How many uids were in `out` before.
    start: usize,
}

impl<G: GeneratorRef> Drop for FillGuard<'_, G> {
    fn drop(&mut self) {
        let filled = self.out.get(self.start..).unwrap_or_default();
        self.handle.go_on_above(filled.last());
    }
}

impl<G> fmt::Debug for PerThreadGenerator<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerThreadGenerator").finish_non_exhaustive()
    }
}

/// What is left of a thread's block, on a cache line of its own. Only the holder of a thread number uses it, and
/// handing on the number orders the accesses. The fields are atomic only to avoid unsafe code: they are loaded and
/// stored like plain words.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    next: AtomicU64,
    end: AtomicU64,
}

// The cost per thread that the handle's documentation promises.
const _: () = assert!(size_of::<Shard>() == 64);

impl Shard {
    fn left(&self) -> Range<u64> {
        self.next.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }
}
