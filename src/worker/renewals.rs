//! Decides when and how far a lease is renewed, and handles the answers. Nothing here waits or asks a store: a
//! [`Renewer`] does.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::backend::{LeaseBackend, LeaseTerms, RenewError};
use super::lease_shared::LeaseShared;
use crate::clock::{LogThrottle, Moment, Monotonic};
use crate::error::{Chain, Error};
use crate::layout::Layout;
use crate::sync::{ForkToken, log};
use crate::uid::Uid;

/// Runs the actions of a lease in use.
pub trait Renewer: Send + 'static {
    /// Returns the clock that measures the lease.
    fn time(&self) -> Arc<dyn Monotonic>;

    /// Returns the seed for the schedule's jitter.
    fn seed(&self) -> u64;

    /// Starts to run one [action](RenewalMachine::next_action) after another, until the lease is released. Returns at
    /// once.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    fn start(&self, renewals: RenewalMachine, backend: Box<dyn LeaseBackend>) -> Result<(), Error>;
}

/// A generator's ticks at the start of its lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseStart {
    /// The present tick.
    pub(crate) present: u64,
    /// The first tick that it will issue.
    pub(crate) first: u64,
    /// How many ticks it may be ahead of the clock.
    pub(crate) max_ahead: u64,
}

/// What a lease needs next.
#[derive(Debug)]
pub enum LeaseAction {
    /// Wait for this long, or until there is a demand.
    Wait(Option<Duration>),
    /// Ask the store, and pass on its answer.
    Renew(RenewRequest),
    /// Release the lease. This is the last uid issued.
    Release(Option<Uid>),
}

/// A renewal to ask the store for.
#[derive(Clone, Copy, Debug)]
pub struct RenewRequest {
    horizon: Horizon,
    /// The time before the store was asked.
    started: Moment,
}

impl RenewRequest {
    /// Returns the last tick that this renewal allows.
    pub fn horizon(self) -> u64 {
        self.horizon.last
    }
}

/// The state machine of a lease in use.
#[derive(Debug)]
pub struct RenewalMachine {
    shared: Arc<LeaseShared>,
    terms: LeaseTerms,
    planner: HorizonPlanner,
    /// When to ask the store if no demand comes earlier.
    due: Option<Moment>,
    /// How many renewals in a row have failed. After a failure, demands do not make the next attempt earlier.
    failures: u32,
    rng: Rng,
    failed: LogThrottle,
}

