//! Messages between hosts and the store, and how they fail.

use uidring::simulation::LeaseAction;
use uidring::worker::RenewError;

use super::check::Property;
use super::event::{Answer, Call, Event, problem};
use super::holding::{Fenced, Holding};
use super::host::{Owner, State};
use super::trace::{self, Step};
use super::world::World;

impl World {
    pub(super) fn acquire(&mut self, host: usize) {
        let is_live = |owner: &mut Owner| owner.issuer.renewals.is_live();
        // An owner that has lost its lease closes.
        if self.hosts[host].owner().is_some_and(|owner| !is_live(owner)) {
            return self.close(host);
        }
        if matches!(self.hosts[host].state, State::Idle) && self.is_awake(host) {
            let session = self.new_session();
            self.hosts[host].state = State::Acquiring(session);
            self.send(host, session, Call::Acquire, Answer::Acquired(None));
        }
    }

    pub(super) fn new_session(&mut self) -> u64 {
        self.sessions += 1;
        self.sessions
    }

    pub(super) fn renew(&mut self, host: usize) {
        let Some(owner) = self.hosts[host].owner().filter(|owner| !owner.is_waiting) else {
            return;
        };
        let (session, holding) = (owner.session, owner.holding);
        match owner.issuer.renewals.next_action() {
            LeaseAction::Wait(_) => {}
            LeaseAction::Renew(request) => {
                owner.is_waiting = true;
                let failed = Answer::Renewed(request, Err(RenewError::Failed(problem())));
                let horizon = request.horizon();
                self.note(Step::RenewalAsked { session, horizon });
                self.send(host, session, Call::Renew(holding, request), failed);
            }
            LeaseAction::Release(last) => {
                self.hosts[host].state = State::Idle;
                self.counts.releases += 1;
                self.send(host, session, Call::Release(holding, last), Answer::Released);
            }
        }
    }

    /// Sends a message. It may be lost, late or repeated, or its answer lost.
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

    pub(super) fn deliver(&mut self, event: Event) {
        match event {
            Event::Asked { host, session, call, answered_in } => {
                let answer = self.perform(session, call, answered_in.is_some());
                if let Some(time) = answered_in {
                    let answered = Event::Answered { host, session, answer };
                    self.events.push((self.now + time, answered));
                }
            }
            // The host hears it after its pause.
            Event::Answered { host, .. } if !self.is_awake(host) => {
                self.events.push((self.hosts[host].paused_until, event));
            }
            Event::Answered { host, session, answer } => self.answered(host, session, answer),
        }
    }

    fn perform(&mut self, session: u64, call: Call, is_answered: bool) -> Answer {
        let is_down = self.is_store_down();
        let now = self.store_time();
        match call {
            Call::Acquire if is_down => Answer::Acquired(None),
            Call::Acquire => {
                let holding = self.store.acquire(session, now);
                let lease = holding.map(|holding| (holding.worker_id, holding.token));
                self.note(Step::Acquired { session, lease });
                Answer::Acquired(holding)
            }
            Call::Renew(_, request) if is_down => {
                Answer::Renewed(request, Err(RenewError::Failed(problem())))
            }
            Call::Renew(holding, request) => {
                let answer = self.renew_row(holding, request.horizon(), is_answered);
                Answer::Renewed(request, answer)
            }
            Call::Release(holding, last) => {
                if !is_down {
                    let _ = self.store.release(holding, last);
                    let lease = (holding.worker_id, holding.token);
                    self.note(Step::Released { lease, last });
                }
                Answer::Released
            }
        }
    }

    pub(super) fn renew_row(
        &mut self,
        holding: Holding,
        horizon: u64,
        is_answered: bool,
    ) -> Result<(), RenewError> {
        let now = self.store_time();
        let answer = self.store.renew(holding, horizon, now);
        let lease = (holding.worker_id, holding.token);
        self.note(Step::Renewed { lease, horizon, is_held: answer.is_ok(), is_answered });
        answer.map_err(|Fenced| RenewError::Lost(problem()))
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
                let lease = holding.map(|holding| (holding.worker_id, holding.token));
                self.note(Step::AcquireAnswered { session, lease });
            }
            Answer::Renewed(request, answer) => {
                let Some(owner) = there.owner_of(session) else { return };
                owner.is_waiting = false;
                self.counts.renewals += u64::from(answer.is_ok());
                let is_lost = matches!(answer, Err(RenewError::Lost(_)));
                let said = trace::Answer::from(&answer);
                owner.issuer.renewals.answered(request, answer);
                let goes_on = is_lost && owner.issuer.renewals.is_live();
                Property::Ended.check(!goes_on, || format!("{:?} goes on", owner.holding));
                self.note(Step::RenewalAnswered { session, answer: said });
            }
            Answer::Released => {}
        }
    }

    /// The store has given a lease to a new session. Its generator is built next.
    pub(super) fn start(&mut self, host: usize, session: u64, holding: Holding) {
        self.counts.seized += u64::from(holding.is_seized);
        self.counts.acquired += 1;
        self.hosts[host].state = State::Starting(session);
        self.starts.push((host, session, holding));
    }
}
