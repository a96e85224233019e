//! The load of a segment: docs/inside-segments.md, "What a load does".
//!
//! Generators load ranges of one tag's row, and issue ids from them. How takers draw from a range is not modeled here:
//! see `src/segment.rs`, whose models run on the code itself.

use std::collections::VecDeque;

use stateright::{Model, Property};

use crate::{Network, Scale, Small, Uids};

/// The model and its bounds.
#[derive(Clone, Debug)]
pub struct Segments<S: Scale = Small> {
    /// Generators alive at once, at most.
    pub generators: usize,
    /// Starts in a history.
    pub starts: u8,
    /// The column's greatest value; 2^63 - 1 in a real one.
    pub greatest: S::Number,
    /// The longest step. Each load asks for any up to this: the rule, the table or a person sets it.
    pub steps: S::Number,
    /// Ranges that a generator has in memory, at most: two, unless takers are faster than the store.
    pub depth: usize,
    /// Changes of `max_id` by hand in a history.
    pub changes: u8,
    /// Whether a person may lower it, which docs/segments.md forbids. Then only `Order` is promised.
    pub may_lower: bool,
    /// What is wrong with the model.
    pub mutation: Option<Mutation>,
}

/// A mutation: each breaks a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// The UPDATE does not compare `max_id` with what was read.
    UpdateComparesNothing,
    /// The UPDATE changes nothing, and reports success.
    NotStored,
    /// A range is used as soon as it is asked for.
    UsedBeforeCommit,
    /// A range is used although its commit was not confirmed.
    UsedAfterFailure,
    /// A refusal counts as the second answer to a load that has succeeded.
    RefusalMeansDone,
    /// The end of a range is issued, too.
    EndIncluded,
    /// An end above the column's greatest value wraps.
    EndWraps,
    /// A generator accepts any range, even below what it has issued.
    AnyRange,
    /// A row stays locked when the process of its transaction dies.
    LockStays,
}

impl Mutation {
    /// All, with the property that each violates.
    pub const ALL: &[(Self, &str)] = &[
        (Self::UpdateComparesNothing, "Once"),
        (Self::NotStored, "Once"),
        (Self::NotStored, "Covered"),
        (Self::UsedBeforeCommit, "Covered"),
        (Self::UsedAfterFailure, "Once"),
        (Self::RefusalMeansDone, "Once"),
        (Self::EndIncluded, "Covered"),
        (Self::EndWraps, "Order"),
        (Self::AnyRange, "Order"),
        (Self::LockStays, "Progress"),
    ];
}

/// A load's UPDATE and COMMIT: reserves `from..to` if `max_id` is still `from`. The SELECT's lock is not modeled,
/// because the UPDATE does not rely on it (`crates/store/src/server/segments/load.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reserve<S: Scale = Small> {
    /// The generator that asks.
    pub generator: u8,
    /// `max_id` as read.
    pub from: S::Number,
    /// The new `max_id`.
    pub to: S::Number,
}

/// A load that a generator waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call<S: Scale = Small> {
    /// The request.
    pub request: Reserve<S>,
    /// The table's answer, which has not arrived yet: whether the range was reserved.
    pub answer: Option<bool>,
}

/// A generator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Generator<S: Scale = Small> {
    /// Its start.
    pub start: u8,
    /// The load that it waits for.
    pub call: Option<Call<S>>,
    /// Ranges in memory (`src/segment/chain.rs`): the first id, and the one after the last.
    pub ranges: VecDeque<(S::Number, S::Number)>,
    /// The end of the last range that it accepted.
    pub end: S::Number,
    /// The greatest id that it has issued.
    pub last: S::Number,
}

/// All that decides what may happen next, and what was issued.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<S: Scale = Small> {
    /// The row's column.
    pub max_id: S::Number,
    /// The generator that has the row locked; only for one mutation.
    pub locked: Option<u8>,
    /// The live generators, in order of their starts.
    pub generators: Vec<Generator<S>>,
    /// The loads sent.
    pub network: Network<Reserve<S>>,
    /// Starts so far.
    pub starts: u8,
    /// Changes by hand so far.
    pub changes: u8,
    /// The set of ids that callers got.
    pub issued: S::Uids,
    /// An id was issued twice.
    pub repeated: bool,
    /// An id was issued that the row had not reserved at that moment.
    pub uncovered: bool,
    /// A generator issued an id that is not above its last, or a load lowered `max_id`.
    pub backwards: bool,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<S: Scale = Small> {
    /// A process starts.
    Start,
    /// A generator reads the row, and asks for ids.
    Load {
        /// The generator.
        generator: u8,
        /// How many ids.
        step: S::Number,
    },
    /// The table performs a load, perhaps late or again, and answers the generator that waits for it.
    Perform(Reserve<S>),
    /// The table performs a load, and the answer is lost. The generator still waits.
    PerformUnheard(Reserve<S>),
    /// The answer to a load arrives.
    Hear {
        /// The generator.
        generator: u8,
    },
    /// A load fails. Its range is given up, reserved or not.
    Fail {
        /// The generator.
        generator: u8,
    },
    /// A caller gets the next id.
    Take {
        /// The generator.
        generator: u8,
    },
    /// The process ends, and loses what it has in memory.
    Crash {
        /// The generator.
        generator: u8,
    },
    /// A person sets `max_id`.
    Set {
        /// The new value.
        max_id: S::Number,
    },
}

