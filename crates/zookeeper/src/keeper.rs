//! Keeps a worker id: nothing is issued that the registry does not hold.

use std::sync::Arc;
use std::time::Duration;

use uidring::adapter::read;
use uidring::clock::Clock;
use uidring::worker::{LeaseBackend, LeaseTerms, RenewError};
use uidring::{Error, Layout, Uid};

use super::Registry;
use super::link::Link;
use super::problem::{Problem, Refusal};
use super::session::Mark;

/// How often a lease is renewed at least, as Leaf uploads its timestamp.
pub const RENEW_EVERY: Duration = Duration::from_secs(3);

/// How long an end waits for the registry.
pub const LAST_PATIENCE: Duration = Duration::from_millis(1_500);

/// The keeper of a lease that ends when the registry is away for longer than the budget. What is to
/// be issued meanwhile is part of each horizon ([`LeaseTerms::reserve`]), so that this never grants
/// anything by itself.
pub struct Keeper<L, F> {
    pub registry: Registry,
    pub layout: Layout,
    pub link: L,
    /// It holds the lock of this host.
    pub file: Option<F>,
    /// What may have been issued before this start.
    pub base: i64,
    /// The furthest that the registry was asked for. It may hold that whatever it has answered, so
    /// that no renewal asks for less.
    pub top: i64,
    pub patience: Duration,
    pub clock: Arc<dyn Clock>,
    /// Once lost, always lost.
    pub lost: Option<Refusal>,
}

/// How a lease is kept that survives such an outage.
pub fn terms(
    layout: &Layout,
    max_outage: Duration,
    max_start_wait: Option<Duration>,
) -> LeaseTerms {
    let renew_every = RENEW_EVERY.min(max_outage / 3);
    // What one with the same budget has reserved when it crashes: two renewals and a half of it at
    // the clock's pace, the budget, and what rounding up to ticks adds.
    let tick = Duration::from_millis(layout.tick().millis().unsigned_abs());
    let reserved = 3 * renew_every + max_outage + 5 * tick + Duration::from_secs(1);
    let mut terms = LeaseTerms::default();
    // No margin: it is in the budget, which is shorter than the session.
    terms.lasts = Some(max_outage);
    terms.renew_every = renew_every;
    terms.reserve = max_outage;
    terms.max_start_wait = max_start_wait.unwrap_or(reserved.max(Duration::from_secs(10)));
    terms
}

/// The last millisecond of a tick.
pub fn end_of(layout: &Layout, tick: u64) -> i64 {
    layout.time_of(tick.saturating_add(1)).as_millis().saturating_sub(1)
}

impl<L: Link, F: Send + 'static> LeaseBackend for Keeper<L, F> {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        if let Some(lost) = &self.lost {
            return Err(RenewError::Lost(lost.clone().explain(&self.registry)));
        }
        self.top = self.top.max(end_of(&self.layout, horizon));
        let mark = Mark { until: self.top, timestamp: read(&self.clock).as_millis() };
        self.link.store(mark, self.patience).map_err(|problem| match problem {
            Problem::Refused(refusal) => {
                self.lost = Some(refusal.clone());
                RenewError::Lost(refusal.explain(&self.registry))
            }
            other => RenewError::Failed(other.explain(&self.registry)),
        })
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        let released = self.give_back(last);
        // Whoever waits for this may start again at once: the file is free when it returns.
        self.file = None;
        released
    }
}

impl<L: Link, F> Keeper<L, F> {
    fn give_back(&mut self, last: Option<Uid>) -> Result<(), Error> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone().explain(&self.registry));
        }
        let last = last.map(|uid| self.layout.decode(uid)).transpose()?;
        let until = last.map_or(self.base, |last| end_of(&self.layout, last.tick).max(self.base));
        let mark = Mark { until, timestamp: read(&self.clock).as_millis() };
        let released = self.link.release(mark, LAST_PATIENCE);
        released.map_err(|problem| problem.explain(&self.registry))
    }
}
