//! Hosts, servers, and what happens to them.

mod processes;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use fastrand::Rng;
use uidring::clock::ManualClock;
use uidring::model::{
    Generator, Host, ManualMonotonic, Property, RenewalState, Request, Suspended,
};
use uidring::worker::LeaseBackend;
use uidring::{Bits, Layout, Tick, Timestamp, Uid};

use super::requests::Process;
use super::tree::Servers;
use super::{Counts, Grant};
use crate::LeafZooKeeper;
use crate::cache::Cached;
use crate::nodes::Reserved;
use crate::tree::{Failure, Write};

const SECOND: u64 = 1_000_000_000;
const HOUR: i64 = 3_600_000;

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) layout: Layout,
    grant: Grant,
    /// The only property to look at.
    only: Option<Property>,
    /// How long a session lives, in nanoseconds.
    pub(super) session: u64,
    max_outage: Option<Duration>,
    /// Clocks are as good as the budget assumes.
    is_calm: bool,
    /// How many of ten steps are trouble, and how many of a hundred messages.
    trouble: u8,
    loss: u8,
    /// The true time, in nanoseconds, and what it was at first.
    pub(super) now: u64,
    beginning: Timestamp,
    pub(super) servers: Servers,
    servers_down_until: u64,
    pub(super) hosts: Vec<Place>,
    /// Transactions that nobody waits for any more, and when they come.
    late: Vec<(u64, i64, Vec<Write>)>,
    starts: Vec<(Process, u8)>,
    pub(super) tasks: Vec<Task>,
    /// What is left of processes, to be dropped out of the lock.
    pub(super) dead: Vec<State>,
    /// How many requests are being made in the middle of each other.
    pub(super) depth: u32,
    processes: u64,
    /// Which instance a process is.
    roles: BTreeMap<u64, u8>,
    instances: u8,
    pub(super) issued: HashSet<Uid>,
    /// No message is lost or late any more.
    pub(super) is_orderly: bool,
    pub(super) counts: Counts,
}

/// A host, with at most one process.
pub(super) struct Place {
    host: Host,
    /// No server can be reached until then.
    cut_until: u64,
    files: BTreeMap<u8, Option<Cached>>,
    number: u64,
    pub(super) state: State,
}

pub(super) enum State {
    Idle,
    Starting,
    Running(Box<Owner>),
}

/// A generator with a lease, and what is known of it.
pub(super) struct Owner {
    pub(super) process: Process,
    pub(super) worker_id: u64,
    pub(super) before: Option<Uid>,
    pub(super) renewals: RenewalState,
    /// It has gone while it asks something.
    pub(super) keeper: Option<Box<dyn LeaseBackend>>,
    pub(super) is_closed: bool,
    /// The padder has looked since the lease was over.
    pub(super) is_shut: bool,
    pub(super) generator: Generator,
    pub(super) last: Option<Uid>,
    pub(super) last_local: Option<Uid>,
}

/// What is asked of the servers next.
pub(super) enum Task {
    Renew(Process, Box<dyn LeaseBackend>, Request),
    Release(Process, Box<dyn LeaseBackend>, Option<Uid>),
}

/// What a start needs.
pub(super) struct Start {
    pub(super) process: Process,
    pub(super) options: LeafZooKeeper,
    pub(super) layout: Layout,
    pub(super) wall: ManualClock,
    pub(super) time: ManualMonotonic,
}

