//! Hosts, a store, and the messages between them.

use std::collections::HashSet;
use std::mem;

use fastrand::Rng;

use super::Counts;
use super::check::Property;
use super::host::{Generator, Host, Owner, State, Suspended};
use super::store::{Fenced, Holding, Store};
use crate::error::{Error, TakeError};
use crate::layout::{Bits, Layout, Tick};
use crate::timestamp::Timestamp;
use crate::uid::Uid;
use crate::worker::{LeaseTerms, RenewError, Request, Task};

pub(super) const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600_000;

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) layout: Layout,
    pub(super) terms: LeaseTerms,
    /// Of a lease, in nanoseconds.
    pub(super) lasts: u64,
    /// Clocks are as good as the margin assumes.
    is_calm: bool,
    /// How many of ten steps are trouble, and how many of a hundred messages.
    trouble: u8,
    loss: u8,
    /// The true time, in nanoseconds.
    pub(super) now: u64,
    pub(super) store: Store,
    store_step: i64,
    store_down_until: u64,
    pub(super) hosts: Vec<Host>,
    events: Vec<(u64, Event)>,
    /// Owners whose generators are to be built.
    pub(super) starts: Vec<(usize, u64, Holding)>,
    sessions: u64,
    issued: HashSet<Uid>,
    /// No message is lost or late any more.
    pub(super) is_orderly: bool,
    pub(super) counts: Counts,
}

enum Event {
    /// A message comes to the store; it is answered after this time, if at all.
    Asked {
        host: usize,
        session: u64,
        call: Call,
        answered_in: Option<u64>,
    },
    Answered {
        host: usize,
        session: u64,
        answer: Answer,
    },
}

#[derive(Clone, Copy)]
enum Call {
    Acquire,
    Renew(Holding, Request),
    Release(Holding, Option<Uid>),
}

enum Answer {
    Acquired(Option<Holding>),
    Renewed(Request, Result<(), RenewError>),
    Released,
}

impl World {
    pub(super) fn new(mut rng: Rng) -> Self {
        let tick = if rng.bool() { Tick::Second } else { Tick::Millisecond };
        let bits = Bits { time: 44, worker: 4, sequence: rng.u8(1..5) };
        let epoch = "2026-01-01".parse().expect("a time");
        let layout = Layout::new(bits, tick, epoch).expect("possible");
        let lasts = [SECOND, 3 * SECOND, 10 * SECOND][rng.usize(0..3)];
        let mut terms = LeaseTerms::default();
        let lease = std::time::Duration::from_nanos(lasts);
        terms.lasts = Some(lease);
        terms.margin = lease / 10;
        terms.renew_every = lease / 3;
        // A real wait: starts are tried again instead.
        terms.max_start_wait = std::time::Duration::ZERO;
        let is_calm = rng.bool();
        let start: Timestamp = "2026-06-01".parse().expect("a time");
        let hosts = (0..rng.u8(2..5))
            .map(|_| {
                let rate = if is_calm { rng.u64(901..1_100) } else { rng.u64(500..2_000) };
                let host = Host::new(start, rate);
                host.step_wall(rng.i64(-2_000..2_000));
                host
            })
            .collect();
        Self {
            store: Store::new(layout, rng.usize(1..3), lasts),
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
            issued: HashSet::new(),
            is_orderly: false,
            counts: Counts::default(),
            rng,
        }
    }

    pub(super) fn store_time(&self) -> i64 {
        self.now as i64 + self.store_step
    }