impl Model for Segments {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start(1)]
    }

    /// Lists all candidates. An impossible one has no next state.
    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.starts < self.starts && state.generators.len() < self.generators {
            actions.push(Action::Start);
        }
        for &request in state.network.iter() {
            actions.push(Action::Perform(request));
            if state.generators.iter().any(|generator| generator.could_hear(&request)) {
                actions.push(Action::PerformUnheard(request));
            }
        }
        for &Generator { start: generator, .. } in &state.generators {
            actions.extend((1..=self.steps).map(|step| Action::Load { generator, step }));
            actions.extend([
                Action::Hear { generator },
                Action::Fail { generator },
                Action::Take { generator },
                Action::Crash { generator },
            ]);
        }
        if state.changes < self.changes {
            let lowest = if self.may_lower { 1 } else { state.max_id + 1 };
            actions.extend((lowest..=self.greatest).map(|max_id| Action::Set { max_id }));
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.act(&mut state, action)?;
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("Once", |model, state: &State| model.may_lower || !state.repeated),
            Property::always("Covered", |model, state: &State| model.may_lower || !state.uncovered),
            Property::always("Order", |_, state: &State| !state.backwards),
            Property::always("Progress", Self::can_load),
            Property::sometimes("a late load reserves a range", |_, state: &State| {
                state.network.iter().any(|request| {
                    let waits = |generator: &Generator| generator.waits_for(request);
                    request.from == state.max_id && !state.generators.iter().any(waits)
                })
            }),
            Property::sometimes("two have ranges", |_, state: &State| {
                state.generators.iter().filter(|generator| !generator.ranges.is_empty()).count() > 1
            }),
        ]
    }
}

impl<S: Scale> Segments<S> {
    /// Returns the state that a history begins with.
    pub fn start(&self, max_id: S::Number) -> State<S> {
        State {
            max_id,
            locked: None,
            generators: Vec::new(),
            network: Network::default(),
            starts: 0,
            changes: 0,
            issued: S::Uids::default(),
            repeated: false,
            uncovered: false,
            backwards: false,
        }
    }

    /// Performs an action. Returns `None` if it is impossible, which leaves the state unusable.
    pub fn act(&self, state: &mut State<S>, action: Action<S>) -> Option<()> {
        self.step(state, action)?;
        // If a person may still lower `max_id`, a late load may match it again.
        let only_grows = !self.may_lower || state.changes == self.changes;
        if self.mutation.is_none() && only_grows {
            state.forget_void();
        }
        Some(())
    }

    fn step(&self, state: &mut State<S>, action: Action<S>) -> Option<()> {
        match action {
            Action::Start => {
                state.starts += 1;
                let (start, call, ranges) = (state.starts, None, VecDeque::new());
                let (end, last) = (0.into(), 0.into());
                state.generators.push(Generator { start, call, ranges, end, last });
                Some(())
            }
            Action::Load { generator, step } => self.load(state, generator, step),
            Action::Perform(request) => self.perform(state, &request, true),
            Action::PerformUnheard(request) => self.perform(state, &request, false),
            Action::Hear { generator } => self.hear(state, generator),
            Action::Fail { generator } => {
                let call = state.generator(generator)?.call.take()?;
                if self.mutation == Some(Mutation::UsedAfterFailure) {
                    self.accept(state, &call.request);
                }
                Some(())
            }
            Action::Take { generator } => self.take(state, generator),
            Action::Crash { generator } => {
                state.generators.retain(|other| other.start != generator);
                Some(())
            }
            Action::Set { max_id } => {
                state.changes += 1;
                state.max_id = max_id;
                Some(())
            }
        }
    }

