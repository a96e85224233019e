//! A history in progress: its steps, and what others do in the middle of a request.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use uidring::worker::RenewError;

use super::trace::Step;
use super::world::{Counts, Job, Start, State, Task, World};
use crate::{Answer, History, Issued, Property, lock};

const STEPS: u32 = 150;

/// In the middle of this many requests, others wait.
const MAX_DEPTH: u32 = 2;

/// A history. Others run in the middle of each request to the servers, so nobody holds the lock then.
#[derive(Clone)]
pub(super) struct Sim {
    world: Arc<Mutex<World>>,
    start: fn(&Sim, Start),
}

impl History for Sim {
    type Counts = Counts;

    fn live(&self) -> Counts {
        for _ in 0..STEPS {
            self.act();
        }
        self.end();
        let world = self.world();
        let Issued { uids, lost, .. } = world.issued;
        Counts { uids, lost, ..world.counts }
    }

    fn step(&self) -> u32 {
        self.world().steps
    }
}

impl Sim {
    pub(super) fn new(seed: u64, world: World, start: fn(&Sim, Start)) -> Self {
        // The generators use this seed.
        fastrand::seed(seed);
        Self { world: Arc::new(Mutex::new(world)), start }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// Performs one random step, and what follows from it.
    fn act(&self) {
        let pass = self.world().act();
        self.advance(pass);
        self.work();
    }

    pub(super) fn advance(&self, nanos: u64) {
        let end = self.world().now + nanos;
        while self.world().pass(end) {
            self.work();
        }
    }

    /// Others run while a process waits for the servers.
    pub(super) fn meanwhile(&self) {
        let (time, steps) = {
            let mut world = self.world();
            let steps = if world.is_orderly { 0 } else { world.rng.u32(0..8).saturating_sub(6) };
            (world.delay(), steps)
        };
        self.advance(time);
        for _ in 0..steps {
            self.act();
        }
    }

    /// Does the processes' pending work, unless too many requests are in progress.
    fn work(&self) {
        // Drop these without the lock, which their drops may need.
        let dead = mem::take(&mut self.world().dead);
        drop(dead);
        if self.world().depth >= MAX_DEPTH {
            return;
        }
        loop {
            let next = self.world().next_start();
            let Some(start) = next else { break };
            self.world().depth += 1;
            (self.start)(self, start);
            self.world().depth -= 1;
        }
        loop {
            let next = self.world().tasks.pop();
            let Some(task) = next else { break };
            self.world().depth += 1;
            self.perform(task);
            self.world().depth -= 1;
        }
    }

    fn perform(&self, Task { process, mut lease, job }: Task) {
        match job {
            Job::Renew(request) => {
                let answer = lease.renew(request.horizon());
                let mut world = self.world();
                let Some(owner) = world.owner(process) else {
                    drop(world);
                    return;
                };
                let (is_ok, is_lost) = (answer.is_ok(), matches!(answer, Err(RenewError::Lost(_))));
                let said = Answer::from(&answer);
                owner.issuer.renewals.answered(request, answer);
                owner.lease = Some(lease);
                let goes_on = is_lost && owner.issuer.renewals.is_live();
                world.note(Step::RenewalAnswered { process: process.number, answer: said });
                world.counts.renewals += u64::from(is_ok);
                world.counts.failed += u64::from(!is_ok && !is_lost);
                world.issued.check(Property::Ended, !goes_on, || format!("{process:?} goes on"));
                world.check_owners();
            }
            Job::Release(last) => {
                let _ = lease.release(last);
                // This ends the session, if it is still open.
                drop(lease);
                let mut world = self.world();
                world.counts.releases += 1;
                let ended = world.is_alive(process).then(|| {
                    let ended = world.set(process, State::Idle);
                    world.note(Step::Ended { process: process.number });
                    ended
                });
                drop(world);
                drop(ended);
            }
        }
    }

    /// All processes are killed. After their sessions end, every instance can start, and its uids are above what was
    /// issued.
    fn end(&self) {
        self.world().kill_all();
        self.work();
        let instances = {
            let mut world = self.world();
            world.is_orderly = true;
            world.instances
        };
        for instance in 0..instances {
            let wait = self.world().prepare_last_start(instance);
            self.advance(wait);
            self.work();
            let mut world = self.world();
            let before = world.issued.uids;
            world.take(0);
            let is_used = world.issued.uids > before;
            world.issued.check(Property::Progress, is_used, || format!("{instance} is of no use"));
            world.kill_all();
            drop(world);
            self.work();
        }
    }
}
