//! The generator's side of a lease: the thread that renews it, and what those ask who make uids.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::lease::{Lease, LeaseKeeper, LeaseTerms, RenewError};
use crate::clock::{Deadline, Seldom, Stopwatch};
use crate::error::{Error, TakeError};
use crate::layout::Layout;
use crate::sync::{AtomicBool, AtomicU64, Event, Mutex, Ordering, Pages, lock};
use crate::uid::Uid;

/// How far a generator may issue: what its lease says, or without end for a plain worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grant(Option<Arc<Shared>>);

impl Grant {
    /// Whether uids of this tick may be issued; [`TakeError::Empty`] if the store has to be asked
    /// first, which is then on its way.
    #[inline]
    pub(crate) fn check(&self, tick: u64) -> Result<(), TakeError> {
        self.0.as_ref().map_or(Ok(()), |shared| shared.check(tick))
    }

    /// Whether the store knows that uids of this tick may be issued.
    #[inline]
    pub(crate) fn covers(&self, tick: u64) -> bool {
        self.0.as_ref().is_none_or(|shared| tick <= shared.horizon.load(Ordering::Relaxed))
    }

    /// Says that the generator has come to this tick, so that the store is asked in time.
    pub(crate) fn reach(&self, tick: u64) {
        if let Some(shared) = &self.0 {
            shared.reach(tick);
        }
    }

    /// Whether the generator waits for the store.
    pub(crate) fn is_pending(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_pending())
    }

    /// Whether nothing may be issued any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_lost())
    }
}

/// What the generator and the thread that renews share. Relaxed throughout: a number says all by
/// itself, and that the store knew a horizon before it is stored here is the order of one thread.
#[derive(Debug)]
struct Shared {
    /// The last tick that may be issued: the store has it.
    horizon: AtomicU64,
    /// The greatest tick that the generator has come to.
    reached: AtomicU64,
    /// From this tick on the store is asked for more.
    mark: AtomicU64,
    lost: AtomicBool,
    /// When the lease is over unless it is renewed.
    deadline: Mutex<Deadline>,
    stop: AtomicBool,
    released: AtomicBool,
    /// Where the thread waits.
    demand: Event,
    /// Where the one waits who ends the lease.
    end: Event,
    /// What was issued last, once that is certain.
    last: Mutex<Option<Uid>>,
}

impl Shared {
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

    fn is_lost(&self) -> bool {
        if self.lost.load(Ordering::Relaxed) {
            return true;
        }
        let is_over = lock(&self.deadline).remaining() == Some(Duration::ZERO);
        if is_over {
            // For good: a renewal that comes too late changes nothing any more.
            self.lost.store(true, Ordering::Relaxed);
        }
        is_over
    }

    fn is_pending(&self) -> bool {
        self.reached.load(Ordering::Relaxed) > self.horizon.load(Ordering::Relaxed)
    }

