//! Looks up each step of the code in the model.

use std::collections::HashMap;

use uidring::Uid;
use uidring_models::leases::{Action, Answer as Said, Lease, Leases, Owner, Request, State};
use uidring_models::{Clocks, Full, Uids};
use uidring_simulation::{Answer, Follower, Setting, Snapshot, Step, Take};

const NANOS: u64 = 1_000_000;

/// The model, in the state that the history has reached.
pub struct Validator {
    setting: Setting,
    pub(super) model: Leases<Full>,
    pub(super) state: State<Full>,
    /// The state before this step, and the actions in it.
    before: State<Full>,
    actions: Vec<Action<Full>>,
    /// By session: the owner that waits for a lease or has one.
    names: HashMap<u64, u8>,
    /// By worker id and token: the lease's owner.
    leases: HashMap<(u64, u64), u8>,
    /// By name: the session.
    sessions: HashMap<u8, u64>,
    /// By name: how many runs the ring has published.
    pub(super) runs: HashMap<u8, u64>,
    step: String,
}

impl Validator {
    pub fn new(setting: &Setting) -> Self {
        let layout = setting.layout;
        let worker_ids = setting.worker_ids.end() - setting.worker_ids.start() + 1;
        let model = Leases {
            owners: usize::MAX,
            starts: u8::MAX,
            worker_ids: worker_ids as u8,
            ticks: layout.max_tick() + 1,
            uids_per_tick: layout.uids_per_tick(),
            claims: u64::MAX,
            operations: u8::MAX,
            lasts: setting.lasts.as_nanos() as u64,
            margin: setting.margin.as_nanos() as u64,
            clocks: if setting.is_calm { Clocks::Calm } else { Clocks::Anything },
            mutation: None,
        };
        let state = model.start();
        Self {
            setting: setting.clone(),
            before: state.clone(),
            state,
            model,
            actions: Vec::new(),
            names: HashMap::new(),
            leases: HashMap::new(),
            sessions: HashMap::new(),
            runs: HashMap::new(),
            step: String::new(),
        }
    }

