//! Takers, and what they may get.

use std::mem;

use super::check::Property;
use super::holding::Holding;
use super::host::{Generator, Owner, State};
use super::world::World;
use crate::error::TakeError;
use crate::uid::Uid;

impl World {
    pub(super) fn take(&mut self, host: usize) {
        if !self.is_awake(host) {
            return;
        }
        // Taken out of the host while it is used.
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
        Property::Order.check(owner.last < Some(uid), || format!("{uid} after {:?}", owner.last));
        self.accept(owner, uid, is_live);
        owner.last = Some(uid);
    }

    fn accept_local(&mut self, owner: &mut Owner, uid: Uid, is_live: bool) {
        let last = owner.last_local;
        Property::Order.check(last < Some(uid), || format!("{uid} after {last:?}, locally"));
        self.accept(owner, uid, is_live);
        owner.last_local = Some(uid);
        owner.last = owner.last.max(Some(uid));
    }

    fn accept(&mut self, owner: &Owner, uid: Uid, is_live: bool) {
        let Holding { worker_id, before, .. } = owner.holding;
        let found = self.layout.decode(uid).expect("of the layout");
        assert_eq!(found.worker_id, worker_id);
        let name = || format!("{}/{worker_id}/{}", found.tick, found.sequence);
        Property::Once.check(self.issued.insert(uid), || format!("{} came twice", name()));
        let horizon = self.store.horizon(worker_id);
        Property::Covered.check(Some(uid) <= horizon, || format!("{} above {horizon:?}", name()));
        Property::Above.check(before < Some(uid), || format!("{} not above {before:?}", name()));
        Property::Ended.check(!owner.is_closed && !owner.is_shut, name);
        if let (false, Generator::Clocked(_)) = (is_live, &owner.generator) {
            let tick = |uid| self.layout.decode(uid).expect("of the layout").tick;
            let granted = owner.last.or(before).map(tick);
            Property::Ended.check(granted == Some(found.tick), || format!("{} is new", name()));
        }
        self.counts.uids += 1;
        self.counts.uids_after_loss += u64::from(!is_live);
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
        Property::Ended.check(is_expected, || format!("unexpected: {error:?}"));
    }
}