impl World {
    pub(super) fn new(mut rng: Rng, grant: Grant, only: Option<Property>) -> Self {
        let tick = if rng.bool() { Tick::Second } else { Tick::Millisecond };
        let bits = Bits { time: 44, worker: 4, sequence: rng.u8(1..5) };
        let epoch = "2026-01-01".parse().expect("a time");
        let layout = Layout::new(bits, tick, epoch).expect("possible");
        let session = [2 * SECOND, 4 * SECOND, 10 * SECOND][rng.usize(0..3)];
        // As far as the session allows, by default or not, or less.
        let max_outage = match rng.u8(0..3) {
            0 => None,
            1 => Some(Duration::from_nanos(session / 10 * 9)),
            _ => Some(Duration::from_nanos(rng.u64(SECOND..=session / 10 * 9))),
        };
        let is_calm = rng.bool();
        let beginning: Timestamp = "2026-06-01".parse().expect("a time");
        let hosts = (0..rng.u8(2..4))
            .map(|_| {
                let rate = if is_calm { rng.u64(901..1_100) } else { rng.u64(500..2_000) };
                let host = Host::new(beginning, rate);
                host.step_wall(rng.i64(-2_000..2_000));
                Place::new(host)
            })
            .collect();
        Self {
            layout,
            grant,
            only,
            session,
            max_outage,
            is_calm,
            trouble: rng.u8(0..4),
            loss: [0, 3, 20][rng.usize(0..3)],
            now: 0,
            beginning,
            servers: Servers::default(),
            servers_down_until: 0,
            hosts,
            late: Vec::new(),
            starts: Vec::new(),
            tasks: Vec::new(),
            dead: Vec::new(),
            depth: 0,
            processes: 0,
            roles: BTreeMap::new(),
            instances: rng.u8(1..3),
            issued: HashSet::new(),
            is_orderly: false,
            counts: Counts::default(),
            rng,
        }
    }

    pub(super) fn check(&self, property: Property, holds: bool, what: impl FnOnce() -> String) {
        if self.only.is_none_or(|only| only == property) {
            property.check(holds, what);
        }
    }

    pub(super) fn instances(&self) -> u8 {
        self.instances
    }

    /// One thing happens; how much time passes then.
    pub(super) fn act(&mut self) -> u64 {
        let host = self.rng.usize(0..self.hosts.len());
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
                self.hosts[host].host.step_wall(by);
            }
            8..12 => {
                let most = [session / 2, 3 * session][self.rng.usize(0..2)];
                self.hosts[host].cut_until = self.now + self.rng.u64(0..most);
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
        // A machine that is suspended, of a system whose clock does not count that.
        let suspends = !self.is_calm && self.rng.bool();
        let with_wall = self.rng.bool();
        let there = &mut self.hosts[host].host;
        there.paused_until = self.now + pause;
        there.suspended = suspends.then_some(Suspended { with_wall });
        // Takers may be the first to run again.
        if self.rng.bool() { pause } else { 0 }
    }

