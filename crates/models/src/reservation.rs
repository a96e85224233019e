//! The reservation of an instance in a ZooKeeper registry: docs/zookeeper.md.
//!
//! Processes of one instance are named by the number of their start, as a real one by its `holder`. Each runs
//! on a host, whose local file names the last process there that had the instance's name. Its number, and so
//! the worker id, exist. A uid is a tick: what happens within ticks is in [`leases`](crate::leases).

mod mutation;
mod process;
mod registry;
mod state;

use stateright::{Model, Property};

pub use self::mutation::Mutation;
pub use self::state::{
    Answer, Asked, Call, Lease, OUTAGE, Place, Process, Registry, Request, Reservation, Reserved,
    SESSION, Session, State, Tick,
};
use crate::{Clocks, Network};

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A process starts, and locks the host's file.
    Start {
        /// The host.
        host: u8,
    },
    /// It makes a session.
    Connect {
        /// Which.
        process: u8,
    },
    /// It reads a node: which is next depends on where it is.
    Read {
        /// Which.
        process: u8,
    },
    /// It sends a transaction: which is next depends on where it is.
    Write {
        /// Which.
        process: u8,
    },
    /// The thread of the lease asks for this horizon.
    Renew {
        /// Whose.
        process: u8,
        /// The last tick that it wants to issue.
        horizon: Tick,
    },
    /// The servers execute a transaction, perhaps late, and the process that waits for it is answered.
    Perform(Request),
    /// The servers execute a transaction, and that answer is lost; the process goes on waiting.
    PerformUnheard(Request),
    /// The answer to a transaction arrives.
    Hear {
        /// At which process.
        process: u8,
    },
    /// Nobody waits any more: for a transaction's answer, or for a renewal.
    Fail {
        /// Whose.
        process: u8,
    },
    /// The wall clock is found in a later tick than the generator.
    ClockRuns {
        /// Whose.
        process: u8,
    },
    /// The next tick is asked for and made ready.
    Pad {
        /// Whose.
        process: u8,
    },
    /// A caller gets the first tick that is ready.
    Take {
        /// Whose.
        process: u8,
    },
    /// Somebody looks at the deadline after it has passed.
    Notice {
        /// Whose.
        process: u8,
    },
    /// The generator is closed, and what it has not used given back, with the name.
    Close {
        /// Whose.
        process: u8,
    },
    /// The process ends without a word.
    Crash {
        /// Which.
        process: u8,
    },
    /// The servers hear from a session: there is a thread that does nothing else.
    Ping {
        /// Its number.
        session: u8,
    },
    /// The servers end a session, and its node goes.
    Expire {
        /// Its number.
        session: u8,
    },
    /// A unit of time passes. The clocks of these processes do not count it.
    Pass {
        /// Their places among those that live, a bit each.
        slow: u8,
    },
}

impl Model for Reservation {
    type State = State;
    type Action = Action;

    /// Either nobody has had the name, or one on the first host has, and has died: from there fewer starts
    /// come to where a name is inherited.
    fn init_states(&self) -> Vec<State> {
        let new = State {
            registry: Registry::default(),
            files: vec![None; usize::from(self.hosts)],
            processes: Vec::new(),
            network: Network::default(),
            starts: 0,
            issued: 0,
            repeated: false,
            uncovered: false,
            not_above: false,
        };
        let mut after_a_crash = new.clone();
        after_a_crash.files[0] = Some(new.registry.reserved.holder);
        vec![new, after_a_crash]
    }

