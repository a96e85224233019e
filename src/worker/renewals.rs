//! When a lease is renewed, how far, and what follows from the answer. Nothing here waits, or asks a
//! store: that is for a [`Renewer`].

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::backend::{LeaseBackend, LeaseTerms, RenewError};
use super::issue_horizon::LeaseState;
use crate::clock::{LogThrottle, Moment, Monotonic};
use crate::error::Error;
use crate::layout::Layout;
use crate::sync::{Life, Ordering, log};
use crate::uid::Uid;

/// Who has the tasks of a lease in use done.
pub trait Renewer: Send + 'static {
    /// The clock by which the lease lasts.
    fn time(&self) -> Arc<dyn Monotonic>;

    /// What the random parts of its schedule follow from.
    fn seed(&self) -> u64;

    /// Does one [task](RenewalState::next_task) after another, until the lease has been given back.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseThread`].
    fn begin(&self, renewals: RenewalState, backend: Box<dyn LeaseBackend>) -> Result<(), Error>;
}

/// What a generator tells of itself when its lease begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseStart {
    /// The tick at the present time.
    pub(crate) present: u64,
    /// The first tick that it will issue.
    pub(crate) start: u64,
    /// How many ticks it may be ahead of the clock.
    pub(crate) max_ahead: u64,
}

/// What a lease needs next.
#[derive(Debug)]
pub enum Task {
    /// Nothing, for so long, or until something is demanded.
    Wait(Option<Duration>),
    /// That the store is asked, and its answer told.
    Renew(Request),
    /// That it is given back: this was issued last.
    Release(Option<Uid>),
}

/// What the store is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    horizon: Horizon,
    /// Before it was asked.
    started: Moment,
}

impl Request {
    /// The last tick that is to be issued.
    pub fn horizon(self) -> u64 {
        self.horizon.last
    }
}

/// The state of a lease in use.
#[derive(Debug)]
pub struct RenewalState {
    shared: Arc<LeaseState>,
    terms: LeaseTerms,
    pace: HorizonPlanner,
    /// When the store is asked if nothing demands it earlier.
    due: Option<Moment>,
    /// How many renewals in a row have failed. After a failure no demand makes the next one come
    /// earlier.
    failures: u32,
    rng: Rng,
    failed: LogThrottle,
}

