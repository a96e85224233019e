//! A lease from its first renewal to its end.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::backend::RenewError;
use super::issue_horizon::{IssueHorizon, LeaseState};
use super::lease::Lease;
use super::renewals::{LeaseStart, RenewalState};
use crate::clock::Deadline;
use crate::error::Error;
use crate::sync::{Life, Ordering, Serving, contained};
use crate::uid::Uid;

/// A lease in use. It is renewed until it is ended.
#[derive(Debug)]
pub(crate) struct ActiveLease {
    shared: Arc<LeaseState>,
    /// In a forked child there is no thread, and the locks may be held for ever.
    life: Life,
}

impl ActiveLease {
    /// Has the store know of the first ticks, and renews the lease from now on.
    ///
    /// # Errors
    ///
    /// What the store says; [`Error::LeaseLost`] where its backend panics; [`Error::LeaseThread`];
    /// [`Error::Forked`] for a lease of the process that this one was forked from, also if its backend
    /// forked it.
    pub(crate) fn start(
        lease: Lease,
        beginning: LeaseStart,
    ) -> Result<(Self, IssueHorizon), Error> {
        let Lease { worker_id, layout, terms, mut backend, renewer, life, .. } = lease;
        let forked = || Error::Forked { what: "lease" };
        if life.is_forked() {
            return Err(forked());
        }
        let (time, seed) = (renewer.time(), renewer.seed());
        let mut renewals = RenewalState::new(&layout, terms, beginning, time, seed, life.clone());
        let request = renewals.request();
        let answer = contained(|| backend.renew(request.horizon()));
        if life.is_forked() {
            // The lease is the parent's, and is not to be given back here.
            mem::forget(backend);
            return Err(forked());
        }
        match answer {
            Some(Ok(())) => renewals.granted(request),
            Some(Err(RenewError::Lost(error) | RenewError::Failed(error))) => return Err(error),
            None => {
                // Its end may panic as well.
                contained(|| drop(backend));
                let (place, why) = ("the store".into(), "its backend panicked".into());
                return Err(Error::LeaseLost { worker_id, place, why });
            }
        }
        let shared = Arc::clone(renewals.shared());
        renewer.begin(renewals, backend)?;
        let issue_horizon = IssueHorizon::new(Arc::clone(&shared));
        Ok((Self { shared, life }, issue_horizon))
    }

    /// Gives the worker id back: nothing above `last` was or will be issued. Waits a little for the
    /// store to know; the lease of one that does not answer runs out by itself. Only the first
    /// call counts.
    pub(crate) fn end(&self, last: Option<Uid>) {
        const PATIENCE: Duration = Duration::from_secs(2);
        if self.life.is_forked() || self.shared.is_stopped() {
            return;
        }
        if let Ok(mut told) = self.shared.last.lock() {
            *told = last;
        }
        // Release: the thread, which acquires it, finds what was issued last.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.demand.notify();
        // It may be the lease's thread that is to wait for itself.
        if Serving::is_here() {
            return;
        }
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
impl Drop for ActiveLease {
    fn drop(&mut self) {
        self.end(None);
    }
}
