//! The table: what each request does to a row, in one transaction.

use super::mutation::Mutation;
use super::state::{Answer, Leases, Owner, Request, Row, Stage, State};
use crate::{Clocks, Scale, Uids};

impl<S: Scale> Request<S> {
    pub(super) fn owner(&self) -> u8 {
        match *self {
            Self::Take { owner, .. } | Self::Renew { owner, .. } | Self::Release { owner, .. } => {
                owner
            }
        }
    }

    pub(super) fn worker(&self) -> u8 {
        match *self {
            Self::Take { worker, .. }
            | Self::Renew { worker, .. }
            | Self::Release { worker, .. } => worker,
        }
    }

    pub(super) fn token(&self) -> u8 {
        match *self {
            Self::Take { token, .. } | Self::Renew { token, .. } | Self::Release { token, .. } => {
                token
            }
        }
    }
}

impl<S: Scale> Row<S> {
    /// Whether nobody holds the row, by the store's clock (`crates/store/src/sql.rs`).
    pub fn is_free(&self, model: &Leases<S>) -> bool {
        let Some(left) = self.ends else { return true };
        match model.mutation {
            Some(Mutation::NeverRunsOut) => false,
            Some(Mutation::GivenAwayEarly) => left <= 1.into(),
            // The clock may have been set past any end.
            _ => left == 0.into() || model.clocks == Clocks::Anything,
        }
    }

    fn last_end(model: &Leases<S>) -> Option<S::Number> {
        let is_over =
            model.clocks == Clocks::Anything || model.mutation == Some(Mutation::NoLength);
        Some(if is_over { 0.into() } else { model.lasts })
    }

    /// Whether it is the lease with this token.
    fn is_held_by(&self, model: &Leases<S>, request: &Request<S>) -> bool {
        let is_same_owner = self.owner == request.owner();
        match (model.mutation, request) {
            (Some(Mutation::NoToken), _)
            | (Some(Mutation::NoTokenAtRenewal), Request::Renew { .. })
            | (Some(Mutation::NoTokenAtRelease), Request::Release { .. }) => true,
            (Some(Mutation::OwnerForToken), _) => is_same_owner,
            (Some(Mutation::AcquireKeepsToken), _) => self.token == request.token(),
            _ => is_same_owner && self.token == request.token(),
        }
    }
}

impl<S: Scale> State<S> {
    /// The store performs a request. Its owner gets the answer if it still waits.
    pub(super) fn perform(
        &mut self,
        model: &Leases<S>,
        request: &Request<S>,
        is_answered: bool,
    ) -> Option<()> {
        if !self.network.has(request) {
            return None;
        }
        let answer = self.execute(model, request);
        let could_hear = self.owners.iter_mut().filter(|owner| owner.could_hear(request));
        for call in could_hear.filter_map(|owner| owner.call.as_mut()).filter(|_| is_answered) {
            call.answer = Some(answer);
        }
        Some(())
    }

    fn execute(&mut self, model: &Leases<S>, request: &Request<S>) -> Answer<S> {
        let (index, mutation) = (usize::from(request.worker()), model.mutation);
        let issued = self.issued[index].last();
        let row = &mut self.rows[index];
        match *request {
            Request::Take { owner, token, horizon, .. } => {
                // A retry finds the row that its first attempt took.
                let is_free = row.is_free(model) || row.owner == owner;
                let is_same =
                    row.horizon == horizon || mutation == Some(Mutation::AcquireIgnoresHorizon);
                if row.token != token || !is_same || !is_free {
                    return Answer::NotTaken;
                }
                let floor = row.horizon.max(issued);
                row.owner = owner;
                if mutation != Some(Mutation::AcquireKeepsToken) || row.token == 0 {
                    row.token += 1;
                }
                row.ends = Row::last_end(model);
                Answer::Taken { token: row.token, before: horizon, floor }
            }
            Request::Renew { horizon, .. } => {
                if !row.is_held_by(model, request) {
                    return Answer::Lost;
                }
                row.ends = Row::last_end(model);
                let last = model.last_of(horizon);
                row.horizon = match mutation {
                    Some(Mutation::HorizonNotKept) => row.horizon,
                    Some(Mutation::RenewalLowersHorizon) => Some(last),
                    _ => row.horizon.max(Some(last)),
                };
                Answer::Renewed
            }
            Request::Release { last, .. } => {
                if !row.is_held_by(model, request) {
                    return Answer::Lost;
                }
                if mutation != Some(Mutation::ReleaseKeepsToken) {
                    row.token += 1;
                }
                row.ends = None;
                row.horizon = last;
                Answer::Renewed
            }
        }
    }

    /// Changes the row's token, and ends its lease (`Dialect::fence` in `crates/store/src/sql.rs`).
    pub(super) fn fence(&mut self, worker: u8) -> Option<()> {
        self.operations += 1;
        let row = &mut self.rows[usize::from(worker)];
        row.token += 1;
        row.ends = row.ends.map(|_| 0.into());
        for Owner { stage, .. } in &mut self.owners {
            if let Stage::Holding(lease) = stage
                && lease.worker == worker
            {
                lease.fenced = true;
            }
        }
        Some(())
    }

    /// Frees the row, unless someone holds it (`Dialect::free`).
    pub(super) fn free(&mut self, model: &Leases<S>, worker: u8) -> Option<()> {
        self.operations += 1;
        let row = &mut self.rows[usize::from(worker)];
        if row.is_free(model) || model.mutation == Some(Mutation::FreesTheHeld) {
            row.token += 1;
            row.ends = None;
        }
        Some(())
    }
}
