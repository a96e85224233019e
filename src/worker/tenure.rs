//! A lease from its first renewal to its end, and the thread that renews it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::grant::{Grant, Shared};
use super::lease::{Lease, LeaseKeeper, RenewError};
use super::renewals::{Beginning, Renewals, Renewer, Task};
use crate::clock::{Deadline, Monotonic, SystemMonotonic};
use crate::error::Error;
use crate::sync::{Mutex, Ordering, Pages, lock};
use crate::uid::Uid;

/// A lease in use. It is renewed until it is ended.
#[derive(Debug)]
pub(crate) struct Tenure {
    shared: Arc<Shared>,
    /// In a forked child there is no thread, and the locks may be held for ever.
    pages: Pages,
}

impl Tenure {
    /// Has the store know of the first ticks, and renews the lease from now on.
    ///
    /// # Errors
    ///
    /// What the store says; [`Error::LeaseLost`] where its keeper panics; [`Error::LeaseThread`].
    pub(crate) fn start(lease: Lease, beginning: Beginning) -> Result<(Self, Grant), Error> {
        let Lease { worker_id, layout, terms, mut keeper, renewer, .. } = lease;
        let (time, seed) = (renewer.time(), renewer.seed());
        let mut renewals = Renewals::new(&layout, terms, beginning, time, seed);
        let request = renewals.request();
        match catch_unwind(AssertUnwindSafe(|| keeper.renew(request.horizon()))) {
            Ok(Ok(())) => renewals.granted(request),
            Ok(Err(RenewError::Lost(error) | RenewError::Failed(error))) => return Err(error),
            Err(_) => {
                // Its end may panic as well.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(keeper)));
                let (place, why) = ("the store".into(), "its keeper panicked".into());
                return Err(Error::LeaseLost { worker_id, place, why });
            }
        }
        let shared = Arc::clone(renewals.shared());
        let pages = Pages::new(0).ok_or(Error::OutOfMemory { bytes: 64 })?;
        renewer.begin(renewals, keeper)?;
        let grant = Grant::new(Arc::clone(&shared));
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

/// Renews in a thread of its own.
pub(super) struct RenewalThread;

impl Renewer for RenewalThread {
    fn time(&self) -> Arc<dyn Monotonic> {
        Arc::new(SystemMonotonic)
    }

    fn seed(&self) -> u64 {
        fastrand::u64(..)
    }

    fn begin(&self, renewals: Renewals, keeper: Box<dyn LeaseKeeper>) -> Result<(), Error> {
        let work = Arc::new(Mutex::new(Some((renewals, keeper))));
        let theirs = Arc::clone(&work);
        let started = thread::Builder::new().name("uidring-lease".into()).spawn(move || {
            let work = lock(&theirs).take();
            if let Some((renewals, keeper)) = work {
                run(renewals, keeper);
            }
        });
        started.map(drop).map_err(|error| {
            // Nothing was issued. Without this the worker id would be held until the lease ends.
            if let Some((_, mut keeper)) = lock(&work).take() {
                let _ = keeper.release(None);
            }
            Error::LeaseThread(error)
        })
    }
}

/// Does what is to be done until the lease has been given back. A keeper is a user's code: when it
/// panics the lease is lost, takers are told, and whoever ends the lease does not wait for it.
fn run(mut renewals: Renewals, mut keeper: Box<dyn LeaseKeeper>) {
    let shared = Arc::clone(renewals.shared());
    let done = catch_unwind(AssertUnwindSafe(|| renew(&mut renewals, &mut *keeper)));
    if done.is_err() {
        renewals.panicked();
    }
    // Its end may panic as well; and so may a log's, which comes last therefore.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(keeper)));
    // Release: who waits for it finds the store told, as far as it ever will be.
    shared.released.store(true, Ordering::Release);
    shared.end.notify();
    if done.is_err() || dropped.is_err() {
        tracing::error!("the keeper of the lease of the worker id panicked; the lease is lost");
    }
}

fn renew(renewals: &mut Renewals, keeper: &mut dyn LeaseKeeper) {
    loop {
        match renewals.next() {
            Task::Wait(pause) => renewals.wait(pause),
            Task::Renew(request) => {
                let answer = keeper.renew(request.horizon());
                renewals.answered(request, answer);
            }
            Task::Release(last) => return renewals.released(keeper.release(last)),
        }
    }
}
