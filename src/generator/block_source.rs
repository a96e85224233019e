//! The generators that local and per-thread handles take blocks of uids from.

/// A generator that [`LocalGenerator`](crate::LocalGenerator) and [`PerThreadGenerator`](crate::PerThreadGenerator) take
/// blocks of uids from, such as [`CachedUidGenerator`](crate::CachedUidGenerator).
///
/// The trait is sealed.
pub trait BlockSource: sealed::Blocks {}

impl<G: sealed::Blocks> BlockSource for G {}

pub(super) mod sealed {
    use std::ops::Range;

    use crate::error::TakeError;
    use crate::generator::AsyncUidGenerator;
    use crate::waiting::Waiting;

    // Nobody outside the crate can name the trait.
    #[allow(private_bounds)]
    pub trait Blocks: AsyncUidGenerator + Waiting<Error = TakeError> + Sized {
        /// Whether forked children take from it, too. If so, handles must check that this process took their block. If
        /// not, nothing is fresh in a child.
        const SURVIVES_FORKS: bool;

        /// Takes up to 255 consecutive uids of one tick.
        fn try_take_block(&self) -> Result<Range<u64>, TakeError>;

        /// Returns whether a number of a block may still be handed out. If not, [`is_fresh_now`](Self::is_fresh_now)
        /// decides.
        fn is_fresh(&self, number: u64) -> bool;

        /// [`is_fresh`](Self::is_fresh), off the fast path.
        fn is_fresh_now(&self, number: u64) -> bool;
    }
}
