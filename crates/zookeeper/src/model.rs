//! Instances of a ZooKeeper registry on hosts with bad clocks, which are cut off, paused and killed:
//! random histories of them, in virtual time.
//!
//! The whole protocol is the real one, from the start's claim to the last release, with the keepers,
//! the state of the lease, and the generators. Only the servers are played: a tree of nodes with
//! sessions, which each request reaches after a while, if at all. Whatever is asked of them, others
//! go on meanwhile. docs/lease-model.md has the rest.

mod requests;
mod takes;
mod tree;
mod world;

use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::{env, mem, thread};

use fastrand::Rng;
use uidring::Error;
use uidring::adapter::Monotonic;
use uidring::model::{
    COUNT, Generator, ManualMonotonic, Property, RenewalState, Renewer, SEED, lock,
};
use uidring::worker::{LeaseBackend, RenewError};

use self::requests::{ModelFile, ModelSession};
use self::world::{Owner, Start, State, Task, World};
use crate::ZooKeeperError;
use crate::start::begin;

const STEPS: u32 = 150;

/// In the middle of so many requests the others wait.
const MAX_DEPTH: u32 = 2;

/// How the instances go on while the registry is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grant {
    /// By what the registry holds.
    Reserved,
    /// By the local file, as the first version did, and as an instance does that risks repeats.
    Unmended,
}

#[test]
fn histories_of_a_registry() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (first, count) = match (number(SEED), number(COUNT)) {
        (Some(seed), count) => (seed, count.unwrap_or(1)),
        (None, count) => (fastrand::u64(..), count.unwrap_or(1_500)),
    };
    let share = |from: u64| {
        let mut counts = Counts::default();
        for number in (from..count).step_by(2) {
            let seed = first.wrapping_add(number);
            let sim = Sim::new(seed, Grant::Reserved, None);
            counts += catch_unwind(AssertUnwindSafe(|| sim.live())).unwrap_or_else(|_| {
                let words = "cargo test -p uidring-zookeeper histories_of_a_registry";
                panic!("history {number} of {count}; replay: {SEED}={seed} {words}")
            });
        }
        counts
    };
    let counts = thread::scope(|scope| {
        let halves = [0, 1].map(|from| scope.spawn(move || share(from)));
        let mut counts = Counts::default();
        for half in halves {
            counts += half.join().expect("no violation");
        }
        counts
    });
    println!("{count} histories: {counts:?}");
    if count < 1_000 {
        return;
    }
    // A model in which nothing happens shows nothing.
    let Counts { uids, uids_cut_off, acquired, refused, unanswered, .. } = counts;
    let Counts { renewals, failed, releases, lost, late, .. } = counts;
    let rare = [uids_cut_off, refused, unanswered, failed, releases, lost, late];
    assert!(rare.iter().all(|&rare| rare > count / 10), "{counts:?}");
    assert!(acquired > count && renewals > count && uids > 100 * count, "{counts:?}");
}

/// The fault that the model is for: what the local file alone grants is above what the registry
/// holds, and somebody else issues it too.
#[test]
fn the_unmended_grant_is_caught() {
    const MOST: u64 = 20_000;
    let first =
        env::var(SEED).map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("one"));
    for property in [Property::Covered, Property::Once] {
        let caught = (0..MOST).find_map(|number| {
            let sim = Sim::new(first.wrapping_add(number), Grant::Unmended, Some(property));
            let panic = catch_unwind(AssertUnwindSafe(|| sim.live())).err()?;
            let what = panic.downcast_ref::<String>().expect("a text").clone();
            Some((number, what))
        });
        let (number, what) = caught.unwrap_or_else(|| panic!("{property:?} is never broken"));
        println!("history {number} breaks it: {what}");
        assert!(what.starts_with(&format!("{property:?}: ")), "{what}");
    }
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    uids: u64,
    /// Of these, those that were taken while the host was cut off.
    uids_cut_off: u64,
    acquired: u64,
    /// Starts that the registry or an earlier reservation did not allow.
    refused: u64,
    /// Starts that had no answer.
    unanswered: u64,
    renewals: u64,
    failed: u64,
    releases: u64,
    /// Takes.
    lost: u64,
    /// Transactions that were executed after they were given up.
    late: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.uids += other.uids;
        self.uids_cut_off += other.uids_cut_off;
        self.acquired += other.acquired;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
        self.renewals += other.renewals;
        self.failed += other.failed;
        self.releases += other.releases;
        self.lost += other.lost;
        self.late += other.late;
    }
}

/// A history. Whatever is asked of the servers, others go on in the middle of it: hence the lock,
/// which nobody holds then.
#[derive(Clone)]
struct Sim(Arc<Mutex<World>>);

impl Sim {
    fn new(seed: u64, grant: Grant, only: Option<Property>) -> Self {
        // For the generators' own use.
        fastrand::seed(seed);
        Self(Arc::new(Mutex::new(World::new(Rng::with_seed(seed), grant, only))))
    }

    fn live(&self) -> Counts {
        for _ in 0..STEPS {
            self.step();
        }
        self.end();
        lock(&self.0).counts
    }

    /// One thing happens, and what follows from it.
    fn step(&self) {
        let pass = lock(&self.0).act();
        self.advance(pass);
        self.work();
    }

    /// Time passes.
    fn advance(&self, nanos: u64) {
        let end = lock(&self.0).now + nanos;
        while lock(&self.0).pass(end) {
            self.work();
        }
    }

