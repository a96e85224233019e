//! A lease from its first renewal to its end.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::backend::{LeaseBackend, RenewError};
use super::issue_horizon::{IssueHorizon, IssueState};
use super::lease::Lease;
use super::renewals::{LeaseStart, RenewalState, log_failure};
use super::stats::LeaseStats;
use crate::clock::Deadline;
use crate::error::Error;
use crate::future;
use crate::layout::Layout;
use crate::sync::{ForkToken, Ordering, Serving, contained};
use crate::timestamp::Timestamp;
use crate::uid::Uid;

/// How long a call that ends a lease waits for the store.
const PATIENCE: Duration = Duration::from_secs(2);

/// A lease in use. It is renewed until it is ended.
#[derive(Debug)]
pub(crate) struct ActiveLease {
    state: Arc<IssueState>,
    /// Wiped in a forked child, which has no thread.
    life: ForkToken,
}

impl Lease {
    /// Renews the lease once, for a start that waits for the clock. The horizon must not be above what may have been
    /// issued by now: a start that is killed while it waits then leaves no later one.
    pub(crate) fn kept(mut self, horizon: u64) -> Result<Self, Error> {
        let (backend, failure) = renew(self.backend, self.worker_id, self.life, horizon)?;
        self.backend = backend;
        if let Some(error) = failure {
            log_failure(&error);
        }
        Ok(self)
    }
}

/// Asks the backend for a renewal. Returns it with its error, if that may pass.
fn renew(
    mut backend: Box<dyn LeaseBackend>,
    worker_id: u64,
    life: ForkToken,
    horizon: u64,
) -> Result<(Box<dyn LeaseBackend>, Option<Error>), Error> {
    let answer = contained(|| backend.renew(horizon));
    if life.is_forked_child() {
        // The lease is the parent's, and must not be released here.
        mem::forget(backend);
        return Err(Error::Forked { what: "lease" });
    }
    match answer {
        Some(Ok(())) => Ok((backend, None)),
        Some(Err(RenewError::Failed(error))) if error.may_pass() => Ok((backend, Some(error))),
        Some(Err(RenewError::Lost(error) | RenewError::Failed(error))) => Err(error),
        None => {
            // Dropping it may panic as well.
            contained(|| drop(backend));
            let (place, why) = ("the store".into(), "its backend panicked".into());
            Err(Error::LeaseLost { worker_id, place, why })
        }
    }
}

impl ActiveLease {
    /// Stores the horizon of the first ticks, and renews the lease from now on. A failure that may pass is
    /// tried again for as long as `patience` says: a connection may break just then.
    ///
    /// # Errors
    ///
    /// The store's own; [`Error::LeaseLost`] if its backend panics; [`Error::LeaseThread`];
    /// [`Error::Forked`] for a lease of the process that this one was forked from, also if its backend
    /// forked it.
    pub(crate) fn start(
        lease: Lease,
        start: LeaseStart,
        patience: Duration,
    ) -> Result<(Self, IssueHorizon), Error> {
        let Lease { worker_id, layout, terms, mut backend, renewer, life, .. } = lease;
        if life.is_forked_child() {
            // The lease is the parent's, and must not be released here.
            mem::forget(backend);
            return Err(Error::Forked { what: "lease" });
        }
        let (time, seed) = (renewer.time(), renewer.seed());
        let mut renewals = RenewalState::new(&layout, terms, start, time, seed, life);
        let deadline = Deadline::after(Some(patience));
        loop {
            let request = renewals.request();
            let (again, failure) = renew(backend, worker_id, life, request.horizon())?;
            backend = again;
            match failure {
                None => break renewals.granted(request),
                Some(error) if deadline.is_over() => return Err(error),
                Some(error) => {
                    renewals.answered(request, Err(RenewError::Failed(error)));
                    renewals.wait_until_due(deadline.remaining());
                }
            }
        }
        let state = Arc::clone(renewals.state());
        renewer.start(renewals, backend)?;
        let issue_horizon = IssueHorizon::new(Arc::clone(&state));
        Ok((Self { state, life }, issue_horizon))
    }

    /// Returns statistics, at a time by the generator's clock; `None` after a release, when nobody renews it.
    pub(crate) fn stats(&self, layout: &Layout, now: Timestamp) -> Option<LeaseStats> {
        let state = &self.state;
        let reached = state.reached.load(Ordering::Relaxed);
        let at = reached.max(layout.try_tick_at(now).unwrap_or(0));
        let ticks = state.horizon.load(Ordering::Relaxed).saturating_sub(at);
        let is_lost =
            if state.is_stopped() { state.lost.load(Ordering::Relaxed) } else { state.is_lost() };
        if state.is_stopped() && !is_lost {
            return None;
        }
        Some(LeaseStats {
            time_left: state.time_left(),
            horizon_left: Duration::from_millis(
                ticks.saturating_mul(layout.tick().millis().unsigned_abs()),
            ),
            renewals: state.renewals.load(Ordering::Relaxed),
            renewal_failures: state.renewal_failures.load(Ordering::Relaxed),
            is_lost,
        })
    }

    /// Releases the worker id: nothing above `last` was or will be issued. Waits for at most two seconds
    /// until the store knows; if it does not answer, the lease runs out by itself. Only the first call has
    /// an effect.
    pub(crate) fn end(&self, last: Option<Uid>) {
        if !self.stop(last) {
            return;
        }
        let deadline = Deadline::after(Some(PATIENCE));
        while let Some(left) = deadline.remaining().filter(|left| !left.is_zero()) {
            if self.state.end.wait(Some(left), || self.is_released()) {
                break;
            }
        }
    }

    /// [`end`](Self::end) for a task.
    pub(crate) async fn end_async(&self, last: Option<Uid>) {
        if self.stop(last) {
            future::wait(&self.state.end, PATIENCE, || self.is_released()).await;
        }
    }

    /// Has the lease's thread release the worker id; returns whether to wait for that.
    fn stop(&self, last: Option<Uid>) -> bool {
        if self.life.is_forked_child() || self.state.is_stopped() {
            return false;
        }
        if let Ok(mut last_issued) = self.state.last.lock() {
            *last_issued = last;
        }
        // Release: pairs with the thread's Acquire, which then sees what was issued last.
        self.state.stop.store(true, Ordering::Release);
        self.state.demand.notify();
        // The lease's own thread would wait for itself.
        !Serving::is_here()
    }

    fn is_released(&self) -> bool {
        self.state.released.load(Ordering::Acquire)
    }
}

/// Releases a lease that no generator came to use.
impl Drop for ActiveLease {
    fn drop(&mut self) {
        self.end(None);
    }
}
