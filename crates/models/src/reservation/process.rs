//! A process of the instance.

use super::mutation::Mutation;
use super::state::{
    Answer, Asked, Call, Lease, OUTAGE, Place, Process, Request, Reservation, SESSION, State, Tick,
};
use crate::Clocks;

impl Process {
    /// All versions that it knows, in pairs: of the node with the number, and of the reservation.
    pub(super) fn versions(&mut self) -> impl Iterator<Item = (Option<&mut u8>, Option<&mut u8>)> {
        let here = match &mut self.place {
            Place::Inheriting(reserved) => (None, Some(reserved)),
            Place::ReadNumber(endpoint) => (Some(endpoint), None),
            Place::ReadReserved { endpoint, reserved, .. }
            | Place::Entered { endpoint, reserved } => (Some(endpoint), Some(reserved)),
            _ => (None, None),
        };
        let (asked, answered) = match &mut self.call {
            Some(Call { request, answer: Some(Answer::Done { endpoint, reserved, .. }) }) => {
                (request.versions(), (Some(endpoint), Some(reserved)))
            }
            Some(Call { request, .. }) => (request.versions(), (None, None)),
            None => ((None, None), (None, None)),
        };
        [here, asked, answered].into_iter()
    }

    pub(super) fn waits_for(&self, request: &Request) -> bool {
        self.call.as_ref().is_some_and(|call| call.request == *request)
    }

    /// Whether the next answer to this request is its.
    pub(super) fn could_hear(&self, request: &Request) -> bool {
        self.waits_for(request) && self.call.as_ref().is_some_and(|call| call.answer.is_none())
    }
}

impl Lease {
    fn new(model: &Reservation, base: Option<Tick>, floor: Option<Tick>) -> Self {
        let next = match model.mutation {
            Some(Mutation::StartByTheClock) => 0,
            _ => base.map_or(0, |tick| tick + 1),
        };
        Self {
            base,
            floor,
            mark: base,
            horizon: None,
            next,
            ready: 0,
            last: None,
            lost: false,
            left: 0,
            slack: 0,
        }
    }

    /// Whether uids may be issued with it, as far as the process knows.
    pub(super) fn is_live(&self) -> bool {
        self.horizon.is_some() && !self.lost && self.left > 0
    }

    pub(super) fn clock_runs(&mut self, model: &Reservation) -> Option<()> {
        if self.next + 1 >= model.ticks || self.lost {
            return None;
        }
        self.next += 1;
        Some(())
    }

    /// The next tick is made ready, if it is granted. The deadline's budget is part of each horizon
    /// (`LeaseTerms::reserve`).
    pub(super) fn pad(&mut self, model: &Reservation) -> Option<()> {
        if self.next >= model.ticks || Some(self.next) > self.horizon || !self.is_live() {
            return None;
        }
        self.ready |= 1 << self.next;
        self.next += 1;
        Some(())
    }

    pub(super) fn notice(&mut self, model: &Reservation) -> Option<()> {
        let may_be_over = self.left == 0 || model.clocks == Clocks::Anything;
        if self.horizon.is_none() || self.lost || !may_be_over {
            return None;
        }
        self.lost = true;
        Some(())
    }

    fn granted(&mut self, model: &Reservation, asked: &Asked) {
        let budget = u8::from(model.mutation == Some(Mutation::BudgetNotReserved));
        self.horizon = Some(asked.horizon + budget);
        let outage = match model.mutation {
            Some(Mutation::OutageOutlastsSession) => SESSION,
            _ => OUTAGE,
        };
        (self.left, self.slack) = match model.clocks {
            Clocks::Anything => (1, 0),
            Clocks::Calm => (outage.saturating_sub(asked.age), asked.slack),
        };
        if self.left == 0 {
            self.slack = 0;
        }
    }
}

