//! Looks up each step of an instance's processes in the model.

use std::collections::{HashMap, HashSet};
use std::mem;

use super::validator::Kinds;
use uidring::Timestamp;
use uidring_models::reservation::{
    Action, Answer as Said, Lease, Place, Process, Reservation, Session, State,
};
use uidring_models::{Clocks, Full, Ranges, Uids};
use uidring_simulation::Answer;
use uidring_simulation::registry::{InstanceSeen, Setting, Snapshot, Step};

/// The model, in the state that the history has reached.
pub struct Instance {
    pub(super) setting: Setting,
    pub(super) model: Reservation<Full>,
    pub state: State<Full>,
    /// The kinds of actions so far.
    pub kinds: Kinds,
    /// The state before this step, and the actions in it.
    before: State<Full>,
    actions: Vec<Action<Full>>,
    step: Option<Step>,
    /// The model's names of processes and sessions.
    pub(super) names: HashMap<u64, u64>,
    pub(super) sessions: HashMap<i64, u64>,
    /// What was read of the reservation to find the versions, and not used yet.
    pub(super) reloads: HashMap<u64, (i32, Option<u64>)>,
    /// By name: the ticks of which a uid was taken or claimed.
    pub(super) taken: HashMap<u64, Ranges>,
    /// By name: how many runs the ring has published.
    pub(super) runs: HashMap<u64, u64>,
    pub(super) closed: HashSet<u64>,
}

/// Returns a version in the model, where 0 means that there is no node.
pub(super) fn version(version: Option<i32>) -> u64 {
    version.map_or(0, |version| version as u64 + 1)
}

impl Instance {
    pub fn new(setting: &Setting) -> Self {
        let model = Reservation {
            hosts: 16,
            starts: u64::MAX,
            sessions: u64::MAX,
            ticks: setting.layout.max_tick() + 1,
            session: setting.session.as_nanos() as u64,
            outage: setting.max_outage.as_nanos() as u64,
            in_detail: true,
            clocks: if setting.is_calm { Clocks::Calm } else { Clocks::Anything },
            mutation: None,
        };
        let state = model.start(false);
        Self {
            setting: setting.clone(),
            before: state.clone(),
            state,
            model,
            kinds: HashSet::new(),
            actions: Vec::new(),
            step: None,
            names: HashMap::new(),
            sessions: HashMap::new(),
            reloads: HashMap::new(),
            taken: HashMap::new(),
            runs: HashMap::new(),
            closed: HashSet::new(),
        }
    }

    pub fn begin(&mut self, step: &Step) {
        self.step = Some(step.clone());
        self.before.clone_from(&self.state);
        self.actions.clear();
    }

    /// Performs an action of the model, or ends the history.
    pub fn act(&mut self, action: Action<Full>) {
        self.kinds.insert(mem::discriminant(&action));
        self.actions.push(action.clone());
        let mut after = self.state.clone();
        if self.model.act(&mut after, action.clone()).is_none() {
            self.fail(&format!("{action:?} is not possible"));
        }
        self.state = after;
        if let Some(property) = self.model.broken(&self.state) {
            self.fail(&format!("{property} does not hold"));
        }
    }