    /// One thing happens.
    pub(super) fn act(&mut self) {
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
                _ => self.attend(host),
            }
        }
        self.check_owners();
    }

    fn make_trouble(&mut self, host: usize) {
        let lasts = self.lasts;
        match self.rng.u8(0..12) {
            0 => self.hosts[host].state = State::Idle,
            1..4 => self.pause(host),
            4..8 => {
                let most = [100, 5_000, 5 * HOUR][self.rng.usize(0..3)] as i64;
                self.hosts[host].step_wall(self.rng.i64(-most..most));
            }
            8 => self.fence(),
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
            // Takers are the first to run again.
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
                        self.attend(host);
                    }
                }
            }
            self.check_owners();
        }
    }

    fn move_to(&mut self, now: u64) {
        for host in &mut self.hosts {
            host.pass(self.now, now - self.now);
        }
        self.now = now;
    }

    fn is_awake(&self, host: usize) -> bool {
        self.now >= self.hosts[host].paused_until
    }

    /// The thread of a lease does what is to be done.
    fn renew(&mut self, host: usize) {
        let Some(owner) = self.hosts[host].owner().filter(|owner| !owner.is_waiting) else {
            return;
        };
        let (session, holding) = (owner.session, owner.holding);
        match owner.renewals.next() {
            Task::Wait(_) => {}
            Task::Renew(request) => {
                owner.is_waiting = true;
                let failed = Answer::Renewed(request, Err(RenewError::Failed(problem())));
                self.send(host, session, Call::Renew(holding, request), failed);
            }
            Task::Release(last) => {
                self.hosts[host].state = State::Idle;
                self.counts.releases += 1;
                self.send(host, session, Call::Release(holding, last), Answer::Released);
            }
        }
    }

    /// A message is on its way: it may be lost, be late, come twice, or its answer may be lost.
    fn send(&mut self, host: usize, session: u64, call: Call, failed: Answer) {
        let (there, back) = (self.delay(), self.delay());
        let patience = self.rng.u64(1..self.lasts / 2);
        let asked = |answered_in| Event::Asked { host, session, call, answered_in };
        let fate = if self.goes_wrong() { self.rng.u8(0..3) } else { 3 };
        if fate < 2 {
            let failed = Event::Answered { host, session, answer: failed };
            self.events.push((self.now + patience, failed));
        }
        match fate {
            0 => {}
            1 => self.events.push((self.now + there, asked(None))),
            _ => self.events.push((self.now + there, asked(Some(back)))),
        }
        if fate == 2 {
            let again = self.delay();
            self.events.push((self.now + there + again, asked(None)));
        }
    }

    pub(super) fn goes_wrong(&mut self) -> bool {
        !self.is_orderly && self.rng.u8(0..100) < self.loss
    }

    pub(super) fn delay(&mut self) -> u64 {
        let most = match self.rng.u8(0..4) {
            0 if self.goes_wrong() => 2 * self.lasts,
            1..3 if self.goes_wrong() => self.lasts / 2,
            _ => 20_000_000,
        };
        self.rng.u64(1..most)
    }

    pub(super) fn is_store_down(&self) -> bool {
        self.now < self.store_down_until && !self.is_orderly
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::Asked { host, session, call, answered_in } => {
                let answer = self.perform(session, call);
                if let Some(time) = answered_in {
                    let answered = Event::Answered { host, session, answer };
                    self.events.push((self.now + time, answered));
                }
            }
            // Nobody hears of it before the pause is over.
            Event::Answered { host, .. } if !self.is_awake(host) => {
                self.events.push((self.hosts[host].paused_until, event));
            }
            Event::Answered { host, session, answer } => self.answered(host, session, answer),
        }
    }

    fn perform(&mut self, session: u64, call: Call) -> Answer {
        let is_down = self.is_store_down();
        let now = self.store_time();
        match call {
            Call::Acquire if is_down => Answer::Acquired(None),
            Call::Acquire => Answer::Acquired(self.store.acquire(session, now)),
            Call::Renew(_, request) if is_down => {
                Answer::Renewed(request, Err(RenewError::Failed(problem())))
            }
            Call::Renew(holding, request) => {
                Answer::Renewed(request, self.renew_row(holding, request.horizon()))
            }
            Call::Release(holding, last) => {
                if !is_down {
                    let _ = self.store.release(holding, last);
                }
                Answer::Released
            }
        }
    }

    pub(super) fn renew_row(&mut self, holding: Holding, horizon: u64) -> Result<(), RenewError> {
        let now = self.store_time();
        self.store.renew(holding, horizon, now).map_err(|Fenced| RenewError::Lost(problem()))
    }

    fn answered(&mut self, host: usize, session: u64, answer: Answer) {
        let there = &mut self.hosts[host];
        match answer {
            Answer::Acquired(holding) => {
                if !matches!(there.state, State::Acquiring(other) if other == session) {
                    return;
                }
                there.state = State::Idle;
                if let Some(holding) = holding {
                    self.start(host, session, holding);
                }
            }
            Answer::Renewed(request, answer) => {
                let Some(owner) = there.owner_of(session) else { return };
                owner.is_waiting = false;
                self.counts.renewals += u64::from(answer.is_ok());
                let is_lost = matches!(answer, Err(RenewError::Lost(_)));
                owner.renewals.answered(request, answer);
                let goes_on = is_lost && owner.renewals.is_live();
                Property::Ended.check(!goes_on, || format!("{:?} goes on", owner.holding));
            }
            Answer::Released => {}
        }
    }

    /// The store has given a lease to a new session: its generator is built next.
    pub(super) fn start(&mut self, host: usize, session: u64, holding: Holding) {
        self.counts.seized += u64::from(holding.is_seized);
        self.counts.acquired += 1;
        self.hosts[host].state = State::Starting(session);
        self.starts.push((host, session, holding));
    }

    pub(super) fn new_session(&mut self) -> u64 {
        self.sessions += 1;
        self.sessions
    }

    fn acquire(&mut self, host: usize) {
        let is_live = |owner: &mut Owner| owner.renewals.is_live();
        // Who has lost its lease is done with.
        if self.hosts[host].owner().is_some_and(|owner| !is_live(owner)) {
            return self.close(host);
        }
        if matches!(self.hosts[host].state, State::Idle) && self.is_awake(host) {
            let session = self.new_session();
            self.hosts[host].state = State::Acquiring(session);
            self.send(host, session, Call::Acquire, Answer::Acquired(None));
        }
    }

    fn close(&mut self, host: usize) {
        if self.is_awake(host)
            && let Some(owner) = self.hosts[host].owner()
        {
            owner.generator.close();
            owner.is_closed = true;
        }
    }

    fn fence(&mut self) {
        if self.store.len() == 0 {
            return;
        }
        let worker_id = self.rng.usize(0..self.store.len()) as u64;
        self.store.fence(worker_id, self.rng.bool());
    }

    fn attend(&mut self, host: usize) {
        if self.is_awake(host)
            && let Some(owner) = self.hosts[host].owner()
        {
            let is_live = owner.renewals.is_live();
            owner.is_shut |= owner.generator.attend() && !is_live;
        }
    }

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
        Property::Ended.check(!owner.is_closed && !owner.is_shut, || format!("{}", name()));
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

    /// Who may go on by its own account does so by the store's, too.
    pub(super) fn check_owners(&mut self) {
        if !self.is_calm {
            return;
        }
        for owner in self.hosts.iter_mut().filter_map(Host::owner) {
            let is_fenced = self.store.is_fenced(owner.holding);
            if is_fenced || owner.is_closed || !owner.renewals.is_live() {
                continue;
            }
            let is_owner = self.store.is_owner(owner.session, owner.holding);
            Property::Owner.check(is_owner, || format!("{:?} lives", owner.holding));
        }
    }
}

/// A problem of the store's; any error will do.
pub(super) fn problem() -> Error {
    Error::NoDataDirectory
}
