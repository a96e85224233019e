//! The reservation of an instance in a ZooKeeper registry: docs/inside-stores.md.
//!
//! The processes of an instance are named by the number of their start; a real one has its `holder`. Each runs on a
//! host, whose local file names the last process there that had the instance's name. The instance's number, and so its
//! worker id, exists already. A uid is a tick: [`leases`](crate::leases) models what happens within ticks.

mod action;
mod details;
mod lease;
mod mutation;
mod process;
mod registry;
mod state;

use stateright::{Model, Property};

pub use self::action::Action;
pub use self::mutation::Mutation;
pub use self::state::{
    Answer, Asked, Call, Lease, Place, Process, Registry, Request, Reservation, Reserved, Session,
    State,
};
use crate::{Clocks, Network, Scale, Uids};

impl Model for Reservation {
    type State = State;
    type Action = Action;

    /// Either nobody has had the name, or a process on the first host had it and died, from where fewer starts lead to
    /// an inherited name. In detail, the instance may also have no number yet.
    fn init_states(&self) -> Vec<State> {
        let new = self.start(true);
        let mut after_a_crash = new.clone();
        after_a_crash.files[0] = Some(new.registry.reserved.holder);
        let mut all = vec![new, after_a_crash];
        if self.in_detail {
            all.push(self.start(false));
        }
        all
    }

    /// Lists all candidates. An impossible one has no next state.
    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.starts < self.starts {
            actions.extend((0..self.hosts).map(|host| Action::Start { host }));
        }
        for &request in state.network.iter() {
            actions.push(Action::Perform(request));
            if state.processes.iter().any(|process| process.could_hear(&request)) {
                actions.push(Action::PerformUnheard(request));
            }
        }
        for &Process { start: process, ref lease, .. } in &state.processes {
            if state.registry.connects < self.sessions {
                actions.push(Action::Connect { process, ago: 0 });
            }
            actions.extend((0..self.ticks).map(|horizon| Action::Renew { process, horizon }));
            actions.extend(Action::without_numbers(process));
            if let Some(lease) = lease {
                actions.push(Action::ClockRuns { process, tick: lease.next + 1 });
            }
            if self.in_detail {
                actions.extend((0..self.ticks).map(|tick| Action::Skip { process, tick }));
                actions.extend(Action::in_detail(process));
            }
        }
        if self.in_detail {
            actions.extend(state.network.iter().map(|&request| Action::PerformLate(request)));
            if state.registry.made == 0 {
                actions.push(Action::OthersNumber);
            }
        }
        for &Session { number: session, .. } in &state.registry.sessions {
            actions.push(Action::Expire { session });
            if self.clocks == Clocks::Calm {
                actions.push(Action::Ping { session });
            }
        }
        if self.clocks == Clocks::Calm {
            let counts = (0..1 << state.processes.len()).filter_map(|slow| counts(state, slow));
            actions.extend(counts.map(|counted| Action::Pass { time: 1, counted }));
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.act(&mut state, action)?;
        state.rename_versions();
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("Once", |_, state: &State| !state.repeated),
            Property::always("Covered", |_, state: &State| !state.uncovered),
            Property::always("Above", |_, state: &State| !state.not_above),
            Property::always("Owner", |model, state: &State| {
                model.clocks == Clocks::Anything || state.live_ones_are_alone()
            }),
            Property::always("Progress", Self::can_recover),
            Property::sometimes("a name is inherited", |_, state: &State| {
                state.network.iter().any(|request| matches!(request, Request::Inherit { .. }))
            }),
            Property::sometimes("one with a lease has lost its session", |_, state: &State| {
                let is_so = |process: &Process| {
                    process.place == Place::Offline
                        && process.lease.as_ref().is_some_and(Lease::is_live)
                };
                state.processes.iter().any(is_so)
            }),
            Property::sometimes("a late write is on its way", |_, state: &State| {
                let is_late = |request: &Request| {
                    matches!(request, Request::Mark { .. })
                        && !state.processes.iter().any(|process| process.waits_for(request))
                };
                state.network.iter().any(is_late)
            }),
        ]
    }
}

impl<S: Scale> Reservation<S> {
    /// Returns the state before anyone has had the name, with or without a number for it.
    pub fn start(&self, has_number: bool) -> State<S> {
        State {
            registry: Registry::new(has_number),
            files: vec![None; usize::from(self.hosts)],
            processes: Vec::new(),
            network: Network::default(),
            starts: 0.into(),
            issued: S::Uids::default(),
            repeated: false,
            uncovered: false,
            not_above: false,
        }
    }

