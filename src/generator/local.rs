//! A handle for one thread, which takes blocks of uids.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::rc::Rc;
use std::sync::Arc;

use super::block_source::BlockSource;
use super::block_source::sealed::Blocks;
use super::{CachedUidGenerator, SharedRing};
use crate::error::{FillError, TakeError};
use crate::sync::ForkToken;
use crate::uid::Uid;
use crate::waiting;

/// Takes blocks of up to 255 uids from a [`CachedUidGenerator`] and hands them out one by one. Only one take in 255
/// needs an atomic instruction.
///
/// Get one from [`CachedUidGenerator::local`], or from [`new`](Self::new) with an `Arc`. You can send it to another
/// thread, but not share it.
///
/// Its uids increase. There is no order between handles within 255 uids: another handle's later uid may be smaller. The
/// rest of a block, at most 254 uids, is never issued if the handle is dropped, the generator is closed, or the block
/// gets older than the generator's [`max_lag`](crate::generator::CachedBuilder::max_lag).
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
/// # Ok::<(), uidring::Error>(())
/// ```
pub struct LocalGenerator<G> {
    /// What is left of the block.
    run: Range<u64>,
    /// The process that took the block. Read only if the generator survives forks.
    taken_by: ForkToken,
    generator: G,
    /// Makes the type `!Sync`. Its methods take `&mut self`, so sharing it would be a mistake.
    one_thread: PhantomData<Cell<()>>,
}

/// A reference to a generator that leads to the same one for as long as it lives: `&`, [`Box`], [`Rc`] or [`Arc`].
///
/// A [`LocalGenerator`] asks its generator whether its block is still good. If the reference could switch generators,
/// for example by process id after a fork, the new one would vouch for the old one's block, and uids would repeat. So
/// the trait is sealed:
///
/// ```compile_fail
/// use uidring::CachedUidGenerator;
/// use uidring::generator::GeneratorRef;
///
/// struct ByProcess(Vec<CachedUidGenerator>);
///
/// impl std::ops::Deref for ByProcess {
///     type Target = CachedUidGenerator;
///     fn deref(&self) -> &CachedUidGenerator {
///         &self.0[std::process::id() as usize % self.0.len()]
///     }
/// }
///
/// fn is_a_reference(_: impl GeneratorRef) {}
/// is_a_reference(ByProcess(Vec::new()));
/// ```
pub trait GeneratorRef: Deref<Target: BlockSource> + sealed::Sealed {}

impl<G: Deref<Target: BlockSource> + sealed::Sealed> GeneratorRef for G {}

mod sealed {
    use super::{Arc, BlockSource, Rc};

    pub trait Sealed {}

    impl<G: BlockSource> Sealed for &G {}
    impl<G: BlockSource> Sealed for Box<G> {}
    impl<G: BlockSource> Sealed for Rc<G> {}
    impl<G: BlockSource> Sealed for Arc<G> {}
}

impl CachedUidGenerator {
    /// Returns a handle for one thread. It takes its first block at the first call.
    pub fn local(&self) -> LocalGenerator<&Self> {
        LocalGenerator::new(self)
    }
}

impl SharedRing {
    /// Returns a handle for one thread. It takes its first block at the first call. A forked child begins a block of its
    /// own.
    pub fn local(&self) -> LocalGenerator<&Self> {
        LocalGenerator::new(self)
    }
}

impl<G: GeneratorRef> LocalGenerator<G> {
    /// Creates a handle from a reference to a generator: `&`, or an `Arc` if you need to store the handle.
    pub fn new(generator: G) -> Self {
        Self { run: 0..0, taken_by: ForkToken::current(), generator, one_thread: PhantomData }
    }

    /// Returns the next uid. If nothing is ready, the generator's take policy decides.
    ///
    /// # Errors
    ///
    /// As [`CachedUidGenerator::next_uid`].
    #[inline]
    pub fn next_uid(&mut self) -> Result<Uid, TakeError> {
        // `&`, not `&&`: neither check waits for the other. The freshness word seldom changes, so it is cached.
        if self.generator.is_fresh(self.run.start) & (self.run.start < self.run.end) & self.is_own()
        {
            let number = self.run.start;
            self.run.start += 1;
            return Ok(Uid::from_layout(number));
        }
        let left = self.own_left();
        let run = next_block(&*self.generator, left)?;
        Ok(self.begin(run))
    }

    /// Returns the next uid, or an error at once. Never waits.
    ///
    /// # Errors
    ///
    /// As [`CachedUidGenerator::try_next_uid`].
    #[inline]
    pub fn try_next_uid(&mut self) -> Result<Uid, TakeError> {
        let left = self.own_left();
        let run = match !left.is_empty() && self.generator.is_fresh(left.start) {
            true => left,
            false => try_next_block(&*self.generator, &left)?,
        };
        Ok(self.begin(run))
    }

