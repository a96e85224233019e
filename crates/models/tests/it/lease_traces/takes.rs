//! What a generator does with its lease: ticks that come into the ring, takes, and its end.

use uidring::{TakeError, Uid};
use uidring_models::leases::{Action, Lease};
use uidring_models::{Clocks, Full, Uids};
use uidring_simulation::{LeaseSeen, Take};

use super::follower::Validator;

impl Validator {
    /// Performs what the owner's threads have done so far.
    pub(super) fn catch_up(&mut self, owner: u8, seen: &LeaseSeen) {
        if seen.is_lost && !self.lease(owner).lost {
            self.act(Action::Notice { owner });
        }
        let Some(ring) = seen.ring else { return };
        let new = ring.runs.saturating_sub(self.runs.insert(owner, ring.runs).unwrap_or(0));
        if new > 0 {
            let last = self.model.tick_of(self.end_position(ring.end) - 1);
            for tick in last + 1 - new..=last {
                self.pad(owner, tick);
            }
        }
    }

    /// What a padder has found, or a taker that pads after its take.
    pub(super) fn look(&mut self, owner: u8, seen: &LeaseSeen) {
        if let Some(last) = seen.ring.and_then(|ring| ring.last)
            && !self.lease(owner).shut
        {
            self.settle(owner, last);
            self.act(Action::Look { owner });
        }
    }

    /// A padder that has looked knows whether the lease is over.
    pub(super) fn serviced(&mut self, session: u64) {
        let Some(owner) = self.owner(session).map(|owner| owner.session) else { return };
        let lease = self.lease(owner);
        let is_over = lease.lost || self.model.clocks == Clocks::Calm && lease.left == 0;
        let has_ring = self.runs.contains_key(&owner);
        let is_shut = lease.shut;
        self.check(!has_ring || !is_over || is_shut, || format!("{owner} has looked at its end"));
    }

    /// Nothing above `last` was issued.
    fn settle(&mut self, owner: u8, last: Option<Uid>) {
        let last = last.map(|uid| self.position(uid)).max(self.lease(owner).before);
        let issued = |lease: &Lease<Full>| lease.last.max(lease.before);
        while issued(self.lease(owner)) < last {
            self.act(Action::Skip { owner });
        }
        let issued = issued(self.lease(owner));
        self.check(issued == last, || format!("{owner} has issued up to {issued:?}, not {last:?}"));
    }

    fn pad(&mut self, owner: u8, tick: u64) {
        if self.model.tick_of(self.lease(owner).next) < tick {
            self.act(Action::ClockRuns { owner, tick });
        }
        let next = self.lease(owner).next;
        self.check(self.model.tick_of(next) == tick, || {
            format!("the next uid is {next}, of another tick")
        });
        self.act(Action::Pad { owner });
    }

    pub(super) fn skip_to(&mut self, owner: u8, position: u64) {
        while self.lease(owner).ready.first().is_some_and(|uid| uid < position) {
            self.act(Action::Skip { owner });
        }
    }

    pub(super) fn took(&mut self, session: u64, take: &Take) {
        let uid = match take.uid {
            Ok(uid) => self.position(uid),
            Err(error) => return self.refused(session, error, take.after.as_ref()),
        };
        let owner = self.name(session);
        if let Some(after) = &take.after {
            self.catch_up(owner, after);
        }
        if let Some(end) = take.block_end {
            self.took_locally(owner, uid, end);
        } else {
            self.took_one(owner, uid);
        }
        if let Some(after) = &take.after {
            self.look(owner, after);
        }
    }

    fn took_one(&mut self, owner: u8, uid: u64) {
        if !self.runs.contains_key(&owner) && !self.lease(owner).ready.has(uid) {
            let rest = self.lease(owner).ready.last().map_or(0, |last| last + 1);
            self.skip_to(owner, rest);
            self.pad(owner, self.model.tick_of(uid));
        }
        self.skip_to(owner, uid);
        self.check(self.lease(owner).ready.has(uid), || format!("{uid} is not ready"));
        self.act(Action::Take { owner });
    }

    fn took_locally(&mut self, owner: u8, uid: u64, block_end: u64) {
        if !self.lease(owner).lent.has(uid) {
            let end = self.end_position(block_end);
            while self.lease(owner).ready.first().is_some_and(|uid| uid < end) {
                self.act(Action::Lend { owner });
            }
        }
        self.check(self.lease(owner).lent.has(uid), || format!("{uid} was not claimed"));
        while self.lease(owner).lent.first() < Some(uid) {
            self.act(Action::SkipLocally { owner });
        }
        self.act(Action::TakeLocally { owner });
    }

    fn refused(&mut self, session: u64, error: TakeError, after: Option<&LeaseSeen>) {
        let Some(owner) = self.owner(session).map(|owner| owner.session) else {
            let is_over = matches!(error, TakeError::Closed | TakeError::LeaseLost);
            return self.check(is_over, || format!("{session} is closed"));
        };
        if let Some(after) = after {
            self.catch_up(owner, after);
            self.look(owner, after);
        }
        let (is_lost, was_closed) = (self.lease(owner).lost, error == TakeError::Closed);
        self.check(!was_closed, || format!("{session} is not closed"));
        self.check(is_lost || error != TakeError::LeaseLost, || "its lease lasts".into());
    }

    pub(super) fn closed(&mut self, session: u64, last: Option<Uid>) {
        let Some(owner) = self.owner(session).map(|owner| owner.session) else { return };
        let lease = self.lease(owner);
        if let Some(last) = last.map(|uid| self.position(uid))
            && (lease.next <= last && lease.ready.is_empty() && lease.last.is_none())
        {
            // Its first tick came from the clock, and it issued nothing.
            self.act(Action::ClockRuns { owner, tick: self.model.tick_of(last + 1) });
        }
        self.settle(owner, last);
        self.act(Action::Close { owner });
    }
}
