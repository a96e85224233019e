//! The errors of the hot path.

use std::fmt;
use std::time::Duration;

use crate::chain::{Chain, error_traits};
use crate::sync::Forked;

/// Why no uid was handed out.
///
/// It is small and `Copy`, so that it costs a successful take nothing. `{:?}` prints its text, as for [every
/// error](crate::Error).
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// Nothing is ready: the padder or the clock has to catch up. A later take may succeed.
    #[error("no uid is ready at this moment; try again, or use a waiting take policy")]
    Empty,
    /// Nothing was ready within the take policy's deadline.
    #[error(
        "no uid was ready within the take policy's deadline; allow more time, or give the layout more \
         sequence bits"
    )]
    DeadlineExceeded,
    /// The next tick is further ahead of the clock than the generator may borrow. Takes succeed again once the clock
    /// has caught up.
    #[error(
        "the next uid would be {lead} ahead of the clock, and the limit is {limit}; wait, raise the limit \
         (max_borrow, --max-borrow), or use a layout with more uids per second"
    )]
    BorrowLimit {
        /// How far the next tick is ahead of the clock.
        lead: Millis,
        /// How far it may be.
        limit: Millis,
    },
    /// The layout's last uid was issued, or the clock is past the layout's end. This is permanent, with one exception:
    /// a clock-driven generator whose last tick still has uids continues if its clock is set back into the layout, but
    /// not behind the last uid.
    #[error(
        "the layout's time is over; choose a later epoch or more time bits, or set the clock right if it is wrong"
    )]
    TimeExhausted,
    /// The clock is behind the last uid. Nothing was changed. Takes succeed again once the clock has caught up.
    #[error(
        "the clock moved backwards: it is {:?} behind the last uid issued; set it right or wait",
        Duration::from_millis(*by_millis)
    )]
    ClockBackwards {
        /// How far, in whole ticks of the layout.
        by_millis: u64,
    },
    /// The clock is before the layout's epoch.
    #[error("the clock stands before the layout's epoch; set it right")]
    ClockBeforeEpoch,
    /// The worker id is no longer this generator's: somebody else holds it, or may, or the store has not renewed the
    /// lease in time. This is permanent.
    #[error("the lease of the worker id is lost; build a generator with a new one")]
    LeaseLost,
    /// This process is a forked child of the one that built the generator, so its uids would repeat. This is permanent.
    /// The parent is not affected.
    #[error(
        "this process was forked from the generator's; build one after the fork, with a worker id of \
         its own"
    )]
    Forked,
    /// The generator was closed, or the producer of its ring is gone.
    #[error("the generator is closed")]
    Closed,
    /// The process that owns the [shared ring](crate::SharedRing) has ended. This is permanent.
    #[error("the process that owns the ring has ended; start it again, and then this one")]
    OwnerEnded,
    /// The process that owns the shared ring has been inactive for longer than
    /// [`max_owner_pause`](crate::SharedRing::max_owner_pause): it is stopped, or gets no processor time. Takes succeed
    /// again once it continues.
    #[error(
        "the process that owns the ring has been inactive for {pause}, longer than max_owner_pause allows; \
         check whether it is stopped"
    )]
    OwnerPaused {
        /// For how long.
        pause: Millis,
    },
}

error_traits!(TakeError);

/// A duration in whole milliseconds in seven bytes, so that a [`TakeError`] with two of them fits in two registers. The
/// longest is 2,283,000 years; longer ones are cut to that. It prints like a [`Duration`], as in `90s`.
///
/// ```
/// use std::time::Duration;
/// use uidring::Millis;
///
/// let millis = Millis::from(Duration::from_secs(90));
/// assert_eq!(millis.to_string(), "90s");
/// assert!(Duration::from(millis) > Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis([u8; 7]);

impl From<Duration> for Millis {
    fn from(duration: Duration) -> Self {
        const MAX: u128 = (1 << 56) - 1;
        let [.., a, b, c, d, e, f, g] = duration.as_millis().min(MAX).to_be_bytes();
        Self([a, b, c, d, e, f, g])
    }
}

impl From<Millis> for Duration {
    fn from(Millis([a, b, c, d, e, f, g]): Millis) -> Self {
        Self::from_millis(u64::from_be_bytes([0, a, b, c, d, e, f, g]))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Duration::from(*self), f)
    }
}

impl fmt::Debug for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Keeps the slow path of a take out of line.
///
/// A `Result` returns through memory. Sharing that slot would add a store and a load to the fast path, for which the
/// next atomic addition waits: a quarter of an addition on an Intel processor. An `Option` of a number returns in
/// registers.
#[inline(always)]
pub(crate) fn rarely<T>(take: impl FnOnce() -> Result<T, TakeError>) -> Result<T, TakeError> {
    let mut error = TakeError::Empty;
    apart(take, &mut error).ok_or(error)
}

#[cold]
#[inline(never)]
fn apart<T>(take: impl FnOnce() -> Result<T, TakeError>, error: &mut TakeError) -> Option<T> {
    take().map_err(|why| *error = why).ok()
}

impl TakeError {
    /// Returns whether a later take may succeed without anybody's intervention. If so, the take policy decides what to
    /// do until then.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Empty | Self::BorrowLimit { .. } | Self::OwnerPaused { .. })
    }
}

impl From<Forked> for TakeError {
    fn from(_: Forked) -> Self {
        Self::Forked
    }
}

/// Why [`fill`](crate::UidGenerator::fill) stopped early.
///
/// The first [`filled`](Self::filled) ids of the slice are good, and will not be handed out again.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("only {filled} ids were filled in")]
#[non_exhaustive]
pub struct FillError<E: std::error::Error + 'static = TakeError> {
    /// How many ids are at the front of the slice.
    pub filled: usize,
    /// Why there are no more.
    #[source]
    pub error: E,
}

impl<E: std::error::Error + 'static> FillError<E> {
    /// Returns the same with another error.
    pub fn map<F: std::error::Error + 'static>(self, change: impl FnOnce(E) -> F) -> FillError<F> {
        FillError { filled: self.filled, error: change(self.error) }
    }
}

impl<E: std::error::Error + 'static> fmt::Debug for FillError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Chain(self), f)
    }
}

impl FillError {
    /// After a fork during the call, what was filled in before is the parent's.
    pub(crate) fn new(filled: usize, error: TakeError) -> Self {
        Self { filled: if error == TakeError::Forked { 0 } else { filled }, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_take_fits_two_registers() {
        assert!(size_of::<Result<u64, TakeError>>() <= 16);
    }

    #[test]
    fn a_limit_tells_the_truth() {
        let days = |days: u64| Duration::from_secs(86_400 * days);
        let (lead, limit) = (days(400) + Duration::from_millis(7), days(50));
        let text = TakeError::BorrowLimit { lead: lead.into(), limit: limit.into() }.to_string();
        assert!(
            text.contains("34560000.007s ahead") && text.contains("limit is 4320000s;"),
            "{text}"
        );
        let longest = Duration::from_millis((1 << 56) - 1);
        for duration in [Duration::ZERO, Duration::from_millis(1), lead, longest] {
            assert_eq!(Duration::from(Millis::from(duration)), duration);
        }
        assert_eq!(Duration::from(Millis::from(Duration::MAX)), longest);
        assert!(Millis::from(limit) < Millis::from(lead));
    }
}
