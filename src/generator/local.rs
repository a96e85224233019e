//! A taker that counts for itself.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::rc::Rc;
use std::sync::Arc;

use super::CachedUidGenerator;
use crate::error::{FillError, TakeError};
use crate::uid::Uid;
use crate::waiting;

/// Takes up to 255 uids at a time from a [`CachedUidGenerator`] and hands them out one by one, at the
/// cost of counting in a register: no atomic instruction but one in 255 takes.
///
/// Made by [`CachedUidGenerator::local`], or by [`new`](Self::new) from an `Arc`. It is for one
/// thread at a time: it can be sent to another, and not be shared.
///
/// Its uids increase. Between different takers there is no order within 255 uids: another taker's
/// later uid may be smaller. When it is dropped, the rest of its uids is issued to nobody, 254 at the
/// most; likewise when they have become older than the generator's
/// [`max_lag`](crate::generator::CachedBuilder::max_lag), or the generator is closed.
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
    /// The numbers that are left of the block.
    run: Range<u64>,
    generator: G,
    /// Not `Sync`: sharing it could only be a mistake.
    one_thread: PhantomData<Cell<()>>,
}

/// A reference that leads to the same generator for as long as it lives: `&`, [`Box`], [`Rc`] or
/// [`Arc`].
///
/// A [`LocalGenerator`] asks its generator whether its run is still good. One that led to another
/// generator, as by the process's number after a fork, would have that one vouch for the run of the
/// first, and repeat its uids. So it is for these alone:
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
pub trait GeneratorRef: Deref<Target = CachedUidGenerator> + sealed::Sealed {}

impl<G: Deref<Target = CachedUidGenerator> + sealed::Sealed> GeneratorRef for G {}

mod sealed {
    use super::{Arc, CachedUidGenerator, Rc};

    pub trait Sealed {}

    impl Sealed for &CachedUidGenerator {}
    impl Sealed for Box<CachedUidGenerator> {}
    impl Sealed for Rc<CachedUidGenerator> {}
    impl Sealed for Arc<CachedUidGenerator> {}
}

impl CachedUidGenerator {
    /// A taker of one's own; it takes its first uids when it is first asked.
    pub fn local(&self) -> LocalGenerator<&Self> {
        LocalGenerator::new(self)
    }
}

impl<G: GeneratorRef> LocalGenerator<G> {
    /// A taker of one's own from a reference to a generator: `&`, or `Arc` for one that has to be
    /// stored.
    pub fn new(generator: G) -> Self {
        Self { run: 0..0, generator, one_thread: PhantomData }
    }

    /// The next uid; when nothing is ready, the generator's take policy decides.
    ///
    /// # Errors
    ///
    /// As [`CachedUidGenerator::next_uid`].
    #[inline]
    pub fn next_uid(&mut self) -> Result<Uid, TakeError> {
        // The look at the ring's freshness is a load of a word that seldom changes. It does not
        // wait for the look at the run: so both are over sooner.
        if self.generator.is_fresh(self.run.start) & (self.run.start < self.run.end) {
            let number = self.run.start;
            self.run.start += 1;
            return Ok(Uid::from_layout(number));
        }
        // What is left of a block that has become stale is given up.
        let run = next_block(&self.generator, self.run.clone())?;
        self.run = run.start + 1..run.end;
        Ok(Uid::from_layout(run.start))
    }

    /// Returns the next uid, or at once the reason why there is none now. It never waits.
    ///
    /// # Errors
    ///
    /// As [`CachedUidGenerator::try_next_uid`].
    #[inline]
    pub fn try_next_uid(&mut self) -> Result<Uid, TakeError> {
        if self.run.is_empty() || !self.generator.is_fresh(self.run.start) {
            self.run = try_next_block(&self.generator, &self.run)?;
        }
        let number = self.run.start;
        self.run.start += 1;
        Ok(Uid::from_layout(number))
    }

    /// Fills the whole of `out` with increasing uids; whenever nothing is ready, the take policy decides anew.
    ///
    /// # Errors
    ///
    /// [`FillError`] says how many uids were filled in before the error: those are good.
    pub fn fill(&mut self, out: &mut [Uid]) -> Result<(), FillError> {
        for (filled, target) in out.iter_mut().enumerate() {
            *target = self.next_uid().map_err(|error| FillError::new(filled, error))?;
        }
        Ok(())
    }

    /// [`next_uid`](Self::next_uid) for a task; see [`CachedUidGenerator::next_uid_async`].
    ///
    /// # Errors
    ///
    /// As [`CachedUidGenerator::next_uid`].
    pub async fn next_uid_async(&mut self) -> Result<Uid, TakeError> {
        let Self { generator, run, .. } = self;
        *run = match try_next_block(generator, run) {
            Err(error) => {
                let again = || try_next_block(generator, run);
                waiting::follow_policy_async(&**generator, error, again).await?
            }
            Ok(run) => run,
        };
        let number = run.start;
        run.start += 1;
        Ok(Uid::from_layout(number))
    }

    /// The end of the block that it has.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn block_end(&self) -> u64 {
        self.run.end
    }

    /// The generator that the uids come from.
    pub fn generator(&self) -> &CachedUidGenerator {
        &self.generator
    }
}

/// What is left of a block, if it is fresh by the present ring; or else a new block, of one number at least.
///
/// It is handed over by value, and the taker stays out of it: so the compiler may keep the taker's
/// numbers in registers, and does, where a caller counts in a loop.
#[cold]
#[inline(never)]
pub(super) fn next_block(
    generator: &CachedUidGenerator,
    left: Range<u64>,
) -> Result<Range<u64>, TakeError> {
    // All of a block is of one tick. Not by `try_next_block`, which would add two instructions.
    if !left.is_empty() && generator.is_fresh_now(left.start) {
        return Ok(left);
    }
    let block = generator
        .try_take_block()
        .or_else(|error| waiting::follow_policy(generator, error, || generator.try_take_block()))?;
    Ok(continued(block, &left))
}

/// [`next_block`] of what is ready.
fn try_next_block(
    generator: &CachedUidGenerator,
    left: &Range<u64>,
) -> Result<Range<u64>, TakeError> {
    if !left.is_empty() && generator.is_fresh_now(left.start) {
        return Ok(left.clone());
    }
    Ok(continued(generator.try_take_block()?, left))
}

/// A block, of one number at least, for a taker that has this left of an earlier one.
pub(super) fn continued(block: Range<u64>, left: &Range<u64>) -> Range<u64> {
    if left.is_empty() { block } else { after_gap(block, left.start) }
}

/// What is left of a block for a taker that goes on where it was, in the lowest bits: one that
/// takes so seldom that each time its block has become stale would else get the first number of
/// each, of which all might have the same low bits.
fn after_gap(block: Range<u64>, next: u64) -> Range<u64> {
    let start = block.start + (next.wrapping_sub(block.start) & 0xff);
    if start < block.end { start..block.end } else { block }
}

/// Endless, but for errors: after one, the next call tries anew.
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
