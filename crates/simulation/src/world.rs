//! The hosts and the store, and what happens to them.

use std::time::Duration;

use fastrand::Rng;
use uidring::simulation::LeaseAction;
use uidring::worker::LeaseTerms;
use uidring::{Bits, Layout, Tick, Timestamp};

use super::beside::{Beside, Open, Setting};
use super::check::Property;
use super::counts::Counts;
use super::event::Event;
use super::holding::Holding;
use super::host::{Host, State, Suspended};
use super::issuer::Issued;
use super::store::Store;
use super::trace::{Follow, Follower, Snapshot, Step};

pub(super) const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600_000;

/// 2026-06-01.
pub(super) const START: Timestamp = Timestamp::from_millis(1_780_272_000_000);

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) layout: Layout,
    pub(super) terms: LeaseTerms,
    /// The length of a lease, in nanoseconds.
    pub(super) lasts: u64,
    /// Clocks stay within the margin.
    is_calm: bool,
    /// Steps in ten that are trouble, and messages in a hundred that fail.
    trouble: u8,
    pub(super) loss: u8,
    /// The true time, in nanoseconds.
    pub(super) now: u64,
    pub(super) store: Store,
    store_step: i64,
    pub(super) store_down_until: u64,
    pub(super) hosts: Vec<Host>,
    /// Messages under way, with their arrival.
    pub(super) events: Vec<(u64, Event)>,
    pub(super) starts: Vec<(usize, u64, Holding)>,
    pub(super) sessions: u64,
    pub(super) issued: Issued,
    /// From now on, no message is lost or late.
    pub(super) is_orderly: bool,
    pub(super) counts: Counts,
    pub(super) steps: u32,
    follower: Option<Box<dyn Follower>>,
}

impl World {
    pub(super) fn new(mut rng: Rng, open: Option<&Open<'_>>, follow: Option<&Follow<'_>>) -> Self {
        let tick = if rng.bool() { Tick::Second } else { Tick::Millisecond };
        let bits = Bits { time: 44, worker: 4, sequence: rng.u8(1..5) };
        let epoch = "2026-01-01".parse().expect("a time");
        let layout = Layout::new(bits, tick, epoch).expect("possible");
        let lasts = [SECOND, 3 * SECOND, 10 * SECOND][rng.usize(0..3)];
        let mut terms = LeaseTerms::default();
        let lease = Duration::from_nanos(lasts);
        terms.lasts = Some(lease);
        terms.margin = lease / 10;
        terms.renew_every = lease / 3;
        let is_calm = rng.bool();
        let setting = Setting {
            layout,
            worker_ids: layout.max_worker_id() + 1 - rng.u64(1..3)..=layout.max_worker_id(),
            lasts: lease,
            margin: terms.margin,
            is_calm,
        };
        let beside = open.map(|open| Beside::new(&setting, open(&setting)));
        let issued = Issued::new(layout, None);
        let issued = if follow.is_some() { issued.followed() } else { issued };
        let hosts = (0..rng.u8(2..5))
            .map(|_| {
                let rate = if is_calm { rng.u64(901..1_100) } else { rng.u64(500..2_000) };
                let host = Host::new(START, rate);
                host.step_wall(rng.i64(-2_000..2_000));
                host
            })
            .collect();
        Self {
            store: Store::new(&setting, beside),
            layout,
            terms,
            lasts,
            is_calm,
            trouble: rng.u8(0..4),
            loss: [0, 3, 30][rng.usize(0..3)],
            now: 0,
            store_step: 0,
            store_down_until: 0,
            hosts,
            events: Vec::new(),
            starts: Vec::new(),
            sessions: 0,
            issued,
            is_orderly: false,
            counts: Counts::default(),
            steps: 0,
            follower: follow.map(|follow| follow(&setting)),
            rng,
        }
    }

    /// In milliseconds, as in databases.
    pub(super) fn store_time(&self) -> i64 {
        let nanos = self.now as i64 + self.store_step;
        START.as_millis() + nanos.div_euclid(MILLISECOND as i64)
    }

    pub(super) fn act(&mut self) {
        self.steps += 1;
        let host = self.rng.usize(0..self.hosts.len());
        let lasts = self.lasts;
        if self.rng.u8(0..10) < self.trouble {
            self.make_trouble(host);
        } else {
            match self.rng.u8(0..100) {
                0..50 => self.take(host),
                50..65 => self.pass(lasts / 12),
                65..75 => self.pass(lasts / 2),
                75..78 => self.pass(3 * lasts),
                78..92 => self.acquire(host),
                92..95 => self.close(host),
                _ => self.service(host),
            }
        }
        self.check_owners();
    }

    fn make_trouble(&mut self, host: usize) {
        let lasts = self.lasts;
        match self.rng.u8(0..12) {
            0 => self.crash(host),
            1..4 => self.pause(host),
            4..8 => {
                let most = [100, 5_000, 5 * HOUR][self.rng.usize(0..3)] as i64;
                self.hosts[host].step_wall(self.rng.i64(-most..most));
            }
            8 => self.operate(),
            9 => {
                let most = [lasts / 3, 2 * lasts][self.rng.usize(0..2)];
                self.store_down_until = self.now + self.rng.u64(0..most);
            }
            _ if self.is_calm => {}
            _ => {
                let most = [lasts, 5 * HOUR * 1_000_000][self.rng.usize(0..2)] as i64;
                self.store_step += self.rng.i64(-most..most);
            }
        }
    }