impl State {
    pub(super) fn process(&mut self, start: u8) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.start == start)
    }

    pub(super) fn lease(&mut self, start: u8) -> Option<&mut Lease> {
        self.process(start)?.lease.as_mut()
    }

    /// `begin` in `crates/zookeeper/src/start.rs`.
    pub(super) fn start(&mut self, host: u8) -> Option<()> {
        if self.processes.iter().any(|process| process.host == host) {
            return None;
        }
        self.starts += 1;
        self.processes.push(Process {
            start: self.starts,
            host,
            previous: self.files[usize::from(host)],
            session: None,
            place: Place::Offline,
            call: None,
            asked: None,
            lease: None,
        });
        Some(())
    }

    /// A session whose reply is lost holds nothing, and ends by itself: it is not made here.
    pub(super) fn connect(&mut self, start: u8) -> Option<()> {
        let process = self.process(start)?;
        if process.place != Place::Offline || process.lease.as_ref().is_some_and(|lease| lease.lost)
        {
            return None;
        }
        let number = self.registry.connect(start);
        let process = self.process(start)?;
        (process.session, process.place) = (Some(number), Place::Naming);
        Some(())
    }

    /// A read changes nothing at the servers, so that one that is lost is no step. A session that has ended
    /// reads nothing.
    pub(super) fn read(&mut self, model: &Reservation, start: u8) -> Option<()> {
        let (endpoint, reserved) = (self.registry.endpoint, self.registry.reserved);
        let session = self.process(start)?.session?;
        let is_named_by_other = self.registry.name != Some(session);
        let is_open = self.registry.is_open(session);
        let process = self.process(start)?;
        if process.call.is_some()
            || !is_open
            || process.lease.as_ref().is_some_and(|lease| lease.lost)
        {
            return None;
        }
        let is_new = process.lease.is_none();
        let is_other = reserved.holder != start;
        process.place = match process.place {
            // Somebody else has the name: `inherit_name`.
            Place::Naming if is_named_by_other => {
                let is_dead = !is_other || is_new && process.previous == Some(reserved.holder);
                let may = is_dead || model.mutation == Some(Mutation::InheritsFromTheLiving);
                may.then_some(Place::Inheriting(reserved.version))?
            }
            Place::Named => Place::ReadNumber(endpoint),
            Place::ReadNumber(endpoint) => {
                // `Before::Claimed`: `check_holder`.
                if !is_new && is_other && model.mutation != Some(Mutation::HolderIgnored) {
                    return process.lose();
                }
                Place::ReadReserved { endpoint, reserved: reserved.version, until: reserved.until }
            }
            // `reload`, after a write that came to nothing, or whose outcome is not known.
            Place::Entered { .. } => {
                if is_other && model.mutation != Some(Mutation::HolderIgnored) {
                    return process.lose();
                }
                Place::Entered { endpoint, reserved: reserved.version }
            }
            _ => return None,
        };
        Some(())
    }

    pub(super) fn write(&mut self, model: &Reservation, start: u8) -> Option<()> {
        let name = self.registry.name;
        let process = self.process(start)?;
        let session = process.session?;
        if process.call.is_some() || process.lease.as_ref().is_some_and(|lease| lease.lost) {
            return None;
        }
        let request = match process.place {
            Place::Naming => Request::Name { session },
            Place::Inheriting(version) => Request::Inherit { session, process: start, version },
            Place::ReadReserved { endpoint, reserved, until } => {
                // The name is looked at once more: who inherits it also writes the reservation.
                if name != Some(session) && model.mutation != Some(Mutation::ClaimIgnoresName) {
                    process.place = Place::Naming;
                    return Some(());
                }
                Request::Mark {
                    session,
                    process: start,
                    endpoint,
                    reserved,
                    until,
                    frees_name: false,
                }
            }
            Place::Entered { endpoint, reserved } => {
                let (asked, lease) = (process.asked.as_ref()?, process.lease.as_mut()?);
                // Never less than before (`ZkLease::renew`).
                let until = match model.mutation {
                    Some(Mutation::RenewalAsksForLess) => Some(asked.horizon),
                    _ => lease.mark.max(Some(asked.horizon)),
                };
                lease.mark = until;
                Request::Mark {
                    session,
                    process: start,
                    endpoint,
                    reserved,
                    until,
                    frees_name: false,
                }
            }
            _ => return None,
        };
        process.call = Some(Call { request, answer: None });
        self.network.send(request);
        Some(())
    }

    /// The lease's thread wants a horizon at or above what the generator has reached.
    pub(super) fn renew(&mut self, model: &Reservation, start: u8, horizon: Tick) -> Option<()> {
        let process = self.process(start)?;
        let lease = process.lease.as_ref()?;
        let reached = lease.next.min(model.ticks - 1);
        let may_renew = lease.horizon.is_none() || lease.is_live();
        if process.asked.is_some() || horizon < reached || !may_renew {
            return None;
        }
        let slack = if model.clocks == Clocks::Calm { SESSION - OUTAGE } else { 0 };
        process.asked = Some(Asked { horizon, age: 0, slack });
        Some(())
    }

    pub(super) fn hear(&mut self, model: &Reservation, start: u8) -> Option<()> {
        let host = usize::from(self.process(start)?.host);
        let process = self.process(start)?;
        let Call { request, answer } = process.call.clone()?;
        let answer = answer?;
        process.call = None;
        let place = process.place.clone();
        process.place = match (answer, request, place) {
            (Answer::Over, ..) => {
                process.session = None;
                Place::Offline
            }
            (Answer::NameOf(session), ..) if process.session == Some(session) => Place::Named,
            // Who has just inherited the name finds that it has it.
            (_, _, Place::Naming | Place::Inheriting(_)) => Place::Naming,
            (
                Answer::Done { endpoint, reserved, floor },
                Request::Mark { until, .. },
                Place::ReadReserved { .. },
            ) => {
                if process.lease.is_none() {
                    process.lease = Some(Lease::new(model, until, floor));
                }
                process.place = Place::Entered { endpoint, reserved };
                self.files[host] = Some(start);
                return Some(());
            }
            (_, _, Place::ReadReserved { .. }) => Place::Naming,
            (Answer::Done { endpoint, reserved, .. }, _, Place::Entered { .. }) => {
                if let (Some(asked), Some(lease)) = (process.asked.take(), &mut process.lease) {
                    lease.granted(model, &asked);
                }
                Place::Entered { endpoint, reserved }
            }
            (_, _, place) => place,
        };
        Some(())
    }

    /// No answer in time, or the renewal took too long.
    pub(super) fn fail(&mut self, model: &Reservation, start: u8) -> Option<()> {
        let process = self.process(start)?;
        let (call, asked) = (process.call.take(), process.asked.take());
        if call.is_none() && asked.is_none() {
            return None;
        }
        let Some(lease) = &mut process.lease else {
            return self.leave(start);
        };
        if let (Some(Mutation::FileGrants), Some(asked)) = (model.mutation, asked) {
            lease.granted(model, &asked);
        }
        if lease.horizon.is_none() {
            return self.leave(start);
        }
        // A claim is begun anew.
        if !matches!(process.place, Place::Entered { .. } | Place::Offline) {
            process.place = Place::Naming;
        }
        Some(())
    }

    /// A start that fails is over; its session ends by itself.
    fn leave(&mut self, start: u8) -> Option<()> {
        self.processes.retain(|process| process.start != start);
        Some(())
    }

    pub(super) fn take(&mut self, start: u8) -> Option<()> {
        let lease = self.lease(start)?;
        let tick = Some(lease.ready.trailing_zeros()).filter(|tick| *tick < 32)? as Tick;
        let bit = 1 << tick;
        lease.ready &= !bit;
        lease.last = Some(tick);
        let is_above = Some(tick) > lease.floor;
        self.repeated |= self.issued & bit != 0;
        self.uncovered |= self.registry.reserved.until < Some(tick);
        self.not_above |= !is_above;
        self.issued |= bit;
        Some(())
    }

    /// What was not used is given back, and the name with it (`ZkLease::give_back`). A release that meets other
    /// versions changes nothing; a real one then reads them, which is a `Read` before this.
    pub(super) fn close(&mut self, model: &Reservation, start: u8) -> Option<()> {
        let process = self.process(start)?;
        let lease = process.lease.as_ref()?;
        lease.horizon?;
        let last = match model.mutation {
            Some(Mutation::ReleaseGivesBackIssued) => lease.base,
            _ => lease.last.max(lease.base),
        };
        let is_lost = lease.lost;
        if let (Place::Entered { endpoint, reserved }, Some(session), false) =
            (&process.place, process.session, is_lost)
        {
            let (endpoint, reserved) = (*endpoint, *reserved);
            let (process, until) = (start, last);
            let frees_name = true;
            self.network.send(Request::Mark {
                session,
                process,
                endpoint,
                reserved,
                until,
                frees_name,
            });
        }
        self.leave(start)
    }

    /// A unit of time passes for the servers, and for each process that counts it.
    pub(super) fn pass(&mut self, slow: u8) -> Option<()> {
        self.registry.pass();
        for (index, process) in self.processes.iter_mut().enumerate() {
            let is_slow = slow & 1 << index != 0;
            let mut has_clock = false;
            if let Some(asked) = &mut process.asked {
                has_clock = true;
                match is_slow {
                    true => asked.slack = asked.slack.checked_sub(1)?,
                    false => asked.age = (asked.age + 1).min(SESSION),
                }
            }
            if let Some(lease) = process.lease.as_mut().filter(|lease| lease.left > 0) {
                has_clock = true;
                match is_slow {
                    true => lease.slack = lease.slack.checked_sub(1)?,
                    false => lease.left -= 1,
                }
                if lease.left == 0 {
                    lease.slack = 0;
                }
            }
            if is_slow && !has_clock {
                return None;
            }
        }
        Some(())
    }
}

impl Process {
    /// Somebody else was let in: once lost, always lost.
    fn lose(&mut self) -> Option<()> {
        self.lease.as_mut()?.lost = true;
        (self.call, self.asked) = (None, None);
        Some(())
    }
}