    /// While somebody waits for the servers.
    fn meanwhile(&self) {
        let (time, steps) = {
            let mut world = lock(&self.0);
            let steps = if world.is_orderly { 0 } else { world.rng.u32(0..8).saturating_sub(6) };
            (world.delay(), steps)
        };
        self.advance(time);
        for _ in 0..steps {
            self.step();
        }
    }

    /// Does what waits to be done by processes, unless it is in the middle of too much already.
    fn work(&self) {
        // Out of the lock: what goes with them may need it.
        let dead = mem::take(&mut lock(&self.0).dead);
        drop(dead);
        if lock(&self.0).depth >= MAX_DEPTH {
            return;
        }
        loop {
            let next = lock(&self.0).next_start();
            let Some(start) = next else { break };
            lock(&self.0).depth += 1;
            self.start(start);
            lock(&self.0).depth -= 1;
        }
        loop {
            let next = lock(&self.0).tasks.pop();
            let Some(task) = next else { break };
            lock(&self.0).depth += 1;
            self.perform(task);
            lock(&self.0).depth -= 1;
        }
    }

    fn start(&self, start: Start) {
        let Start { process, options, layout, wall, time } = start;
        let mut rng = lock(&self.0).rng.fork();
        let file = ModelFile::new(self.clone(), process);
        let lease = begin(&options, &layout, Some(file), |applicant| {
            Ok(ModelSession::new(self.clone(), process, applicant))
        });
        let begun = Begun::default();
        let built = lease.and_then(|lease| {
            let (worker_id, before) = (lease.worker_id(), lease.after());
            let renewer = ByHand { time, seed: rng.u64(..), begun: Arc::clone(&begun) };
            let generator = Generator::build(&mut rng, layout, lease.renewed_by(renewer), wall)?;
            Ok((worker_id, before, generator))
        });
        let begun = lock(&begun).take();
        let mut world = lock(&self.0);
        match &built {
            Ok(_) => world.counts.acquired += 1,
            Err(Error::UsedAhead { .. }) => world.counts.refused += 1,
            Err(error) => match error.store() {
                Some(ZooKeeperError::Registry { .. }) => world.counts.unanswered += 1,
                Some(
                    ZooKeeperError::InstanceInUse { .. } | ZooKeeperError::ClockBehindStored { .. },
                ) => world.counts.refused += 1,
                _ => panic!("{error}"),
            },
        }
        let state = match (built, begun) {
            (Ok((worker_id, before, generator)), Some((renewals, keeper))) => {
                State::Running(Box::new(Owner {
                    process,
                    worker_id,
                    before,
                    renewals,
                    keeper: Some(keeper),
                    is_closed: false,
                    is_shut: false,
                    generator,
                    last: None,
                    last_local: None,
                }))
            }
            _ => State::Idle,
        };
        // One that was killed meanwhile is not there any more.
        let unused = if world.is_alive(process) { world.set(process, state) } else { state };
        world.check_owners();
        drop(world);
        drop(unused);
    }

    fn perform(&self, task: Task) {
        match task {
            Task::Renew(process, mut keeper, request) => {
                let answer = keeper.renew(request.horizon());
                let mut world = lock(&self.0);
                let Some(owner) = world.owner(process) else {
                    drop(world);
                    return;
                };
                let (is_ok, is_lost) = (answer.is_ok(), matches!(answer, Err(RenewError::Lost(_))));
                owner.renewals.answered(request, answer);
                owner.keeper = Some(keeper);
                let goes_on = is_lost && owner.renewals.is_live();
                world.counts.renewals += u64::from(is_ok);
                world.counts.failed += u64::from(!is_ok && !is_lost);
                world.check(Property::Ended, !goes_on, || format!("{process:?} goes on"));
                world.check_owners();
            }
            Task::Release(process, mut keeper, last) => {
                let _ = keeper.release(last);
                // It ends the session, if that has not been done.
                drop(keeper);
                let mut world = lock(&self.0);
                world.counts.releases += 1;
                let ended = world.is_alive(process).then(|| world.set(process, State::Idle));
                drop(world);
                drop(ended);
            }
        }
    }

    /// Everybody is killed. Once their sessions have ended, every instance can start, and goes on
    /// above what was issued.
    fn end(&self) {
        lock(&self.0).kill_all();
        self.work();
        let instances = {
            let mut world = lock(&self.0);
            world.is_orderly = true;
            world.instances()
        };
        for instance in 0..instances {
            let wait = lock(&self.0).prepare_last_start(instance);
            self.advance(wait);
            self.work();
            let mut world = lock(&self.0);
            let before = world.counts.uids;
            world.take(0);
            let is_used = world.counts.uids > before;
            world.check(Property::Progress, is_used, || format!("{instance} is of no use"));
            world.kill_all();
            drop(world);
            self.work();
        }
    }
}

/// What a generator's lease begins with.
type Begun = Arc<Mutex<Option<(RenewalState, Box<dyn LeaseBackend>)>>>;

/// Has the lease of a generator renewed by the model.
struct ByHand {
    time: ManualMonotonic,
    seed: u64,
    begun: Begun,
}

impl Renewer for ByHand {
    fn time(&self) -> Arc<dyn Monotonic> {
        Arc::new(self.time.clone())
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn begin(&self, renewals: RenewalState, keeper: Box<dyn LeaseBackend>) -> Result<(), Error> {
        *lock(&self.begun) = Some((renewals.unattended(), keeper));
        Ok(())
    }
}
