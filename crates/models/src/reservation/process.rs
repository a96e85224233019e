//! A process of the instance.

use super::mutation::Mutation;
use super::registry::Versions;
use super::state::{Answer, Asked, Call, Lease, Place, Process, Request, Reservation, State};
use crate::{Clocks, Number, Scale, Uids};

impl<S: Scale> Process<S> {
    pub(super) fn versions(&mut self) -> impl Iterator<Item = Versions<'_, S>> {
        let here = match &mut self.place {
            Place::Inheriting(reserved) => (None, Some(reserved)),
            Place::ReadNumber(endpoint) => (Some(endpoint), None),
            Place::Numberless { reserved, .. } => (None, reserved.as_mut()),
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

    pub(super) fn waits_for(&self, request: &Request<S>) -> bool {
        self.call.as_ref().is_some_and(|call| call.request == *request)
    }

    /// Whether it would hear the next answer to this request.
    pub(super) fn could_hear(&self, request: &Request<S>) -> bool {
        self.waits_for(request) && self.call.as_ref().is_some_and(|call| call.answer.is_none())
    }
}

impl<S: Scale> State<S> {
    pub(super) fn process(&mut self, start: S::Number) -> Option<&mut Process<S>> {
        self.processes.iter_mut().find(|process| process.start == start)
    }

    pub(super) fn lease(&mut self, start: S::Number) -> Option<&mut Lease<S>> {
        self.process(start)?.lease.as_mut()
    }

