//! The servers: nodes, sessions, and transactions, each executed as a whole or not at all.

use super::mutation::Mutation;
use super::state::{
    Answer, Process, Registry, Request, Reservation, Reserved, SESSION, Session, State, Tick,
};
use crate::Clocks;

impl Request {
    /// The versions that it names: of the node with the number, and of the reservation.
    pub(super) fn versions(&mut self) -> (Option<&mut u8>, Option<&mut u8>) {
        match self {
            Self::Name { .. } => (None, None),
            Self::Inherit { version, .. } => (None, Some(version)),
            Self::Mark { endpoint, reserved, .. } => (Some(endpoint), Some(reserved)),
        }
    }

    fn session(&self) -> u8 {
        match *self {
            Self::Name { session } | Self::Inherit { session, .. } | Self::Mark { session, .. } => {
                session
            }
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        let reserved = Reserved { version: 1, until: None, holder: 0 };
        Self { endpoint: 1, reserved, name: None, sessions: Vec::new(), connects: 0 }
    }
}

impl Registry {
    /// Whose session the name lives with.
    pub(super) fn holder_of_name(&self) -> Option<u8> {
        let name = self.name?;
        self.sessions.iter().find(|session| session.number == name).map(|session| session.process)
    }

    pub(super) fn is_open(&self, number: u8) -> bool {
        self.sessions.iter().any(|session| session.number == number)
    }

    pub(super) fn connect(&mut self, process: u8) -> u8 {
        self.connects += 1;
        let number = self.connects;
        self.sessions.push(Session { number, process, left: SESSION });
        number
    }

    /// The servers end a session that they have not heard from for too long, by their clocks. Where clocks do
    /// anything, that may be now.
    pub(super) fn expire(&mut self, model: &Reservation, number: u8) -> Option<()> {
        let session = self.sessions.iter().find(|session| session.number == number)?;
        if model.mutation == Some(Mutation::SessionsNeverEnd)
            || model.clocks == Clocks::Calm && session.left > 0
        {
            return None;
        }
        self.sessions.retain(|session| session.number != number);
        self.name = self.name.filter(|name| *name != number);
        Some(())
    }

    fn hear(&mut self, number: u8) {
        for session in self.sessions.iter_mut().filter(|session| session.number == number) {
            session.left = SESSION;
        }
    }

    pub(super) fn pass(&mut self) {
        for session in &mut self.sessions {
            session.left = session.left.saturating_sub(1);
        }
    }

    /// Versions only grow, and are compared with the present one alone: so all that matters of one is whether
    /// it is the present one, 1, or an older one, 0. Without this there would be no end of states.
    pub(super) fn rename_versions<'a>(
        &mut self,
        known: impl Iterator<Item = (Option<&'a mut u8>, Option<&'a mut u8>)>,
    ) {
        let rename = |version: &mut u8, present: u8| *version = u8::from(*version == present);
        for (endpoint, reserved) in known {
            if let Some(version) = endpoint {
                rename(version, self.endpoint);
            }
            if let Some(version) = reserved {
                rename(version, self.reserved.version);
            }
        }
        (self.endpoint, self.reserved.version) = (1, 1);
    }

    /// Whether a transaction would be refused now and ever after: numbers and versions only grow.
    pub(super) fn is_void(&self, model: &Reservation, request: &Request) -> bool {
        let has_versions = model.mutation != Some(Mutation::NoVersions);
        let is_old = match *request {
            Request::Name { .. } => false,
            Request::Inherit { version, .. } => version < self.reserved.version,
            Request::Mark { endpoint, reserved, .. } => {
                endpoint < self.endpoint || reserved < self.reserved.version
            }
        };
        !self.is_open(request.session()) || has_versions && is_old
    }

    fn execute(&mut self, model: &Reservation, request: &Request, issued: Option<Tick>) -> Answer {
        if !self.is_open(request.session()) {
            return Answer::Over;
        }
        self.hear(request.session());
        let any_version = model.mutation == Some(Mutation::NoVersions);
        match *request {
            // Whoever it is that has it is read next (`take_name`): here at once.
            Request::Name { session } => Answer::NameOf(*self.name.get_or_insert(session)),
            Request::Inherit { session, process, version } => {
                if self.name.is_none() || version != self.reserved.version && !any_version {
                    return Answer::Changed;
                }
                self.reserved.version += 1;
                self.reserved.holder = process;
                self.name = Some(session);
                Answer::Done {
                    endpoint: self.endpoint,
                    reserved: self.reserved.version,
                    floor: None,
                }
            }
            Request::Mark { process, endpoint, reserved, until, frees_name, .. } => {
                let is_changed = endpoint != self.endpoint || reserved != self.reserved.version;
                if is_changed && !any_version || frees_name && self.name.is_none() {
                    return Answer::Changed;
                }
                let floor = self.reserved.until.max(issued);
                self.endpoint += 1;
                let version = self.reserved.version + 1;
                self.reserved = Reserved { version, until, holder: process };
                if frees_name {
                    self.name = None;
                }
                Answer::Done { endpoint: self.endpoint, reserved: version, floor }
            }
        }
    }
}

impl State {
    /// The servers execute a transaction. Its process is answered if it still waits for it.
    pub(super) fn perform(
        &mut self,
        model: &Reservation,
        request: &Request,
        is_answered: bool,
    ) -> Option<()> {
        if !self.network.has(request) {
            return None;
        }
        let issued = self.issued.checked_ilog2().map(|tick| tick as Tick);
        let answer = self.registry.execute(model, request, issued);
        let could_hear = self.processes.iter_mut().filter(|process| process.could_hear(request));
        for call in could_hear.filter_map(|process| process.call.as_mut()).filter(|_| is_answered) {
            call.answer = Some(answer);
        }
        Some(())
    }

    /// A process that lives lets the servers hear from its session.
    pub(super) fn ping(&mut self, number: u8) -> Option<()> {
        let lives = |process: &Process| process.session == Some(number);
        self.processes.iter().any(lives).then(|| self.registry.hear(number))
    }
}
