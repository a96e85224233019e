//! Histories of the ZooKeeper registry code. Each step has to be one of the model's.

mod instance;
mod requests;
mod takes;
mod validator;

use std::mem;
use std::sync::{Arc, Mutex};

use uidring_models::Full;
use uidring_models::reservation::{Action, Request};
use uidring_simulation::registry::run_followed;
use uidring_simulation::{Histories, lock};

use self::validator::Validator;

/// docs/lease-model.md, "Traces", says what is compared.
#[test]
fn histories_of_reservations_are_histories_of_the_model() {
    let replay = "cargo test -p uidring-models histories_of_reservations_are";
    let histories = Histories::from_env(300, replay);
    let seen = Arc::new(Mutex::default());
    run_followed(histories, |setting| Validator::new(setting, Arc::clone(&seen)));
    if histories.count() < 300 {
        return;
    }
    // If nothing happens in the histories, they show nothing.
    let seen = lock(&seen);
    let rare = RARE.iter().filter(|_| histories.count() >= 10_000);
    let never = OFTEN.iter().chain(rare).filter(|one| !seen.contains(&mem::discriminant(*one)));
    let never: Vec<_> = never.collect();
    assert!(never.is_empty(), "in no history: {never:?}");
}

/// One of each kind of action, except `Close` and `PerformUnheard`. In a trace, a close is a `Release` that succeeds at
/// once, and an unheard answer is followed by a failure.
const OFTEN: &[Action<Full>] = {
    let (process, session, tick) = (0, 0, 0);
    &[
        Action::Start { host: 0 },
        Action::Connect { process, ago: 0 },
        Action::Read { process },
        Action::Write { process },
        Action::Renew { process, horizon: 0 },
        Action::Perform(Request::Name { session }),
        Action::PerformLate(Request::Name { session }),
        Action::Hear { process },
        Action::Fail { process },
        Action::ClockRuns { process, tick },
        Action::Pad { process },
        Action::Take { process },
        Action::Notice { process },
        Action::Crash { process },
        Action::Ping { session },
        Action::Expire { session },
        Action::Pass { time: 0, counted: Vec::new() },
        Action::FindOver { process },
        Action::Skip { process, tick },
        Action::Release { process },
        Action::Leave { process },
        Action::OthersNumber,
    ]
};

/// Actions that occur in one of some hundred histories.
const RARE: &[Action<Full>] = {
    let process = 0;
    &[
        Action::BeginAgain { process },
        Action::FindHolder { process },
        Action::Reload { process, endpoint: 0, reserved: 0 },
    ]
};