    fn wants_more(&self) -> bool {
        self.reached.load(Ordering::Relaxed) >= self.mark.load(Ordering::Relaxed)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A lease in use. It is renewed until it is ended.
#[derive(Debug)]
pub(crate) struct Tenure {
    shared: Arc<Shared>,
    /// In a forked child there is no thread, and the locks may be held for ever.
    pages: Pages,
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

impl Tenure {
    /// Has the store know of the first ticks, and renews the lease from now on.
    ///
    /// # Errors
    ///
    /// What the store says; [`Error::LeaseThread`].
    pub(crate) fn start(lease: Lease, beginning: Beginning) -> Result<(Self, Grant), Error> {
        let Lease { layout, terms, mut keeper, .. } = lease;
        let mut pace = Pace::new(&layout, terms, beginning);
        let horizon = pace.horizon(beginning.start);
        let renewed = Stopwatch::start();
        match keeper.renew(horizon.last) {
            Ok(()) => {}
            Err(RenewError::Lost(error) | RenewError::Failed(error)) => return Err(error),
        }
        let shared = Arc::new(Shared {
            horizon: AtomicU64::new(horizon.last),
            reached: AtomicU64::new(beginning.start),
            mark: AtomicU64::new(horizon.mark),
            lost: AtomicBool::new(false),
            deadline: Mutex::new(deadline(terms, renewed)),
            stop: AtomicBool::new(false),
            released: AtomicBool::new(false),
            demand: Event::default(),
            end: Event::default(),
            last: Mutex::new(None),
        });
        let pages = Pages::new(0).ok_or(Error::OutOfMemory { bytes: 64 })?;
        let theirs = Arc::clone(&shared);
        let renewals = Renewals { shared: theirs, keeper, terms, pace, failed: Seldom::default() };
        thread::Builder::new()
            .name("uidring-lease".into())
            .spawn(move || renewals.run())
            .map_err(Error::LeaseThread)?;
        let grant = Grant(Some(Arc::clone(&shared)));
        Ok((Self { shared, pages }, grant))
    }

    /// Gives the worker id back: nothing above `last` was or will be issued. Waits a little for the
    /// store to know; the lease of one that does not answer runs out by itself. Only the first
    /// call counts.
    pub(crate) fn end(&self, last: Option<Uid>) {
        const PATIENCE: Duration = Duration::from_secs(2);
        if self.pages.are_wiped() || self.shared.is_stopped() {
            return;
        }
        *lock(&self.shared.last) = last;
        // Release: the thread, which acquires it, finds what was issued last.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.demand.notify();
        let deadline = Deadline::after(Some(PATIENCE));
        let is_released = || self.shared.released.load(Ordering::Acquire);
        while let Some(left) = deadline.remaining().filter(|left| !left.is_zero()) {
            if self.shared.end.wait(Some(left), is_released) {
                break;
            }
        }
    }
}

/// A lease that no generator came to use is given back unused.
impl Drop for Tenure {
    fn drop(&mut self) {
        self.end(None);
    }
}

fn deadline(terms: LeaseTerms, renewed: Stopwatch) -> Deadline {
    let lasts = terms.lasts.map(|lasts| lasts.saturating_sub(terms.margin));
    Deadline::after(lasts.map(|lasts| lasts.saturating_sub(renewed.elapsed())))
}

/// What the thread does.
struct Renewals {
    shared: Arc<Shared>,
    keeper: Box<dyn LeaseKeeper>,
    terms: LeaseTerms,
    pace: Pace,
    failed: Seldom,
}

impl Renewals {
    fn run(mut self) {
        let mut pause = self.terms.renew_every;
        loop {
            let shared = &self.shared;
            // After a failure no demand makes it come earlier.
            let is_failing = pause < self.terms.renew_every;
            let deadline = Deadline::after(Some(pause));
            while let Some(left) = deadline.remaining().filter(|left| !left.is_zero()) {
                let is_due = || shared.is_stopped() || (!is_failing && shared.wants_more());
                if shared.demand.wait(Some(left), is_due) {
                    break;
                }
            }
            if shared.stop.load(Ordering::Acquire) || shared.is_lost() {
                break;
            }
            pause = match self.renew() {
                Ok(()) => self.terms.renew_every,
                Err(RenewError::Failed(error)) => {
                    if self.failed.is_time() {
                        tracing::warn!("the lease of the worker id was not renewed: {error}");
                    }
                    RETRY.min(self.terms.renew_every / 2)
                }
                Err(RenewError::Lost(error)) => {
                    tracing::error!("the lease of the worker id is lost: {error}");
                    self.shared.lost.store(true, Ordering::Relaxed);
                    break;
                }
            };
        }
        self.release();
    }

    fn renew(&mut self) -> Result<(), RenewError> {
        let started = Stopwatch::start();
        let horizon = self.pace.horizon(self.shared.reached.load(Ordering::Relaxed));
        self.keeper.renew(horizon.last)?;
        // The end counts from before the store was asked: the store counts from later.
        *lock(&self.shared.deadline) = deadline(self.terms, started);
        self.shared.mark.store(horizon.mark, Ordering::Relaxed);
        self.shared.horizon.store(horizon.last, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until nothing is issued any more, and says so to the store.
    fn release(mut self) {
        let shared = &self.shared;
        while !shared.stop.load(Ordering::Acquire) {
            shared.demand.wait(None, || shared.is_stopped());
        }
        let last = *lock(&shared.last);
        if let Err(error) = self.keeper.release(last) {
            tracing::warn!("the worker id could not be given back: {error}");
        }
        // Release: who waits for it finds the store told.
        shared.released.store(true, Ordering::Release);
        shared.end.notify();
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
    /// The present tick when the stopwatch was started. The clock is not asked again: it may be
    /// set, and a horizon that is behind what is needed is moved on demand.
    present: u64,
    since: Stopwatch,
    /// Where the generator was at the last renewal, and when.
    before: (u64, Stopwatch),
}

/// What is asked of the store, and when to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Horizon {
    last: u64,
    mark: u64,
}

impl Pace {
    fn new(layout: &Layout, terms: LeaseTerms, beginning: Beginning) -> Self {
        let tick = u128::from(layout.tick().millis().unsigned_abs()) * 1_000_000;
        Self {
            tick,
            renew_every: terms.renew_every.as_nanos(),
            max_ahead: beginning.max_ahead,
            present: beginning.present,
            since: Stopwatch::start(),
            before: (beginning.start, Stopwatch::start()),
        }
    }

    /// Enough for two renewals at the present rate, which is the clock's at least, but not further
    /// ahead than the generator may go.
    fn horizon(&mut self, reached: u64) -> Horizon {
        let walked = self.ticks(self.since.elapsed().as_nanos());
        // No generator is further ahead of its clock than it may be: if it seems to be, the clock
        // was set.
        let present =
            self.present.saturating_add(walked).max(reached.saturating_sub(self.max_ahead));
        let (before, since) = self.before;
        let elapsed = since.elapsed().as_nanos().max(1);
        let walked = u128::from(reached.saturating_sub(before));
        let by_rate = u64::try_from(walked * 2 * self.renew_every / elapsed).unwrap_or(u64::MAX);
        self.before = (reached, Stopwatch::start());
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
