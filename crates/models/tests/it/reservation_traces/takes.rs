//! What a generator does with its lease: ticks that come into the ring, takes, and its end. A tick counts as taken with
//! its first uid, or when a local taker claims one.

use uidring::{TakeError, Uid};
use uidring_models::reservation::Action;
use uidring_models::{Clocks, Uids};
use uidring_simulation::{LeaseSeen, RingSeen, Take};

use super::instance::Instance;

impl Instance {
    fn tick_of(&self, number: u64) -> u64 {
        self.place_of(number).0
    }

    /// Returns tick and sequence number.
    fn place_of(&self, number: u64) -> (u64, u64) {
        let uid = Uid::new(number).expect("of the layout");
        let found = self.setting.layout.decode(uid).expect("of the layout");
        (found.tick, found.sequence)
    }

    /// Performs what the process's threads have done so far.
    fn catch_up(&mut self, name: u64, seen: &LeaseSeen) {
        if seen.is_lost && !self.lease(name).lost {
            self.act(Action::Notice { process: name });
        }
        let Some(ring) = seen.ring else { return };
        let new = ring.runs.saturating_sub(self.runs.insert(name, ring.runs).unwrap_or(0));
        if new > 0 {
            let last = self.tick_of(ring.end - 1);
            for tick in last + 1 - new..=last {
                self.pad(name, tick);
            }
        }
    }

    fn pad(&mut self, name: u64, tick: u64) {
        if self.lease(name).next < tick {
            self.act(Action::ClockRuns { process: name, tick });
        }
        let next = self.lease(name).next;
        self.check(next == tick, || format!("the next tick is {next}, not {tick}"));
        self.act(Action::Pad { process: name });
    }

    /// Skips all ready ticks below this one.
    fn skip_to(&mut self, name: u64, tick: u64) {
        if self.lease(name).ready.first().is_some_and(|first| first < tick) {
            self.act(Action::Skip { process: name, tick: tick - 1 });
        }
    }

    fn has_taken(&self, name: u64, tick: u64) -> bool {
        self.taken.get(&name).is_some_and(|taken| taken.has(tick))
    }

    fn take(&mut self, name: u64) {
        let tick = self.lease(name).ready.first().unwrap_or_default();
        self.act(Action::Take { process: name });
        self.taken.entry(name).or_default().add(tick, tick + 1);
    }

    pub(super) fn took_all(&mut self, name: u64, takes: &[Take]) {
        // What entered the ring during a batch was ready for the rest of it.
        if let [Take { after: None, .. }, .., Take { after: Some(after), .. }] = takes {
            self.catch_up(name, after);
        }
        for take in takes {
            if let Some(after) = &take.after {
                self.catch_up(name, after);
            }
            match take.uid {
                Ok(uid) => self.took(name, uid, take.block_end),
                Err(error) => self.refused(name, error),
            }
        }
    }

    fn took(&mut self, name: u64, uid: Uid, block_end: Option<u64>) {
        self.check(!self.closed.contains(&name), || format!("{name} is closed"));
        let tick = self.tick_of(uid.get());
        if let Some(end) = block_end {
            if !self.has_taken(name, tick) {
                self.skip_to(name, tick);
                let last = self.tick_of(end - 1);
                while self.lease(name).ready.first().is_some_and(|first| first <= last) {
                    self.take(name);
                }
            }
            self.check(self.has_taken(name, tick), || format!("tick {tick} was not claimed"));
        } else if !self.has_taken(name, tick) {
            if !self.runs.contains_key(&name) && !self.lease(name).ready.has(tick) {
                let rest = self.lease(name).ready.last().map_or(0, |last| last + 1);
                self.skip_to(name, rest);
                self.pad(name, tick);
            }
            self.skip_to(name, tick);
            let first = self.lease(name).ready.first();
            self.check(first == Some(tick), || format!("tick {tick} is not ready"));
            self.take(name);
        } else {
            let last = self.lease(name).last;
            self.check(last == Some(tick), || format!("tick {tick} is over"));
        }
        let until = self.state.registry.reserved.until;
        self.check(until >= Some(tick), || format!("tick {tick} is not reserved"));
    }

    fn refused(&self, name: u64, error: TakeError) {
        let (is_lost, is_closed) = (self.lease(name).lost, self.closed.contains(&name));
        let is_right = match error {
            TakeError::Closed => is_closed,
            TakeError::LeaseLost => is_lost,
            _ => !is_closed,
        };
        self.check(is_right, || format!("{error}: lost {is_lost}, closed {is_closed}"));
    }

    /// Nothing above `last` was issued.
    pub(super) fn close(&mut self, name: u64, last: Option<Uid>) {
        let Some(last) = last.map(|uid| self.tick_of(uid.get())) else { return };
        let lease = self.lease(name);
        if Some(last) > lease.last.max(lease.base) {
            if lease.next <= last {
                // Its first tick came from the clock, and it issued nothing.
                self.act(Action::ClockRuns { process: name, tick: last + 1 });
            }
            self.act(Action::Skip { process: name, tick: last });
        }
        let lease = self.lease(name);
        let issued = lease.last.max(lease.base);
        self.check(issued == Some(last).max(lease.base), || {
            format!("{name} has issued up to {issued:?}, not {last}")
        });
    }

    pub(super) fn compare_lease(&mut self, name: u64, seen: &LeaseSeen) {
        self.catch_up(name, seen);
        if let Some(ring) = seen.ring.filter(|ring| ring.last.is_none()) {
            self.compare_ring(name, &ring);
        }
        let is_calm = self.model.clocks == Clocks::Calm;
        let lease = self.lease(name);
        let left = seen.time_left.map(|left| left.as_nanos() as u64);
        let is_same = (lease.horizon, lease.lost) == (Some(seen.horizon), seen.is_lost);
        let is_same_time = !is_calm || seen.is_lost || left == Some(lease.left());
        self.check(is_same && is_same_time, || format!("the lease of {name} is not {seen:?}"));
    }

    fn compare_ring(&mut self, name: u64, ring: &RingSeen) {
        let Some(next) = ring.next else {
            let rest = self.lease(name).ready.last().map_or(0, |last| last + 1);
            self.skip_to(name, rest);
            return self.check(ring.available == 0, || format!("{name} has more ready: {ring:?}"));
        };
        let (tick, sequence) = self.place_of(next);
        self.skip_to(name, tick);
        let ready = &self.lease(name).ready;
        let of_it = u64::from(ready.has(tick));
        let uids = self.setting.layout.uids_per_tick();
        let expected = (ready.count() - of_it) * uids + uids - sequence;
        let is_there = of_it == 1 || self.has_taken(name, tick);
        self.check(is_there && expected == ring.available, || {
            format!("{name} has not ready what the ring has: {ring:?}, but {expected} from {tick}")
        });
    }
}
