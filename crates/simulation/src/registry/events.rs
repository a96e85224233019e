//! What happens to processes, hosts and servers.

use std::time::Duration;

use uidring::simulation;
use uidring_zookeeper::protocol::{Reserved, end_of};

use super::trace::Step;
use super::tree::Process;
use super::world::{Grant, HOUR, Job, Machine, State, Task, World};
use crate::{Host, Property, Suspended};

impl World {
    /// Performs one random step. Returns how much time passes then.
    pub(super) fn act(&mut self) -> u64 {
        self.steps += 1;
        let host = self.rng.usize(0..self.machines.len());
        let session = self.session;
        let mut pass = |most: u64| self.rng.u64(0..most);
        let time = match pass(100) {
            50..65 => pass(session / 12),
            65..75 => pass(session / 2),
            75..80 => pass(2 * session),
            _ => 0,
        };
        if time > 0 {
            return time;
        }
        if self.rng.u8(0..10) < self.trouble {
            return self.make_trouble(host);
        }
        match self.rng.u8(0..100) {
            0..65 => self.take(host),
            65..88 => self.begin(host),
            88..92 => self.close(host),
            _ => self.service(host),
        }
        self.check_owners();
        0
    }

    fn make_trouble(&mut self, host: usize) -> u64 {
        let session = self.session;
        match self.rng.u8(0..14) {
            0..2 => self.kill(host),
            2..5 => return self.pause(host),
            5..8 => {
                let most = [100, 5_000, 5 * HOUR][self.rng.usize(0..3)];
                let by = self.rng.i64(-most..most);
                self.machines[host].host.step_wall(by);
            }
            8..12 => {
                let most = [session / 2, 3 * session][self.rng.usize(0..2)];
                self.machines[host].cut_until = self.now + self.rng.u64(0..most);
            }
            _ => {
                let most = [session / 2, 2 * session][self.rng.usize(0..2)];
                self.servers_down_until = self.now + self.rng.u64(0..most);
            }
        }
        0
    }

    fn pause(&mut self, host: usize) -> u64 {
        let most = [self.session / 3, 3 * self.session][self.rng.usize(0..2)];
        let pause = self.rng.u64(1..most);
        // The machine is suspended, and its system's clock does not count that.
        let suspends = !self.is_calm && self.rng.bool();
        let with_wall = self.rng.bool();
        let there = &mut self.machines[host].host;
        there.paused_until = self.now + pause;
        there.suspended = suspends.then_some(Suspended { with_wall });
        // Takers may run first after the pause.
        if self.rng.bool() { pause } else { 0 }
    }

    /// Lets some time pass, but not beyond `end`. Returns false if `end` has been reached.
    pub(super) fn pass(&mut self, end: u64) -> bool {
        if self.now >= end {
            return false;
        }
        let nap = self.now + self.rng.u64(1..self.session / 12);
        let late = self.late.iter().map(|(at, ..)| *at).min().unwrap_or(u64::MAX);
        let then = end.min(nap).min(late.max(self.now + 1));
        let (now, nanos) = (self.now, then - self.now);
        let pass = |machine: &mut Machine| (machine.number, machine.host.pass(now, nanos));
        let by_processes = self.machines.iter_mut().map(pass).collect();
        self.now = then;
        self.note(Step::Passed { nanos, by_processes });
        while let Some(due) = self.late.iter().position(|(at, ..)| *at <= then) {
            let (_, process, session, writes) = self.late.swap_remove(due);
            let written = self.write(process, session, &writes, true);
            self.counts.late += u64::from(written.is_ok());
        }
        self.expire();
        for host in 0..self.machines.len() {
            if !self.is_awake(host) {
                continue;
            }
            let process = Process { host, number: self.machines[host].number };
            // The session's thread does nothing else.
            if self.can_reach(process) {
                self.hear(process);
            }
            if self.rng.u8(0..4) > 0 {
                self.renew(host);
                if self.rng.bool() {
                    self.service(host);
                }
            }
        }
        self.check_owners();
        true
    }

    /// Ends sessions that the servers have not heard from for too long.
    fn expire(&mut self) {
        while let Some(session) = self.servers.over(self.now) {
            self.end_session(session, false);
        }
    }

    pub(super) fn end_session(&mut self, session: i64, is_goodbye: bool) {
        self.servers.close(session);
        self.note(Step::SessionEnded { session, is_goodbye });
    }

