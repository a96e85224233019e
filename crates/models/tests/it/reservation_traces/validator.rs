//! Follows each instance of a history in a model of its own.

use std::collections::{HashMap, HashSet};
use std::mem::Discriminant;
use std::sync::{Arc, Mutex};

use uidring_models::Full;
use uidring_models::reservation::Action;
use uidring_simulation::lock;
use uidring_simulation::registry::{Follower, Setting, Snapshot, Step};

use super::instance::Instance;

pub type Kinds = HashSet<Discriminant<Action<Full>>>;

pub struct Validator {
    /// What all histories have seen.
    seen: Arc<Mutex<Kinds>>,
    instances: Vec<Instance>,
    /// The instance of each process, and of each session.
    processes: HashMap<u64, usize>,
    sessions: HashMap<i64, usize>,
}

impl Validator {
    pub fn new(setting: &Setting, seen: Arc<Mutex<Kinds>>) -> Self {
        let instances = (0..setting.instances).map(|_| Instance::new(setting)).collect();
        Self { seen, instances, processes: HashMap::new(), sessions: HashMap::new() }
    }

    /// Returns the instance of a step, or `None` if it concerns all.
    fn instance_of(&mut self, step: &Step) -> Option<usize> {
        // A session of which no process has heard has no instance.
        if let Step::SessionEnded { session, .. } = *step {
            return self.sessions.get(&session).copied();
        }
        let process = step.process()?;
        if let Step::Started { instance, .. } = *step {
            self.processes.insert(process, instance.into());
        }
        let instance = self.processes[&process];
        if let Step::Connected { session, .. } = *step {
            self.sessions.insert(session, instance);
        }
        Some(instance)
    }
}

impl Drop for Validator {
    fn drop(&mut self) {
        for instance in &self.instances {
            lock(&self.seen).extend(instance.kinds.iter().copied());
        }
    }
}

impl Follower for Validator {
    fn step(&mut self, step: &Step, after: &Snapshot) {
        let of = self.instance_of(step);
        for (number, instance) in self.instances.iter_mut().enumerate() {
            instance.begin(step);
            if of == Some(number) || matches!(step, Step::Passed { .. }) {
                instance.follow(step, after);
            }
        }
        // All instances share one sequence of numbers.
        let made: Vec<_> =
            self.instances.iter().map(|instance| instance.state.registry.made).collect();
        let most = made.iter().copied().max().unwrap_or_default();
        for (number, instance) in self.instances.iter_mut().enumerate() {
            if made[number] < most {
                instance.act(Action::OthersNumber);
            }
            instance.compare(step, &after.instances[number], after);
        }
    }
}
