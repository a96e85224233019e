//! Random histories of instances of a ZooKeeper registry, in virtual time. Hosts have bad clocks, and are cut off,
//! paused and killed.
//!
//! The whole protocol is the real one, from a start's claim to the last release, with leases and generators. Only the
//! servers are simulated: a tree of nodes with sessions, which a request reaches after a delay, or never. Others run in
//! the middle of each request. See docs/lease-model.md.

mod events;
mod requests;
mod seen;
mod sim;
mod trace;
mod tree;
mod world;

#[cfg(test)]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fastrand::Rng;
use uidring::worker::Lease;
use uidring::{Error, StoreErrorKind};
use uidring_zookeeper::ZooKeeperError;
use uidring_zookeeper::protocol::begin;

use self::requests::{ModelFile, ModelSession};
use self::seen::Shown;
use self::sim::Sim;
pub use self::trace::{
    Follower, InstanceSeen, Node, Request, ReservedSeen, SessionSeen, Setting, Snapshot, Step,
};
pub use self::world::Counts;
use self::world::{Grant, Owner, Start, State, World};
#[cfg(test)]
use crate::History;
use crate::{Begun, ByHand, Generator, Histories, Issuer, Property, lock};

/// Runs histories, each judged by a follower alone: this process no longer checks the properties.
pub fn run_followed<F: Follower>(
    histories: Histories,
    follow: impl Fn(&Setting) -> F + Sync,
) -> Counts {
    Property::ignore_all();
    histories.run_each(|seed| {
        let mut world = World::new(Rng::with_seed(seed), Grant::Registry, None);
        world.follow(follow(&world.setting()));
        Sim::new(seed, world, start)
    })
}

#[test]
fn histories_of_a_registry() {
    let replay = "cargo test -p uidring-simulation --all-features histories_of_a_registry";
    let histories = Histories::from_env(1_500, replay);
    let counts = histories.run_each(|seed| sim(seed, Grant::Registry, None));
    let count = histories.count();
    if count < 1_000 {
        return;
    }
    // If nothing happens, the histories show nothing.
    let Counts { uids, uids_cut_off, acquired, refused, unanswered, .. } = counts;
    let Counts { renewals, failed, releases, lost, late, .. } = counts;
    let rare = [uids_cut_off, refused, unanswered, failed, releases, lost, late];
    assert!(rare.iter().all(|&rare| rare > count / 10), "{counts:?}");
    assert!(acquired > count && renewals > count && uids > 100 * count, "{counts:?}");
}

/// The fault that the model is for: the local file grants more than the registry holds, and another process issues it,
/// too.
#[test]
fn a_grant_by_the_local_file_alone_is_caught() {
    const MOST: u64 = 20_000;
    let first = Histories::from_env(MOST, "").first();
    for property in [Property::Covered, Property::Once] {
        let caught = (0..MOST).find_map(|number| {
            let sim = sim(first.wrapping_add(number), Grant::LocalFile, Some(property));
            let panic = catch_unwind(AssertUnwindSafe(|| sim.live())).err()?;
            let what = panic.downcast_ref::<String>().expect("a text").clone();
            // A panic within a call of the core is contained there, and ends the history with another message.
            what.starts_with(&format!("{property:?}: ")).then_some((number, what))
        });
        let (number, what) = caught.unwrap_or_else(|| panic!("{property:?} is never broken"));
        println!("history {number} breaks it: {what}");
    }
}

/// Returns the history of a seed. Checks only `only`, if given.
#[cfg(test)]
fn sim(seed: u64, grant: Grant, only: Option<Property>) -> Sim {
    Sim::new(seed, World::new(Rng::with_seed(seed), grant, only), start)
}

fn start(sim: &Sim, start: Start) {
    let Start { process, options, layout, wall, time } = start;
    let mut rng = sim.world().rng.fork();
    let file = ModelFile::new(sim.clone(), process);
    let lease = begin(&options, &layout, Some(file), |applicant| {
        Ok(ModelSession::new(sim.clone(), process, applicant))
    });
    let begun = Begun::default();
    let built = lease.and_then(|lease| {
        let (worker_id, before) = (lease.worker_id(), lease.after());
        let sim = sim.clone();
        let terms = lease.terms();
        let (_, backend) = lease.into_parts();
        let shown = Shown { sim, process, has_begun: false, backend };
        let lease = Lease::new(layout, worker_id, before, terms, shown)?;
        let renewer = ByHand { time, seed: rng.u64(..), begun: Arc::clone(&begun) };
        let generator = Generator::build(&mut rng, layout, lease.renewed_by(renewer), wall)?;
        Ok((worker_id, before, generator))
    });
    let begun = lock(&begun).take();
    let mut world = sim.world();
    match &built {
        Ok(_) => world.counts.acquired += 1,
        Err(Error::UsedAhead { .. }) => world.counts.refused += 1,
        Err(error) => match error.store() {
            Some(ZooKeeperError::Registry {
                kind: StoreErrorKind::Unreachable | StoreErrorKind::Denied | StoreErrorKind::Corrupt,
                ..
            }) => world.counts.unanswered += 1,
            Some(
                ZooKeeperError::InstanceInUse { .. } | ZooKeeperError::ClockBehindStored { .. },
            ) => world.counts.refused += 1,
            _ => panic!("{error}"),
        },
    }
    let state = match (built, begun) {
        (Ok((worker_id, before, generator)), Some((renewals, lease))) => {
            let issuer = Issuer::new(worker_id, before, renewals, generator);
            State::Running(Box::new(Owner { process, issuer, lease: Some(lease) }))
        }
        _ => State::Idle,
    };
    // It may have been killed meanwhile.
    let is_alive = world.is_alive(process);
    let is_built = matches!(state, State::Running(_));
    let unused = if is_alive { world.set(process, state) } else { state };
    if is_alive {
        let process = process.number;
        world.note(if is_built { Step::Built { process } } else { Step::Ended { process } });
    }
    world.check_owners();
    drop(world);
    drop(unused);
}
