//! Many histories, or one again.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::beside::{Open, Setting, StoreUnderTest};
use super::counts::Counts;
use super::sim::{STEPS, Sim};
use crate::sync::lock;

/// A seed to replay, or the first one if there is a count too.
pub const SEED: &str = "UIDRING_LEASES_SEED";
/// How many histories, if not as many as fit between other tests.
pub const COUNT: &str = "UIDRING_LEASES_COUNT";

/// Random histories of owners of leases, each told by its seed.
///
/// A violation is a panic that names the seed, the step, and the command that replays the history.
#[derive(Clone, Copy, Debug)]
pub struct Histories {
    first: u64,
    count: u64,
    replay: &'static str,
}

impl Histories {
    /// What the variables `UIDRING_LEASES_SEED` and `UIDRING_LEASES_COUNT` ask for: one history with
    /// a seed alone; without both as many as `count`, from a random seed. `replay` is the command
    /// that runs them, for the text of a violation.
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
        self.run_with(None)
    }

    /// Runs them on the model's own store, and has a store that `open` opens do the same beside it:
    /// whatever it answers otherwise is a violation.
    pub fn run_beside<S: StoreUnderTest>(self, open: impl Fn(&Setting) -> S + Sync) -> Counts {
        self.run_with(Some(&|setting| Box::new(open(setting))))
    }

    fn run_with(self, open: Option<&Open<'_>>) -> Counts {
        let Self { count, .. } = self;
        let counts = thread::scope(|scope| {
            let halves = [0, 1].map(|from| scope.spawn(move || self.share(from, open)));
            let mut counts = Counts::default();
            for half in halves {
                counts += half.join().expect("no violation");
            }
            counts
        });
        println!("{count} histories: {counts:?}");
        counts.check(count);
        counts
    }

    /// Every other history.
    fn share(self, from: u64, open: Option<&Open<'_>>) -> Counts {
        let Self { first, count, replay } = self;
        let mut counts = Counts::default();
        for number in (from..count).step_by(2) {
            let seed = first.wrapping_add(number);
            let sim = Sim::new(seed, open);
            let lived = catch_unwind(AssertUnwindSafe(|| sim.live()));
            counts += lived.unwrap_or_else(|_| {
                let step = lock(&sim.0).steps;
                panic!(
                    "history {number} of {count}, in step {step} of {STEPS}; replay: \
                     {SEED}={seed} {replay}"
                )
            });
        }
        counts
    }
}
