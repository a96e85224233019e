//! A lease from its first renewal to its end, and the thread that renews it.

use std::mem;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::issue_horizon::{IssueHorizon, LeaseState};
use super::lease::{Lease, LeaseBackend, RenewError};
use super::renewals::{LeaseStart, RenewalState, Renewer, Task};
use crate::clock::{Deadline, Monotonic, SystemMonotonic};
use crate::error::Error;
use crate::sync::{Life, Ordering, Serving, contained, log, unlocked};
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

/// Renews in a thread of its own.
pub(super) struct RenewalThread;

impl Renewer for RenewalThread {
    fn time(&self) -> Arc<dyn Monotonic> {
        Arc::new(SystemMonotonic)
    }

    fn seed(&self) -> u64 {
        fastrand::u64(..)
    }

    fn begin(
        &self,
        renewals: RenewalState,
        mut backend: Box<dyn LeaseBackend>,
    ) -> Result<(), Error> {
        let (work, theirs) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("uidring-lease".into());
        let started = thread.spawn(move || {
            if let Ok((renewals, backend)) = theirs.recv() {
                run(renewals, backend);
            }
        });
        if let Err(error) = started {
            // Nothing was issued. Without this the worker id would be held until the lease ends.
            let _ = backend.release(None);
            return Err(Error::LeaseThread(error));
        }
        // The thread waits for it.
        let _ = work.send((renewals, backend));
        Ok(())
    }
}

/// Does what is to be done until the lease has been given back. A backend is a user's code: when it
/// panics the lease is lost, takers are told, and whoever ends the lease does not wait for it.
fn run(mut renewals: RenewalState, mut backend: Box<dyn LeaseBackend>) {
    let _serving = Serving::begin();
    let done = contained(|| renew(&mut renewals, &mut *backend));
    // Whatever was called, the log included, may have forked: a child that is made of this thread
    // would renew its parent's lease. The backend is the parent's as well.
    if renewals.is_forked() {
        return mem::forget(backend);
    }
    if done.is_none() {
        renewals.panicked();
    }
    // Its end may panic as well; and so may a log's, which comes last therefore.
    let dropped = contained(|| drop(backend));
    renewals.ended();
    if done.is_none() || dropped.is_none() {
        log!(error, "the backend of the lease of the worker id panicked; the lease is lost");
    }
}

/// Ends when the lease has been given back, and in a forked child.
fn renew(renewals: &mut RenewalState, backend: &mut dyn LeaseBackend) {
    while !renewals.is_forked() {
        match renewals.next_task() {
            Task::Wait(pause) => renewals.wait(pause),
            Task::Renew(request) => {
                unlocked();
                let answer = backend.renew(request.horizon());
                if !renewals.is_forked() {
                    renewals.answered(request, answer);
                }
            }
            Task::Release(last) => {
                unlocked();
                let answer = backend.release(last);
                if !renewals.is_forked() {
                    return renewals.released(answer);
                }
            }
        }
    }
}
