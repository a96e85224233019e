//! How far a generator may issue, shared with what renews its lease.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Moment, Monotonic};
use crate::error::TakeError;
use crate::sync::{AtomicBool, AtomicU64, Event, ForkGuarded, ForkToken, Forked, Ordering};
use crate::uid::Uid;

/// How far a generator may issue: up to its lease's horizon, or without limit for a plain worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct IssueHorizon(Option<Arc<IssueState>>);

impl IssueHorizon {
    pub(super) fn new(state: Arc<IssueState>) -> Self {
        Self(Some(state))
    }

    /// Returns whether uids of this tick may be issued; [`TakeError::Empty`] if the store has to be asked
    /// first, which this demands.
    #[inline]
    pub(crate) fn check(&self, tick: u64) -> Result<(), TakeError> {
        self.0.as_ref().map_or(Ok(()), |state| state.check(tick))
    }

    /// Notes that the generator has reached this tick, so that the store is asked in time.
    pub(crate) fn reach(&self, tick: u64) {
        if let Some(state) = &self.0 {
            state.reach(tick);
        }
    }

    /// Returns whether the generator waits for the store.
    pub(crate) fn is_pending(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.is_pending())
    }

    /// Returns whether nothing may be issued any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.is_lost())
    }

    /// If the lease is lost, returns the last tick of which uids may have been issued, or may still be: a
    /// taker in the middle of a tick goes on with it.
    #[cfg(any(test, not(uidring_loom)))]
    pub(crate) fn lost_at(&self) -> Option<u64> {
        let state = self.0.as_ref().filter(|state| state.is_lost())?;
        Some(state.horizon.load(Ordering::Relaxed))
    }
}

/// What the generator and its renewals share. Relaxed, except `stop` and `released`: each number is
/// independent of the others, and one thread asks the store before it writes a horizon here.
#[derive(Debug)]
pub(super) struct IssueState {
    /// The clock of the deadline.
    pub(super) time: Arc<dyn Monotonic>,
    /// The last tick that may be issued: the store has it.
    pub(super) horizon: AtomicU64,
    /// The greatest tick that the generator has reached.
    pub(super) reached: AtomicU64,
    /// From this tick on the store is asked for more.
    pub(super) mark: AtomicU64,
    pub(super) lost: AtomicBool,
    /// Renewals that have succeeded, and that have failed.
    pub(super) renewals: AtomicU64,
    pub(super) renewal_failures: AtomicU64,
    /// When the lease is over unless it is renewed.
    pub(super) deadline: ForkGuarded<Option<Moment>>,
    pub(super) stop: AtomicBool,
    pub(super) released: AtomicBool,
    /// Where the thread waits.
    pub(super) demand: Event,
    /// Where a call that ends the lease waits.
    pub(super) end: Event,
    /// What was issued last, set before `stop`.
    pub(super) last: ForkGuarded<Option<Uid>>,
}

impl IssueState {
    /// The state of a generator that starts with this tick. It may issue nothing yet.
    pub(super) fn new(time: Arc<dyn Monotonic>, start: u64, life: ForkToken) -> Self {
        Self {
            time,
            horizon: AtomicU64::new(0),
            reached: AtomicU64::new(start),
            mark: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            renewals: AtomicU64::new(0),
            renewal_failures: AtomicU64::new(0),
            deadline: ForkGuarded::new(life, None),
            stop: AtomicBool::new(false),
            released: AtomicBool::new(false),
            demand: Event::new(life),
            end: Event::new(life),
            last: ForkGuarded::new(life, None),
        }
    }

    #[cold]
    fn check(&self, tick: u64) -> Result<(), TakeError> {
        if self.is_lost() {
            return Err(TakeError::LeaseLost);
        }
        self.reach(tick);
        if tick <= self.horizon.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(TakeError::Empty)
    }

    fn reach(&self, tick: u64) {
        if self.reached.fetch_max(tick, Ordering::Relaxed) < tick
            && tick >= self.mark.load(Ordering::Relaxed)
        {
            self.demand.notify();
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        if self.lost.load(Ordering::Relaxed) {
            return true;
        }
        let is_over = self.is_over();
        if is_over {
            // Permanently: a renewal that succeeds too late changes nothing.
            self.lost.store(true, Ordering::Relaxed);
        }
        is_over
    }

    /// Returns whether the deadline has passed; true in a forked child.
    pub(super) fn is_over(&self) -> bool {
        self.time_left() == Some(Duration::ZERO)
    }

    /// Returns the time until the deadline, zero once it has passed, and `None` without one; zero in a forked
    /// child.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let deadline = match self.deadline.lock() {
            Ok(deadline) => *deadline,
            Err(Forked) => return Some(Duration::ZERO),
        };
        deadline.map(|deadline| deadline.since(self.time.moment()))
    }

    fn is_pending(&self) -> bool {
        self.reached.load(Ordering::Relaxed) > self.horizon.load(Ordering::Relaxed)
    }

    pub(super) fn wants_more(&self) -> bool {
        self.reached.load(Ordering::Relaxed) >= self.mark.load(Ordering::Relaxed)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;
    use crate::clock::monotonic::ManualMonotonic;

    /// A generator that starts with tick 3 and may issue up to tick 6, and asks for more from tick 5 on.
    fn state() -> IssueState {
        let time = Arc::new(ManualMonotonic::new());
        let state = IssueState::new(time, 3, ForkToken::current());
        state.horizon.store(6, Ordering::Relaxed);
        state.mark.store(5, Ordering::Relaxed);
        state
    }

    #[test]
    fn the_store_is_asked_for_more_from_the_mark_on() {
        let state = state();
        let wants = |tick| (state.check(tick), state.wants_more(), state.is_pending());
        assert_eq!(wants(4), (Ok(()), false, false));
        assert_eq!(wants(6), (Ok(()), true, false));
        assert_eq!(wants(7), (Err(TakeError::Empty), true, true));
    }

    #[test]
    fn each_tick_from_the_mark_on_wakes_the_renewals_once() {
        #[derive(Default)]
        struct Woken(AtomicBool);

        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }

        let (state, woken) = (state(), Arc::<Woken>::default());
        let waker = Waker::from(Arc::clone(&woken));
        let wakes = |tick| {
            let mut listener = state.demand.listener();
            listener.register(&waker).expect("not forked");
            state.reach(tick);
            drop(listener);
            woken.0.swap(false, Ordering::Relaxed)
        };
        assert_eq!([4, 5, 5, 4, 8].map(wakes), [false, true, false, false, true]);
    }

    #[test]
    fn a_generator_is_pending_above_its_horizon_and_without_one_never() {
        let plain = IssueHorizon::default();
        plain.reach(1 << 40);
        assert!(!plain.is_pending() && !plain.is_lost());
        assert_eq!((plain.check(1 << 40), plain.lost_at()), (Ok(()), None));
        let state = Arc::new(state());
        let leased = IssueHorizon::new(Arc::clone(&state));
        leased.reach(6);
        assert!(!leased.is_pending());
        leased.reach(7);
        assert!(leased.is_pending() && !leased.is_lost());
        assert_eq!(leased.lost_at(), None);
        state.lost.store(true, Ordering::Relaxed);
        assert_eq!((leased.is_lost(), leased.lost_at()), (true, Some(6)));
        assert_eq!(leased.check(1), Err(TakeError::LeaseLost));
    }
}