    /// `begin` in `crates/zookeeper/src/start.rs`.
    pub(super) fn start(&mut self, host: u8) -> Option<()> {
        if self.processes.iter().any(|process| process.host == host) {
            return None;
        }
        self.starts += 1.into();
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

    /// A session whose reply is lost holds nothing and ends by itself, so it is not modeled.
    pub(super) fn connect(
        &mut self,
        model: &Reservation<S>,
        start: S::Number,
        ago: S::Number,
    ) -> Option<()> {
        let process = self.process(start)?;
        if process.place != Place::Offline || process.has_given_up(model) {
            return None;
        }
        let number = self.registry.connect(start, model.session, ago);
        let process = self.process(start)?;
        (process.session, process.place) = (Some(number), Place::Naming);
        Some(())
    }

    /// Reads change nothing at the servers, so a lost one is not a step. An ended session reads nothing.
    pub(super) fn read(&mut self, model: &Reservation<S>, start: S::Number) -> Option<()> {
        let (endpoint, reserved) = (self.registry.endpoint, self.registry.reserved);
        let numbers = self.registry.numbers.clone();
        let session = self.process(start)?.session?;
        let is_named_by_other = self.registry.name != Some(session);
        let is_open = self.registry.is_open(session);
        let process = self.process(start)?;
        if process.call.is_some() || !is_open || process.has_given_up(model) {
            return None;
        }
        let is_new = process.lease.is_none();
        let number = numbers.first();
        let has_number = number.is_some() && (number != Some(0.into()) || !is_new);
        let is_other = reserved.holder != start;
        process.place = match process.place {
            // Another process has the name: `inherit_name`.
            Place::Naming if is_named_by_other || model.in_detail => {
                let is_dead = !is_other || is_new && process.previous == Some(reserved.holder);
                let may = is_dead || model.mutation == Some(Mutation::InheritsFromTheLiving);
                may.then_some(Place::Inheriting(reserved.version))?
            }
            Place::Named if has_number => Place::ReadNumber(endpoint),
            Place::Named => Place::Numberless { instead: number, reserved: None },
            Place::Numberless { instead, reserved: None } => {
                Place::Numberless { instead, reserved: Some(reserved.version) }
            }
            Place::ReadNumber(endpoint) => {
                // `Before::Claimed`: `check_holder`.
                if !is_new && is_other && model.mutation != Some(Mutation::HolderIgnored) {
                    return process.lose(model);
                }
                Place::ReadReserved { endpoint, reserved: reserved.version, until: reserved.until }
            }
            // `reload`, after a write that failed, or whose outcome is unknown.
            Place::Entered { .. } => {
                if is_other && model.mutation != Some(Mutation::HolderIgnored) {
                    return process.lose(model);
                }
                Place::Entered { endpoint, reserved: reserved.version }
            }
            _ => return None,
        };
        Some(())
    }

    pub(super) fn write(&mut self, model: &Reservation<S>, start: S::Number) -> Option<()> {
        let name = self.registry.name;
        let process = self.process(start)?;
        let session = process.session?;
        if process.call.is_some() || process.has_given_up(model) {
            return None;
        }
        let request = match process.place {
            Place::Naming => Request::Name { session },
            Place::Inheriting(version) => Request::Inherit { session, process: start, version },
            Place::Numberless { instead, reserved: Some(reserved) } => {
                Request::Number { session, process: start, instead, reserved }
            }
            Place::ReadReserved { endpoint, reserved, until } => {
                // Check the name once more: a process that inherits it also writes the reservation.
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
    pub(super) fn renew(
        &mut self,
        model: &Reservation<S>,
        start: S::Number,
        horizon: S::Number,
    ) -> Option<()> {
        let process = self.process(start)?;
        let lease = process.lease.as_mut()?;
        let reached = lease.next.min(model.ticks - 1.into());
        let may_renew = lease.horizon.is_none() || lease.is_live();
        if process.asked.is_some() || horizon < reached || !may_renew {
            return None;
        }
        if model.in_detail {
            // Even if it does not lead to a transaction.
            lease.mark = lease.mark.max(Some(horizon));
        }
        let counts = model.clocks == Clocks::Calm;
        let slack = if counts { model.session - model.outage } else { 0.into() };
        process.asked = Some(Asked { horizon, age: 0.into(), slack });
        Some(())
    }

    pub(super) fn hear(&mut self, model: &Reservation<S>, start: S::Number) -> Option<()> {
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
            // A process that has just inherited the name finds that it has it.
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
            (Answer::Done { .. }, _, Place::Numberless { .. }) => Place::Named,
            (_, _, Place::ReadReserved { .. } | Place::Numberless { .. }) => Place::Naming,
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
    pub(super) fn fail(&mut self, model: &Reservation<S>, start: S::Number) -> Option<()> {
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
        // The claim starts again.
        if !matches!(process.place, Place::Entered { .. } | Place::Offline) {
            process.place = Place::Naming;
        }
        Some(())
    }

    /// A start that fails is over. Its session ends by itself.
    fn leave(&mut self, start: S::Number) -> Option<()> {
        self.processes.retain(|process| process.start != start);
        Some(())
    }

    pub(super) fn take(&mut self, start: S::Number) -> Option<()> {
        let lease = self.lease(start)?;
        if lease.closed {
            return None;
        }
        let tick = lease.ready.pop_first()?;
        lease.last = Some(tick);
        let is_above = Some(tick) > lease.floor;
        self.repeated |= self.issued.has(tick);
        self.uncovered |= self.registry.reserved.until < Some(tick);
        self.not_above |= !is_above;
        self.issued.add(tick, tick + 1.into());
        Some(())
    }

    /// Gives back what was not used, and the name with it (`ZkLease::give_back`). A release that meets other versions
    /// changes nothing. The code then reads the versions, which is a `Read` before this.
    pub(super) fn close(&mut self, model: &Reservation<S>, start: S::Number) -> Option<()> {
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

    /// Time passes for the servers, and for each process as much as its clock counts. While it measures a lease, a
    /// clock counts at most `slack` too little.
    pub(super) fn pass(
        &mut self,
        model: &Reservation<S>,
        time: S::Number,
        counted: &[S::Number],
    ) -> Option<()> {
        self.registry.pass(time);
        for (process, &counted) in self.processes.iter_mut().zip(counted) {
            if let Some(asked) = &mut process.asked {
                asked.age = (asked.age + counted).min(model.session);
                asked.slack = match (asked.slack + counted).minus(time) {
                    // After the deadline a clock may do anything.
                    None if model.in_detail && asked.age >= model.outage => 0.into(),
                    slack => slack?,
                };
            }
            if let Some(lease) = process.lease.as_mut().filter(|lease| lease.left > 0.into()) {
                lease.left = lease.left.minus_or_zero(counted);
                lease.slack = match lease.left > 0.into() {
                    true => (lease.slack + counted).minus(time)?,
                    false => 0.into(),
                };
            }
        }
        Some(())
    }
}

impl<S: Scale> Process<S> {
    pub(super) fn measures(&self) -> bool {
        let is_measured = |lease: &Lease<S>| lease.left > 0.into();
        self.asked.is_some() || self.lease.as_ref().is_some_and(is_measured)
    }

    /// Another process was admitted: once lost, always lost.
    pub(super) fn lose(&mut self, model: &Reservation<S>) -> Option<()> {
        self.lease.as_mut()?.lost = true;
        if model.in_detail {
            self.place = Place::Refused;
        }
        (self.call, self.asked) = (None, None);
        Some(())
    }
}
