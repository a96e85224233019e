//! Checks a model.

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

/// The result of visiting all states of a model.
#[derive(Debug)]
pub struct Checked {
    /// States that steps led to, including those visited before.
    pub states: usize,
    /// Distinct states.
    pub unique: usize,
    /// The number of steps to the furthest state.
    pub depth: usize,
    /// How long the search took.
    pub time: Duration,
    /// Properties that do not hold, each with a history that violates it.
    pub violated: Vec<(&'static str, String)>,
    /// What should be possible, but happens in no state.
    pub never: Vec<&'static str>,
}

/// The result of looking for one violation in a mutated model.
#[derive(Debug)]
pub struct Mutated {
    /// A history that violates the property, if there is one.
    pub history: Option<String>,
    /// Distinct states visited until it was found.
    pub unique: usize,
}

/// Visits all states of a model.
///
/// # Panics
///
/// Panics if the checker does.
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

/// Searches for a violation of this property alone.
///
/// # Panics
///
/// Panics if the checker does, or if the model has no such property.
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

/// One step per line.
fn history(steps: Vec<impl Debug>) -> String {
    steps.iter().enumerate().map(|(i, step)| format!("{:3}. {step:?}\n", i + 1)).collect()
}

impl Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, unique, depth, time, .. } = self;
        write!(f, "{states} | {unique} | {depth} | {:.1}", time.as_secs_f64())
    }
}