    /// Fills all of `out` with increasing uids. Whenever nothing is ready, the take policy applies anew.
    ///
    /// # Errors
    ///
    /// [`FillError`] has the number of uids written before the error. Those are good.
    pub fn fill(&mut self, out: &mut [Uid]) -> Result<(), FillError> {
        let process = ForkToken::current();
        let fill = |(filled, target): (usize, &mut Uid)| {
            *target = self.next_uid().map_err(|error| FillError::new(filled, error))?;
            Ok(())
        };
        let filled = out.iter_mut().enumerate().try_for_each(fill);
        // A handler may have forked. Then what was filled in before is the parent's.
        match G::Target::SURVIVES_FORKS && process.is_forked_child() {
            true => Err(FillError::new(0, TakeError::Forked)),
            false => filled,
        }
    }

    /// Async [`next_uid`](Self::next_uid); see [`CachedUidGenerator::next_uid_async`].
    ///
    /// # Errors
    ///
    /// As [`CachedUidGenerator::next_uid`].
    pub async fn next_uid_async(&mut self) -> Result<Uid, TakeError> {
        let left = self.own_left();
        let generator = &*self.generator;
        let run = match try_next_block(generator, &left) {
            Err(error) => {
                let again = || try_next_block(generator, &left);
                waiting::follow_policy_async(generator, error, again).await?
            }
            Ok(run) => run,
        };
        Ok(self.begin(run))
    }

    /// Returns whether this process took the block.
    #[inline]
    fn is_own(&self) -> bool {
        !(G::Target::SURVIVES_FORKS && self.taken_by.is_forked_child())
    }

    /// Returns what is left of the block, unless it is the parent's.
    fn own_left(&self) -> Range<u64> {
        if self.is_own() { self.run.clone() } else { 0..0 }
    }

    /// Makes this the current block, and returns its first uid.
    fn begin(&mut self, run: Range<u64>) -> Uid {
        if G::Target::SURVIVES_FORKS {
            self.taken_by = ForkToken::current();
        }
        self.run = run.start + 1..run.end;
        Uid::from_layout(run.start)
    }

    /// Returns the end of the current block.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn block_end(&self) -> u64 {
        self.run.end
    }

    /// Returns the generator that the uids come from.
    pub fn generator(&self) -> &G::Target {
        &self.generator
    }
}

/// Returns the rest of a block if it is fresh in the present ring, otherwise a new block of at least one number.
///
/// Blocks are passed by value, without the handle. So the compiler can keep the handle's numbers in registers when a
/// caller takes uids in a loop.
#[cold]
#[inline(never)]
fn next_block(generator: &impl Blocks, left: Range<u64>) -> Result<Range<u64>, TakeError> {
    // One check covers the block, which is all of one tick. Calling `try_next_block` here would add two instructions.
    if !left.is_empty() && generator.is_fresh_now(left.start) {
        return Ok(left);
    }
    let block = generator
        .try_take_block()
        .or_else(|error| waiting::follow_policy(generator, error, || generator.try_take_block()))?;
    Ok(continued(block, &left))
}

/// [`next_block`] without waiting.
fn try_next_block(generator: &impl Blocks, left: &Range<u64>) -> Result<Range<u64>, TakeError> {
    if !left.is_empty() && generator.is_fresh_now(left.start) {
        return Ok(left.clone());
    }
    Ok(continued(generator.try_take_block()?, left))
}

/// Returns the part of a new block, at least one number, to use after `left` of an earlier one.
pub(super) fn continued(block: Range<u64>, left: &Range<u64>) -> Range<u64> {
    if left.is_empty() { block } else { after_gap(block, left.start) }
}

/// Skips to where the last block stopped, by the lowest 8 bits. Otherwise a handle that takes so seldom that each block
/// gets stale would always get a block's first number, and these may all have the same low bits.
fn after_gap(block: Range<u64>, next: u64) -> Range<u64> {
    let start = block.start + (next.wrapping_sub(block.start) & 0xff);
    if start < block.end { start..block.end } else { block }
}

/// Endless. After an error, the next call tries again.
impl<G: GeneratorRef> Iterator for LocalGenerator<G> {
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

#[cfg(test)]
mod tests {
    use super::continued;

    #[test]
    fn a_new_block_goes_on_in_the_lowest_bits_if_it_gets_so_far() {
        assert_eq!(continued(0x200..0x2ff, &(0x105..0x105)), 0x200..0x2ff, "nothing was left");
        assert_eq!(continued(0x200..0x2ff, &(0x105..0x1ff)), 0x205..0x2ff);
        assert_eq!(continued(0x200..0x206, &(0x105..0x1ff)), 0x205..0x206, "the last one");
        assert_eq!(continued(0x200..0x205, &(0x105..0x1ff)), 0x200..0x205, "too short");
        assert_eq!(continued(0x200..0x204, &(0x105..0x1ff)), 0x200..0x204);
    }
}
