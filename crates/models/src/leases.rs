//! Leases of worker ids: docs/leases.md.
//!
//! Owners are processes with one generator each, named by the number of their start (real ones:
//! `crates/store/src/leases/acquire.rs`). Between two steps of an owner, others may take any number of steps, so it may
//! pause anywhere, for any time. It may also crash anywhere; a restart is another start.

mod mutation;
mod owner;
mod state;
mod store;

use stateright::{Model, Property};

pub use self::mutation::{FILES, Mutation, SAME_PROTOCOL};
pub use self::state::{Answer, Broken, Call, Lease, Leases, Owner, Request, Row, Stage, State};
use crate::{Clocks, Network, Scale, Small, Uids};

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<S: Scale = Small> {
    /// A process starts, reads the rows, and asks for this free one.
    Start {
        /// The row.
        worker: u8,
    },
    /// A start whose request failed reads the rows again, and asks for this one.
    AskAgain {
        /// The owner.
        owner: u8,
        /// The row.
        worker: u8,
    },
    /// The lease's thread asks for this horizon.
    Renew {
        /// The owner.
        owner: u8,
        /// The last tick that it wants to issue.
        horizon: S::Number,
    },
    /// The store performs a request, perhaps again, and answers the owner that waits for it.
    Perform(Request<S>),
    /// The store performs a request, and the answer is lost. The owner still waits.
    PerformUnheard(Request<S>),
    /// The answer to a call arrives.
    Hear {
        /// The owner.
        owner: u8,
    },
    /// A call fails: nobody waits for its answer any more.
    Fail {
        /// The owner.
        owner: u8,
    },
    /// An owner's wall clock is in a later tick than the generator, which continues there. A clock set back changes
    /// nothing (`src/generator/ticks.rs`).
    ClockRuns {
        /// The owner.
        owner: u8,
        /// The tick.
        tick: S::Number,
    },
    /// The padder (`src/generator/ticks.rs`) or a take on the clock (`src/generator/clocked.rs`) asks for the next
    /// tick, and makes it ready.
    Pad {
        /// The owner.
        owner: u8,
    },
    /// A caller gets the first ready uid. A taker checks nothing between draw and return, so both are one step.
    Take {
        /// The owner.
        owner: u8,
    },
    /// The first ready uid is discarded: it is stale, its tick is over, or the tick starts at another
    /// (`SequenceStart`).
    Skip {
        /// The owner.
        owner: u8,
    },
    /// A local taker claims the first ready uid, for later (`src/generator/local.rs`).
    Lend {
        /// The owner.
        owner: u8,
    },
    /// A caller gets a uid that a local taker has claimed.
    TakeLocally {
        /// The owner.
        owner: u8,
    },
    /// A local taker gives up its first claimed uid, because it is stale.
    SkipLocally {
        /// The owner.
        owner: u8,
    },
    /// Someone checks the deadline after it has passed. The lease then counts as lost.
    Notice {
        /// The owner.
        owner: u8,
    },
    /// The padder finds the lease lost.
    Look {
        /// The owner.
        owner: u8,
    },
    /// The generator is closed, and its worker id released.
    Close {
        /// The owner.
        owner: u8,
    },
    /// The process ends without telling anyone.
    Crash {
        /// The owner.
        owner: u8,
    },
    /// An operator ends a lease: `uidring worker fence`.
    Fence {
        /// The row.
        worker: u8,
    },
    /// An operator frees a row that nobody holds any more: `uidring worker release`.
    Free {
        /// The row.
        worker: u8,
    },
    /// Time passes.
    Pass {
        /// By the store's clock; one unit in a search.
        time: S::Number,
        /// What each live owner's clock counts of it.
        counted: Vec<S::Number>,
    },
}

impl<S: Scale> Action<S> {
    /// Returns an owner's actions that need no number.
    pub fn without_numbers(owner: u8) -> [Self; 12] {
        [
            Self::Hear { owner },
            Self::Fail { owner },
            Self::Pad { owner },
            Self::Take { owner },
            Self::Skip { owner },
            Self::Lend { owner },
            Self::TakeLocally { owner },
            Self::SkipLocally { owner },
            Self::Notice { owner },
            Self::Look { owner },
            Self::Close { owner },
            Self::Crash { owner },
        ]
    }
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    /// Lists all candidates. An impossible one has no next state.
    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for worker in 0..self.worker_ids {
            if state.starts < self.starts && state.owners.len() < self.owners {
                actions.push(Action::Start { worker });
            }
            if state.operations < self.operations {
                actions.extend([Action::Fence { worker }, Action::Free { worker }]);
            }
        }
        for &request in state.network.iter() {
            actions.push(Action::Perform(request));
            if state.owners.iter().any(|owner| owner.could_hear(&request)) {
                actions.push(Action::PerformUnheard(request));
            }
        }
        for &Owner { session: owner, .. } in &state.owners {
            actions.extend((0..self.worker_ids).map(|worker| Action::AskAgain { owner, worker }));
            actions.extend((0..self.ticks).map(|horizon| Action::Renew { owner, horizon }));
            actions.extend((0..self.ticks).map(|tick| Action::ClockRuns { owner, tick }));
            actions.extend(Action::without_numbers(owner));
        }
        if self.clocks == Clocks::Calm {
            actions.extend(
                self.counts(state).into_iter().map(|counted| Action::Pass { time: 1, counted }),
            );
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.act(&mut state, action)?;
        (state != *before).then_some(state)
    }

