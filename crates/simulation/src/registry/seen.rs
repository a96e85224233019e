//! What a follower of a history sees.

use std::time::Duration;

use uidring::worker::{LeaseBackend, RenewError};
use uidring::{Error, Uid};
use uidring_zookeeper::protocol::{Reserved, Stat, Write};

use super::sim::Sim;
use super::trace::{
    InstanceSeen, Node, Request, ReservedSeen, SessionSeen, Setting, Snapshot, Step, number_of,
};
use super::tree::Process;
use super::world::{Machine, State, World};
use crate::Answer;

impl World {
    pub(super) fn setting(&self) -> Setting {
        let session = Duration::from_nanos(self.session);
        Setting {
            layout: self.layout,
            session,
            max_outage: self.max_outage.unwrap_or(session * 9 / 10),
            instances: self.instances,
            is_calm: self.is_calm,
        }
    }

    pub(super) fn note(&mut self, step: Step) {
        let Some(mut follower) = self.follower.take() else { return };
        follower.step(&step, &self.seen());
        self.follower = Some(follower);
    }

    fn seen(&mut self) -> Snapshot {
        // Reading the nodes is most of the work, and most steps change none.
        if self.nodes_seen.0 != self.servers.transactions() {
            let nodes = (0..self.instances).map(|role| self.nodes_of(role)).collect();
            self.nodes_seen = (self.servers.transactions(), nodes);
        }
        let mut instances = self.nodes_seen.1.clone();
        for (instance, role) in instances.iter_mut().zip(0..) {
            instance.files = self.files_of(role);
        }
        let owners = self.machines.iter().filter_map(|machine| match &machine.state {
            State::Running(owner) => Some((owner.process.number, owner.issuer.seen())),
            _ => None,
        });
        Snapshot { instances, sessions: self.servers.seen(self.now), owners: owners.collect() }
    }

    fn nodes_of(&self, role: u8) -> InstanceSeen {
        let prefix = format!("i{role}@bounded-");
        let mut nodes = self.servers.children("/snowflake/model/forever");
        nodes.retain(|node| node.starts_with(&prefix));
        nodes.sort();
        let version = |node: &String| {
            let found = self.servers.read(&format!("/snowflake/model/forever/{node}"));
            found.map(|(_, stat)| stat.version)
        };
        let reserved = self.servers.read(&self.node("reserved", role)).map(|(data, stat)| {
            let Reserved { until, holder, .. } = Reserved::from_json(&data).expect("JSON");
            ReservedSeen { version: stat.version, until, holder: self.process_named(&holder) }
        });
        InstanceSeen {
            endpoint: nodes.first().and_then(version),
            numbers: nodes.iter().filter_map(|node| number_of(&format!("/{node}"))).collect(),
            reserved,
            name: self
                .servers
                .read(&self.node("temporary", role))
                .map(|(_, stat)| stat.ephemeral_owner),
            files: Vec::new(),
        }
    }

    fn files_of(&self, role: u8) -> Vec<(u8, Option<u64>)> {
        let file = |machine: &Machine| {
            let cached = machine.files.get(&role)?.as_ref()?;
            self.process_named(&cached.holder)
        };
        self.machines.iter().map(|machine| (machine.name, file(machine))).collect()
    }

    fn process_named(&self, holder: &str) -> Option<u64> {
        self.holders.get(holder).copied()
    }

    /// Returns which node of the process's instance it is.
    fn node_at(&self, process: Process, path: &str) -> Option<Node> {
        let role = self.roles[&process.number];
        let is = |folder: &str| path == self.node(folder, role);
        match path {
            _ if path.ends_with("/forever") => Some(Node::Numbers),
            _ if is("reserved") => Some(Node::Reserved),
            _ if is("temporary") => Some(Node::Name),
            _ => number_of(path).map(|_| Node::Number),
        }
    }

    /// The servers have read a node, or its children.
    pub(super) fn note_read(&mut self, process: Process, path: &str) {
        if let Some(node) = self.node_at(process, path) {
            self.note(Step::Read { process: process.number, node });
        }
    }

    /// What was read has arrived.
    pub(super) fn note_heard(
        &mut self,
        process: Process,
        path: &str,
        found: Option<&(Vec<u8>, Stat)>,
    ) {
        let Some(node) = self.node_at(process, path) else { return };
        let reserved = found.filter(|_| node == Node::Reserved);
        let reserved = reserved.and_then(|(data, _)| Reserved::from_json(data));
        let holder = reserved.and_then(|reserved| self.process_named(&reserved.holder));
        let version = found.map(|(_, stat)| stat.version);
        self.note(Step::ReadHeard { process: process.number, node, version, holder });
    }

    pub(super) fn note_sent(&mut self, process: Process, writes: &[Write]) {
        if self.is_alive(process)
            && let Some(request) = Request::new(writes)
        {
            self.note(Step::Sent { process: process.number, request });
        }
    }
}

impl super::tree::Servers {
    fn seen(&self, now: u64) -> Vec<SessionSeen> {
        let ends = self.ends();
        ends.map(|(session, end)| SessionSeen { session, left: end.saturating_sub(now) }).collect()
    }
}

/// A backend that shows a start's first renewal, which the core requests itself.
pub(super) struct Shown {
    pub(super) sim: Sim,
    pub(super) process: Process,
    pub(super) has_begun: bool,
    pub(super) backend: Box<dyn LeaseBackend>,
}

impl LeaseBackend for Shown {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        let process = self.process.number;
        if self.has_begun {
            return self.backend.renew(horizon);
        }
        self.has_begun = true;
        if self.sim.world().is_alive(self.process) {
            self.sim.world().note(Step::RenewalAsked { process, horizon });
        }
        let answer = self.backend.renew(horizon);
        if self.sim.world().is_alive(self.process) {
            let answer = Answer::from(&answer);
            self.sim.world().note(Step::RenewalAnswered { process, answer });
        }
        answer
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        self.backend.release(last)
    }
}
