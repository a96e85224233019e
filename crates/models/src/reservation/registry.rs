//! The servers: nodes, sessions, and transactions, each executed as a whole or not at all.

use super::mutation::Mutation;
use super::state::{Answer, Process, Registry, Request, Reservation, Reserved, Session, State};
use crate::{Clocks, Number, Scale, Uids};

/// Versions of the node with the number, and of the reservation.
pub(super) type Versions<'a, S> =
    (Option<&'a mut <S as Scale>::Number>, Option<&'a mut <S as Scale>::Number>);

impl<S: Scale> Request<S> {
    pub(super) fn versions(&mut self) -> Versions<'_, S> {
        match self {
            Self::Name { .. } => (None, None),
            Self::Inherit { version, .. } => (None, Some(version)),
            Self::Number { reserved, .. } => (None, Some(reserved)),
            Self::Mark { endpoint, reserved, .. } => (Some(endpoint), Some(reserved)),
        }
    }

    fn session(&self) -> S::Number {
        match *self {
            Self::Name { session }
            | Self::Inherit { session, .. }
            | Self::Number { session, .. }
            | Self::Mark { session, .. } => session,
        }
    }
}

impl<S: Scale> Registry<S> {
    pub(super) fn new(has_number: bool) -> Self {
        let version = u8::from(has_number).into();
        let reserved = Reserved { version, until: None, holder: 0.into() };
        let mut numbers = S::Uids::default();
        if has_number {
            numbers.add(1.into(), 2.into());
        }
        Self {
            made: if has_number { 2.into() } else { 0.into() },
            numbers,
            endpoint: version,
            reserved,
            name: None,
            sessions: Vec::new(),
            connects: 0.into(),
        }
    }

    /// The process whose session has the name.
    pub(super) fn holder_of_name(&self) -> Option<S::Number> {
        let name = self.name?;
        self.sessions.iter().find(|session| session.number == name).map(|session| session.process)
    }

    pub(super) fn is_open(&self, number: S::Number) -> bool {
        self.sessions.iter().any(|session| session.number == number)
    }

    pub(super) fn connect(
        &mut self,
        process: S::Number,
        session: S::Number,
        ago: S::Number,
    ) -> S::Number {
        self.connects += 1.into();
        let number = self.connects;
        self.sessions.push(Session { number, process, left: session.minus_or_zero(ago) });
        number
    }

    /// The servers end a session that they have not heard from for too long, by their clocks. If clocks do anything,
    /// that may be now.
    pub(super) fn expire(&mut self, model: &Reservation<S>, number: S::Number) -> Option<()> {
        let session = self.sessions.iter().find(|session| session.number == number)?;
        if model.mutation == Some(Mutation::SessionsNeverEnd)
            || model.clocks == Clocks::Calm && session.left > 0.into()
        {
            return None;
        }
        self.end(number);
        Some(())
    }

    pub(super) fn end(&mut self, number: S::Number) {
        self.sessions.retain(|session| session.number != number);
        self.name = self.name.filter(|name| *name != number);
    }

    fn hear(&mut self, model: &Reservation<S>, number: S::Number) {
        for session in self.sessions.iter_mut().filter(|session| session.number == number) {
            session.left = model.session;
        }
    }

    pub(super) fn pass(&mut self, time: S::Number) {
        for session in &mut self.sessions {
            session.left = session.left.minus_or_zero(time);
        }
    }

