//! Reservations.

use stateright::Model;
use uidring_models::reservation::{Action, Mutation, Request, Reservation, State};
use uidring_models::{Clocks, check, check_mutation};

use crate::assert_holds;

const SHORT: Reservation = Reservation::SMALL;

#[test]
fn no_uid_comes_twice_whatever_clocks_sessions_and_messages_do() {
    assert_holds("reservation", &check(SHORT), &[]);
}

#[test]
fn with_calm_clocks_who_is_live_has_the_name_alone() {
    let model = Reservation { clocks: Clocks::Calm, hosts: 1, ..SHORT };
    // This cannot happen, because an outage is shorter than a session.
    let never = ["one with a lease has lost its session"];
    assert_holds("reservation, calm", &check(model), &never);
}

/// Includes the steps that other searches leave out.
#[test]
fn details_break_no_promise() {
    let model = Reservation { in_detail: true, sessions: 1, ..SHORT };
    assert_holds("reservation, in detail", &check(model), &[]);
    let model =
        Reservation { in_detail: true, clocks: Clocks::Calm, hosts: 1, sessions: 1, ..SHORT };
    let never = ["one with a lease has lost its session"];
    assert_holds("reservation, in detail, calm", &check(model), &never);
}

#[test]
fn each_mutation_violates_its_property() {
    for &(mutation, property, clocks) in Mutation::ALL {
        let ticks = match mutation {
            Mutation::BudgetNotReserved | Mutation::RenewalAsksForLess => 2,
            _ => 1,
        };
        let model = Reservation { ticks, clocks, mutation: Some(mutation), ..SHORT };
        let found = check_mutation(model, property);
        println!("{mutation:?}: {property} after {} states", found.unique);
        assert!(found.history.is_some(), "{mutation:?} does not violate {property}");
    }
}

/// A search for this mutation's effect would take hours: it needs three sessions and two ticks. So here is the history:
/// an admitted process returns after another was admitted and has issued more.
#[test]
fn who_is_let_in_again_looks_at_the_holder() {
    use Action::{Connect, Expire, Hear, Pad, Read, Renew, Start, Take, Write};
    let mark = |session, process, known, until| {
        let (endpoint, reserved, frees_name) = (known, known, false);
        Action::Perform(Request::Mark { session, process, endpoint, reserved, until, frees_name })
    };
    let enter = |host, process, session, until: Option<u8>, horizon| {
        [
            Start { host },
            Connect { process, ago: 0 },
            Write { process },
            Action::Perform(Request::Name { session }),
            Hear { process },
            Read { process },
            Read { process },
            Write { process },
            mark(session, process, 1, until),
            Hear { process },
            Renew { process, horizon },
            Write { process },
            mark(session, process, 1, Some(horizon)),
            Hear { process },
        ]
    };
    let until_it_looks = [
        &enter(0, 1, 1, None, 0)[..],
        &[Expire { session: 1 }],
        &enter(1, 2, 2, Some(0), 1),
        &[Pad { process: 2 }, Expire { session: 2 }, Renew { process: 1, horizon: 0 }],
        // The session is over.
        &[
            Write { process: 1 },
            mark(1, 1, 0, Some(0)),
            Hear { process: 1 },
            Connect { process: 1, ago: 0 },
        ],
        &[Write { process: 1 }, Action::Perform(Request::Name { session: 3 }), Hear { process: 1 }],
        &[Read { process: 1 }, Read { process: 1 }],
    ]
    .concat();
    let and_then = [
        Write { process: 1 },
        mark(3, 1, 1, Some(1)),
        Hear { process: 1 },
        Write { process: 1 },
        mark(3, 1, 1, Some(0)),
        Take { process: 2 },
    ];
    let model = Reservation { sessions: 3, ticks: 2, ..SHORT };
    let state = replay(&model, &until_it_looks).expect("possible");
    assert!(state.processes[0].lease.as_ref().is_some_and(|lease| lease.lost), "{state:?}");
    assert!(model.next_state(&state, and_then[0].clone()).is_none(), "it goes no further");
    let mutated = Reservation { mutation: Some(Mutation::HolderIgnored), ..model };
    let state = replay(&mutated, &[&until_it_looks[..], &and_then].concat()).expect("possible");
    assert!(state.uncovered, "{state:?}");
}

/// Returns the state after these steps, if they are possible.
fn replay(model: &Reservation, steps: &[Action]) -> Option<State> {
    let begin = model.init_states().swap_remove(0);
    steps.iter().try_fold(begin, |state, step| model.next_state(&state, step.clone()))
}
