//! A lease from its first renewal to its end, and the thread that renews it.

use std::mem;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::grant::{Grant, Shared};
use super::lease::{Lease, LeaseKeeper, RenewError};
use super::renewals::{Beginning, Renewals, Renewer, Task};
use crate::clock::{Deadline, Monotonic, SystemMonotonic};
use crate::error::Error;
use crate::sync::{Life, Ordering, Serving, contained, log, unlocked};
use crate::uid::Uid;

/// A lease in use. It is renewed until it is ended.
#[derive(Debug)]
pub(crate) struct Tenure {
    shared: Arc<Shared>,
    /// In a forked child there is no thread, and the locks may be held for ever.
    life: Life,
}

impl Tenure {
    /// Has the store know of the first ticks, and renews the lease from now on.
    ///
    /// # Errors
    ///
    /// What the store says; [`Error::LeaseLost`] where its keeper panics; [`Error::LeaseThread`];
    /// [`Error::Forked`] for a lease of the process that this one was forked from, also if its keeper
    /// forked it.
    pub(crate) fn start(lease: Lease, beginning: Beginning) -> Result<(Self, Grant), Error> {
        let Lease { worker_id, layout, terms, mut keeper, renewer, life, .. } = lease;
        let forked = || Error::Forked { what: "lease" };
        if life.is_forked() {
            return Err(forked());
        }
        let (time, seed) = (renewer.time(), renewer.seed());
        let mut renewals = Renewals::new(&layout, terms, beginning, time, seed, life.clone());
        let request = renewals.request();
        let answer = contained(|| keeper.renew(request.horizon()));
        if life.is_forked() {
            // The lease is the parent's, and is not to be given back here.
            mem::forget(keeper);
            return Err(forked());
        }
        match answer {
            Some(Ok(())) => renewals.granted(request),
            Some(Err(RenewError::Lost(error) | RenewError::Failed(error))) => return Err(error),
            None => {
                // Its end may panic as well.
                contained(|| drop(keeper));
                let (place, why) = ("the store".into(), "its keeper panicked".into());
                return Err(Error::LeaseLost { worker_id, place, why });
            }
        }
        let shared = Arc::clone(renewals.shared());
        renewer.begin(renewals, keeper)?;
        let grant = Grant::new(Arc::clone(&shared));
        Ok((Self { shared, life }, grant))
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
impl Drop for Tenure {
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

    fn begin(&self, renewals: Renewals, mut keeper: Box<dyn LeaseKeeper>) -> Result<(), Error> {
        let (work, theirs) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("uidring-lease".into());
        let started = thread.spawn(move || {
            if let Ok((renewals, keeper)) = theirs.recv() {
                run(renewals, keeper);
            }
        });
        if let Err(error) = started {
            // Nothing was issued. Without this the worker id would be held until the lease ends.
            let _ = keeper.release(None);
            return Err(Error::LeaseThread(error));
        }
        // The thread waits for it.
        let _ = work.send((renewals, keeper));
        Ok(())
    }
}

/// Does what is to be done until the lease has been given back. A keeper is a user's code: when it
/// panics the lease is lost, takers are told, and whoever ends the lease does not wait for it.
fn run(mut renewals: Renewals, mut keeper: Box<dyn LeaseKeeper>) {
    let _serving = Serving::begin();
    let done = contained(|| renew(&mut renewals, &mut *keeper));
    // Whatever was called, the log included, may have forked: a child that is made of this thread
    // would renew its parent's lease. The keeper is the parent's as well.
    if renewals.is_forked() {
        return mem::forget(keeper);
    }
    if done.is_none() {
        renewals.panicked();
    }
    // Its end may panic as well; and so may a log's, which comes last therefore.
    let dropped = contained(|| drop(keeper));
    renewals.ended();
    if done.is_none() || dropped.is_none() {
        log!(error, "the keeper of the lease of the worker id panicked; the lease is lost");
    }
}

/// Ends when the lease has been given back, and in a forked child.
fn renew(renewals: &mut Renewals, keeper: &mut dyn LeaseKeeper) {
    while !renewals.is_forked() {
        match renewals.next_task() {
            Task::Wait(pause) => renewals.wait(pause),
            Task::Renew(request) => {
                unlocked();
                let answer = keeper.renew(request.horizon());
                if !renewals.is_forked() {
                    renewals.answered(request, answer);
                }
            }
            Task::Release(last) => {
                unlocked();
                let answer = keeper.release(last);
                if !renewals.is_forked() {
                    return renewals.released(answer);
                }
            }
        }
    }
}
