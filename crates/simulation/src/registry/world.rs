//! The state of hosts, processes and servers.

use std::collections::BTreeMap;
use std::mem;
use std::ops::AddAssign;
use std::time::Duration;

use fastrand::Rng;
use uidring::clock::ManualClock;
use uidring::simulation::{ManualMonotonic, RenewRequest};
use uidring::worker::LeaseBackend;
use uidring::{Bits, Layout, Tick, Timestamp, Uid};
use uidring_zookeeper::protocol::{Cached, Failure, Reserved, Write};
use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperServers};

use super::trace::{Follower, InstanceSeen, Request as Transaction, Step};
use super::tree::{Process, Servers};
use crate::{Host, Issued, Issuer, Property};

const SECOND: u64 = 1_000_000_000;
pub(super) const HOUR: i64 = 3_600_000;

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) layout: Layout,
    pub(super) grant: Grant,
    /// The length of a session, in nanoseconds.
    pub(super) session: u64,
    pub(super) max_outage: Option<Duration>,
    /// Clocks stay within the budget.
    pub(super) is_calm: bool,
    /// Steps in ten that are trouble, and messages in a hundred that fail.
    pub(super) trouble: u8,
    pub(super) loss: u8,
    /// The true time, in nanoseconds since `beginning`.
    pub(super) now: u64,
    pub(super) beginning: Timestamp,
    pub(super) servers: Servers,
    pub(super) servers_down_until: u64,
    pub(super) machines: Vec<Machine>,
    /// Transactions that nobody waits for any more, with their arrival.
    pub(super) late: Vec<(u64, Process, i64, Vec<Write>)>,
    pub(super) starts: Vec<(Process, u8)>,
    pub(super) tasks: Vec<Task>,
    /// The remains of killed processes, to drop without the lock.
    pub(super) dead: Vec<State>,
    /// How many requests are in progress, one within another.
    pub(super) depth: u32,
    pub(super) processes: u64,
    /// The instance of each process.
    pub(super) roles: BTreeMap<u64, u8>,
    pub(super) instances: u8,
    pub(super) issued: Issued,
    pub(super) steps: u32,
    /// From now on, no message is lost or late.
    pub(super) is_orderly: bool,
    pub(super) counts: Counts,
    /// The process of each holder.
    pub(super) holders: BTreeMap<String, u64>,
    pub(super) follower: Option<Box<dyn Follower>>,
    /// The nodes as the follower last saw them, and the number of transactions then.
    pub(super) nodes_seen: (i64, Vec<InstanceSeen>),
}

/// How instances continue while the registry is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// By what the registry holds.
    Registry,
    /// By the local file, as an instance that risks repeats does.
    LocalFile,
}

/// Counts of what happened.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    pub(super) uids: u64,
    /// Of these, uids taken while the host was cut off.
    pub(super) uids_cut_off: u64,
    pub(super) acquired: u64,
    /// Starts that the registry or an earlier reservation refused.
    pub(super) refused: u64,
    pub(super) unanswered: u64,
    pub(super) renewals: u64,
    pub(super) failed: u64,
    pub(super) releases: u64,
    pub(super) lost: u64,
    /// Transactions executed after their process had given up.
    pub(super) late: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.uids += other.uids;
        self.uids_cut_off += other.uids_cut_off;
        self.acquired += other.acquired;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
        self.renewals += other.renewals;
        self.failed += other.failed;
        self.releases += other.releases;
        self.lost += other.lost;
        self.late += other.late;
    }
}

/// A host, with at most one process on it.
pub(super) struct Machine {
    pub(super) host: Host,
    /// Until then, no server can be reached.
    pub(super) cut_until: u64,
    pub(super) files: BTreeMap<u8, Option<Cached>>,
    /// Unique.
    pub(super) name: u8,
    pub(super) number: u64,
    pub(super) state: State,
}