    /// Returns the first property that does not hold.
    pub fn broken(&self, state: &State<S>) -> Option<&'static str> {
        let is_calm = self.clocks == Clocks::Calm;
        let broken = [
            (state.repeated, "Once"),
            (state.uncovered, "Covered"),
            (state.not_above, "Above"),
            (is_calm && !state.live_ones_are_alone(), "Owner"),
        ];
        broken.into_iter().find(|(is_broken, _)| *is_broken).map(|(_, property)| property)
    }

    /// Performs an action. Returns `None` if it is impossible, which leaves the state unusable.
    pub fn act(&self, state: &mut State<S>, action: Action<S>) -> Option<()> {
        self.step(state, action)?;
        state.forget_void(self);
        Some(())
    }

    fn step(&self, state: &mut State<S>, action: Action<S>) -> Option<()> {
        match action {
            Action::Start { host } => state.start(host),
            Action::Connect { process, ago } => state.connect(self, process, ago),
            Action::Read { process } => state.read(self, process),
            Action::Write { process } => state.write(self, process),
            Action::Renew { process, horizon } => state.renew(self, process, horizon),
            Action::Perform(request) => state.perform(self, &request, true),
            Action::PerformUnheard(request) => state.perform(self, &request, false),
            Action::PerformLate(request) => state.perform_late(self, &request, false),
            Action::Hear { process } => state.hear(self, process),
            Action::Fail { process } => state.fail(self, process),
            Action::ClockRuns { process, tick } => state.lease(process)?.clock_runs(self, tick),
            Action::Pad { process } => state.lease(process)?.pad(self),
            Action::Take { process } => state.take(process),
            Action::Notice { process } => state.lease(process)?.notice(self),
            Action::Close { process } => state.close(self, process),
            Action::Crash { process } => {
                state.processes.retain(|other| other.start != process);
                Some(())
            }
            Action::Ping { session } => state.ping(self, session),
            Action::Expire { session } => state.registry.expire(self, session),
            Action::Pass { time, counted } => state.pass(self, time, &counted),
            Action::BeginAgain { process } => state.begin_again(process),
            Action::FindOver { process } => state.find_over(process),
            Action::FindHolder { process } => state.find_holder(self, process),
            Action::Reload { process, endpoint, reserved } => {
                state.reload(process, endpoint, reserved)
            }
            Action::Skip { process, tick } => state.lease(process)?.skip(tick),
            Action::Release { process } => state.release(process),
            Action::Leave { process } => state.leave_with_session(process),
            Action::OthersNumber => {
                state.registry.others_number();
                Some(())
            }
        }
    }
}

/// What the processes' clocks count of one unit of time if those in `slow` are slow; `None` if one of these measures
/// nothing.
fn counts(state: &State, slow: u8) -> Option<Vec<u8>> {
    let counted = |(index, process): (usize, &Process)| {
        let is_slow = slow & 1 << index != 0;
        (!is_slow || process.measures()).then_some(u8::from(!is_slow))
    };
    state.processes.iter().enumerate().map(counted).collect()
}

impl Reservation {
    /// Progress: if all processes crash now and all messages are lost, then, once their sessions have ended, a start on
    /// any host is admitted and issues a uid.
    fn can_recover(&self, state: &State) -> bool {
        let until = state.registry.reserved.until;
        if until.is_some_and(|tick| tick + 1 >= self.ticks) {
            return true;
        }
        let mut after =
            State { processes: Vec::new(), network: Network::default(), ..state.clone() };
        after.registry.pass(self.session);
        for session in state.registry.sessions.iter().map(|session| session.number) {
            let _ = after.registry.expire(self, session);
        }
        (0..self.hosts).all(|host| self.can_start(after.clone(), host).is_some())
    }

    /// A start without trouble, up to its first uid.
    fn can_start(&self, mut state: State, host: u8) -> Option<()> {
        self.step(&mut state, Action::Start { host })?;
        let process = state.starts;
        let answered = |state: &mut State| {
            self.step(state, Action::Write { process })?;
            let request = state.process(process)?.call.as_ref()?.request;
            self.step(state, Action::Perform(request))?;
            self.step(state, Action::Hear { process })
        };
        self.step(&mut state, Action::Connect { process, ago: 0 })?;
        answered(&mut state)?;
        while state.registry.numbers.first().unwrap_or_default() == 0 {
            self.step(&mut state, Action::Read { process })?;
            self.step(&mut state, Action::Read { process })?;
            answered(&mut state)?;
        }
        self.step(&mut state, Action::Read { process })?;
        self.step(&mut state, Action::Read { process })?;
        answered(&mut state)?;
        let horizon = state.lease(process)?.next;
        self.step(&mut state, Action::Renew { process, horizon })?;
        answered(&mut state)?;
        self.step(&mut state, Action::Pad { process })?;
        self.step(&mut state, Action::Take { process })
    }
}

impl<S: Scale> State<S> {
    /// While a process counts its lease as live, nobody else has the name.
    fn live_ones_are_alone(&self) -> bool {
        let holder = self.registry.holder_of_name();
        self.processes.iter().all(|process| match &process.lease {
            Some(lease) if lease.is_live() => holder.is_none_or(|holder| holder == process.start),
            _ => true,
        })
    }

    /// Forgets transactions that are always refused: those of ended sessions, or with old versions.
    fn forget_void(&mut self, model: &Reservation<S>) {
        let Self { registry, processes, network, .. } = self;
        network.forget(|request| {
            registry.is_void(model, request)
                && !processes.iter().any(|process| process.waits_for(request))
        });
    }
}

impl State {
    /// Calls [`Registry::rename_versions`] with all known versions.
    fn rename_versions(&mut self) {
        let Self { registry, processes, network, .. } = self;
        let mut requests = network.take();
        let sent = requests.iter_mut().map(Request::versions);
        registry.rename_versions(sent.chain(processes.iter_mut().flat_map(Process::versions)));
        requests.into_iter().for_each(|request| network.send(request));
    }
}
