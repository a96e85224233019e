//! How a model is checked.

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

/// A model of which all states were visited.
#[derive(Debug)]
pub struct Checked {
    /// States that steps led to, those that were known included.
    pub states: usize,
    /// Different states.
    pub unique: usize,
    /// The steps to the state that is furthest away.
    pub depth: usize,
    /// How long that took.
    pub time: Duration,
    /// Properties that do not hold, each with a history that shows it.
    pub violated: Vec<(&'static str, String)>,
    /// What was to be possible, and is in none of the states.
    pub never: Vec<&'static str>,
}

/// What became of a property in a mutated model.
#[derive(Debug)]
pub struct Mutated {
    /// A history that violates it, if there is one.
    pub history: Option<String>,
    /// Different states that were visited until it was found.
    pub unique: usize,
}

/// Visits all states of a model.
///
/// # Panics
///
/// If the checker does.
pub fn check<M>(model: M) -> Checked
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let begun = Instant::now();
    let failures = HasDiscoveries::AnyFailures;
    let checker = model.checker().threads(threads()).finish_when(failures).spawn_bfs().join();
    let (mut violated, mut never) = (Vec::new(), Vec::new());
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        match (property.expectation.discovery_is_failure(), found) {
            (true, Some(path)) => violated.push((property.name, history(path.into_actions()))),
            (false, None) => never.push(property.name),
            _ => {}
        }
    }
    Checked {
        states: checker.state_count(),
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        time: begun.elapsed(),
        violated,
        never,
    }
}

/// Looks for a violation of this property alone.
///
/// # Panics
///
/// If the checker does, or the model has no such property.
pub fn check_mutation<M>(model: M, property: &'static str) -> Mutated
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    model.property(property);
    let found = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = model.checker().threads(threads()).finish_when(found).spawn_bfs().join();
    let history = checker.discovery(property).map(|path| history(path.into_actions()));
    Mutated { history, unique: checker.unique_state_count() }
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// A step a line.
fn history(steps: Vec<impl Debug>) -> String {
    steps.iter().enumerate().map(|(i, step)| format!("{:3}. {step:?}\n", i + 1)).collect()
}

impl Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, unique, depth, time, .. } = self;
        write!(f, "{states} | {unique} | {depth} | {:.1}", time.as_secs_f64())
    }
}
