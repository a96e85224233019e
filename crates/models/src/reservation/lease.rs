//! The lease that a process issues by.

use super::mutation::Mutation;
use super::state::{Asked, Lease, Reservation};
use crate::{Clocks, Number, Scale, Uids};

impl<S: Scale> Lease<S> {
    pub(super) fn new(
        model: &Reservation<S>,
        base: Option<S::Number>,
        floor: Option<S::Number>,
    ) -> Self {
        let next = match model.mutation {
            Some(Mutation::StartByTheClock) => 0.into(),
            _ => base.map_or(0.into(), |tick| tick + 1.into()),
        };
        Self {
            base,
            floor,
            mark: base,
            horizon: None,
            next,
            ready: S::Uids::default(),
            last: None,
            lost: false,
            closed: false,
            left: 0.into(),
            slack: 0.into(),
        }
    }

    /// Whether uids may be issued with it, as far as the process knows.
    pub(super) fn is_live(&self) -> bool {
        self.horizon.is_some() && !self.lost && !self.closed && self.left > 0.into()
    }

    pub(super) fn clock_runs(&mut self, model: &Reservation<S>, tick: S::Number) -> Option<()> {
        let is_over = self.lost && !model.in_detail || self.closed;
        if tick <= self.next || tick >= model.ticks || is_over {
            return None;
        }
        self.next = tick;
        Some(())
    }

    /// Makes the next tick ready, if it is granted. Each horizon includes the deadline's budget
    /// (`LeaseTerms::reserve`).
    pub(super) fn pad(&mut self, model: &Reservation<S>) -> Option<()> {
        if self.next >= model.ticks || Some(self.next) > self.horizon || !self.is_live() {
            return None;
        }
        self.ready.add(self.next, self.next + 1.into());
        self.next += 1.into();
        Some(())
    }

    pub(super) fn notice(&mut self, model: &Reservation<S>) -> Option<()> {
        let may_be_over = self.left == 0.into() || model.clocks == Clocks::Anything;
        if self.horizon.is_none() || self.lost || !may_be_over {
            return None;
        }
        self.lost = true;
        Some(())
    }

    pub(super) fn granted(&mut self, model: &Reservation<S>, asked: &Asked<S>) {
        let budget = u8::from(model.mutation == Some(Mutation::BudgetNotReserved));
        self.horizon = Some(asked.horizon + budget.into());
        let outage = match model.mutation {
            Some(Mutation::OutageOutlastsSession) => model.session,
            _ => model.outage,
        };
        (self.left, self.slack) = match model.clocks {
            Clocks::Anything => (1.into(), 0.into()),
            Clocks::Calm => (outage.minus_or_zero(asked.age), asked.slack),
        };
        if self.left == 0.into() {
            self.slack = 0.into();
        }
    }

    /// Returns the time until its deadline, by the process's clock.
    pub fn left(&self) -> S::Number {
        self.left
    }

    /// Ticks up to this one go to nobody: their uids are stale, or the clock has skipped them. A release counts them as
    /// issued.
    pub(super) fn skip(&mut self, tick: S::Number) -> Option<()> {
        if tick >= self.next || self.last >= Some(tick) || self.closed {
            return None;
        }
        while self.ready.first().is_some_and(|first| first <= tick) {
            self.ready.pop_first();
        }
        self.last = Some(tick);
        Some(())
    }
}