    /// Some time passes, but not beyond `end`; false once that has come.
    pub(super) fn pass(&mut self, end: u64) -> bool {
        if self.now >= end {
            return false;
        }
        let nap = self.now + self.rng.u64(1..self.session / 12);
        let late = self.late.iter().map(|(at, ..)| *at).min().unwrap_or(u64::MAX);
        let then = end.min(nap).min(late.max(self.now + 1));
        for place in &mut self.hosts {
            place.host.pass(self.now, then - self.now);
        }
        self.now = then;
        while let Some(due) = self.late.iter().position(|(at, ..)| *at <= then) {
            let (_, session, writes) = self.late.swap_remove(due);
            self.counts.late += u64::from(self.write(session, &writes).is_ok());
        }
        self.servers.expire(then);
        for host in 0..self.hosts.len() {
            if !self.is_awake(host) {
                continue;
            }
            let process = Process { host, number: self.hosts[host].number };
            // Its session's thread, which does nothing else.
            if self.can_reach(process) {
                self.servers.hear(process, then);
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

    pub(super) fn is_awake(&self, host: usize) -> bool {
        self.now >= self.hosts[host].host.paused_until
    }

    /// Whether it is running, or starting.
    pub(super) fn is_alive(&self, process: Process) -> bool {
        let place = &self.hosts[process.host];
        place.number == process.number && !matches!(place.state, State::Idle)
    }

    pub(super) fn can_reach(&self, process: Process) -> bool {
        self.is_alive(process) && self.is_awake(process.host) && !self.is_cut_off(process.host)
    }

    pub(super) fn is_cut_off(&self, host: usize) -> bool {
        let until = self.hosts[host].cut_until.max(self.servers_down_until);
        self.now < until && !self.is_orderly
    }

    pub(super) fn goes_wrong(&mut self) -> bool {
        !self.is_orderly && self.rng.u8(0..100) < self.loss
    }

    pub(super) fn delay(&mut self) -> u64 {
        let most = if self.goes_wrong() { self.session / 2 } else { 20_000_000 };
        self.rng.u64(1..most)
    }

    fn time(&self) -> Timestamp {
        self.beginning.saturating_add(Duration::from_nanos(self.now))
    }

    pub(super) fn time_of(&self, host: usize) -> ManualMonotonic {
        self.hosts[host].host.time.clone()
    }

    pub(super) fn connect(&mut self, process: Process) -> (i64, u64) {
        (self.servers.connect(process, self.session, self.now), self.session)
    }

    pub(super) fn hear(&mut self, process: Process) {
        self.servers.hear(process, self.now);
    }

    pub(super) fn make_folder(&mut self, path: &str) {
        let now = self.time();
        self.servers.make_folder(path, now);
    }

    pub(super) fn write(&mut self, session: i64, writes: &[Write]) -> Result<Vec<i32>, Failure> {
        let now = self.time();
        self.servers.write(session, writes, now)
    }

    pub(super) fn write_later(&mut self, session: i64, writes: Vec<Write>) {
        let at = self.now + self.rng.u64(1..self.session);
        self.late.push((at, session, writes));
    }

    /// The file of the process, while it lives.
    pub(super) fn file(&mut self, process: Process) -> Option<&mut Option<Cached>> {
        let role = self.roles[&process.number];
        let is_alive = self.is_alive(process);
        is_alive.then(|| self.hosts[process.host].files.entry(role).or_default())
    }

    /// How far the registry says that the instance of this process may have issued.
    pub(super) fn reserved(&self, process: Process) -> Option<Timestamp> {
        let node = self.node("reserved", self.roles[&process.number]);
        let (data, _) = self.servers.read(&node)?;
        Some(Reserved::from_json(&data).expect("JSON").until)
    }

    fn node(&self, folder: &str, role: u8) -> String {
        let end = if self.grant == Grant::Reserved { "@bounded" } else { "" };
        format!("/snowflake/model/{folder}/i{role}{end}")
    }

    /// Who may go on by its own account is the one that has the name, or nobody has it.
    pub(super) fn check_owners(&mut self) {
        if !self.is_calm || self.grant == Grant::Unmended {
            return;
        }
        for place in &self.hosts {
            let State::Running(owner) = &place.state else { continue };
            if owner.is_closed || !owner.renewals.is_live() {
                continue;
            }
            let node = self.node("temporary", self.roles[&owner.process.number]);
            let holder = self.servers.process_of(&node);
            let is_alone = holder.is_none_or(|holder| holder == owner.process);
            self.check(Property::Owner, is_alone, || {
                format!("{:?} lives, and {holder:?} has the name", owner.process)
            });
        }
    }

    /// A start on a new host, once the sessions have ended, and its clock has passed what was
    /// reserved; when that is.
    pub(super) fn prepare_last_start(&mut self, role: u8) -> u64 {
        self.now += 3 * self.session;
        let now = self.now;
        self.late.clear();
        self.servers.expire(now);
        let node = self.node("reserved", role);
        let held = self.servers.read(&node).and_then(|(data, _)| Reserved::from_json(&data));
        let held = held.map_or(Timestamp::default(), |reserved| reserved.until);
        // No clock was wrong by more.
        let wall = self.time().max(held).saturating_add(Duration::from_hours(1_000));
        self.hosts[0] = Place::new(Host::new(wall, 1_000));
        self.start(0, role);
        1
    }
}

impl Place {
    fn new(host: Host) -> Self {
        let files = BTreeMap::new();
        Self { host, cut_until: 0, files, number: 0, state: State::Idle }
    }
}