    pub(super) fn begin(&mut self, host: usize) {
        if !self.is_awake(host) {
            return;
        }
        match &self.machines[host].state {
            State::Idle => {
                let role = self.rng.u8(0..self.instances);
                self.start(host, role);
            }
            // An owner that has lost its lease closes.
            State::Running(owner) if !owner.issuer.renewals.is_live() => self.close(host),
            _ => {}
        }
    }

    pub(super) fn take(&mut self, host: usize) {
        let machine = &self.machines[host];
        let process = Process { host, number: machine.number };
        if !self.is_awake(host) || !matches!(machine.state, State::Running(_)) {
            return;
        }
        let (layout, reserved) = (self.layout, self.reserved(process));
        let is_covered = |uid| {
            let tick = layout.decode(uid).expect("of the layout").tick;
            reserved.is_some_and(|reserved| end_of(&layout, tick) <= reserved)
        };
        let is_cut_off = self.is_cut_off(host);
        let before = self.issued.uids;
        if let State::Running(owner) = &mut self.machines[host].state {
            owner.issuer.take(&mut self.rng, &mut self.issued, is_covered);
        }
        let takes = self.issued.taken();
        self.note(Step::Took { process: process.number, takes });
        if is_cut_off {
            self.counts.uids_cut_off += self.issued.uids - before;
        }
    }

    pub(super) fn renew(&mut self, host: usize) {
        let State::Running(owner) = &mut self.machines[host].state else { return };
        if owner.lease.is_none() {
            return;
        }
        let job = match owner.issuer.renewals.next_action() {
            simulation::LeaseAction::Wait(_) => return,
            simulation::LeaseAction::Renew(request) => Job::Renew(request),
            simulation::LeaseAction::Release(last) => Job::Release(last),
        };
        let asked = match &job {
            Job::Renew(request) => Some(request.horizon()),
            Job::Release(_) => None,
        };
        let lease = owner.lease.take().expect("it is there");
        let process = owner.process;
        self.tasks.push(Task { process, lease, job });
        if let Some(horizon) = asked {
            self.note(Step::RenewalAsked { process: process.number, horizon });
        }
    }

    pub(super) fn close(&mut self, host: usize) {
        if self.is_awake(host)
            && let State::Running(owner) = &mut self.machines[host].state
        {
            owner.issuer.close();
            let process = owner.process.number;
            // The action stays the same at every call.
            if let simulation::LeaseAction::Release(last) = owner.issuer.renewals.next_action() {
                self.note(Step::Closed { process, last });
            }
        }
    }

    pub(super) fn service(&mut self, host: usize) {
        if self.is_awake(host)
            && let State::Running(owner) = &mut self.machines[host].state
        {
            owner.issuer.service();
            let process = owner.process.number;
            self.note(Step::Serviced { process });
        }
    }

    pub(super) fn check_owners(&mut self) {
        if !self.is_calm || self.grant == Grant::LocalFile {
            return;
        }
        for machine in &self.machines {
            let State::Running(owner) = &machine.state else { continue };
            if !owner.issuer.is_live() {
                continue;
            }
            let node = self.node("temporary", self.roles[&owner.process.number]);
            let holder = self.servers.process_of(&node);
            let is_alone = holder.is_none_or(|holder| holder == owner.process);
            self.issued.check(Property::Owner, is_alone, || {
                format!("{:?} lives, and {holder:?} has the name", owner.process)
            });
        }
    }

    /// Prepares a start on a new host, after all sessions, with a clock past what was reserved. Returns the time to
    /// wait.
    pub(super) fn prepare_last_start(&mut self, role: u8) -> u64 {
        let nanos = 3 * self.session;
        self.now += nanos;
        self.note(Step::Passed { nanos, by_processes: Vec::new() });
        self.late.clear();
        self.expire();
        let node = self.node("reserved", role);
        let held = self.servers.read(&node).and_then(|(data, _)| Reserved::from_json(&data));
        let held = held.map(|reserved| reserved.until).unwrap_or_default();
        // No clock is further off than this.
        let wall = self.time().max(held).saturating_add(Duration::from_secs(3_600_000));
        let name = self.machines.iter().map(|machine| machine.name + 1).max().unwrap_or_default();
        self.machines[0] = Machine::new(Host::new(wall, 1_000), name);
        self.start(0, role);
        1
    }
}
