//! The thread that renews a lease.

use std::mem;
use std::sync::{Arc, mpsc};

use super::backend::LeaseBackend;
use super::renewals::{LeaseAction, RenewalMachine, Renewer};
use crate::clock::{Monotonic, SystemMonotonic};
use crate::error::Error;
use crate::sync::{NoBlockScope, assert_no_lock_held, contained, log, start_thread};

pub(super) struct RenewalThread;

impl Renewer for RenewalThread {
    fn time(&self) -> Arc<dyn Monotonic> {
        Arc::new(SystemMonotonic)
    }

    fn seed(&self) -> u64 {
        fastrand::u64(..)
    }

    fn start(
        &self,
        renewals: RenewalMachine,
        mut backend: Box<dyn LeaseBackend>,
    ) -> Result<(), Error> {
        let (work, theirs) = mpsc::sync_channel(1);
        let started = start_thread("uidring-lease", move || {
            if let Ok((renewals, backend)) = theirs.recv() {
                run(renewals, backend);
            }
        });
        if let Err(error) = started {
            // Nothing was issued. Release the worker id, which would otherwise stay held until the lease ends.
            let _ = backend.release(None);
            return Err(Error::thread("thread that renews the lease", error));
        }
        // The thread waits for this.
        let _ = work.send((renewals, backend));
        Ok(())
    }
}

/// Runs a lease until it is released. The backend is user code. If it panics, the lease is lost, takes fail, and a call
/// that ends the lease does not wait for the store.
fn run(mut renewals: RenewalMachine, mut backend: Box<dyn LeaseBackend>) {
    let _scope = NoBlockScope::begin();
    let done = contained(|| renew(&mut renewals, &mut *backend));
    // All user code may fork, including the log. A child forked in this thread must not renew its parent's lease, nor
    // drop its backend.
    if renewals.is_forked() {
        return mem::forget(backend);
    }
    if done.is_none() {
        renewals.panicked();
    }
    // Dropping it may panic, too. So may a log subscriber, which therefore comes last.
    let dropped = contained(|| drop(backend));
    renewals.ended();
    if done.is_none() || dropped.is_none() {
        log!(error, "the backend of the lease of the worker id panicked; the lease is lost");
    }
}

/// Returns once the lease is released, and in a forked child.
fn renew(renewals: &mut RenewalMachine, backend: &mut dyn LeaseBackend) {
    while !renewals.is_forked() {
        match renewals.next_action() {
            LeaseAction::Wait(pause) => renewals.wait(pause),
            LeaseAction::Renew(request) => {
                assert_no_lock_held();
                let answer = backend.renew(request.horizon());
                if !renewals.is_forked() {
                    renewals.answered(request, answer);
                }
            }
            LeaseAction::Release(last) => {
                assert_no_lock_held();
                let answer = backend.release(last);
                if !renewals.is_forked() {
                    return renewals.released(answer);
                }
            }
        }
    }
}
