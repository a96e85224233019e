//! A process with a generator whose worker id is leased.

use super::mutation::Mutation;
use super::state::{Answer, Call, Lease, Leases, Owner, Request, Row, Stage, State};
use crate::{Clocks, Number, Scale, Uids};

/// How often a start asks for a row.
const ATTEMPTS: u8 = 2;

impl<S: Scale> Owner<S> {
    /// Returns its lease, if it has one.
    pub fn lease(&self) -> Option<&Lease<S>> {
        match &self.stage {
            Stage::Starting(_) => None,
            Stage::Holding(lease) => Some(lease),
        }
    }

    pub(super) fn measures(&mut self, model: &Leases<S>) -> bool {
        self.measured_call(model).is_some() || self.measured_lease().is_some()
    }

    /// The renewal from which the next deadline will count, if that can still be in the future.
    fn measured_call(&mut self, model: &Leases<S>) -> Option<&mut Call<S>> {
        let call = self.call.as_mut()?;
        (matches!(call.request, Request::Renew { .. }) && call.age < model.lasts).then_some(call)
    }

    fn measured_lease(&mut self) -> Option<&mut Lease<S>> {
        match &mut self.stage {
            Stage::Holding(lease) if lease.left > 0.into() => Some(lease),
            _ => None,
        }
    }

    pub(super) fn waits_for(&self, request: &Request<S>) -> bool {
        self.call.as_ref().is_some_and(|call| call.request == *request)
    }

    /// Whether it would hear the next answer to this request.
    pub(super) fn could_hear(&self, request: &Request<S>) -> bool {
        self.waits_for(request) && self.call.as_ref().is_some_and(|call| call.answer.is_none())
    }
}

impl<S: Scale> Lease<S> {
    /// `LeaseHandle::start`, before the first renewal: the generator starts above what was issued
    /// (`src/generator/start.rs`). If its clock is ahead, [`clock_runs`](Self::clock_runs) comes next.
    fn new(
        model: &Leases<S>,
        worker: u8,
        token: u8,
        before: Option<S::Number>,
        floor: Option<S::Number>,
    ) -> Self {
        let next = match model.mutation {
            Some(Mutation::StartByTheClock) => 0.into(),
            Some(Mutation::StartWithTheHorizon) => before.unwrap_or_default(),
            _ => before.map_or(0.into(), |uid| uid + 1.into()),
        };
        Self {
            worker,
            token,
            before,
            floor,
            fenced: false,
            horizon: None,
            next,
            ready: S::Uids::default(),
            lent: S::Uids::default(),
            last: None,
            lost: false,
            told: false,
            shut: false,
            closed: false,
            left: 0.into(),
            slack: 0.into(),
        }
    }

    /// Whether uids may be issued with it, as far as its owner knows: `RenewalMachine::is_live`.
    pub(super) fn is_live(&self) -> bool {
        self.horizon.is_some() && !self.lost && !self.closed && !self.is_over()
    }

    /// Whether its deadline has passed. If time is not counted, it may pass at any time: see `notice`.
    fn is_over(&self) -> bool {
        self.horizon.is_some() && self.left == 0.into()
    }

    pub(super) fn clock_runs(&mut self, model: &Leases<S>, tick: S::Number) -> Option<()> {
        if tick <= model.tick_of(self.next) || tick >= model.ticks || self.closed || self.shut {
            return None;
        }
        self.next = tick * model.uids_per_tick;
        Some(())
    }

    /// A release counts skipped uids as issued, even between two ticks: a generator knows only its next uid.
    pub(super) fn skip(&mut self) -> Option<()> {
        let below = self.ready.first().unwrap_or(self.next).minus(1.into());
        self.last = match below {
            _ if self.closed => return None,
            Some(_) if below > self.last.max(self.before) => below,
            _ => Some(self.ready.pop_first()?),
        };
        Some(())
    }

    /// It was counted when it was claimed.
    pub(super) fn skip_locally(&mut self) -> Option<()> {
        self.lent.pop_first().map(|_| ())
    }

