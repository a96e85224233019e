//! One history: its steps, and the generators built in it.

use std::sync::{Arc, Mutex};

use fastrand::Rng;
use uidring::adapter::Monotonic;
use uidring::simulation::{ManualMonotonic, RenewalMachine, Renewer};
use uidring::worker::{Lease, LeaseBackend, RenewError};
use uidring::{Error, Uid};

use super::beside::Open;
use super::check::Property;
use super::counts::Counts;
use super::event::problem;
use super::holding::Holding;
use super::host::{Host, Owner, State};
use super::issuer::{Generator, Issued, Issuer};
use super::lock::lock;
use super::trace::{Answer, Follow, Step};
use super::world::{MILLISECOND, START, World};

pub(super) const STEPS: u32 = 200;

/// A history. Others run while a start waits for the store, hence the lock.
#[derive(Clone)]
pub(super) struct Sim(pub(super) Arc<Mutex<World>>);

impl Sim {
    pub(super) fn new(seed: u64, open: Option<&Open<'_>>, follow: Option<&Follow<'_>>) -> Self {
        // The generators use this seed.
        fastrand::seed(seed);
        Self(Arc::new(Mutex::new(World::new(Rng::with_seed(seed), open, follow))))
    }

    pub(super) fn run(&self) -> Counts {
        for _ in 0..STEPS {
            self.step(0);
        }
        self.end();
        let world = lock(&self.0);
        let Issued { uids, uids_after_loss, lost, .. } = world.issued;
        Counts { uids, uids_after_loss, lost, ..world.counts }
    }

    fn step(&self, depth: u32) {
        lock(&self.0).act();
        self.build(depth);
    }

    /// Builds the generators of sessions that have got a lease. With too many in progress, others wait.
    fn build(&self, depth: u32) {
        const MAX_DEPTH: u32 = 2;
        if depth == MAX_DEPTH {
            return;
        }
        let next = || lock(&self.0).starts.pop();
        while let Some((host, session, holding)) = next() {
            self.build_one(host, session, holding, depth);
        }
    }

    fn build_one(&self, host: usize, session: u64, holding: Holding, depth: u32) {
        let (mut rng, layout, terms, wall, time) = {
            let mut world = lock(&self.0);
            if !world.hosts[host].is_starting(session) {
                // It was killed before its turn.
                return;
            }
            let (layout, terms) = (world.layout, world.terms);
            let rng = world.rng.fork();
            let there = &world.hosts[host];
            (rng, layout, terms, there.wall.clone(), there.time.clone())
        };
        let backend = Keeper { sim: self.clone(), session, holding, depth };
        let begun = Begun::default();
        let renewer = ByHand { time, seed: rng.u64(..), begun: Arc::clone(&begun) };
        let lease = Lease::new(layout, holding.worker_id, holding.before, terms, backend)
            .expect("in range")
            .renewed_by(renewer);
        let built = Generator::build(&mut rng, layout, lease, wall);
        let mut world = lock(&self.0);
        match &built {
            Ok(_) => {}
            Err(Error::UsedAhead { .. }) => world.counts.refused += 1,
            Err(Error::Store(_)) => world.counts.unanswered += 1,
            Err(other) => panic!("{other}"),
        }
        if !world.hosts[host].is_starting(session) {
            // It has crashed meanwhile.
            return;
        }
        let state = &mut world.hosts[host].state;
        *state = State::Idle;
        if let (Ok(generator), Some((renewals, _))) = (built, lock(&begun).take()) {
            let issuer = Issuer::new(holding.worker_id, holding.before, renewals, generator);
            *state =
                State::Running(Box::new(Owner { session, holding, is_waiting: false, issuer }));
        }
        let is_built = matches!(world.hosts[host].state, State::Running(_));
        world.note(Step::Built { session, is_built });
        world.check_owners();
    }

    /// All processes crash. After the leases expire, every id can be leased again, and its uids are above what was
    /// issued.
    fn end(&self) {
        let rows = {
            let mut world = lock(&self.0);
            world.starts.clear();
            for host in 0..world.hosts.len() {
                world.crash(host);
            }
            // Until the last message has arrived.
            let lasts = world.lasts;
            world.advance(6 * lasts);
            world.is_orderly = true;
            let now = world.store_time();
            let left = world.store.last_end().map_or(0, |end| end - now);
            world.now += left.max(0) as u64 * MILLISECOND;
            world.store.worker_ids()
        };
        for _ in rows {
            let mut world = lock(&self.0);
            let (session, now) = (world.new_session(), world.store_time());
            let holding = world.store.acquire(session, now).expect("free");
            let lease = Some((holding.worker_id, holding.token));
            world.note(Step::Acquired { session, lease });
            let before = holding.before.map(|uid| world.layout.decode(uid).expect("of the layout"));
            let mut host = Host::new(START, 1_000);
            if let Some(before) = before {
                let next = world.layout.time_of(before.tick + 1);
                host = Host::new(next, 1_000);
            }
            world.crash(0);
            world.hosts[0] = host;
            world.start(0, session, holding);
            world.note(Step::AcquireAnswered { session, lease });
            drop(world);
            self.build(0);
            let mut world = lock(&self.0);
            let before = world.issued.uids;
            world.take(0);
            let is_used = world.issued.uids > before;
            Property::Progress.check(is_used, || format!("{holding:?} is of no use"));
        }
    }
}

/// Renews a start's lease. Others run while it waits for the store.
struct Keeper {
    sim: Sim,
    session: u64,
    holding: Holding,
    depth: u32,
}

impl Keeper {
    fn meanwhile(&self) {
        let mut world = lock(&self.sim.0);
        let time = world.delay();
        world.advance(time);
        let steps = if world.is_orderly { 0 } else { world.rng.u32(0..6).saturating_sub(2) };
        drop(world);
        for _ in 0..steps {
            self.sim.step(self.depth + 1);
        }
    }
}

impl LeaseBackend for Keeper {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        let session = self.session;
        lock(&self.sim.0).note(Step::RenewalAsked { session, horizon });
        let answer = self.ask(horizon);
        let step = Step::RenewalAnswered { session, answer: Answer::from(&answer) };
        lock(&self.sim.0).note(step);
        answer
    }

    /// Releases are messages of the model.
    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Err(problem())
    }
}

impl Keeper {
    fn ask(&self, horizon: u64) -> Result<(), RenewError> {
        let failed = || Err(RenewError::Failed(problem()));
        self.meanwhile();
        let (answer, is_answered) = {
            let mut world = lock(&self.sim.0);
            if world.goes_wrong() || world.is_store_down() {
                return failed();
            }
            let is_answered = !world.goes_wrong();
            (world.renew_row(self.holding, horizon, is_answered), is_answered)
        };
        self.meanwhile();
        if is_answered { answer } else { failed() }
    }
}

/// Where a generator's lease is put.
pub type Begun = Arc<Mutex<Option<(RenewalMachine, Box<dyn LeaseBackend>)>>>;

/// Lets the model renew a generator's lease.
pub struct ByHand {
    /// The lease's monotonic clock.
    pub time: ManualMonotonic,
    /// The seed of its random parts.
    pub seed: u64,
    /// Where the lease is put when the generator is built.
    pub begun: Begun,
}

impl Renewer for ByHand {
    fn time(&self) -> Arc<dyn Monotonic> {
        Arc::new(self.time.clone())
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn start(&self, renewals: RenewalMachine, backend: Box<dyn LeaseBackend>) -> Result<(), Error> {
        *lock(&self.begun) = Some((renewals.unattended(), backend));
        Ok(())
    }
}
