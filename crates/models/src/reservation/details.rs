//! What the code also does, but a search leaves out, because no promise depends on it. Traces need it
//! (docs/lease-model.md). A short search includes it.
//!
//! After its deadline, a process only finishes the renewal that it has begun, and gives back what it can; versions
//! decide whether that succeeds. Its clock may also be too fast, which only ends its lease earlier.

use super::state::{Call, Place, Process, Registry, Request, Reservation, Session, State};
use crate::{Scale, Uids};

impl<S: Scale> Process<S> {
    pub(super) fn has_given_up(&self, model: &Reservation<S>) -> bool {
        let is_lost = self.lease.as_ref().is_some_and(|lease| lease.lost);
        is_lost && (!model.in_detail || self.place == Place::Refused)
    }
}

impl<S: Scale> Registry<S> {
    /// Makes a node below `forever`, in place of another one.
    pub(super) fn make_number(&mut self, instead: Option<S::Number>) {
        let before = self.numbers.first();
        self.others_number();
        self.numbers.add(self.made - 1.into(), self.made);
        if let Some(number) = instead {
            self.numbers.remove(number);
        }
        if self.numbers.first() != before {
            self.endpoint = 1.into();
        }
    }

    /// Another instance makes a number. All instances share one sequence.
    pub(super) fn others_number(&mut self) {
        self.made += 1.into();
    }
}

impl<S: Scale> Session<S> {
    /// Returns the time until the servers may end it.
    pub fn left(&self) -> S::Number {
        self.left
    }
}

impl<S: Scale> State<S> {
    /// The claim starts again, because others have interfered (`InstanceNodes::claim`).
    pub(super) fn begin_again(&mut self, start: S::Number) -> Option<()> {
        let process = self.process(start)?;
        let is_claiming = !matches!(
            process.place,
            Place::Offline | Place::Naming | Place::Entered { .. } | Place::Refused
        );
        (is_claiming && process.call.is_none()).then(|| process.place = Place::Naming)
    }

    /// The process finds without a transaction that its session has ended (`Tree::is_over`).
    pub(super) fn find_over(&mut self, start: S::Number) -> Option<()> {
        let session = self.process(start)?.session?;
        let is_open = self.registry.is_open(session);
        let process = self.process(start)?;
        if is_open || process.call.is_some() || process.place == Place::Refused {
            return None;
        }
        (process.session, process.place) = (None, Place::Offline);
        Some(())
    }

    /// A process that was admitted before reads that another is the holder. This may happen anywhere; in a claim, even
    /// when the other has the name (`take_name`, `check_holder`).
    pub(super) fn find_holder(&mut self, model: &Reservation<S>, start: S::Number) -> Option<()> {
        let holder = self.registry.reserved.holder;
        let process = self.process(start)?;
        (holder != start && process.place != Place::Refused).then_some(())?;
        process.lose(model)
    }

    /// The versions may be outdated when they arrive. A transaction that names them is then refused.
    pub(super) fn reload(
        &mut self,
        start: S::Number,
        endpoint: S::Number,
        reserved: S::Number,
    ) -> Option<()> {
        let (present, node) = (self.registry.endpoint, self.registry.reserved);
        let is_now = (endpoint, reserved, node.holder) == (present, node.version, start);
        let was = reserved < node.version && endpoint <= present;
        let process = self.process(start)?;
        let is_entered = matches!(process.place, Place::Entered { .. });
        (is_entered && process.call.is_none() && (is_now || was)).then_some(())?;
        process.place = Place::Entered { endpoint, reserved };
        Some(())
    }

    /// Closes the generator, and gives back what was not used: [`close`](Self::close) of a process that continues until
    /// that is done, and may try it again.
    pub(super) fn release(&mut self, start: S::Number) -> Option<()> {
        let process = self.process(start)?;
        let (Place::Entered { endpoint, reserved }, Some(session)) =
            (&process.place, process.session)
        else {
            return None;
        };
        let (endpoint, reserved) = (*endpoint, *reserved);
        if process.call.is_some() || process.asked.is_some() {
            return None;
        }
        let lease = process.lease.as_mut()?;
        lease.closed = true;
        let until = lease.last.max(lease.base);
        let request =
            Request::Mark { session, process: start, endpoint, reserved, until, frees_name: true };
        process.call = Some(Call { request, answer: None });
        self.network.send(request);
        Some(())
    }

    pub(super) fn leave_with_session(&mut self, start: S::Number) -> Option<()> {
        let session = self.process(start)?.session?;
        self.processes.retain(|process| process.start != start);
        self.registry.end(session);
        Some(())
    }
}