pub(super) enum State {
    Idle,
    Starting,
    Running(Box<Owner>),
}

pub(super) struct Owner {
    pub(super) process: Process,
    pub(super) issuer: Issuer,
    /// `None` while a task has it.
    pub(super) lease: Option<Box<dyn LeaseBackend>>,
}

/// The next call of a lease's thread.
pub(super) struct Task {
    pub(super) process: Process,
    pub(super) lease: Box<dyn LeaseBackend>,
    pub(super) job: Job,
}

pub(super) enum Job {
    Renew(RenewRequest),
    Release(Option<Uid>),
}

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
        // The session's limit, by default or set, or less.
        let max_outage = match rng.u8(0..3) {
            0 => None,
            1 => Some(Duration::from_nanos(session / 10 * 9)),
            _ => Some(Duration::from_nanos(rng.u64(SECOND..=session / 10 * 9))),
        };
        let is_calm = rng.bool();
        let beginning: Timestamp = "2026-06-01".parse().expect("a time");
        let machines = (0..rng.u8(2..4))
            .map(|name| {
                let rate = if is_calm { rng.u64(901..1_100) } else { rng.u64(500..2_000) };
                let host = Host::new(beginning, rate);
                host.step_wall(rng.i64(-2_000..2_000));
                Machine::new(host, name)
            })
            .collect();
        Self {
            layout,
            grant,
            session,
            max_outage,
            is_calm,
            trouble: rng.u8(0..4),
            loss: [0, 3, 20][rng.usize(0..3)],
            now: 0,
            beginning,
            servers: Servers::default(),
            servers_down_until: 0,
            machines,
            late: Vec::new(),
            starts: Vec::new(),
            tasks: Vec::new(),
            dead: Vec::new(),
            depth: 0,
            processes: 0,
            roles: BTreeMap::new(),
            instances: rng.u8(1..3),
            issued: Issued::new(layout, only),
            steps: 0,
            is_orderly: false,
            counts: Counts::default(),
            holders: BTreeMap::new(),
            follower: None,
            nodes_seen: (-1, Vec::new()),
            rng,
        }
    }

    pub(super) fn follow(&mut self, follower: impl Follower) {
        self.follower = Some(Box::new(follower));
        self.issued = Issued::new(self.layout, None).followed();
    }

    pub(super) fn is_awake(&self, host: usize) -> bool {
        self.now >= self.machines[host].host.paused_until
    }

    pub(super) fn is_alive(&self, process: Process) -> bool {
        let machine = &self.machines[process.host];
        machine.number == process.number && !matches!(machine.state, State::Idle)
    }

    pub(super) fn can_reach(&self, process: Process) -> bool {
        self.is_alive(process) && self.is_awake(process.host) && !self.is_cut_off(process.host)
    }

    pub(super) fn is_cut_off(&self, host: usize) -> bool {
        let until = self.machines[host].cut_until.max(self.servers_down_until);
        self.now < until && !self.is_orderly
    }

    pub(super) fn goes_wrong(&mut self) -> bool {
        !self.is_orderly && self.rng.u8(0..100) < self.loss
    }

    pub(super) fn delay(&mut self) -> u64 {
        let most = if self.goes_wrong() { self.session / 2 } else { 20_000_000 };
        self.rng.u64(1..most)
    }

    pub(super) fn time(&self) -> Timestamp {
        self.beginning.saturating_add(Duration::from_nanos(self.now))
    }

    pub(super) fn time_of(&self, host: usize) -> ManualMonotonic {
        self.machines[host].host.time.clone()
    }

    pub(super) fn connect(&mut self, process: Process) -> (i64, u64) {
        (self.servers.connect(process, self.session, self.now), self.session)
    }

    pub(super) fn hear(&mut self, process: Process) {
        self.servers.hear(process, self.now);
        self.note(Step::Reached { process: process.number });
    }

    pub(super) fn make_folder(&mut self, path: &str) {
        let now = self.time();
        self.servers.make_folder(path, now);
    }

    pub(super) fn write(
        &mut self,
        process: Process,
        session: i64,
        writes: &[Write],
        is_late: bool,
    ) -> Result<Vec<i32>, Failure> {
        let now = self.time();
        let written = self.servers.write(session, writes, now);
        if let Some(request) = Transaction::new(writes) {
            let (process, is_done) = (process.number, written.is_ok());
            self.note(Step::Executed { process, session, request, is_done, is_late });
        }
        written
    }

    pub(super) fn write_later(&mut self, process: Process, session: i64, writes: Vec<Write>) {
        let at = self.now + self.rng.u64(1..self.session);
        self.late.push((at, process, session, writes));
    }

    pub(super) fn file(&mut self, process: Process) -> Option<&mut Option<Cached>> {
        let role = self.roles[&process.number];
        let is_alive = self.is_alive(process);
        is_alive.then(|| self.machines[process.host].files.entry(role).or_default())
    }

    /// Returns up to when the process's instance may have issued, by the registry.
    pub(super) fn reserved(&self, process: Process) -> Option<Timestamp> {
        let node = self.node("reserved", self.roles[&process.number]);
        let (data, _) = self.servers.read(&node)?;
        Some(Reserved::from_json(&data).expect("JSON").until)
    }

    pub(super) fn node(&self, folder: &str, role: u8) -> String {
        let end = if self.grant == Grant::Registry { "@bounded" } else { "" };
        format!("/snowflake/model/{folder}/i{role}{end}")
    }

    pub(super) fn start(&mut self, host: usize, role: u8) {
        self.processes += 1;
        let process = Process { host, number: self.processes };
        self.roles.insert(process.number, role);
        self.machines[host].number = process.number;
        self.machines[host].state = State::Starting;
        self.starts.push((process, role));
        let name = self.machines[host].name;
        self.note(Step::Started { process: process.number, host: name, instance: role });
    }

    pub(super) fn next_start(&mut self) -> Option<Start> {
        let (process, role) = loop {
            let next = self.starts.pop()?;
            if self.is_alive(next.0) {
                break next;
            }
        };
        let servers = ZooKeeperServers::new("model").expect("servers");
        let instance = Instance::new(&format!("i{role}")).expect("a name");
        let host = &self.machines[process.host].host;
        let (wall, time) = (host.wall.clone(), host.time.clone());
        let mut options = LeafZooKeeper::new(servers, "model", instance)
            .expect("a name")
            .address("host", 1)
            .clock(wall.clone());
        match (self.grant, self.max_outage) {
            (Grant::LocalFile, _) => options = options.risk_repeats_in_outages(),
            (Grant::Registry, Some(limit)) => options = options.max_outage(limit),
            (Grant::Registry, None) => {}
        }
        Some(Start { process, options, layout: self.layout, wall, time })
    }

    pub(super) fn set(&mut self, process: Process, state: State) -> State {
        mem::replace(&mut self.machines[process.host].state, state)
    }

    pub(super) fn owner(&mut self, process: Process) -> Option<&mut Owner> {
        match &mut self.machines[process.host].state {
            State::Running(owner) if owner.process == process => Some(owner),
            _ => None,
        }
    }

    pub(super) fn kill(&mut self, host: usize) {
        let state = mem::replace(&mut self.machines[host].state, State::Idle);
        if !matches!(state, State::Idle) {
            self.note(Step::Ended { process: self.machines[host].number });
        }
        self.dead.push(state);
    }

    pub(super) fn kill_all(&mut self) {
        self.starts.clear();
        for host in 0..self.machines.len() {
            self.kill(host);
        }
    }
}

impl Machine {
    pub(super) fn new(host: Host, name: u8) -> Self {
        let files = BTreeMap::new();
        Self { host, cut_until: 0, files, name, number: 0, state: State::Idle }
    }
}