impl RenewalState {
    pub(super) fn new(
        layout: &Layout,
        terms: LeaseTerms,
        beginning: LeaseStart,
        time: Arc<dyn Monotonic>,
        seed: u64,
        life: Life,
    ) -> Self {
        let now = time.moment();
        Self {
            shared: Arc::new(LeaseState::new(time, beginning.start, life)),
            terms,
            pace: HorizonPlanner::new(layout, terms, beginning, now),
            due: Some(now),
            failures: 0,
            rng: Rng::with_seed(seed),
            failed: LogThrottle::default(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<LeaseState> {
        &self.shared
    }

    /// Whether this process is a forked child of the lease's owner.
    pub(super) fn is_forked(&self) -> bool {
        self.shared.deadline.is_forked()
    }

    /// What is to be done now.
    pub fn next_task(&mut self) -> Task {
        let shared = &self.shared;
        // Acquire: who stopped it has said before what was issued last.
        if shared.stop.load(Ordering::Acquire) {
            return match shared.last.lock() {
                Ok(last) => Task::Release(*last),
                // It is the parent's to give back.
                Err(_) => Task::Wait(None),
            };
        }
        if shared.is_lost() {
            return Task::Wait(None);
        }
        let left = self.due.map(|due| due.since(shared.time.moment()));
        if left == Some(Duration::ZERO) || self.is_demanded() {
            Task::Renew(self.request())
        } else {
            Task::Wait(left)
        }
    }

    /// Waits, unless there is something to do.
    pub(super) fn wait(&self, pause: Option<Duration>) {
        let shared = &self.shared;
        shared.demand.wait(pause, || shared.is_stopped() || self.is_demanded());
    }

    fn is_demanded(&self) -> bool {
        let is_lost = self.shared.lost.load(Ordering::Relaxed);
        !is_lost && self.failures == 0 && self.shared.wants_more()
    }

    /// What to ask the store for now.
    pub(super) fn request(&mut self) -> Request {
        let started = self.shared.time.moment();
        let reached = self.shared.reached.load(Ordering::Relaxed);
        Request { horizon: self.pace.horizon(reached, started), started }
    }

    /// The store has answered.
    pub fn answered(&mut self, request: Request, answer: Result<(), RenewError>) {
        match answer {
            Ok(()) => self.granted(request),
            Err(RenewError::Failed(error)) => {
                self.failures = self.failures.saturating_add(1);
                let pause = retry_after(self.failures, self.terms.renew_every);
                // Those whom one outage has failed together do not come back together.
                let part = 0.5 + self.rng.f64() / 2.0;
                self.plan(pause.mul_f64(part));
                if self.failed.is_due() {
                    log!(warn, "the lease of the worker id was not renewed: {error}");
                }
            }
            Err(RenewError::Lost(error)) => {
                self.shared.lost.store(true, Ordering::Relaxed);
                log!(error, "the lease of the worker id is lost: {error}");
            }
        }
    }

    /// The store knows of the horizon.
    pub(super) fn granted(&mut self, request: Request) {
        let Request { horizon, started } = request;
        let lasts = self.terms.lasts.map(|lasts| lasts.saturating_sub(self.terms.margin));
        // The end counts from before the store was asked: the store counts from later.
        if let Ok(mut deadline) = self.shared.deadline.lock() {
            *deadline = lasts.and_then(|lasts| started.after(lasts));
        }
        self.shared.mark.store(horizon.mark, Ordering::Relaxed);
        self.shared.horizon.store(horizon.last, Ordering::Relaxed);
        self.failures = 0;
        // Earlier by up to an eighth: those who started together do not renew together for good.
        // Never later, which the horizon and the deadline are not made for.
        let part = 1.0 - self.rng.f64() / 8.0;
        self.plan(self.terms.renew_every.mul_f64(part));
    }

    fn plan(&mut self, pause: Duration) {
        self.due = self.shared.time.moment().after(pause);
    }

    /// The store is told, as far as it ever will be.
    pub(super) fn ended(&self) {
        // Release: who waits for it finds the store told.
        self.shared.released.store(true, Ordering::Release);
        self.shared.end.notify();
    }

    /// The backend has panicked: nobody knows what the store has, and nobody renews.
    pub(super) fn panicked(&self) {
        self.shared.lost.store(true, Ordering::Relaxed);
    }

    /// Whether the lease lasts, by the owner's own account.
    #[cfg(any(test, feature = "simulation"))]
    pub fn is_live(&self) -> bool {
        !self.shared.lost.load(Ordering::Relaxed) && !self.shared.is_over()
    }

    /// Whoever ends the lease goes on at once.
    #[cfg(any(test, feature = "simulation"))]
    pub fn unattended(self) -> Self {
        self.shared.released.store(true, Ordering::Release);
        self
    }

    /// The worker id was given back, or that failed.
    pub fn released(&self, answer: Result<(), Error>) {
        self.ended();
        if let Err(error) = answer {
            log!(warn, "the worker id could not be given back: {error}");
        }
    }
}

/// The pause after so many failures in a row, but for what chance takes off it: twice as long each
/// time, and never so long that a lease could end without several attempts.
fn retry_after(failures: u32, renew_every: Duration) -> Duration {
    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(5);
    let doublings = failures.saturating_sub(1).min(31);
    FIRST.saturating_mul(1 << doublings).min(LONGEST).min(renew_every / 2)
}

/// How far ahead the store is told.
#[derive(Debug)]
struct HorizonPlanner {
    /// A tick, in nanoseconds.
    tick: u128,
    renew_every: u128,
    /// Ticks beyond what is needed until the next renewals.
    reserve: u64,
    max_ahead: u64,
    /// The present tick at the beginning. The clock is not asked again: it may be set, and a
    /// horizon that is behind what is needed is moved on demand.
    present: u64,
    since: Moment,
    /// Where the generator was at the last renewal, and when.
    before: (u64, Moment),
}

/// What is asked of the store, and when to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Horizon {
    last: u64,
    mark: u64,
}

impl HorizonPlanner {
    fn new(layout: &Layout, terms: LeaseTerms, beginning: LeaseStart, now: Moment) -> Self {
        let tick = u128::from(layout.tick().millis().unsigned_abs()) * 1_000_000;
        Self {
            tick,
            renew_every: terms.renew_every.as_nanos(),
            reserve: u64::try_from(terms.reserve.as_nanos().div_ceil(tick)).unwrap_or(u64::MAX),
            max_ahead: beginning.max_ahead,
            present: beginning.present,
            since: now,
            before: (beginning.start, now),
        }
    }

    /// Enough for two renewals at the present rate, which is the clock's at least, but not further
    /// ahead than the generator may go.
    fn horizon(&mut self, reached: u64, now: Moment) -> Horizon {
        let walked = self.ticks(now.since(self.since).as_nanos());
        // No generator is further ahead of its clock than it may be: if it seems to be, the clock
        // was set.
        let present =
            self.present.saturating_add(walked).max(reached.saturating_sub(self.max_ahead));
        let (before, since) = self.before;
        let elapsed = now.since(since).as_nanos().max(1);
        let walked = u128::from(reached.saturating_sub(before));
        let by_rate = u64::try_from(walked * 2 * self.renew_every / elapsed).unwrap_or(u64::MAX);
        self.before = (reached, now);
        let at_rest = self.ticks(2 * self.renew_every).saturating_add(2);
        // What the clock makes room for until the next renewal is the generator's too.
        let limit = present.saturating_add(self.max_ahead.max(at_rest)).saturating_add(at_rest / 2);
        let from = reached.max(present);
        let last = from.saturating_add(by_rate.max(at_rest)).min(limit);
        // The reserve is not spent before the store has been asked for more.
        let mark = from + (last - from) / 4 * 3 + 1;
        Horizon { last: last.saturating_add(self.reserve), mark }
    }

    fn ticks(&self, nanos: u128) -> u64 {
        u64::try_from(nanos / self.tick).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::clock::monotonic::ManualMonotonic;
    use crate::error::{StoreError, StoreErrorKind};

    /// RenewalState of a lease of half a minute, after the first one.
    fn renewals(seed: u64, time: &ManualMonotonic) -> RenewalState {
        let terms = LeaseTerms {
            lasts: Some(Duration::from_secs(30)),
            margin: Duration::from_secs(3),
            renew_every: Duration::from_secs(10),
            ..LeaseTerms::default()
        };
        let beginning = LeaseStart { present: 0, start: 1, max_ahead: 600 };
        let layout = Layout::UID_GENERATOR;
        let (time, life) = (Arc::new(time.clone()), Life::new().expect("memory"));
        let mut renewals = RenewalState::new(&layout, terms, beginning, time, seed, life);
        let request = renewals.request();
        renewals.granted(request);
        renewals
    }

    /// How long until the store is asked next, which then does as it is told.
    fn pause(renewals: &mut RenewalState, time: &ManualMonotonic, fails: bool) -> Duration {
        let Task::Wait(Some(pause)) = renewals.next_task() else { panic!("it is not time") };
        time.advance(pause.as_nanos() as u64);
        let Task::Renew(request) = renewals.next_task() else { panic!("it is time") };
        let failed = RenewError::Failed(
            StoreError::new(StoreErrorKind::Unreachable, "the store is away").into(),
        );
        renewals.answered(request, if fails { Err(failed) } else { Ok(()) });
        pause
    }

    #[test]
    fn pauses_after_failures_double_and_differ() {
        let mut firsts = HashSet::new();
        for seed in 0..50 {
            let time = ManualMonotonic::new();
            let mut renewals = renewals(seed, &time);
            pause(&mut renewals, &time, true);
            let pauses: Vec<_> = (0..4).map(|_| pause(&mut renewals, &time, true)).collect();
            for (pause, longest) in pauses.iter().zip([250, 500, 1_000, 2_000]) {
                let longest = Duration::from_millis(longest);
                assert!(*pause >= longest / 2 && *pause <= longest, "{pauses:?}");
            }
            firsts.insert(pauses[0]);
            // A success ends it.
            pause(&mut renewals, &time, false);
            assert!(pause(&mut renewals, &time, false) > Duration::from_secs(8));
        }
        assert!(firsts.len() > 40, "{firsts:?}");
    }

    /// As many processes as an outage may meet: of those that started at once, few come at once.
    #[test]
    fn the_regular_schedule_spreads_and_is_never_late() {
        let mut due: Vec<_> = (0..1_000)
            .map(|seed| {
                let time = ManualMonotonic::new();
                let mut renewals = renewals(seed, &time);
                pause(&mut renewals, &time, false)
            })
            .collect();
        due.sort();
        let (first, last) = (due[0], due[999]);
        assert!(first >= Duration::from_millis(8_750) && last <= Duration::from_secs(10));
        assert!(last - first > Duration::from_secs(1), "{first:?} to {last:?}");
        let most = due.windows(20).map(|some| some[19] - some[0]).min();
        assert!(most > Some(Duration::from_millis(2)), "twenty within {most:?}");
    }

    #[test]
    fn a_lease_sees_several_attempts_before_it_ends() {
        for millis in [1_000, 3_000, 30_000, 3_600_000] {
            let (lasts, every) = (Duration::from_millis(millis), Duration::from_millis(millis / 3));
            let mut at = every;
            let attempts = (1..).take_while(|failures| {
                at += retry_after(*failures, every);
                at < lasts - lasts / 10
            });
            assert!(attempts.count() >= 3, "{lasts:?}");
        }
    }

    /// The schedule follows from the seed alone, so that a history can be run again.
    #[test]
    fn the_same_seed_gives_the_same_schedule() {
        let [one, two] = [(); 2].map(|()| {
            let time = ManualMonotonic::new();
            let mut renewals = renewals(7, &time);
            (0..8).map(|i| pause(&mut renewals, &time, i % 3 == 0)).collect::<Vec<_>>()
        });
        assert_eq!(one, two);
    }
}