    /// From now on a release counts the uid, taken or not.
    pub(super) fn lend(&mut self, model: &Leases<S>) -> Option<()> {
        if self.lent.count() >= model.claims {
            return None;
        }
        let uid = self.ready.pop_first()?;
        self.lent.add(uid, uid + 1.into());
        if model.mutation != Some(Mutation::ReleaseWithoutLocalTakers) {
            self.last = self.last.max(Some(uid));
        }
        Some(())
    }

    /// The deadline counts from when the store was asked; the store counts from later (`RenewalMachine::granted` in
    /// `src/worker/renewals.rs`).
    fn granted(&mut self, model: &Leases<S>, horizon: S::Number, call: &Call<S>) {
        self.horizon = Some(match model.mutation {
            Some(Mutation::OneTickMore) => horizon + 1.into(),
            _ => horizon,
        });
        self.extend(model, call);
    }

    fn extend(&mut self, model: &Leases<S>, call: &Call<S>) {
        let lasts = model.lasts - model.margin;
        (self.left, self.slack) = match (model.clocks, model.mutation) {
            (Clocks::Anything, _) => (1.into(), 0.into()),
            (_, Some(Mutation::DeadlineFromTheAnswer)) => (lasts, model.margin),
            (_, Some(Mutation::NoMargin)) => (model.lasts.minus_or_zero(call.age), call.slack),
            _ => (lasts.minus_or_zero(call.age), call.slack),
        };
        if self.left == 0.into() {
            self.slack = 0.into();
        }
    }
}

impl<S: Scale> State<S> {
    fn owner(&mut self, session: u8) -> Option<&mut Owner<S>> {
        self.owners.iter_mut().find(|owner| owner.session == session)
    }

    pub(super) fn lease(&mut self, session: u8) -> Option<&mut Lease<S>> {
        match &mut self.owner(session)?.stage {
            Stage::Starting(_) => None,
            Stage::Holding(lease) => Some(lease),
        }
    }

    fn ask(&mut self, model: &Leases<S>, session: u8, request: Request<S>) -> Option<()> {
        let counts = model.clocks == Clocks::Calm && matches!(request, Request::Renew { .. });
        let slack = if counts { model.margin } else { 0.into() };
        let owner = self.owner(session)?;
        owner.call = Some(Call { request, answer: None, age: 0.into(), slack });
        self.network.send(request);
        Some(())
    }

    /// Starts a process: `acquire` in `crates/store/src/leases/acquire.rs`.
    pub(super) fn start(&mut self, model: &Leases<S>, worker: u8) -> Option<()> {
        self.starts += 1;
        let session = self.starts;
        self.owners.push(Owner { session, stage: Stage::Starting(0), call: None });
        self.ask_again(model, session, worker)
    }

    /// Reads the rows, and chooses any that is free or its own. The code prefers the lowest.
    pub(super) fn ask_again(&mut self, model: &Leases<S>, session: u8, worker: u8) -> Option<()> {
        let row = self.rows[usize::from(worker)];
        let is_own = row.owner == session;
        let owner = self.owner(session)?;
        let Stage::Starting(attempts) = &mut owner.stage else { return None };
        if owner.call.is_some() || *attempts == ATTEMPTS || !(row.is_free(model) || is_own) {
            return None;
        }
        *attempts += 1;
        let Row { token, horizon, .. } = row;
        self.ask(model, session, Request::Take { owner: session, worker, token, horizon })
    }

    /// The lease's thread asks for a horizon at or above what the generator has reached (`HorizonPlanner` in
    /// `src/worker/renewals.rs`). It may be lower than before if the rate has fallen.
    pub(super) fn renew(
        &mut self,
        model: &Leases<S>,
        session: u8,
        horizon: S::Number,
    ) -> Option<()> {
        let owner = self.owner(session)?;
        let Stage::Holding(lease) = &mut owner.stage else { return None };
        // Above the last tick there is nothing to ask for (`RowLease::renew`).
        let reached = model.tick_of(lease.next).min(model.ticks - 1.into());
        let is_first = lease.horizon.is_none();
        if owner.call.is_some() || horizon < reached || horizon >= model.ticks {
            return None;
        }
        if !is_first && !lease.is_live() {
            return None;
        }
        let Lease { worker, token, .. } = *lease;
        if model.mutation == Some(Mutation::HorizonAfterUse) && !is_first {
            lease.horizon = Some(horizon);
        }
        self.ask(model, session, Request::Renew { owner: session, worker, token, horizon })
    }

