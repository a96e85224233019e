//! What a generator shares with the renewals of its lease.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::{Moment, Monotonic};
use crate::error::TakeError;
use crate::sync::{AtomicBool, AtomicU64, EventCount, ForkToken, Ordering};
use crate::uid::Uid;

/// The lease was found to be lost or over. This is final.
const LOST: u64 = 0;
/// The lease has no limit, or was not granted yet.
const NEVER: u64 = u64::MAX;

/// The state of a lease in use. Shared by the generator, the call that ends it, and the renewals.
///
/// Relaxed, except `released`: the numbers are independent, and one thread asks the store before it writes a horizon
/// here.
#[derive(Debug)]
pub(super) struct LeaseShared {
    time: Arc<dyn Monotonic>,
    life: ForkToken,
    /// The last tick that may be issued, as stored.
    horizon: AtomicU64,
    /// The greatest tick that the generator has reached.
    reached: AtomicU64,
    /// From this tick on, the store is asked for more.
    mark: AtomicU64,
    /// When the lease is over unless renewed, in nanoseconds of the clock; or [`LOST`] or [`NEVER`].
    deadline: AtomicU64,
    renewals: AtomicU64,
    failures: AtomicU64,
    /// Set once the lease is to be released: the last uid issued.
    stopped: OnceLock<Option<Uid>>,
    released: AtomicBool,
    /// Where the thread waits.
    demand: EventCount,
    end: EventCount,
}

impl LeaseShared {
    /// Starts at this tick. Nothing may be issued yet.
    pub(super) fn new(time: Arc<dyn Monotonic>, start: u64, life: ForkToken) -> Self {
        Self {
            time,
            horizon: AtomicU64::new(0),
            reached: AtomicU64::new(start),
            mark: AtomicU64::new(0),
            deadline: AtomicU64::new(NEVER),
            renewals: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            stopped: OnceLock::new(),
            released: AtomicBool::new(false),
            demand: EventCount::new(life),
            end: EventCount::new(life),
            life,
        }
    }

    pub(super) fn is_forked(&self) -> bool {
        self.life.is_forked_child()
    }

    pub(super) fn moment(&self) -> Moment {
        self.time.moment()
    }
}

impl LeaseShared {
    #[cold]
    pub(super) fn check(&self, tick: u64) -> Result<(), TakeError> {
        if self.is_lost() {
            return Err(TakeError::LeaseLost);
        }
        self.reach(tick);
        if tick <= self.horizon.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(TakeError::Empty)
    }

    pub(super) fn reach(&self, tick: u64) {
        if self.reached.fetch_max(tick, Ordering::Relaxed) < tick
            && tick >= self.mark.load(Ordering::Relaxed)
        {
            self.demand.notify();
        }
    }

    pub(super) fn horizon(&self) -> u64 {
        self.horizon.load(Ordering::Relaxed)
    }

    pub(super) fn reached(&self) -> u64 {
        self.reached.load(Ordering::Relaxed)
    }

    pub(super) fn is_pending(&self) -> bool {
        self.reached() > self.horizon()
    }

    pub(super) fn wants_more(&self) -> bool {
        self.reached() >= self.mark.load(Ordering::Relaxed)
    }
}