    /// All that might be: what is not possible has no next state.
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
        for &Process { start: process, .. } in &state.processes {
            if state.registry.connects < self.sessions {
                actions.push(Action::Connect { process });
            }
            actions.extend((0..self.ticks).map(|horizon| Action::Renew { process, horizon }));
            actions.extend([
                Action::Read { process },
                Action::Write { process },
                Action::Hear { process },
                Action::Fail { process },
                Action::ClockRuns { process },
                Action::Pad { process },
                Action::Take { process },
                Action::Notice { process },
                Action::Close { process },
                Action::Crash { process },
            ]);
        }
        for &Session { number: session, .. } in &state.registry.sessions {
            actions.push(Action::Expire { session });
            if self.clocks == Clocks::Calm {
                actions.push(Action::Ping { session });
            }
        }
        if self.clocks == Clocks::Calm {
            actions.extend((0..1 << state.processes.len()).map(|slow| Action::Pass { slow }));
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.step(&mut state, action)?;
        state.forget_void(self);
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

impl Reservation {
    /// Performs an action, or returns `None` where it is not possible now.
    fn step(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Start { host } => state.start(host),
            Action::Connect { process } => state.connect(process),
            Action::Read { process } => state.read(self, process),
            Action::Write { process } => state.write(self, process),
            Action::Renew { process, horizon } => state.renew(self, process, horizon),
            Action::Perform(request) => state.perform(self, &request, true),
            Action::PerformUnheard(request) => state.perform(self, &request, false),
            Action::Hear { process } => state.hear(self, process),
            Action::Fail { process } => state.fail(self, process),
            Action::ClockRuns { process } => state.lease(process)?.clock_runs(self),
            Action::Pad { process } => state.lease(process)?.pad(self),
            Action::Take { process } => state.take(process),
            Action::Notice { process } => state.lease(process)?.notice(self),
            Action::Close { process } => state.close(self, process),
            Action::Crash { process } => {
                state.processes.retain(|other| other.start != process);
                Some(())
            }
            Action::Ping { session } => state.ping(session),
            Action::Expire { session } => state.registry.expire(self, session),
            Action::Pass { slow } => state.pass(slow),
        }
    }

    /// Progress: if all processes crash now, and nothing that was sent arrives any more, then, once their
    /// sessions have ended, a start on any host is let in and issues a uid.
    fn can_recover(&self, state: &State) -> bool {
        let until = state.registry.reserved.until;
        if until.is_some_and(|tick| tick + 1 >= self.ticks) {
            return true;
        }
        let mut after =
            State { processes: Vec::new(), network: Network::default(), ..state.clone() };
        for _ in 0..=SESSION {
            let _ = after.pass(0);
        }
        for session in state.registry.sessions.iter().map(|session| session.number) {
            let _ = after.registry.expire(self, session);
        }
        (0..self.hosts).all(|host| self.can_start(after.clone(), host).is_some())
    }

    /// A start without any trouble, up to its first uid.
    fn can_start(&self, mut state: State, host: u8) -> Option<()> {
        self.step(&mut state, Action::Start { host })?;
        let process = state.starts;
        let answered = |state: &mut State| {
            self.step(state, Action::Write { process })?;
            let request = state.process(process)?.call.as_ref()?.request;
            self.step(state, Action::Perform(request))?;
            self.step(state, Action::Hear { process })
        };
        self.step(&mut state, Action::Connect { process })?;
        answered(&mut state)?;
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

impl State {
    /// While a process counts its lease as live, nobody else has the name.
    fn live_ones_are_alone(&self) -> bool {
        let holder = self.registry.holder_of_name();
        self.processes.iter().all(|process| match &process.lease {
            Some(lease) if lease.is_live() => holder.is_none_or(|holder| holder == process.start),
            _ => true,
        })
    }

    /// [`Registry::rename_versions`] in all that knows some.
    fn rename_versions(&mut self) {
        let Self { registry, processes, network, .. } = self;
        let mut requests = network.take();
        let sent = requests.iter_mut().map(Request::versions);
        registry.rename_versions(sent.chain(processes.iter_mut().flat_map(Process::versions)));
        requests.into_iter().for_each(|request| network.send(request));
    }

    /// Forgets transactions of sessions that have ended, and those that name versions of the past: they are
    /// refused whenever they arrive.
    fn forget_void(&mut self, model: &Reservation) {
        let Self { registry, processes, network, .. } = self;
        network.forget(|request| {
            registry.is_void(model, request)
                && !processes.iter().any(|process| process.waits_for(request))
        });
    }
}