    pub(super) fn hear(&mut self, model: &Leases<S>, session: u8) -> Option<()> {
        let owner = self.owner(session)?;
        let call = owner.call.clone()?;
        let answer = call.answer?;
        owner.call = None;
        match (answer, call.request) {
            (Answer::Taken { token, before, floor }, Request::Take { worker, .. }) => {
                owner.stage = Stage::Holding(Lease::new(model, worker, token, before, floor));
            }
            (Answer::Renewed, Request::Renew { horizon, .. }) => {
                let Stage::Holding(lease) = &mut owner.stage else { return None };
                lease.granted(model, horizon, &call);
                let is_revived = lease.told && lease.is_live();
                self.broken.ended |= is_revived;
            }
            (Answer::Lost, Request::Renew { .. }) => {
                let Stage::Holding(lease) = &mut owner.stage else { return None };
                if lease.horizon.is_none() {
                    return self.give_up(session);
                }
                lease.told = true;
                lease.lost |= model.mutation != Some(Mutation::LossIgnored);
                let goes_on = lease.is_live();
                self.broken.ended |= goes_on;
            }
            // A start tries another row, or the same.
            _ => {}
        }
        Some(())
    }

    /// No answer in time, or an error. The store may have performed the request.
    pub(super) fn fail(&mut self, model: &Leases<S>, session: u8) -> Option<()> {
        let owner = self.owner(session)?;
        let call = owner.call.take()?;
        let (Stage::Holding(lease), Request::Renew { horizon, .. }) =
            (&mut owner.stage, call.request)
        else {
            return Some(());
        };
        match model.mutation {
            Some(Mutation::FailureExtendsHorizon) if lease.horizon.is_some() => {
                lease.horizon = Some(horizon);
            }
            Some(Mutation::FailureExtendsDeadline) => lease.extend(model, &call),
            Some(Mutation::FirstRenewalMayFail) => lease.granted(model, horizon, &call),
            _ => {}
        }
        // Without its first renewal no generator is built.
        if lease.horizon.is_none() { self.give_up(session) } else { Some(()) }
    }

    /// Gives back an unused row as it was: `Drop` of `RowLease` in `crates/store/src/leases/rows.rs`.
    fn give_up(&mut self, session: u8) -> Option<()> {
        let Lease { worker, token, before, .. } = *self.lease(session)?;
        self.network.send(Request::Release { owner: session, worker, token, last: before });
        self.owners.retain(|owner| owner.session != session);
        Some(())
    }

    /// Makes all uids of the next tick ready, if the horizon includes it.
    pub(super) fn pad(&mut self, model: &Leases<S>, session: u8) -> Option<()> {
        let lease = self.lease(session)?;
        let tick = model.tick_of(lease.next);
        let horizon = lease.horizon?;
        let is_granted = match model.mutation {
            Some(Mutation::NoHorizon) => true,
            Some(Mutation::AsksOnce) => tick <= horizon || lease.last.is_some(),
            _ => tick <= horizon,
        };
        let ignores_end = model.mutation == Some(Mutation::PadderIgnoresTheEnd);
        let is_over = lease.closed || lease.shut || !lease.is_live();
        if tick >= model.ticks || !is_granted || (is_over && !ignores_end) || lease.closed {
            return None;
        }
        let end = model.last_of(tick) + 1.into();
        lease.ready.add(lease.next, end);
        lease.next = end;
        self.broken.ended |= is_over;
        Some(())
    }

    pub(super) fn take(&mut self, session: u8) -> Option<()> {
        let lease = self.lease(session)?;
        let uid = lease.ready.pop_first()?;
        lease.last = lease.last.max(Some(uid));
        self.issue(session, uid)
    }

    pub(super) fn take_locally(&mut self, session: u8) -> Option<()> {
        let uid = self.lease(session)?.lent.pop_first()?;
        self.issue(session, uid)
    }

