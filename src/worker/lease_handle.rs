//! A lease from its first renewal to its end.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::backend::{LeaseBackend, RenewError};
use super::issue_horizon::IssueHorizon;
use super::lease::Lease;
use super::lease_shared::LeaseShared;
use super::renewals::{LeaseStart, RenewalMachine, log_failure};
use super::stats::LeaseStats;
use crate::clock::Deadline;
use crate::error::Error;
use crate::future;
use crate::layout::Layout;
use crate::sync::{ForkToken, NoBlockScope, contained};
use crate::timestamp::Timestamp;
use crate::uid::Uid;

/// How long a call that ends a lease waits for the store.
const PATIENCE: Duration = Duration::from_secs(2);

/// A lease in use, renewed until it ends.
#[derive(Debug)]
pub(crate) struct LeaseHandle(Arc<LeaseShared>);

impl Lease {
    /// Renews the lease once while a start waits for the clock. The horizon must not be above what may have been issued
    /// by now: if the start is killed meanwhile, the next one must not wait longer.
    pub(crate) fn kept(mut self, horizon: u64) -> Result<Self, Error> {
        let (backend, failure) = renew(self.backend, self.worker_id, self.life, horizon)?;
        self.backend = backend;
        if let Some(error) = failure {
            log_failure(&error);
        }
        Ok(self)
    }
}

/// Asks the backend for a renewal. Returns the backend, with the error if that may pass.
fn renew(
    mut backend: Box<dyn LeaseBackend>,
    worker_id: u64,
    life: ForkToken,
    horizon: u64,
) -> Result<(Box<dyn LeaseBackend>, Option<Error>), Error> {
    let answer = contained(|| backend.renew(horizon));
    if life.is_forked_child() {
        // The parent has the lease; do not release it here.
        mem::forget(backend);
        return Err(Error::Forked { what: "lease" });
    }
    match answer {
        Some(Ok(())) => Ok((backend, None)),
        Some(Err(RenewError::Failed(error))) if error.may_pass() => Ok((backend, Some(error))),
        Some(Err(RenewError::Lost(error) | RenewError::Failed(error))) => Err(error),
        None => {
            // Dropping it may panic, too.
            contained(|| drop(backend));
            let (place, why) = ("the store".into(), "its backend panicked".into());
            Err(Error::LeaseLost { worker_id, place, why })
        }
    }
}

impl LeaseHandle {
    /// Stores the horizon of the first ticks, and starts the renewals. A failure that may pass is retried for as long
    /// as `patience`, because a connection may break at any time.
    ///
    /// # Errors
    ///
    /// The store's own; [`Error::LeaseLost`] if its backend panics; [`Error::Thread`]; [`Error::Forked`] for a lease of
    /// a parent process, also if the backend forked.
    pub(crate) fn start(
        lease: Lease,
        start: LeaseStart,
        patience: Duration,
    ) -> Result<(Self, IssueHorizon), Error> {
        let Lease { worker_id, layout, terms, mut backend, renewer, life, .. } = lease;
        if life.is_forked_child() {
            // The parent has the lease; do not release it here.
            mem::forget(backend);
            return Err(Error::Forked { what: "lease" });
        }
        let (time, seed) = (renewer.time(), renewer.seed());
        let mut renewals = RenewalMachine::new(&layout, terms, start, time, seed, life);
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
        let shared = Arc::clone(renewals.shared());
        renewer.start(renewals, backend)?;
        let issue_horizon = IssueHorizon::new(Arc::clone(&shared));
        Ok((Self(shared), issue_horizon))
    }

    /// Returns statistics for this time of the generator's clock; `None` after a release.
    pub(crate) fn stats(&self, layout: &Layout, now: Timestamp) -> Option<LeaseStats> {
        let shared = &self.0;
        let at = shared.reached().max(layout.try_tick_at(now).unwrap_or(0));
        let ticks = shared.horizon().saturating_sub(at);
        let is_lost = if shared.is_stopped() { shared.was_lost() } else { shared.is_lost() };
        if shared.is_stopped() && !is_lost {
            return None;
        }
        let (renewals, renewal_failures) = shared.renewals();
        Some(LeaseStats {
            time_left: shared.time_left(),
            horizon_left: Duration::from_millis(
                ticks.saturating_mul(layout.tick().millis().unsigned_abs()),
            ),
            renewals,
            renewal_failures,
            is_lost,
        })
    }

    /// Releases the worker id: nothing above `last` was or will be issued. Waits for the store for at most two seconds.
    /// If it does not answer, the lease runs out by itself. Only the first call has an effect.
    pub(crate) fn end(&self, last: Option<Uid>) {
        if !self.stop(last) {
            return;
        }
        let deadline = Deadline::after(Some(PATIENCE));
        while let Some(left) = deadline.remaining().filter(|left| !left.is_zero()) {
            if self.0.end().wait(Some(left), || self.0.is_released()) {
                break;
            }
        }
    }

    /// Async [`end`](Self::end).
    pub(crate) async fn end_async(&self, last: Option<Uid>) {
        if self.stop(last) {
            future::wait(self.0.end(), PATIENCE, || self.0.is_released()).await;
        }
    }

    /// Requests the release of the worker id. Returns whether to wait for it.
    fn stop(&self, last: Option<Uid>) -> bool {
        // The lease's own thread would wait for itself.
        !self.0.is_forked() && self.0.stop(last) && !NoBlockScope::is_here()
    }
}

/// Releases a lease that no generator came to use.
impl Drop for LeaseHandle {
    fn drop(&mut self) {
        self.end(None);
    }
}
