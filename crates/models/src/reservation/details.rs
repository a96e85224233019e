//! What the code also does, and a search goes without, since no promise depends on it. Traces need it
//! (docs/lease-model.md); a short search has it, too.
//!
//! A process whose deadline has passed only goes on with the renewal that it has begun, and gives back what it can:
//! versions decide whether that is done. Its clock may also be too fast, which ends its lease earlier, as if it did
//! nothing more.

use super::state::{Call, Place, Process, Registry, Request, Reservation, Session, State};
use crate::{Scale, Uids};

impl<S: Scale> Process<S> {
    /// Whether it asks for nothing more.
    pub(super) fn has_given_up(&self, model: &Reservation<S>) -> bool {
        let is_lost = self.lease.as_ref().is_some_and(|lease| lease.lost);
        is_lost && (!model.in_detail || self.place == Place::Refused)
    }
}

impl<S: Scale> Registry<S> {
    /// A new node below `forever`, in the place of another one.
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

    /// Another instance makes a number, of which each is the next.
    pub(super) fn others_number(&mut self) {
        self.made += 1.into();
    }
}

impl<S: Scale> Session<S> {
    /// The time until the servers may end it.
    pub fn left(&self) -> S::Number {
        self.left
    }
}

impl<S: Scale> State<S> {
    /// A claim is begun anew: others have interfered (`InstanceNodes::claim`).
    pub(super) fn begin_again(&mut self, start: S::Number) -> Option<()> {
        let process = self.process(start)?;
        let is_claiming = !matches!(
            process.place,
            Place::Offline | Place::Naming | Place::Entered { .. } | Place::Refused
        );
        (is_claiming && process.call.is_none()).then(|| process.place = Place::Naming)
    }

    /// The process finds that its session has ended, without a transaction (`Tree::is_over`).
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

    /// One that was let in before reads that somebody else is the holder, wherever it is: in a claim, also when
    /// that one has the name (`take_name`, `check_holder`).
    pub(super) fn find_holder(&mut self, model: &Reservation<S>, start: S::Number) -> Option<()> {
        let holder = self.registry.reserved.holder;
        let process = self.process(start)?;
        (holder != start && process.place != Place::Refused).then_some(())?;
        process.lose(model)
    }

    /// The versions that were read may be of the past when they arrive. What names them is refused then.
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

    /// The generator is closed, and what was not used given back: [`close`](Self::close) of a process that goes on
    /// until that is done, and may try it again.
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

    /// A process ends, and says so to the servers.
    pub(super) fn leave_with_session(&mut self, start: S::Number) -> Option<()> {
        let session = self.process(start)?.session?;
        self.processes.retain(|process| process.start != start);
        self.registry.end(session);
        Some(())
    }
}