impl RenewalMachine {
    pub(super) fn new(
        layout: &Layout,
        terms: LeaseTerms,
        start: LeaseStart,
        time: Arc<dyn Monotonic>,
        seed: u64,
        life: ForkToken,
    ) -> Self {
        let now = time.moment();
        Self {
            shared: Arc::new(LeaseShared::new(time, start.first, life)),
            terms,
            planner: HorizonPlanner::new(layout, terms, start, now),
            due: Some(now),
            failures: 0,
            rng: Rng::with_seed(seed),
            failed: LogThrottle::default(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<LeaseShared> {
        &self.shared
    }

    pub(super) fn is_forked(&self) -> bool {
        self.shared.is_forked()
    }

    /// Returns what to do now.
    pub fn next_action(&mut self) -> LeaseAction {
        let shared = &self.shared;
        // In a child, the lease is the parent's to release.
        if let Some(last) = shared.stopped().filter(|_| !shared.is_forked()) {
            return LeaseAction::Release(last);
        }
        if shared.is_lost() {
            return LeaseAction::Wait(None);
        }
        let left = self.due.map(|due| due.since(shared.moment()));
        if left == Some(Duration::ZERO) || self.is_demanded() {
            LeaseAction::Renew(self.request())
        } else {
            LeaseAction::Wait(left)
        }
    }

    pub(super) fn wait(&self, pause: Option<Duration>) {
        self.shared.wait(pause, || self.is_demanded());
    }

    pub(super) fn wait_until_due(&self, limit: Option<Duration>) {
        let left = self.due.map(|due| due.since(self.shared.moment()));
        self.wait(left.into_iter().chain(limit).min());
    }

    fn is_demanded(&self) -> bool {
        !self.shared.was_lost() && self.failures == 0 && self.shared.wants_more()
    }

    pub(super) fn request(&mut self) -> RenewRequest {
        let started = self.shared.moment();
        let horizon = self.planner.horizon(self.shared.reached(), started);
        RenewRequest { horizon, started }
    }

    /// Handles the store's answer.
    pub fn answered(&mut self, request: RenewRequest, answer: Result<(), RenewError>) {
        match answer {
            Ok(()) => self.granted(request),
            Err(RenewError::Failed(error)) => {
                self.failures = self.failures.saturating_add(1);
                self.shared.fail();
                let pause = retry_after(self.failures, self.terms.renew_every);
                // Jitter, so that holders hit by the same outage do not retry together.
                let part = 0.5 + self.rng.f64() / 2.0;
                self.plan(pause.mul_f64(part));
                if self.failed.is_due() {
                    log_failure(&error);
                }
            }
            Err(RenewError::Lost(error)) => {
                self.shared.lose();
                log!(error, "the lease of the worker id is lost: {}", Chain(&error));
            }
        }
    }

    pub(super) fn granted(&mut self, request: RenewRequest) {
        let RenewRequest { horizon, started } = request;
        let lasts = self.terms.lasts.map(|lasts| lasts.saturating_sub(self.terms.margin));
        // Counted from before the store was asked, because the store counts from later.
        let deadline = lasts.and_then(|lasts| started.after(lasts));
        self.shared.grant(horizon.last, horizon.mark, deadline);
        self.failures = 0;
        // Jitter, so that holders that started together do not keep renewing together. Never later than planned:
        // horizon and deadline do not allow for that.
        let renew_every = self.terms.renew_every;
        let early = renew_every.mul_f64(self.rng.f64() / 8.0);
        self.plan(renew_every - early);
    }

    fn plan(&mut self, pause: Duration) {
        self.due = self.shared.moment().after(pause);
    }

    pub(super) fn ended(&self) {
        self.shared.release();
    }

    /// Handles a panic of the backend: the store's state is unknown, and nobody renews.
    pub(super) fn panicked(&self) {
        self.shared.lose();
    }

    /// Returns whether the lease lasts, by the holder's clock.
    #[cfg(any(test, feature = "simulation"))]
    pub fn is_live(&self) -> bool {
        self.shared.time_left() != Some(Duration::ZERO)
    }

    /// Returns the horizon, whether the lease was found to be lost, and the time to its deadline.
    #[cfg(feature = "simulation")]
    pub fn seen(&self) -> (u64, bool, Option<Duration>) {
        let shared = &self.shared;
        (shared.horizon(), shared.was_lost(), shared.time_left())
    }

    /// Makes calls that end the lease return at once.
    #[cfg(feature = "simulation")]
    pub fn unattended(self) -> Self {
        self.shared.release();
        self
    }

    /// Handles the result of a release.
    pub fn released(&self, answer: Result<(), Error>) {
        self.ended();
        if let Err(error) = answer {
            log!(warn, "the worker id could not be given back: {}", Chain(&error));
        }
    }
}

pub(super) fn log_failure(error: &Error) {
    log!(warn, "the lease of the worker id was not renewed: {}", Chain(error));
}

/// Returns the pause after `failures` in a row, before jitter. It doubles each time, but leaves room for several
/// attempts before the lease ends.
fn retry_after(failures: u32, renew_every: Duration) -> Duration {
    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(5);
    let doublings = failures.saturating_sub(1).min(31);
    FIRST.saturating_mul(1 << doublings).min(LONGEST).min(renew_every / 2)
}

/// Plans how far ahead the stored horizon is.
#[derive(Debug)]
struct HorizonPlanner {
    /// In nanoseconds, like `renew_every`.
    tick: u128,
    renew_every: u128,
    /// Ticks beyond what is needed until the next renewals.
    reserve: u64,
    max_ahead: u64,
    /// The layout's last tick. A horizon beyond it would be no tick, and nobody could start above it.
    max_tick: u64,
    /// The present tick at the start. The clock is not read again, because it may be set. A horizon that is too low is
    /// raised on demand.
    present: u64,
    since: Moment,
    /// Where the generator was at the last renewal, and when.
    before: (u64, Moment),
}

/// The last tick to ask the store for, and the tick from which to ask for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Horizon {
    last: u64,
    mark: u64,
}

impl HorizonPlanner {
    fn new(layout: &Layout, terms: LeaseTerms, start: LeaseStart, now: Moment) -> Self {
        let tick = u128::from(layout.tick().millis().unsigned_abs()) * 1_000_000;
        Self {
            tick,
            renew_every: terms.renew_every.as_nanos(),
            reserve: u64::try_from(terms.reserve.as_nanos().div_ceil(tick)).unwrap_or(u64::MAX),
            max_ahead: start.max_ahead,
            max_tick: layout.max_tick(),
            present: start.present,
            since: now,
            before: (start.first, now),
        }
    }

    /// Plans for two renewals at the present rate, at least the clock's, but no further than the generator may be
    /// ahead. The reserve comes on top.
    fn horizon(&mut self, reached: u64, now: Moment) -> Horizon {
        let walked = self.ticks(now.since(self.since).as_nanos());
        // A generator is never further ahead of its clock than allowed. If it seems to be, the clock was set.
        let present =
            self.present.saturating_add(walked).max(reached.saturating_sub(self.max_ahead));
        let (before, since) = self.before;
        // Filling a ring at once is not a rate. If takers keep it up, further demands will show it.
        let elapsed = now.since(since).as_nanos().max(self.renew_every).max(1);
        let walked = u128::from(reached.saturating_sub(before));
        let by_rate = (walked * 2).saturating_mul(self.renew_every) / elapsed;
        let by_rate = u64::try_from(by_rate).unwrap_or(u64::MAX);
        self.before = (reached, now);
        let at_rest = self.ticks(2 * self.renew_every).saturating_add(2);
        // The generator may also issue the ticks that pass until the next renewal.
        let limit = present.saturating_add(self.max_ahead.max(at_rest)).saturating_add(at_rest / 2);
        let from = reached.max(present);
        let last = from.saturating_add(by_rate.max(at_rest)).min(limit);
        // The store is asked for more before the reserve is used.
        let mark = from + (last - from) / 4 * 3 + 1;
        Horizon { last: last.saturating_add(self.reserve).min(self.max_tick), mark }
    }

    fn ticks(&self, nanos: u128) -> u64 {
        u64::try_from(nanos / self.tick).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::clock::Deadline;
    use crate::clock::monotonic::ManualMonotonic;
    use crate::error::{StoreError, StoreErrorKind};

    /// A lease of half a minute after its first renewal.
    fn renewals(seed: u64, time: &ManualMonotonic) -> RenewalMachine {
        let terms = LeaseTerms {
            lasts: Some(Duration::from_secs(30)),
            margin: Duration::from_secs(3),
            renew_every: Duration::from_secs(10),
            ..LeaseTerms::default()
        };
        let start = LeaseStart { present: 0, first: 1, max_ahead: 600 };
        let layout = Layout::UID_GENERATOR;
        let (time, life) = (Arc::new(time.clone()), ForkToken::current());
        let mut renewals = RenewalMachine::new(&layout, terms, start, time, seed, life);
        let request = renewals.request();
        renewals.granted(request);
        renewals
    }

    /// Returns the time until the next renewal, which then succeeds or `fails`.
    fn pause(renewals: &mut RenewalMachine, time: &ManualMonotonic, fails: bool) -> Duration {
        let LeaseAction::Wait(Some(pause)) = renewals.next_action() else {
            panic!("it is not time")
        };
        time.advance(pause.as_nanos() as u64);
        let LeaseAction::Renew(request) = renewals.next_action() else { panic!("it is time") };
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
            // A success resets the pauses.
            pause(&mut renewals, &time, false);
            assert!(pause(&mut renewals, &time, false) > Duration::from_secs(8));
        }
        assert!(firsts.len() > 40, "{firsts:?}");
    }

    /// Of a thousand processes that started at once, few renew at once.
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

    #[test]
    fn a_wait_ends_on_demand_unless_the_store_has_failed_and_at_a_stop() {
        let time = ManualMonotonic::new();
        let mut renewals = renewals(0, &time);
        let pause = Duration::from_millis(20);
        let lasts = |renewals: &RenewalMachine| {
            let [first, second] = [1, 2].map(|waits| Deadline::after(Some(pause * waits)));
            renewals.wait(Some(pause));
            let lasts = first.is_over();
            renewals.wait_until_due(Some(pause));
            lasts && second.is_over()
        };
        assert!(lasts(&renewals));
        renewals.shared.reach(1 << 40);
        renewals.wait(None);
        let request = renewals.request();
        let error = StoreError::new(StoreErrorKind::Unreachable, "the store is away");
        renewals.answered(request, Err(RenewError::Failed(error.into())));
        assert!(lasts(&renewals));
        renewals.shared.stop(None);
        renewals.wait(None);
        renewals.released(Ok(()));
        assert!(renewals.shared.is_released(), "whoever waits for it is released");
    }

    #[test]
    fn the_horizon_follows_the_pace_up_to_the_lead_and_the_mark_comes_before() {
        let terms = LeaseTerms {
            renew_every: Duration::from_secs(10),
            reserve: Duration::from_secs(60),
            ..LeaseTerms::default()
        };
        let time = ManualMonotonic::new();
        let start = LeaseStart { present: 1_000, first: 1_000, max_ahead: 600 };
        let mut planner = HorizonPlanner::new(&Layout::UID_GENERATOR, terms, start, time.moment());
        let mut after = |seconds: u64, reached| {
            time.advance(seconds * 1_000_000_000);
            let Horizon { last, mark } = planner.horizon(reached, time.moment());
            (last - 60, mark)
        };
        assert_eq!(after(0, 1_000), (1_022, 1_016), "two renewals at the clock's pace");
        assert_eq!(after(10, 1_100), (1_300, 1_251), "at ten times that");
        assert_eq!(after(5, 1_500), (1_626, 1_594), "the lead, and what passes until the next one");
        assert_eq!(after(10, 3_000), (3_011, 3_007), "the clock was set");
    }

    #[test]
    fn a_ring_that_is_filled_at_once_is_no_pace_and_one_that_lasts_is_followed() {
        let terms = LeaseTerms { renew_every: Duration::from_millis(600), ..LeaseTerms::default() };
        let time = ManualMonotonic::new();
        let start = LeaseStart { present: 1_000, first: 1_000, max_ahead: 600 };
        let mut planner = HorizonPlanner::new(&Layout::UID_GENERATOR, terms, start, time.moment());
        let mut after = |millis: u64, reached| {
            time.advance(millis * 1_000_000);
            planner.horizon(reached, time.moment()).last
        };
        assert_eq!(after(0, 1_000), 1_003);
        assert_eq!(after(1, 1_008), 1_024, "eight ticks stand ready");
        assert_eq!(after(10_000, 1_018), 1_021, "by the clock");
        // A thousand ticks per second are 600 per renewal. Twice that is beyond the lead.
        let mut reached = 1_018;
        let asked = (0..20).take_while(|_| {
            reached += 4 + reached - 1_018;
            after(reached - 1_018, reached) < 1_011 + 600
        });
        assert!(asked.count() < 8);
    }

    /// The schedule follows from the seed alone, so that a history can be replayed.
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
