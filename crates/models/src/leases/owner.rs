//! A process with a generator whose worker id is leased.

use super::mutation::Mutation;
use super::state::{
    Answer, Call, LASTS, Lease, Leases, MARGIN, Owner, Request, Row, Stage, State, Uid,
};
use crate::Clocks;

/// How often a start asks for a row.
const ATTEMPTS: u8 = 2;

impl Owner {
    /// Its lease, if it has one.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.stage {
            Stage::Starting(_) => None,
            Stage::Holding(lease) => Some(lease),
        }
    }

    pub(super) fn waits_for(&self, request: &Request) -> bool {
        self.call.as_ref().is_some_and(|call| call.request == *request)
    }
}

impl Lease {
    /// `ActiveLease::start`, before the first renewal: the generator starts above what was issued
    /// (`src/generator/start.rs`). Where its clock is ahead of that, [`clock_runs`](Self::clock_runs) comes
    /// next.
    fn new(model: &Leases, worker: u8, token: u8, before: Option<Uid>, floor: Option<Uid>) -> Self {
        let next = match model.mutation {
            Some(Mutation::StartByTheClock) => 0,
            Some(Mutation::StartWithTheHorizon) => before.unwrap_or(0),
            _ => before.map_or(0, |uid| uid + 1),
        };
        Self {
            worker,
            token,
            before,
            floor,
            fenced: false,
            horizon: None,
            next,
            ready: 0,
            lent: None,
            last: None,
            lost: false,
            told: false,
            shut: false,
            closed: false,
            left: 0,
            slack: 0,
        }
    }

    /// Whether uids may be issued with it, as far as its owner knows: `RenewalState::is_live`.
    pub(super) fn is_live(&self) -> bool {
        self.horizon.is_some() && !self.lost && !self.closed && !self.is_over()
    }

    /// Whether its deadline has passed. Where time is not counted, it may have at any time: see `notice`.
    fn is_over(&self) -> bool {
        self.horizon.is_some() && self.left == 0
    }

    pub(super) fn clock_runs(&mut self, model: &Leases) -> Option<()> {
        let tick = self.next / model.uids_per_tick + 1;
        if tick >= model.ticks || self.closed || self.shut {
            return None;
        }
        self.next = tick * model.uids_per_tick;
        Some(())
    }

    /// The first uid that is ready.
    fn draw(&mut self) -> Option<Uid> {
        let uid = Some(self.ready.trailing_zeros()).filter(|uid| *uid < 32)? as Uid;
        self.ready &= !(1 << uid);
        Some(uid)
    }

    /// From now on a release counts the uid, whether or not it is taken.
    pub(super) fn lend(&mut self, model: &Leases) -> Option<()> {
        if self.lent.is_some() {
            return None;
        }
        self.lent = Some(self.draw()?);
        if model.mutation != Some(Mutation::ReleaseWithoutLocalTakers) {
            self.last = self.last.max(self.lent);
        }
        Some(())
    }

    /// The deadline counts from when the store was asked, which counts from later itself
    /// (`RenewalState::granted` in `src/worker/renewals.rs`).
    fn granted(&mut self, model: &Leases, horizon: u8, call: &Call) {
        self.horizon = Some(match model.mutation {
            Some(Mutation::OneTickMore) => horizon + 1,
            _ => horizon,
        });
        self.extend(model, call);
    }

    fn extend(&mut self, model: &Leases, call: &Call) {
        (self.left, self.slack) = match (model.clocks, model.mutation) {
            (Clocks::Anything, _) => (1, 0),
            (_, Some(Mutation::DeadlineFromTheAnswer)) => (LASTS - MARGIN, MARGIN),
            (_, Some(Mutation::NoMargin)) => (LASTS.saturating_sub(call.age), call.slack),
            _ => ((LASTS - MARGIN).saturating_sub(call.age), call.slack),
        };
        if self.left == 0 {
            self.slack = 0;
        }
    }
}