    fn issue(&mut self, session: u8, uid: S::Number) -> Option<()> {
        let Lease { worker, floor, closed, shut, .. } = *self.lease(session)?;
        let index = usize::from(worker);
        self.broken.once |= self.issued[index].has(uid);
        self.broken.covered |= self.rows[index].horizon < Some(uid);
        self.broken.above |= Some(uid) <= floor;
        self.broken.ended |= closed || shut;
        self.issued[index].add(uid, uid + 1.into());
        Some(())
    }

    /// `LeaseShared::is_lost`: once found lost, always lost.
    pub(super) fn notice(&mut self, model: &Leases<S>, session: u8) -> Option<()> {
        let lease = self.lease(session)?;
        let may_be_over = lease.is_over() || model.clocks == Clocks::Anything;
        if lease.horizon.is_none() || lease.lost || lease.closed || !may_be_over {
            return None;
        }
        lease.told = true;
        match model.mutation {
            Some(Mutation::LateAnswerRevives) => lease.left = 0.into(),
            _ => lease.lost = true,
        }
        Some(())
    }

    /// Once the padder has seen the end, untaken uids are gone.
    pub(super) fn look(&mut self, model: &Leases<S>, session: u8) -> Option<()> {
        let lease = self.lease(session)?;
        if !lease.lost || model.mutation == Some(Mutation::PadderIgnoresTheEnd) {
            return None;
        }
        (lease.shut, lease.ready, lease.lent) = (true, S::Uids::default(), S::Uids::default());
        Some(())
    }

    /// Closes the generator first, so that it issues nothing more, and then gives the row back with the last uid
    /// (`src/worker/lease_handle.rs`). The thread does this after its last call, whose request may still be on its way
    /// here.
    pub(super) fn close(&mut self, model: &Leases<S>, session: u8) -> Option<()> {
        let mutation = model.mutation;
        let lease = self.lease(session)?;
        if lease.closed || lease.horizon.is_none() {
            return None;
        }
        lease.closed = true;
        if mutation != Some(Mutation::GoesOnAfterClose) {
            lease.ready = S::Uids::default();
        }
        if mutation != Some(Mutation::LocalTakersGoOnAfterClose) {
            lease.lent = S::Uids::default();
        }
        let last = match mutation {
            Some(Mutation::ReleaseOneTooLow) => lease.last.and_then(|uid| uid.minus(1.into())),
            Some(Mutation::ReleaseToTheFirstHorizon) => None,
            _ => lease.last,
        };
        // `RowLease::release` in `crates/store/src/leases/rows.rs`.
        let last = last.max(lease.before);
        let Lease { worker, token, .. } = *lease;
        let is_done = lease.ready.is_empty() && lease.lent.is_empty();
        self.network.send(Request::Release { owner: session, worker, token, last });
        if let Some(owner) = self.owner(session) {
            owner.call = None;
        }
        if is_done {
            self.owners.retain(|owner| owner.session != session);
        }
        Some(())
    }

    /// Time passes for the store, and for each owner as much as its clock counts. While it measures a lease, a clock
    /// counts at most `slack` too little.
    pub(super) fn pass(
        &mut self,
        model: &Leases<S>,
        time: S::Number,
        counted: &[S::Number],
    ) -> Option<()> {
        for row in &mut self.rows {
            row.ends = row.ends.map(|left| left.minus_or_zero(time));
        }
        let lasts = model.lasts - model.margin;
        for (owner, &counted) in self.owners.iter_mut().zip(counted) {
            // The remaining slack and time. After the deadline a clock may do anything.
            let pass = |slack: S::Number, left: S::Number| match left.minus_or_zero(counted) {
                rest if rest > 0.into() => Some(((slack + counted).minus(time)?, rest)),
                rest => Some((0.into(), rest)),
            };
            if let Some(call) = owner.measured_call(model) {
                if call.age < lasts {
                    (call.slack, _) = pass(call.slack, lasts - call.age)?;
                }
                call.age = (call.age + counted).min(model.lasts);
            }
            if let Some(lease) = owner.measured_lease() {
                let left;
                (lease.slack, left) = pass(lease.slack, lease.left)?;
                if model.mutation != Some(Mutation::NoDeadline) {
                    lease.left = left;
                }
            }
        }
        Some(())
    }
}