    /// Performs an action of the model, or ends the history.
    pub(super) fn act(&mut self, action: Action<Full>) {
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

    fn fail(&self, what: &str) -> ! {
        let Self { step, before, actions, state, .. } = self;
        let possible = self.possible();
        panic!(
            "{what}, in the model.\nThe code's step: {step}\nThe model's state before: {before:#?}\nIts actions in \
             this step: {actions:#?}\nIts state then: {state:#?}\nWhat it could do then: {possible:#?}"
        )
    }

    /// Returns what the model could do now, except actions that need a number.
    fn possible(&self) -> Vec<Action<Full>> {
        let mut all: Vec<_> = self.state.network.iter().cloned().map(Action::Perform).collect();
        for &Owner { session: owner, .. } in &self.state.owners {
            all.extend(Action::without_numbers(owner));
        }
        for worker in 0..self.model.worker_ids {
            all.extend([
                Action::Start { worker },
                Action::Fence { worker },
                Action::Free { worker },
            ]);
        }
        all.retain(|action| self.model.act(&mut self.state.clone(), action.clone()).is_some());
        all
    }

    fn worker(&self, worker_id: u64) -> u8 {
        (worker_id - self.setting.worker_ids.start()) as u8
    }

    /// Returns the model's uid: tick and sequence number in one.
    pub(super) fn position(&self, uid: Uid) -> u64 {
        let found = self.setting.layout.decode(uid).expect("of the layout");
        found.tick * self.model.uids_per_tick + found.sequence
    }

    /// Returns the end of a run.
    pub(super) fn end_position(&self, number: u64) -> u64 {
        self.position(Uid::new(number - 1).expect("of the layout")) + 1
    }

    /// Returns the session's owner in the model, if it is alive.
    pub(super) fn owner(&self, session: u64) -> Option<&Owner<Full>> {
        let name = self.names.get(&session)?;
        self.state.owners.iter().find(|owner| owner.session == *name)
    }

    pub(super) fn name(&self, session: u64) -> u8 {
        match self.owner(session) {
            Some(owner) => owner.session,
            None => self.fail(&format!("session {session} does not live")),
        }
    }

    pub(super) fn lease(&self, owner: u8) -> &Lease<Full> {
        let found = self.state.owners.iter().find(|other| other.session == owner);
        match found.and_then(Owner::lease) {
            Some(lease) => lease,
            None => self.fail(&format!("{owner} has no lease")),
        }
    }

    /// The store reads the rows and takes one at once. The session gets a name; if it no longer waits, that owner
    /// crashes.
    fn acquired(&mut self, session: u64, lease: Option<(u64, u64)>) {
        let Some((worker_id, token)) = lease else {
            let has_free = self.state.rows.iter().any(|row| row.is_free(&self.model));
            let is_wild = self.model.clocks == Clocks::Anything;
            return self.check(is_wild || !has_free, || "a row is free".into());
        };
        let worker = self.worker(worker_id);
        self.act(Action::Start { worker });
        let name = self.state.starts;
        let request = self.state.owners.last().and_then(|owner| owner.call.clone());
        self.act(Action::Perform(request.expect("it asks").request));
        self.leases.insert((worker_id, token), name);
        self.sessions.insert(name, session);
        if *self.names.entry(session).or_insert(name) != name {
            self.act(Action::Crash { owner: name });
        }
    }

    fn acquire_answered(&mut self, session: u64, lease: Option<(u64, u64)>) {
        match lease {
            Some(_) => self.act(Action::Hear { owner: self.name(session) }),
            None => {
                if self.owner(session).is_some() {
                    self.act(Action::Crash { owner: self.name(session) });
                }
                // What is performed for it later belongs to nobody.
                self.names.insert(session, 0);
            }
        }
    }

    fn renewed(&mut self, lease: (u64, u64), horizon: u64, is_held: bool, is_answered: bool) {
        let (owner, worker) = (self.leases[&lease], self.worker(lease.0));
        let row = self.state.rows[usize::from(worker)];
        let token = lease.1 as u8;
        let holds = row.owner == owner && row.token == token;
        self.check(holds == is_held, || format!("{lease:?} is held: {holds}"));
        let request = Request::Renew { owner, worker, token, horizon };
        if self.state.network.has(&request) {
            self.act(match is_answered {
                true => Action::Perform(request),
                false => Action::PerformUnheard(request),
            });
        } else {
            // The model forgets a renewal that changes nothing.
            let last = self.model.last_of(horizon);
            self.check(!holds || row.horizon >= Some(last), || format!("nobody sent {request:?}"));
        }
    }

    fn renewal_answered(&mut self, session: u64, answer: Answer) {
        // A killed start hears nothing, nor does a closed generator.
        let Some(owner) = self.owner(session) else { return };
        let name = owner.session;
        let said = owner.call.as_ref().map(|call| call.answer);
        let is_right = match answer {
            Answer::Renewed => said == Some(Some(Said::Renewed)),
            Answer::Lost => said == Some(Some(Said::Lost)),
            Answer::Failed => said.is_some(),
        };
        self.check(is_right, || format!("the answer is {said:?}"));
        self.act(match answer {
            Answer::Failed => Action::Fail { owner: name },
            _ => Action::Hear { owner: name },
        });
    }

    fn released(&mut self, lease: (u64, u64), last: Option<Uid>) {
        let (owner, worker, token) = (self.leases[&lease], self.worker(lease.0), lease.1 as u8);
        let last = last.map(|uid| self.position(uid));
        let of_it = |request: &&Request<Full>| matches!(request, Request::Release { owner: other, .. } if *other == owner);
        let Some(&request) = self.state.network.iter().find(of_it) else {
            let row = self.state.rows[usize::from(worker)];
            return self.check(row.token > token, || format!("{owner} sent no release"));
        };
        let Request::Release { last: said, .. } = request else { return };
        self.check(last.is_none() || said == last, || format!("it released with {said:?}"));
        self.act(Action::Perform(request));
    }

    fn passed(&mut self, by_store: i64, by_sessions: &[(u64, u64)]) {
        if self.model.clocks == Clocks::Anything {
            return;
        }
        let time = by_store as u64 * NANOS;
        let counted = |owner: &Owner<Full>| {
            let session = self.sessions[&owner.session];
            let found = by_sessions.iter().find(|(other, _)| *other == session);
            found.map_or(time, |(_, counted)| *counted)
        };
        let counted = self.state.owners.iter().map(counted).collect();
        self.act(Action::Pass { time, counted });
    }

    /// Compares what the code shows with the model.
    fn compare(&mut self, after: &Snapshot) {
        let is_calm = self.model.clocks == Clocks::Calm;
        for (row, seen) in self.state.rows.iter().zip(&after.rows) {
            let ends = seen.ends_in.map(|millis| millis.max(0) as u64 * NANOS);
            let is_same_end =
                if is_calm { row.ends == ends } else { row.ends.is_some() == ends.is_some() };
            let owner = self.sessions.get(&row.owner).copied().unwrap_or(0);
            let horizon = seen.horizon.map(|uid| self.position(uid));
            let is_same =
                (owner, u64::from(row.token), row.horizon) == (seen.owner, seen.token, horizon);
            self.check(is_same && is_same_end, || {
                format!("the row is not {seen:?}, to {horizon:?}")
            });
        }
        for (session, seen) in &after.owners {
            let Some(owner) = self.owner(*session).map(|owner| owner.session) else { continue };
            self.catch_up(owner, seen);
            self.look(owner, seen);
            if let Some(ring) = seen.ring.filter(|ring| ring.last.is_none()) {
                let next = ring.next.map_or(u64::MAX, |next| self.end_position(next + 1) - 1);
                self.skip_to(owner, next);
                let ready = &self.lease(owner).ready;
                let is_same =
                    ready.count() == ring.available && ready.first().unwrap_or(u64::MAX) == next;
                self.check(is_same, || {
                    format!("{owner} has not ready what the ring has: {ring:?}")
                });
            }
            let lease = self.lease(owner);
            let left = seen.time_left.map(|left| left.as_nanos() as u64);
            let is_same = (lease.horizon, lease.lost) == (Some(seen.horizon), seen.is_lost);
            let is_same_time = !is_calm || seen.is_lost || left == Some(lease.left);
            self.check(is_same && is_same_time, || format!("the lease of {owner} is not {seen:?}"));
        }
    }
}

impl Follower for Validator {
    fn step(&mut self, step: &Step, after: &Snapshot) {
        self.step = format!("{step:?}");
        self.before = self.state.clone();
        self.actions.clear();
        match *step {
            Step::Passed { by_store, ref by_sessions } => self.passed(by_store, by_sessions),
            Step::Acquired { session, lease } => self.acquired(session, lease),
            Step::AcquireAnswered { session, lease } => self.acquire_answered(session, lease),
            Step::RenewalAsked { session, horizon } => {
                // The start may have been killed while it asked.
                if let Some(owner) = self.owner(session).map(|owner| owner.session) {
                    self.act(Action::Renew { owner, horizon });
                }
            }
            Step::Renewed { lease, horizon, is_held, is_answered } => {
                self.renewed(lease, horizon, is_held, is_answered)
            }
            Step::RenewalAnswered { session, answer } => self.renewal_answered(session, answer),
            Step::Built { session, is_built: true } => {
                self.name(session);
            }
            Step::Built { session, .. } | Step::Crashed { session } => {
                if let Some(owner) = self.owner(session).map(|owner| owner.session) {
                    self.act(Action::Crash { owner });
                }
                self.names.insert(session, 0);
            }
            Step::Took { session, ref takes } => {
                // What entered the ring during a batch was ready for the rest of it.
                if let Some(name) = self.owner(session).map(|owner| owner.session)
                    && let [Take { after: None, .. }, .., Take { after: Some(after), .. }] =
                        &takes[..]
                {
                    self.catch_up(name, after);
                }
                for take in takes {
                    self.took(session, take);
                }
            }
            Step::Serviced { .. } => {}
            Step::Closed { session, last } => self.closed(session, last),
            Step::Released { lease, last } => self.released(lease, last),
            Step::Fenced { worker_id } => {
                self.act(Action::Fence { worker: self.worker(worker_id) })
            }
            Step::Freed { worker_id, is_free } => {
                let worker = self.worker(worker_id);
                let may_be_free = self.state.rows[usize::from(worker)].is_free(&self.model);
                let is_right = may_be_free == is_free || self.model.clocks == Clocks::Anything;
                self.check(is_right, || format!("free: {may_be_free}"));
                if is_free {
                    self.act(Action::Free { worker });
                }
            }
        }
        self.compare(after);
        if let Step::Serviced { session } = *step {
            self.serviced(session);
        }
    }
}