impl State {
    fn owner(&mut self, session: u8) -> Option<&mut Owner> {
        self.owners.iter_mut().find(|owner| owner.session == session)
    }

    pub(super) fn lease(&mut self, session: u8) -> Option<&mut Lease> {
        match &mut self.owner(session)?.stage {
            Stage::Starting(_) => None,
            Stage::Holding(lease) => Some(lease),
        }
    }

    fn ask(&mut self, model: &Leases, session: u8, request: Request) -> Option<()> {
        let counts = model.clocks == Clocks::Calm && matches!(request, Request::Renew { .. });
        let slack = if counts { MARGIN } else { 0 };
        let owner = self.owner(session)?;
        owner.call = Some(Call { request, answer: None, age: 0, slack });
        self.network.send(request);
        Some(())
    }

    /// A start of a process: `acquire` in `crates/store/src/leases/acquire.rs`.
    pub(super) fn start(&mut self, model: &Leases, worker: u8) -> Option<()> {
        self.starts += 1;
        let session = self.starts;
        self.owners.push(Owner { session, stage: Stage::Starting(0), call: None });
        self.ask_again(model, session, worker)
    }

    /// It reads the rows and chooses any that is free or its own. Real ones prefer the lowest.
    pub(super) fn ask_again(&mut self, model: &Leases, session: u8, worker: u8) -> Option<()> {
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

    /// The thread of the lease asks for a horizon, at or above what the generator has reached
    /// (`HorizonPlanner` in `src/worker/renewals.rs`). It may be below the one before: the rate has fallen.
    pub(super) fn renew(&mut self, model: &Leases, session: u8, horizon: u8) -> Option<()> {
        let owner = self.owner(session)?;
        let Stage::Holding(lease) = &mut owner.stage else { return None };
        // Above the last tick there is nothing to ask for (`RowLease::renew`).
        let reached = (lease.next / model.uids_per_tick).min(model.ticks - 1);
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

    pub(super) fn hear(&mut self, model: &Leases, session: u8) -> Option<()> {
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

    /// No answer in time, or an error on the way: whether the store has performed the request is not known.
    pub(super) fn fail(&mut self, model: &Leases, session: u8) -> Option<()> {
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

    /// A row that no generator came to use is given back as it was: `Drop` of `RowLease` in
    /// `crates/store/src/leases/rows.rs`.
    fn give_up(&mut self, session: u8) -> Option<()> {
        let Lease { worker, token, before, .. } = *self.lease(session)?;
        self.network.send(Request::Release { owner: session, worker, token, last: before });
        self.owners.retain(|owner| owner.session != session);
        Some(())
    }

    /// All uids of the next tick are made ready, if the horizon has it.
    pub(super) fn pad(&mut self, model: &Leases, session: u8) -> Option<()> {
        let lease = self.lease(session)?;
        let (tick, uids) = (lease.next / model.uids_per_tick, model.uids_per_tick);
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
        for uid in lease.next..(tick + 1) * uids {
            lease.ready |= 1 << uid;
        }
        lease.next = (tick + 1) * uids;
        self.broken.ended |= is_over;
        Some(())
    }

    pub(super) fn take(&mut self, session: u8) -> Option<()> {
        let lease = self.lease(session)?;
        let uid = lease.draw()?;
        lease.last = lease.last.max(Some(uid));
        self.issue(session, uid)
    }

    pub(super) fn take_locally(&mut self, session: u8) -> Option<()> {
        let uid = self.lease(session)?.lent.take()?;
        self.issue(session, uid)
    }

    /// A caller gets a uid: what must hold of it is looked at here.
    fn issue(&mut self, session: u8, uid: Uid) -> Option<()> {
        let Lease { worker, floor, closed, shut, .. } = *self.lease(session)?;
        let index = usize::from(worker);
        let bit = 1 << uid;
        self.broken.once |= self.issued[index] & bit != 0;
        self.broken.covered |= self.rows[index].horizon < Some(uid);
        self.broken.above |= Some(uid) <= floor;
        self.broken.ended |= closed || shut;
        self.issued[index] |= bit;
        Some(())
    }

    /// `IssueState::is_lost`: what has been found is permanent.
    pub(super) fn notice(&mut self, model: &Leases, session: u8) -> Option<()> {
        let lease = self.lease(session)?;
        let may_be_over = lease.is_over() || model.clocks == Clocks::Anything;
        if lease.horizon.is_none() || lease.lost || lease.closed || !may_be_over {
            return None;
        }
        lease.told = true;
        match model.mutation {
            Some(Mutation::LateAnswerRevives) => lease.left = 0,
            _ => lease.lost = true,
        }
        Some(())
    }

    /// What is ready, and was not taken yet, is gone once the padder has seen the end.
    pub(super) fn look(&mut self, model: &Leases, session: u8) -> Option<()> {
        let lease = self.lease(session)?;
        if !lease.lost || model.mutation == Some(Mutation::PadderIgnoresTheEnd) {
            return None;
        }
        (lease.shut, lease.ready, lease.lent) = (true, 0, None);
        Some(())
    }

    /// The generator is closed first, so that nothing more can come, and then the row is given back with what
    /// came last (`src/worker/active_lease.rs`). The thread asks the store once its last call is over; that
    /// call's request is still on its way, at least here.
    pub(super) fn close(&mut self, model: &Leases, session: u8) -> Option<()> {
        let mutation = model.mutation;
        let lease = self.lease(session)?;
        if lease.closed || lease.horizon.is_none() {
            return None;
        }
        lease.closed = true;
        if mutation != Some(Mutation::GoesOnAfterClose) {
            lease.ready = 0;
        }
        if mutation != Some(Mutation::LocalTakersGoOnAfterClose) {
            lease.lent = None;
        }
        let last = match mutation {
            Some(Mutation::ReleaseOneTooLow) => lease.last.and_then(|uid| uid.checked_sub(1)),
            Some(Mutation::ReleaseToTheFirstHorizon) => None,
            _ => lease.last,
        };
        // `RowLease::release` in `crates/store/src/leases/rows.rs`.
        let last = last.max(lease.before);
        let Lease { worker, token, .. } = *lease;
        let is_done = lease.ready == 0 && lease.lent.is_none();
        self.network.send(Request::Release { owner: session, worker, token, last });
        if let Some(owner) = self.owner(session) {
            owner.call = None;
        }
        if is_done {
            self.owners.retain(|owner| owner.session != session);
        }
        Some(())
    }

    /// A unit of time passes for the store, and for each owner that counts it.
    pub(super) fn pass(&mut self, model: &Leases, slow: u8) -> Option<()> {
        for row in &mut self.rows {
            row.ends = row.ends.map(|left| left.saturating_sub(1));
        }
        for (index, owner) in self.owners.iter_mut().enumerate() {
            let is_slow = slow & 1 << index != 0;
            let mut has_clock = false;
            if let Some(call) = &mut owner.call
                && let Request::Renew { .. } = call.request
            {
                has_clock = true;
                match is_slow {
                    true => call.slack = call.slack.checked_sub(1)?,
                    false => call.age = (call.age + 1).min(LASTS),
                }
            }
            if let Stage::Holding(lease) = &mut owner.stage
                && lease.left > 0
            {
                has_clock = true;
                match is_slow {
                    true => lease.slack = lease.slack.checked_sub(1)?,
                    false if model.mutation == Some(Mutation::NoDeadline) => {}
                    false => lease.left -= 1,
                }
                if lease.left == 0 {
                    lease.slack = 0;
                }
            }
            if is_slow && !has_clock {
                return None;
            }
        }
        Some(())
    }
}
