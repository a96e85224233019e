//! When a lease is renewed, how far, and what follows from the answer. Nothing here waits, or asks a
//! store: that is for a [`Renewer`].

use std::sync::Arc;
use std::time::Duration;

use super::grant::Shared;
use super::lease::{LeaseKeeper, LeaseTerms, RenewError};
use crate::clock::{Moment, Monotonic, Seldom};
use crate::error::Error;
use crate::layout::Layout;
use crate::sync::{Ordering, lock};
use crate::uid::Uid;

/// Who has the tasks of a lease in use done.
pub(crate) trait Renewer: Send + 'static {
    /// The clock by which the lease lasts.
    fn time(&self) -> Arc<dyn Monotonic>;

    /// Does one [task](Renewals::next) after another, until the lease has been given back.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseThread`].
    fn begin(&self, renewals: Renewals, keeper: Box<dyn LeaseKeeper>) -> Result<(), Error>;
}

/// What a generator tells of itself when its lease begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    /// The tick at the present time.
    pub(crate) present: u64,
    /// The first tick that it will issue.
    pub(crate) start: u64,
    /// How many ticks it may be ahead of the clock.
    pub(crate) max_ahead: u64,
}

/// What a lease needs next.
#[derive(Debug)]
pub(crate) enum Task {
    /// Nothing, for so long, or until something is demanded.
    Wait(Option<Duration>),
    /// That the store is asked, and its answer told.
    Renew(Request),
    /// That it is given back: this was issued last.
    Release(Option<Uid>),
}

/// What the store is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    horizon: Horizon,
    /// Before it was asked.
    started: Moment,
}

impl Request {
    /// The last tick that is to be issued.
    pub(crate) fn horizon(self) -> u64 {
        self.horizon.last
    }
}

/// The state of a lease in use.
#[derive(Debug)]
pub(crate) struct Renewals {
    shared: Arc<Shared>,
    terms: LeaseTerms,
    pace: Pace,
    /// When the store is asked if nothing demands it earlier.
    due: Option<Moment>,
    /// After a failure no demand makes it come earlier.
    is_failing: bool,
    failed: Seldom,
}

impl Renewals {
    pub(super) fn new(
        layout: &Layout,
        terms: LeaseTerms,
        beginning: Beginning,
        time: Arc<dyn Monotonic>,
    ) -> Self {
        let now = time.moment();
        Self {
            shared: Arc::new(Shared::new(time, beginning.start)),
            terms,
            pace: Pace::new(layout, terms, beginning, now),
            due: Some(now),
            is_failing: false,
            failed: Seldom::default(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What is to be done now.
    pub(crate) fn next(&mut self) -> Task {
        let shared = &self.shared;
        // Acquire: who stopped it has said before what was issued last.
        if shared.stop.load(Ordering::Acquire) {
            return Task::Release(*lock(&shared.last));
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
        !is_lost && !self.is_failing && self.shared.wants_more()
    }

    /// What to ask the store for now.
    pub(super) fn request(&mut self) -> Request {
        let started = self.shared.time.moment();
        let reached = self.shared.reached.load(Ordering::Relaxed);
        Request { horizon: self.pace.horizon(reached, started), started }
    }

    /// The store has answered.
    pub(crate) fn answered(&mut self, request: Request, answer: Result<(), RenewError>) {
        match answer {
            Ok(()) => self.granted(request),
            Err(RenewError::Failed(error)) => {
                if self.failed.is_time() {
                    tracing::warn!("the lease of the worker id was not renewed: {error}");
                }
                self.is_failing = true;
                self.plan(RETRY.min(self.terms.renew_every / 2));
            }
            Err(RenewError::Lost(error)) => {
                tracing::error!("the lease of the worker id is lost: {error}");
                self.shared.lost.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The store knows of the horizon.
    pub(super) fn granted(&mut self, request: Request) {
        let Request { horizon, started } = request;
        let lasts = self.terms.lasts.map(|lasts| lasts.saturating_sub(self.terms.margin));
        // The end counts from before the store was asked: the store counts from later.
        *lock(&self.shared.deadline) = lasts.and_then(|lasts| started.after(lasts));
        self.shared.mark.store(horizon.mark, Ordering::Relaxed);
        self.shared.horizon.store(horizon.last, Ordering::Relaxed);
        self.is_failing = false;
        self.plan(self.terms.renew_every);
    }

    fn plan(&mut self, pause: Duration) {
        self.due = self.shared.time.moment().after(pause);
    }

    /// Whether the lease lasts, by the owner's own account.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn is_live(&self) -> bool {
        !self.shared.lost.load(Ordering::Relaxed) && !self.shared.is_over()
    }

    /// Whoever ends the lease goes on at once.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn unattended(self) -> Self {
        self.shared.released.store(true, Ordering::Release);
        self
    }

    /// The worker id was given back, or that failed.
    pub(crate) fn released(self, answer: Result<(), Error>) {
        if let Err(error) = answer {
            tracing::warn!("the worker id could not be given back: {error}");
        }
        // Release: who waits for it finds the store told.
        self.shared.released.store(true, Ordering::Release);
        self.shared.end.notify();
    }
}

/// The pause after a failure.
const RETRY: Duration = Duration::from_millis(250);

/// How far ahead the store is told.
#[derive(Debug)]
struct Pace {
    /// A tick, in nanoseconds.
    tick: u128,
    renew_every: u128,
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

impl Pace {
    fn new(layout: &Layout, terms: LeaseTerms, beginning: Beginning, now: Moment) -> Self {
        let tick = u128::from(layout.tick().millis().unsigned_abs()) * 1_000_000;
        Self {
            tick,
            renew_every: terms.renew_every.as_nanos(),
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
        Horizon { last, mark: from + (last - from) / 4 * 3 + 1 }
    }

    fn ticks(&self, nanos: u128) -> u64 {
        u64::try_from(nanos / self.tick).unwrap_or(u64::MAX)
    }
}
