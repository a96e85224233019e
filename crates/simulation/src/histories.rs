//! Runs many histories, or replays one.

use std::env;
use std::fmt::Debug;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::beside::{Open, Setting, StoreUnderTest};
use super::check::Property;
use super::counts::Counts;
use super::lock::lock;
use super::sim::Sim;
use super::trace::{Follow, Follower};

/// The variable with the seed to replay, or with the first seed if a count is set.
pub const SEED: &str = "UIDRING_LEASES_SEED";
/// The variable with the number of histories. The default fits between other tests.
pub const COUNT: &str = "UIDRING_LEASES_COUNT";

/// Random histories of owners of leases, each determined by its seed.
///
/// A violation panics with the seed, the step, and the command that replays the history.
#[derive(Clone, Copy, Debug)]
pub struct Histories {
    first: u64,
    count: u64,
    replay: &'static str,
}

impl Histories {
    /// Reads `UIDRING_LEASES_SEED` and `UIDRING_LEASES_COUNT`. With a seed alone, it is one history; with neither,
    /// `count` histories from a random seed. `replay` is the command that runs them, for the message of a violation.
    pub fn from_env(count: u64, replay: &'static str) -> Self {
        let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let (first, count) = match (number(SEED), number(COUNT)) {
            (Some(seed), count) => (seed, count.unwrap_or(1)),
            (None, asked) => (fastrand::u64(..), asked.unwrap_or(count)),
        };
        Self { first, count, replay }
    }

    /// Runs them on the model's own store.
    pub fn run(self) -> Counts {
        self.run_with(None, None)
    }

    /// Runs them on the model's own store and the one that `open` returns. Different answers are a violation.
    pub fn run_beside<S: StoreUnderTest>(self, open: impl Fn(&Setting) -> S + Sync) -> Counts {
        self.run_with(Some(&|setting| Box::new(open(setting))), None)
    }

    /// Runs them on the model's own store, each judged by a follower alone: this process no longer checks the
    /// properties.
    pub fn run_followed<F: Follower>(self, follow: impl Fn(&Setting) -> F + Sync) -> Counts {
        Property::ignore_all();
        self.run_with(None, Some(&|setting| Box::new(follow(setting))))
    }

    fn run_with(self, open: Option<&Open<'_>>, follow: Option<&Follow<'_>>) -> Counts {
        let counts = self.run_each(|seed| Sim::new(seed, open, follow));
        counts.check(self.count);
        counts
    }

    /// Runs another model, which makes a history of each seed.
    pub fn run_each<H: History>(self, history: impl Fn(u64) -> H + Sync) -> H::Counts {
        let half = |from| {
            let Self { first, count, replay } = self;
            let mut counts = H::Counts::default();
            for number in (from..count).step_by(2) {
                let seed = first.wrapping_add(number);
                let history = history(seed);
                let lived = catch_unwind(AssertUnwindSafe(|| history.live()));
                counts += lived.unwrap_or_else(|_| {
                    let step = history.step();
                    panic!(
                        "history {number} of {count}, in step {step}; replay: \
                         {SEED}={seed} {replay}"
                    )
                });
            }
            counts
        };
        let counts = thread::scope(|scope| {
            let other = scope.spawn(|| half(1));
            let mut counts = half(0);
            counts += other.join().expect("no violation");
            counts
        });
        println!("{} histories: {counts:?}", self.count);
        counts
    }

    /// Returns how many there are.
    pub fn count(self) -> u64 {
        self.count
    }

    /// Returns the first seed. The others follow consecutively.
    pub fn first(self) -> u64 {
        self.first
    }
}

/// A history, determined by its seed.
pub trait History {
    /// The counts of what happens.
    type Counts: AddAssign + Debug + Default + Send;

    /// Runs it.
    fn live(&self) -> Self::Counts;

    /// Returns the current step.
    fn step(&self) -> u32;
}

impl History for Sim {
    type Counts = Counts;

    fn live(&self) -> Counts {
        self.run()
    }

    fn step(&self) -> u32 {
        lock(&self.0).steps
    }
}
