//! Takers, and what they may get.

use std::mem;

use uidring::model::{Generator, Property};
use uidring::{TakeError, Uid};

use super::world::{Owner, State, World};
use crate::lease::end_of;

impl World {
    pub(super) fn take(&mut self, host: usize) {
        if !self.is_awake(host) {
            return;
        }
        // Out of its place while it is looked at.
        let state = mem::replace(&mut self.hosts[host].state, State::Idle);
        if let State::Running(mut owner) = state {
            self.take_from(&mut owner);
            self.hosts[host].state = State::Running(owner);
        } else {
            self.hosts[host].state = state;
        }
    }

    fn take_from(&mut self, owner: &mut Owner) {
        let count = self.rng.usize(1..60);
        if self.rng.u8(0..4) == 0 {
            let mut uids = vec![Uid::default(); count];
            let is_live = owner.renewals.is_live();
            match owner.generator.try_fill(&mut uids) {
                Ok(given) => {
                    for &uid in &uids[..given] {
                        self.accept_next(owner, uid, is_live);
                    }
                }
                Err(error) => self.accept_error(owner, error),
            }
            return;
        }
        let locally = self.rng.u8(0..3) == 0;
        for _ in 0..count {
            let is_live = owner.renewals.is_live();
            if locally && let Some(taken) = owner.generator.take_locally() {
                match taken {
                    Ok(uid) => self.accept_local(owner, uid, is_live),
                    Err(error) => return self.accept_error(owner, error),
                }
            } else {
                match owner.generator.try_next_uid() {
                    Ok(uid) => self.accept_next(owner, uid, is_live),
                    Err(error) => return self.accept_error(owner, error),
                }
            }
        }
    }

    /// A uid of the generator itself is above all before it.
    fn accept_next(&mut self, owner: &mut Owner, uid: Uid, is_live: bool) {
        let last = owner.last;
        self.check(Property::Order, last < Some(uid), || format!("{uid} after {last:?}"));
        self.accept(owner, uid, is_live);
        owner.last = Some(uid);
    }

    fn accept_local(&mut self, owner: &mut Owner, uid: Uid, is_live: bool) {
        let last = owner.last_local;
        self.check(Property::Order, last < Some(uid), || format!("{uid} after {last:?}, locally"));
        self.accept(owner, uid, is_live);
        owner.last_local = Some(uid);
        owner.last = owner.last.max(Some(uid));
    }

    fn accept(&mut self, owner: &Owner, uid: Uid, is_live: bool) {
        let (worker_id, before) = (owner.worker_id, owner.before);
        let found = self.layout.decode(uid).expect("of the layout");
        assert_eq!(found.worker_id, worker_id);
        let name = || format!("{}/{worker_id}/{}", found.tick, found.sequence);
        let is_new = self.issued.insert(uid);
        self.check(Property::Once, is_new, || format!("{} came twice", name()));
        let held = self.reserved(owner.process);
        let is_held = held.is_some_and(|held| end_of(&self.layout, found.tick) <= held);
        self.check(Property::Covered, is_held, || format!("{} above {held:?}", name()));
        let is_above = before < Some(uid);
        self.check(Property::Above, is_above, || format!("{} not above {before:?}", name()));
        self.check(Property::Ended, !owner.is_closed && !owner.is_shut, name);
        if let (false, Generator::Clocked(_)) = (is_live, &owner.generator) {
            let tick = |uid| self.layout.decode(uid).expect("of the layout").tick;
            let granted = owner.last.or(before).map(tick);
            let is_granted = granted == Some(found.tick);
            self.check(Property::Ended, is_granted, || format!("{} is new", name()));
        }
        self.counts.uids += 1;
        self.counts.uids_cut_off += u64::from(self.is_cut_off(owner.process.host));
    }

    fn accept_error(&mut self, owner: &Owner, error: TakeError) {
        let is_expected = match error {
            TakeError::Empty | TakeError::BorrowLimit { .. } | TakeError::ClockBackwards { .. } => {
                !owner.is_closed && !owner.is_shut
            }
            TakeError::LeaseLost => {
                self.counts.lost += 1;
                !owner.renewals.is_live()
            }
            TakeError::Closed => owner.is_closed,
            _ => false,
        };
        self.check(Property::Ended, is_expected, || format!("unexpected: {error:?}"));
    }
}