    pub(super) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(&what());
        }
    }

    pub(super) fn fail(&self, what: &str) -> ! {
        let Self { before, actions, state, .. } = self;
        let step = self.step.as_ref().expect("it has begun");
        let possible = self.possible();
        panic!(
            "{what}, in the model.\nThe code's step: {step:?}\nThe model's state before: {before:#?}\nIts actions in \
             this step: {actions:#?}\nIts state then: {state:#?}\nWhat it could do then: {possible:#?}"
        )
    }

    /// Returns what the model could do now, except actions that need a number.
    fn possible(&self) -> Vec<Action<Full>> {
        let mut all: Vec<_> =
            self.state.network.iter().map(|&sent| Action::Perform(sent)).collect();
        for &Process { start: process, .. } in &self.state.processes {
            all.extend(Action::without_numbers(process));
            all.extend(Action::in_detail(process));
        }
        for &Session { number: session, .. } in &self.state.registry.sessions {
            all.push(Action::Expire { session });
        }
        all.retain(|action| self.model.act(&mut self.state.clone(), action.clone()).is_some());
        all
    }

    /// Returns the process's name in the model, if it is alive.
    pub(super) fn alive(&self, process: u64) -> Option<u64> {
        let name = self.names.get(&process).copied()?;
        self.state.processes.iter().any(|other| other.start == name).then_some(name)
    }

    pub(super) fn process(&self, name: u64) -> &Process<Full> {
        let found = self.state.processes.iter().find(|process| process.start == name);
        found.unwrap_or_else(|| self.fail(&format!("{name} does not live")))
    }

    pub(super) fn place(&self, name: u64) -> Place<Full> {
        self.process(name).place.clone()
    }

    pub(super) fn lease(&self, name: u64) -> &Lease<Full> {
        let found = self.process(name).lease.as_ref();
        found.unwrap_or_else(|| self.fail(&format!("{name} has no lease")))
    }

    /// Returns the tick of a reservation; `None` for that of a new instance.
    pub(super) fn tick(&self, until: Timestamp) -> Option<u64> {
        let tick = self.setting.layout.tick_at(until).ok()?;
        let next = self.setting.layout.time_of(tick + 1).as_millis();
        self.check(until.as_millis() + 1 == next, || format!("{until} ends no tick"));
        Some(tick)
    }

    pub(super) fn is_open(&self, session: u64) -> bool {
        self.state.registry.sessions.iter().any(|other| other.number == session)
    }

    pub fn follow(&mut self, step: &Step, after: &Snapshot) {
        if let Step::Passed { nanos, ref by_processes } = *step {
            return self.passed(nanos, by_processes);
        }
        if let Step::SessionEnded { session, is_goodbye } = *step {
            return self.session_ended(session, is_goodbye);
        }
        if let Step::Executed { process, session, request, is_done, is_late } = *step {
            return self.executed(process, session, request, is_done, is_late);
        }
        if let Step::Started { process, host, .. } = *step {
            self.act(Action::Start { host });
            self.names.insert(process, self.state.starts);
            return;
        }
        let Some(process) = step.process() else { return };
        let Some(name) = self.alive(process) else {
            let has_ended = matches!(step, Step::Ended { .. } | Step::Reached { .. });
            return self.check(has_ended, || format!("process {process} does not live"));
        };
        match *step {
            Step::Ended { .. } => self.act(Action::Crash { process: name }),
            Step::Reached { .. } => {
                let session = self.process(name).session.filter(|session| self.is_open(*session));
                if let (Clocks::Calm, Some(session)) = (self.model.clocks, session) {
                    self.act(Action::Ping { session });
                }
            }
            Step::Connected { session, ago, .. } => self.connected(name, session, ago, after),
            Step::Read { node, .. } => self.read(name, node),
            Step::ReadHeard { node, version, holder, .. } => {
                self.read_heard(name, node, version, holder);
            }
            Step::Sent { request, .. } => self.sent(name, request),
            Step::Answered { .. } => {
                let call = self.process(name).call.as_ref();
                // That the session is over is an error like any other. The process learns it later.
                if call.and_then(|call| call.answer) != Some(Said::Over) {
                    self.act(Action::Hear { process: name });
                }
            }
            Step::RenewalAsked { horizon, .. } => {
                self.act(Action::Renew { process: name, horizon });
            }
            Step::RenewalAnswered { answer, .. } => self.renewal_answered(name, answer),
            Step::Took { ref takes, .. } => self.took_all(name, takes),
            Step::Closed { last, .. } => self.close(name, last),
            _ => {}
        }
    }

    fn passed(&mut self, time: u64, by_processes: &[(u64, u64)]) {
        if self.model.clocks == Clocks::Anything {
            return;
        }
        let counted = |process: &Process<Full>| {
            let found = by_processes
                .iter()
                .find(|(other, _)| self.names.get(other) == Some(&process.start));
            found.map_or(time, |(_, counted)| *counted)
        };
        let counted = self.state.processes.iter().map(counted).collect();
        self.act(Action::Pass { time, counted });
    }

    fn session_ended(&mut self, session: i64, is_goodbye: bool) {
        let session = self.sessions[&session];
        let of_it = |process: &&Process<Full>| process.session == Some(session);
        match self.state.processes.iter().find(of_it) {
            Some(process) if is_goodbye => self.act(Action::Leave { process: process.start }),
            _ => self.act(Action::Expire { session }),
        }
    }

    fn renewal_answered(&mut self, name: u64, answer: Answer) {
        let process = self.process(name);
        let is_waiting = process.call.is_some() || process.asked.is_some();
        let has_begun = process.lease.as_ref().is_some_and(|lease| lease.horizon.is_some());
        match answer {
            Answer::Renewed => self.check(!is_waiting, || "the model still waits".into()),
            // A failed start ends next.
            _ if !has_begun => {}
            Answer::Failed if is_waiting => self.act(Action::Fail { process: name }),
            Answer::Failed => self.fail("nothing could fail"),
            Answer::Lost => self.act(Action::FindHolder { process: name }),
        }
    }

    /// Compares what the code shows with the model.
    pub fn compare(&mut self, step: &Step, seen: &InstanceSeen, after: &Snapshot) {
        self.compare_nodes(seen);
        self.compare_sessions(after);
        // The process has yet to write the file and count the renewal.
        let is_in_between = matches!(step, Step::Answered { .. });
        for &(host, holder) in seen.files.iter().filter(|_| !is_in_between) {
            let expected = self.state.files[usize::from(host)];
            let holder = holder.map(|holder| self.names[&holder]);
            self.check(expected == holder, || format!("the file of host {host} names {holder:?}"));
        }
        for (process, lease) in after.owners.iter().filter(|_| !is_in_between) {
            if let Some(name) = self.alive(*process) {
                self.compare_lease(name, lease);
            }
        }
        if let Step::Closed { process, .. } = step {
            self.closed.extend(self.alive(*process));
        }
    }

    fn compare_nodes(&self, seen: &InstanceSeen) {
        let registry = &self.state.registry;
        let mut numbers = Ranges::default();
        seen.numbers.iter().for_each(|&number| numbers.add(number, number + 1));
        let endpoint = version(seen.endpoint);
        let is_same = registry.numbers == numbers && registry.endpoint == endpoint;
        self.check(is_same, || format!("the nodes with numbers are not {seen:?}"));
        let reserved = registry.reserved;
        let expected = seen.reserved.map_or((0, None, None), |seen| {
            let holder = seen.holder.and_then(|holder| self.names.get(&holder)).copied();
            (version(Some(seen.version)), self.tick(seen.until), holder)
        });
        let holder = Some(reserved.holder).filter(|&holder| holder > 0);
        let is_same = (reserved.version, reserved.until, holder) == expected;
        self.check(is_same, || format!("the reservation is not {expected:?}"));
        let name = seen.name.map(|session| self.sessions.get(&session).copied());
        self.check(registry.name.map(Some) == name, || format!("the name is not of {name:?}"));
    }

    fn compare_sessions(&self, after: &Snapshot) {
        let known = after.sessions.iter().filter_map(|seen| {
            let number = self.sessions.get(&seen.session)?;
            Some((*number, seen.left))
        });
        let mut known: Vec<_> = known.collect();
        known.sort_unstable();
        let is_calm = self.model.clocks == Clocks::Calm;
        let same = |(session, (number, left)): (&Session<Full>, &(u64, u64))| {
            session.number == *number && (!is_calm || session.left() == *left)
        };
        let sessions = &self.state.registry.sessions;
        let is_same = sessions.len() == known.len() && sessions.iter().zip(&known).all(same);
        self.check(is_same, || format!("the sessions are not {known:?}"));
    }
}