    fn pause(&mut self, host: usize) {
        let most = [self.lasts / 3, 3 * self.lasts][self.rng.usize(0..2)];
        let pause = self.rng.u64(0..most);
        let suspends = !self.is_calm && self.rng.bool();
        let with_wall = self.rng.bool();
        let there = &mut self.hosts[host];
        there.paused_until = self.now + pause;
        there.suspended = suspends.then_some(Suspended { with_wall });
        if self.rng.bool() {
            // Takers run first after the pause.
            self.advance(pause.saturating_sub(1));
            self.hosts[host].paused_until = self.now;
            self.take(host);
        }
    }

    fn pass(&mut self, most: u64) {
        let nanos = self.rng.u64(0..most);
        self.advance(nanos);
    }

    /// Time passes, messages arrive, and threads run now and then.
    pub(super) fn advance(&mut self, nanos: u64) {
        let end = self.now + nanos;
        while self.now < end {
            let nap = self.now + self.rng.u64(1..self.lasts / 6);
            let event = self.events.iter().map(|(at, _)| *at).min().unwrap_or(u64::MAX);
            self.move_to(end.min(nap).min(event.max(self.now)));
            while let Some(due) = self.events.iter().position(|(at, _)| *at <= self.now) {
                let (_, event) = self.events.swap_remove(due);
                self.deliver(event);
            }
            for host in 0..self.hosts.len() {
                if self.is_awake(host) && self.rng.u8(0..4) > 0 {
                    self.renew(host);
                    if self.rng.bool() {
                        self.service(host);
                    }
                }
            }
            self.check_owners();
        }
    }

    fn move_to(&mut self, now: u64) {
        let before = self.store_time();
        let mut by_sessions = Vec::new();
        for host in &mut self.hosts {
            let counted = host.pass(self.now, now - self.now);
            by_sessions.extend(host.session().map(|session| (session, counted)));
        }
        self.now = now;
        let by_store = self.store_time() - before;
        self.note(Step::Passed { by_store, by_sessions });
    }

    /// The process on a host ends without telling anyone.
    pub(super) fn crash(&mut self, host: usize) {
        let session = self.hosts[host].session();
        self.hosts[host].state = State::Idle;
        if let Some(session) = session {
            self.note(Step::Crashed { session });
        }
    }

    pub(super) fn note(&mut self, step: Step) {
        let Some(mut follower) = self.follower.take() else { return };
        let owners = self.hosts.iter_mut().filter_map(Host::owner);
        let owners = owners.map(|owner| (owner.session, owner.issuer.seen())).collect();
        let rows = self.store.seen(self.store_time());
        follower.step(&step, &Snapshot { rows, owners });
        self.follower = Some(follower);
    }

    pub(super) fn is_awake(&self, host: usize) -> bool {
        self.now >= self.hosts[host].paused_until
    }

    pub(super) fn take(&mut self, host: usize) {
        if self.is_awake(host)
            && let Some(owner) = self.hosts[host].owner()
        {
            let horizon = self.store.horizon(owner.holding.worker_id);
            owner.issuer.take(&mut self.rng, &mut self.issued, |uid| Some(uid) <= horizon);
            let session = owner.session;
            let takes = self.issued.taken();
            self.note(Step::Took { session, takes });
        }
    }

    pub(super) fn close(&mut self, host: usize) {
        if self.is_awake(host)
            && let Some(owner) = self.hosts[host].owner()
        {
            owner.issuer.close();
            let session = owner.session;
            // The action stays the same at every call.
            if let LeaseAction::Release(last) = owner.issuer.renewals.next_action() {
                self.note(Step::Closed { session, last });
            }
        }
    }

    fn operate(&mut self) {
        let now = self.store_time();
        let Some(worker_id) = self.rng.choice(self.store.worker_ids()) else { return };
        if self.rng.bool() {
            self.store.fence(worker_id, now);
            self.note(Step::Fenced { worker_id });
        } else {
            let is_free = self.store.free(worker_id, now);
            self.note(Step::Freed { worker_id, is_free });
        }
    }

    fn service(&mut self, host: usize) {
        if self.is_awake(host)
            && let Some(owner) = self.hosts[host].owner()
        {
            owner.issuer.service();
            let session = owner.session;
            self.note(Step::Serviced { session });
        }
    }

    /// An owner that may issue as far as it knows also owns the row in the store.
    pub(super) fn check_owners(&mut self) {
        if !self.is_calm {
            return;
        }
        for owner in self.hosts.iter_mut().filter_map(Host::owner) {
            let is_fenced = self.store.is_fenced(owner.holding);
            if is_fenced || !owner.issuer.is_live() {
                continue;
            }
            let is_owner = self.store.is_owner(owner.session, owner.holding);
            Property::Owner.check(is_owner, || format!("{:?} lives", owner.holding));
        }
    }
}
