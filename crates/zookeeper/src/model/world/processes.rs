//! Processes: how they begin, what their threads do, and how they end.

use std::mem;
use std::time::Duration;

use uidring::model;

use super::{Grant, Owner, Process, Start, State, Task, World};
use crate::{Instance, LeafZooKeeper, ZooKeeperServers};

impl World {
    /// A process begins, if there is none.
    pub(super) fn begin(&mut self, host: usize) {
        if !self.is_awake(host) {
            return;
        }
        match &self.hosts[host].state {
            State::Idle => {
                let role = self.rng.u8(0..self.instances);
                self.start(host, role);
            }
            // Who has lost its lease is done with.
            State::Running(owner) if !owner.renewals.is_live() => self.close(host),
            _ => {}
        }
    }

    pub(super) fn start(&mut self, host: usize, role: u8) {
        self.processes += 1;
        let process = Process { host, number: self.processes };
        self.roles.insert(process.number, role);
        self.hosts[host].number = process.number;
        self.hosts[host].state = State::Starting;
        self.starts.push((process, role));
    }

    pub(crate) fn next_start(&mut self) -> Option<Start> {
        let (process, role) = loop {
            let next = self.starts.pop()?;
            if self.is_alive(next.0) {
                break next;
            }
        };
        let servers = ZooKeeperServers::new("model").expect("servers");
        let instance = Instance::new(&format!("i{role}")).expect("a name");
        let host = &self.hosts[process.host].host;
        let (wall, time) = (host.wall.clone(), host.time.clone());
        let mut options = LeafZooKeeper::new(servers, "model", instance)
            .expect("a name")
            .address("host", 1)
            // A real wait: starts are tried again instead.
            .max_start_wait(Duration::ZERO)
            .clock(wall.clone());
        match (self.grant, self.max_outage) {
            (Grant::Unmended, _) => options = options.risk_repeats_in_outages(),
            (Grant::Reserved, Some(limit)) => options = options.max_outage(limit),
            (Grant::Reserved, None) => {}
        }
        Some(Start { process, options, layout: self.layout, wall, time })
    }

    /// What the process is now; what it was.
    pub(crate) fn set(&mut self, process: Process, state: State) -> State {
        mem::replace(&mut self.hosts[process.host].state, state)
    }

    pub(crate) fn owner(&mut self, process: Process) -> Option<&mut Owner> {
        match &mut self.hosts[process.host].state {
            State::Running(owner) if owner.process == process => Some(owner),
            _ => None,
        }
    }

    /// The thread of a lease does what is to be done.
    pub(super) fn renew(&mut self, host: usize) {
        let State::Running(owner) = &mut self.hosts[host].state else { return };
        if owner.keeper.is_none() {
            return;
        }
        let task = match owner.renewals.next_task() {
            model::Task::Wait(_) => return,
            model::Task::Renew(request) => {
                let keeper = owner.keeper.take().expect("it is there");
                Task::Renew(owner.process, keeper, request)
            }
            model::Task::Release(last) => {
                let keeper = owner.keeper.take().expect("it is there");
                Task::Release(owner.process, keeper, last)
            }
        };
        self.tasks.push(task);
    }

    pub(super) fn kill(&mut self, host: usize) {
        let state = mem::replace(&mut self.hosts[host].state, State::Idle);
        self.dead.push(state);
    }

    pub(crate) fn kill_all(&mut self) {
        self.starts.clear();
        for host in 0..self.hosts.len() {
            self.kill(host);
        }
    }

    pub(super) fn close(&mut self, host: usize) {
        if self.is_awake(host)
            && let State::Running(owner) = &mut self.hosts[host].state
        {
            owner.generator.close();
            owner.is_closed = true;
        }
    }

    pub(super) fn service(&mut self, host: usize) {
        if self.is_awake(host)
            && let State::Running(owner) = &mut self.hosts[host].state
        {
            let is_live = owner.renewals.is_live();
            owner.is_shut |= owner.generator.service() && !is_live;
        }
    }
}