    /// A start increments a token at most three times. Mutations may do so without end.
    fn within_boundary(&self, state: &State) -> bool {
        state.rows.iter().all(|row| row.token <= 3 * self.starts + self.operations)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("Once", |_, state: &State| !state.broken.once),
            Property::always("Covered", |_, state: &State| !state.broken.covered),
            Property::always("Above", |_, state: &State| !state.broken.above),
            Property::always("Ended", |_, state: &State| !state.broken.ended),
            Property::always("Owner", |model, state: &State| {
                model.clocks == Clocks::Anything || state.live_ones_own_their_rows()
            }),
            Property::always("Progress", Self::can_recover),
            // The model reaches the states in which it could go wrong.
            Property::sometimes("two have one worker id ready", |_, state: &State| {
                let ready = |owner: &Owner| {
                    owner.lease().filter(|lease| !lease.ready.is_empty()).map(|l| l.worker)
                };
                let all: Vec<_> = state.owners.iter().filter_map(ready).collect();
                all.iter().enumerate().any(|(i, worker)| all[..i].contains(worker))
            }),
            Property::sometimes("a uid of a lost lease is ready", |_, state: &State| {
                let is_so = |lease: &Lease| lease.lost && !lease.ready.is_empty();
                state.owners.iter().any(|owner| owner.lease().is_some_and(is_so))
            }),
            Property::sometimes(
                "a row was given back below its horizon",
                |model, state: &State| {
                    let is_so = |row: &Row| {
                        let within =
                            |uid| (uid + 1) % model.uids_per_tick != 0 || model.uids_per_tick == 1;
                        row.ends.is_none() && row.horizon.is_some_and(within)
                    };
                    state.rows.iter().any(is_so)
                },
            ),
            Property::sometimes("a renewal comes after a release", |_, state: &State| {
                state.network.iter().any(|request| match *request {
                    Request::Renew { worker, token, .. } => {
                        let row = &state.rows[usize::from(worker)];
                        row.token == token
                            && !state.owners.iter().any(|owner| owner.waits_for(request))
                    }
                    _ => false,
                })
            }),
        ]
    }
}

impl<S: Scale> Leases<S> {
    /// Returns the state that every history begins with.
    pub fn start(&self) -> State<S> {
        let count = usize::from(self.worker_ids);
        State {
            rows: vec![Row::default(); count],
            owners: Vec::new(),
            network: Network::default(),
            starts: 0,
            operations: 0,
            issued: vec![S::Uids::default(); count],
            broken: Broken::default(),
        }
    }

    /// Performs an action. Returns `None` if it is impossible, which leaves the state unusable.
    pub fn act(&self, state: &mut State<S>, action: Action<S>) -> Option<()> {
        self.step(state, action)?;
        state.forget_spent(self);
        Some(())
    }

    /// Returns the first property that does not hold in a state.
    pub fn broken(&self, state: &State<S>) -> Option<&'static str> {
        let Broken { once, covered, above, ended } = state.broken;
        let is_owner = self.clocks == Clocks::Anything || state.live_ones_own_their_rows();
        let all = [("Once", once), ("Covered", covered), ("Above", above), ("Ended", ended)];
        let found = all.into_iter().chain([("Owner", !is_owner)]).find(|(_, is_broken)| *is_broken);
        found.map(|(name, _)| name)
    }

    /// Returns the tick of a uid.
    pub fn tick_of(&self, uid: S::Number) -> S::Number {
        uid / self.uids_per_tick
    }

    /// Returns the last uid of a tick.
    pub fn last_of(&self, tick: S::Number) -> S::Number {
        (tick + 1.into()) * self.uids_per_tick - 1.into()
    }

    /// Whether a renewal would change nothing.
    fn is_known(&self, row: &Row<S>, request: &Request<S>) -> bool {
        let Request::Renew { horizon, .. } = *request else { return false };
        let last = self.last_of(horizon);
        self.clocks == Clocks::Anything && self.mutation.is_none() && row.horizon >= Some(last)
    }

    fn step(&self, state: &mut State<S>, action: Action<S>) -> Option<()> {
        match action {
            Action::Start { worker } => state.start(self, worker),
            Action::AskAgain { owner, worker } => state.ask_again(self, owner, worker),
            Action::Renew { owner, horizon } => state.renew(self, owner, horizon),
            Action::Perform(request) => state.perform(self, &request, true),
            Action::PerformUnheard(request) => state.perform(self, &request, false),
            Action::Hear { owner } => state.hear(self, owner),
            Action::Fail { owner } => state.fail(self, owner),
            Action::ClockRuns { owner, tick } => state.lease(owner)?.clock_runs(self, tick),
            Action::Pad { owner } => state.pad(self, owner),
            Action::Take { owner } => state.take(owner),
            Action::Skip { owner } => state.lease(owner)?.skip(),
            Action::SkipLocally { owner } => state.lease(owner)?.skip_locally(),
            Action::Lend { owner } => state.lease(owner)?.lend(self),
            Action::TakeLocally { owner } => state.take_locally(owner),
            Action::Notice { owner } => state.notice(self, owner),
            Action::Look { owner } => state.look(self, owner),
            Action::Close { owner } => state.close(self, owner),
            Action::Crash { owner } => {
                state.owners.retain(|other| other.session != owner);
                Some(())
            }
            Action::Fence { worker } => state.fence(worker),
            Action::Free { worker } => state.free(self, worker),
            Action::Pass { time, counted } => state.pass(self, time, &counted),
        }
    }
}

