//! The requests of processes to the servers.

use uidring_models::Full;
use uidring_models::Uids;
use uidring_models::reservation::{Action, Place, Request, State};
use uidring_simulation::registry::{Node, Request as Sent, Snapshot};

use super::instance::{Instance, version};

impl Instance {
    pub(super) fn connected(&mut self, name: u64, session: i64, ago: u64, after: &Snapshot) {
        if self.place(name) != Place::Offline {
            self.act(Action::FindOver { process: name });
        }
        self.act(Action::Connect { process: name, ago });
        let number = self.state.registry.connects;
        self.sessions.insert(session, number);
        // It may have ended meanwhile.
        if !after.sessions.iter().any(|other| other.session == session) {
            self.act(Action::Expire { session: number });
        }
    }

    /// The servers have read a node. The process's place tells why.
    pub(super) fn read(&mut self, name: u64, node: Node) {
        let process = self.process(name);
        let registry = &self.state.registry;
        let holder = registry.reserved.holder;
        let (is_new, is_own) = (process.lease.is_none(), holder == name);
        let has_name = registry.name.is_some() && registry.name == process.session;
        let is_dead = is_own || is_new && process.previous == Some(holder);
        let number = registry.numbers.first();
        let read = Action::Read { process: name };
        match (self.place(name), node) {
            (Place::Named, Node::Name) if !has_name => {
                self.act(Action::BeginAgain { process: name });
            }
            // An earlier transaction has made the name after all.
            (Place::Naming, Node::Name) if has_name => {
                self.act(Action::Write { process: name });
                let session = self.process(name).session.unwrap_or_default();
                self.act(Action::Perform(Request::Name { session }));
                self.act(Action::Hear { process: name });
            }
            (Place::Naming, Node::Reserved) if is_dead && registry.reserved.version > 0 => {
                self.act(read);
            }
            (Place::Named, Node::Numbers) if is_new && number.unwrap_or_default() == 0 => {
                self.act(read);
            }
            (Place::Numberless { reserved: None, .. }, Node::Reserved)
            | (Place::Named, Node::Number) => self.act(read),
            // If the holder is another, the process learns that only after reading the name, too.
            (Place::ReadNumber(_), Node::Reserved) if is_new || is_own => self.act(read),
            (Place::ReadReserved { .. }, Node::Name) if has_name => {
                self.act(Action::Write { process: name });
            }
            _ => {}
        }
    }

    /// After a failed write, both nodes are read again.
    pub(super) fn read_heard(
        &mut self,
        name: u64,
        node: Node,
        found: Option<i32>,
        holder: Option<u64>,
    ) {
        if !matches!(self.place(name), Place::Entered { .. }) {
            return;
        }
        let Some(found) = found else { return };
        if node == Node::Reserved {
            self.reloads.insert(name, (found, holder));
        } else if let (Node::Number, Some((reserved, holder))) = (node, self.reloads.remove(&name))
            && holder.and_then(|holder| self.names.get(&holder)) == Some(&name)
        {
            let (endpoint, reserved) = (version(Some(found)), version(Some(reserved)));
            self.act(Action::Reload { process: name, endpoint, reserved });
        }
    }

    /// Translates a transaction for the model.
    fn request(&self, process: u64, session: u64, request: Sent) -> Request<Full> {
        match request {
            Sent::Name => Request::Name { session },
            Sent::Inherit { reserved } => {
                Request::Inherit { session, process, version: version(Some(reserved)) }
            }
            Sent::Number { instead, reserved } => {
                Request::Number { session, process, instead, reserved: version(reserved) }
            }
            Sent::Mark { endpoint, reserved, until, frees_name } => Request::Mark {
                session,
                process,
                endpoint: version(Some(endpoint)),
                reserved: version(Some(reserved)),
                until: self.tick(until),
                frees_name,
            },
        }
    }

    pub(super) fn sent(&mut self, name: u64, request: Sent) {
        let place = self.place(name);
        match request {
            Sent::Name if place != Place::Naming => {
                self.act(Action::BeginAgain { process: name });
                self.act(Action::Write { process: name });
            }
            Sent::Mark { frees_name: true, .. } => self.act(Action::Release { process: name }),
            // The model sent it when the name was read.
            Sent::Mark { .. } if matches!(place, Place::ReadReserved { .. }) => {}
            _ => self.act(Action::Write { process: name }),
        }
        let process = self.process(name);
        let session = process.session.unwrap_or_default();
        let (expected, call) = (self.request(name, session, request), process.call.as_ref());
        let is_same = call.is_some_and(|call| call.request == expected);
        self.check(is_same, || format!("{name} has not sent {expected:?}"));
    }

    pub(super) fn executed(
        &mut self,
        process: u64,
        session: i64,
        request: Sent,
        is_done: bool,
        is_late: bool,
    ) {
        let (name, session) = (self.names[&process], self.sessions[&session]);
        let request = self.request(name, session, request);
        let node = |state: &State<Full>| (state.registry.reserved.version, state.registry.name);
        let before = node(&self.state);
        if self.state.network.has(&request) {
            self.act(match is_late {
                true => Action::PerformLate(request),
                false => Action::Perform(request),
            });
        }
        let has_done = node(&self.state) != before;
        self.check(has_done == is_done, || format!("{request:?} is done: {has_done}"));
    }
}