    /// A tag has at most `depth` ranges in memory, and one load at a time (`src/segment/loader.rs`). No range ends
    /// above the column's greatest value. The code shortens such a range (`SegmentRequest::range` in
    /// `src/segment/store.rs`), which here is a load with another step.
    fn load(&self, state: &mut State<S>, start: u8, step: S::Number) -> Option<()> {
        let (from, locked) = (state.max_id, state.locked);
        let generator = state.generator(start)?;
        if generator.call.is_some() || generator.ranges.len() >= self.depth || locked.is_some() {
            return None;
        }
        let to = match from + step {
            to if to <= self.greatest => to,
            _ if self.mutation == Some(Mutation::EndWraps) => 1.into(),
            _ => return None,
        };
        let request = Reserve { generator: start, from, to };
        generator.call = Some(Call { request, answer: None });
        state.network.send(request);
        if self.mutation == Some(Mutation::LockStays) {
            state.locked = Some(start);
        }
        if self.mutation == Some(Mutation::UsedBeforeCommit) {
            self.accept(state, &request);
        }
        Some(())
    }

    fn perform(&self, state: &mut State<S>, request: &Reserve<S>, is_answered: bool) -> Option<()> {
        if !state.network.has(request) {
            return None;
        }
        let is_same = state.max_id == request.from;
        let is_reserved = is_same || self.mutation == Some(Mutation::UpdateComparesNothing);
        if is_reserved && self.mutation != Some(Mutation::NotStored) {
            state.backwards |=
                request.to < state.max_id && self.mutation == Some(Mutation::EndWraps);
            state.max_id = request.to;
        }
        let could_hear = state.generators.iter_mut().filter(|other| other.could_hear(request));
        for call in could_hear.filter_map(|other| other.call.as_mut()).filter(|_| is_answered) {
            call.answer = Some(is_reserved);
        }
        Some(())
    }

    fn hear(&self, state: &mut State<S>, start: u8) -> Option<()> {
        let generator = state.generator(start)?;
        let Call { request, answer } = generator.call.clone()?;
        let is_reserved = answer?;
        generator.call = None;
        state.locked = None;
        let is_used = self.mutation == Some(Mutation::UsedBeforeCommit);
        if (is_reserved || self.mutation == Some(Mutation::RefusalMeansDone)) && !is_used {
            self.accept(state, &request);
        }
        Some(())
    }

    /// Appends a range, unless it is below earlier ones: `SegmentChain::push`.
    fn accept(&self, state: &mut State<S>, request: &Reserve<S>) {
        let to = request.to + u8::from(self.mutation == Some(Mutation::EndIncluded)).into();
        let Some(generator) = state.generator(request.generator) else { return };
        if request.from >= generator.end || self.mutation == Some(Mutation::AnyRange) {
            generator.end = to;
            generator.ranges.push_back((request.from, to));
        }
    }

    fn take(&self, state: &mut State<S>, start: u8) -> Option<()> {
        let generator = state.generator(start)?;
        let (first, end) = generator.ranges.front_mut()?;
        let id = *first;
        *first += 1.into();
        if *first >= *end {
            generator.ranges.pop_front();
        }
        let is_above = id > generator.last;
        generator.last = id;
        state.backwards |= !is_above;
        state.repeated |= state.issued.has(id);
        state.uncovered |= id >= state.max_id;
        state.issued.add(id, id + 1.into());
        Some(())
    }
}

impl Segments {
    /// Progress: if all processes die now and all messages are lost, the next one loads a range and issues an id, while
    /// numbers are left.
    fn can_load(&self, state: &State) -> bool {
        if state.max_id >= self.greatest {
            return true;
        }
        let mut after =
            State { generators: Vec::new(), network: Network::default(), ..state.clone() };
        let generator = after.starts + 1;
        let mut steps = || {
            self.step(&mut after, Action::Start)?;
            self.step(&mut after, Action::Load { generator, step: 1 })?;
            let request = after.generator(generator)?.call.as_ref()?.request;
            self.step(&mut after, Action::Perform(request))?;
            self.step(&mut after, Action::Hear { generator })?;
            self.step(&mut after, Action::Take { generator })
        };
        steps().is_some()
    }
}

impl<S: Scale> State<S> {
    fn generator(&mut self, start: u8) -> Option<&mut Generator<S>> {
        self.generators.iter_mut().find(|generator| generator.start == start)
    }

    /// Forgets loads that `max_id` has passed. It only grows, so they are always refused.
    fn forget_void(&mut self) {
        let Self { max_id, generators, network, .. } = self;
        network.forget(|request| {
            request.from < *max_id
                && !generators.iter().any(|generator| generator.waits_for(request))
        });
    }
}

impl<S: Scale> Generator<S> {
    fn waits_for(&self, request: &Reserve<S>) -> bool {
        self.call.as_ref().is_some_and(|call| call.request == *request)
    }

    /// Whether it would hear the next answer to this request.
    fn could_hear(&self, request: &Reserve<S>) -> bool {
        self.waits_for(request) && self.call.as_ref().is_some_and(|call| call.answer.is_none())
    }
}