impl LeaseShared {
    /// Called when the store has the horizon, and the lease lasts until the deadline. A lease that was found to be lost
    /// stays lost.
    pub(super) fn grant(&self, horizon: u64, mark: u64, deadline: Option<Moment>) {
        let deadline = deadline.map_or(NEVER, |end| end.as_nanos().clamp(LOST + 1, NEVER - 1));
        let renewed = |found| (found != LOST).then_some(deadline);
        let _ = self.deadline.fetch_update(Ordering::Relaxed, Ordering::Relaxed, renewed);
        self.mark.store(mark, Ordering::Relaxed);
        self.horizon.store(horizon, Ordering::Relaxed);
        self.renewals.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn fail(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lose(&self) {
        self.deadline.store(LOST, Ordering::Relaxed);
    }

    /// Returns whether nothing more may be issued; true in a forked child. Marks a lease whose deadline has passed as
    /// lost, so that a late renewal changes nothing.
    pub(super) fn is_lost(&self) -> bool {
        let passed = |deadline| self.is_over(deadline).then_some(LOST);
        self.is_forked()
            || self.deadline.fetch_update(Ordering::Relaxed, Ordering::Relaxed, passed).is_ok()
    }

    /// Returns whether the lease was already found to be lost.
    pub(super) fn was_lost(&self) -> bool {
        self.deadline.load(Ordering::Relaxed) == LOST
    }

    fn is_over(&self, deadline: u64) -> bool {
        deadline == LOST || deadline != NEVER && deadline <= self.moment().as_nanos()
    }

    /// Returns the time until the deadline, or `None` without one. Zero once it has passed, if the lease is lost, and
    /// in a forked child.
    pub(super) fn time_left(&self) -> Option<Duration> {
        match self.deadline.load(Ordering::Relaxed) {
            _ if self.is_forked() => Some(Duration::ZERO),
            NEVER => None,
            LOST => Some(Duration::ZERO),
            deadline => {
                let left = deadline.saturating_sub(self.moment().as_nanos());
                Some(Duration::from_nanos(left))
            }
        }
    }

    pub(super) fn renewals(&self) -> (u64, u64) {
        let [renewals, failures] =
            [&self.renewals, &self.failures].map(|counter| counter.load(Ordering::Relaxed));
        (renewals, failures)
    }

    /// Waits for `pause`, until the lease is to be released, or until `is_demanded` returns true.
    pub(super) fn wait(&self, pause: Option<Duration>, is_demanded: impl Fn() -> bool) {
        self.demand.wait(pause, || self.is_stopped() || is_demanded());
    }
}

impl LeaseShared {
    /// Requests the release: nothing above `last` was or will be issued. Returns whether this is the first call.
    pub(super) fn stop(&self, last: Option<Uid>) -> bool {
        let is_first = self.stopped.set(last).is_ok();
        if is_first {
            self.demand.notify();
        }
        is_first
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// Returns the last uid issued, once the lease is to be released.
    pub(super) fn stopped(&self) -> Option<Option<Uid>> {
        self.stopped.get().copied()
    }

    /// Called when the store will not be asked again.
    pub(super) fn release(&self) {
        // Release: pairs with the Acquire in `is_released`.
        self.released.store(true, Ordering::Release);
        self.end.notify();
    }

    pub(super) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    /// Where a call that ends the lease waits for [`release`](Self::release).
    pub(super) fn end(&self) -> &EventCount {
        &self.end
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::task::{Wake, Waker};

    use super::*;
    use crate::clock::monotonic::ManualMonotonic;

    /// A generator that starts at tick 3, may issue up to tick 6, and asks for more from tick 5 on.
    pub(in crate::worker) fn shared() -> LeaseShared {
        let time = Arc::new(ManualMonotonic::new());
        let shared = LeaseShared::new(time, 3, ForkToken::current());
        shared.grant(6, 5, None);
        shared
    }

    #[test]
    fn the_store_is_asked_for_more_from_the_mark_on() {
        let shared = shared();
        let wants = |tick| (shared.check(tick), shared.wants_more(), shared.is_pending());
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

        let (shared, woken) = (shared(), Arc::<Woken>::default());
        let waker = Waker::from(Arc::clone(&woken));
        let wakes = |tick| {
            let mut listener = shared.demand.listener();
            listener.register(&waker).expect("not forked");
            shared.reach(tick);
            drop(listener);
            woken.0.swap(false, Ordering::Relaxed)
        };
        assert_eq!([4, 5, 5, 4, 8].map(wakes), [false, true, false, false, true]);
    }

    #[test]
    fn what_was_lost_stays_lost_and_the_first_end_counts() {
        let shared = shared();
        assert_eq!((shared.is_lost(), shared.time_left()), (false, None));
        shared.lose();
        shared.grant(9, 8, shared.moment().after(Duration::from_secs(1)));
        assert_eq!((shared.is_lost(), shared.time_left()), (true, Some(Duration::ZERO)));
        let uid = Some(Uid::from_layout(7));
        assert!(shared.stop(uid) && !shared.stop(None));
        assert_eq!(shared.stopped(), Some(uid));
    }
}
