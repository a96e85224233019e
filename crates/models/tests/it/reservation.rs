//! Reservations.

use uidring_models::reservation::{Mutation, Reservation};
use uidring_models::{Clocks, check, check_mutation};

use crate::assert_holds;

const SHORT: Reservation = Reservation {
    hosts: 2,
    starts: 2,
    sessions: 2,
    ticks: 1,
    clocks: Clocks::Anything,
    mutation: None,
};

#[test]
fn no_uid_comes_twice_whatever_clocks_sessions_and_messages_do() {
    assert_holds("reservation", &check(SHORT), &[]);
}

#[test]
fn with_calm_clocks_who_is_live_has_the_name_alone() {
    let model = Reservation { clocks: Clocks::Calm, hosts: 1, ..SHORT };
    // An outage is shorter than a session.
    let never = ["one with a lease has lost its session"];
    assert_holds("reservation, calm", &check(model), &never);
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

/// It takes three sessions and two ticks to see this one.
#[test]
#[ignore = "takes minutes: see scripts/models"]
fn who_is_let_in_again_looks_at_the_holder() {
    let mutation = Some(Mutation::HolderIgnored);
    let model = Reservation { sessions: 3, ticks: 2, mutation, ..SHORT };
    let found = check_mutation(model, "Covered");
    println!("HolderIgnored: Covered after {} states", found.unique);
    assert!(found.history.is_some(), "it violates nothing");
}