impl Leases {
    /// What clocks may count of one unit of time: one, none, or two. Clocks that measure nothing do not matter.
    fn counts(&self, state: &State) -> Vec<Vec<u8>> {
        let mut all = vec![Vec::new()];
        for mut owner in state.owners.iter().cloned() {
            let possible: &[u8] = if owner.measures(self) { &[1, 0, 2] } else { &[1] };
            let with = |before: &Vec<u8>| {
                let before = before.clone();
                possible.iter().map(move |&count| [&before[..], &[count]].concat())
            };
            all = all.iter().flat_map(with).collect();
        }
        all
    }

    /// Progress, checked in each state: if all processes crash now and all messages are lost, then, after some time, a
    /// start gets each worker id and issues a uid with it.
    ///
    /// [`stateright`]'s `eventually` checks less: it overlooks histories that end in a cycle. But this only shows that
    /// there is a way, since nothing makes a process start.
    fn can_recover(&self, state: &State) -> bool {
        let last = usize::from(self.ticks) * usize::from(self.uids_per_tick);
        // With no ticks left, a worker id cannot issue anyway.
        let is_used_up = |row: &Row| row.horizon.is_some_and(|uid| usize::from(uid) + 1 >= last);
        let mut after = State { owners: Vec::new(), network: Network::default(), ..state.clone() };
        if self.clocks == Clocks::Calm {
            let _ = after.pass(self, self.lasts, &[]);
        }
        (0..self.worker_ids).all(|worker| {
            is_used_up(&after.rows[usize::from(worker)])
                || self
                    .can_start(after.clone(), worker)
                    .is_some_and(|done| done.broken == state.broken)
        })
    }

    /// A start without trouble, up to its first uid.
    fn can_start(&self, mut state: State, worker: u8) -> Option<State> {
        self.step(&mut state, Action::Start { worker })?;
        let owner = state.owners.last()?.session;
        let answer = |state: &mut State| {
            let request = state.owners.last()?.call.as_ref()?.request;
            self.step(state, Action::Perform(request))?;
            self.step(state, Action::Hear { owner })
        };
        answer(&mut state)?;
        let horizon = state.lease(owner)?.next / self.uids_per_tick;
        self.step(&mut state, Action::Renew { owner, horizon })?;
        answer(&mut state)?;
        self.step(&mut state, Action::Pad { owner })?;
        self.step(&mut state, Action::Take { owner })?;
        Some(state)
    }
}

impl<S: Scale> State<S> {
    /// An owner whose lease is live, by its own count, owns the row, unless it was fenced.
    fn live_ones_own_their_rows(&self) -> bool {
        self.owners.iter().all(|owner| match owner.lease() {
            Some(lease) if lease.is_live() && !lease.fenced => {
                let row = &self.rows[usize::from(lease.worker)];
                row.owner == owner.session && row.token == lease.token
            }
            _ => true,
        })
    }

    /// Forgets requests with outdated tokens. Tokens only grow, so these are always refused. Mutations of how tokens
    /// work forget nothing.
    fn forget_spent(&mut self, model: &Leases<S>) {
        if model.mutation.is_some_and(Mutation::is_about_tokens) {
            return;
        }
        let Self { rows, owners, network, .. } = self;
        network.forget(|request| {
            let row = &rows[usize::from(request.worker())];
            let is_void = request.token() < row.token || model.is_known(row, request);
            is_void && !owners.iter().any(|owner| owner.waits_for(request))
        });
    }
}