    /// Versions only grow, and are compared with the present one alone. So it only matters whether a version is the
    /// present one (1) or older (0). Renaming them keeps the number of states finite.
    pub(super) fn rename_versions<'a>(&mut self, known: impl Iterator<Item = Versions<'a, S>>) {
        let rename = |version: &mut S::Number, present: S::Number| {
            *version = u8::from(*version == present).into();
        };
        for (endpoint, reserved) in known {
            if let Some(version) = endpoint {
                rename(version, self.endpoint);
            }
            if let Some(version) = reserved {
                rename(version, self.reserved.version);
            }
        }
        (self.endpoint, self.reserved.version) = (1.into(), 1.into());
    }

    /// Whether a transaction would be refused now and always: sessions do not come back, and versions only grow.
    pub(super) fn is_void(&self, model: &Reservation<S>, request: &Request<S>) -> bool {
        let has_versions = model.mutation != Some(Mutation::NoVersions);
        let is_old = match *request {
            Request::Name { .. } => false,
            Request::Inherit { version: reserved, .. } | Request::Number { reserved, .. } => {
                reserved < self.reserved.version
            }
            Request::Mark { endpoint, reserved, .. } => {
                endpoint < self.endpoint || reserved < self.reserved.version
            }
        };
        !self.is_open(request.session()) || has_versions && is_old
    }

    fn execute(
        &mut self,
        model: &Reservation<S>,
        request: &Request<S>,
        issued: Option<S::Number>,
    ) -> Answer<S> {
        if !self.is_open(request.session()) {
            return Answer::Over;
        }
        let any_version = model.mutation == Some(Mutation::NoVersions);
        match *request {
            // The code reads next who has the name (`take_name`); here in the same step.
            Request::Name { session } => Answer::NameOf(*self.name.get_or_insert(session)),
            Request::Inherit { session, process, version } => {
                if self.name.is_none() || version != self.reserved.version && !any_version {
                    return Answer::Changed;
                }
                self.reserved.version += 1.into();
                self.reserved.holder = process;
                self.name = Some(session);
                Answer::Done {
                    endpoint: self.endpoint,
                    reserved: self.reserved.version,
                    floor: None,
                }
            }
            Request::Number { process, instead, reserved, .. } => {
                let is_gone = instead.is_some_and(|number| !self.numbers.has(number));
                if reserved != self.reserved.version && !any_version || is_gone {
                    return Answer::Changed;
                }
                self.make_number(instead);
                self.reserved.version += 1.into();
                self.reserved.holder = process;
                let (endpoint, reserved) = (self.endpoint, self.reserved.version);
                Answer::Done { endpoint, reserved, floor: None }
            }
            Request::Mark { process, endpoint, reserved, until, frees_name, .. } => {
                let is_changed = endpoint != self.endpoint || reserved != self.reserved.version;
                if is_changed && !any_version || frees_name && self.name.is_none() {
                    return Answer::Changed;
                }
                let floor = self.reserved.until.max(issued);
                self.endpoint += 1.into();
                let version = self.reserved.version + 1.into();
                self.reserved = Reserved { version, until, holder: process };
                if frees_name {
                    self.name = None;
                }
                Answer::Done { endpoint: self.endpoint, reserved: version, floor }
            }
        }
    }
}

impl<S: Scale> State<S> {
    /// The servers execute a transaction. Its process gets the answer if it still waits.
    pub(super) fn perform(
        &mut self,
        model: &Reservation<S>,
        request: &Request<S>,
        is_answered: bool,
    ) -> Option<()> {
        self.registry.hear(model, request.session());
        self.perform_late(model, request, is_answered)
    }

    /// The same, after the servers have heard from the session.
    pub(super) fn perform_late(
        &mut self,
        model: &Reservation<S>,
        request: &Request<S>,
        is_answered: bool,
    ) -> Option<()> {
        if !self.network.has(request) {
            return None;
        }
        let issued = self.issued.last();
        let answer = self.registry.execute(model, request, issued);
        let could_hear = self.processes.iter_mut().filter(|process| process.could_hear(request));
        for call in could_hear.filter_map(|process| process.call.as_mut()).filter(|_| is_answered) {
            call.answer = Some(answer);
        }
        Some(())
    }

    /// A live process lets the servers hear from its session.
    pub(super) fn ping(&mut self, model: &Reservation<S>, number: S::Number) -> Option<()> {
        let lives = |process: &Process<S>| process.session == Some(number);
        self.processes.iter().any(lives).then(|| self.registry.hear(model, number))
    }
}
