//! Segments.

use uidring_models::segments::{Mutation, Segments};
use uidring_models::{check, check_mutation};

use crate::assert_holds;

const SHORT: Segments = Segments {
    generators: 2,
    starts: 2,
    greatest: 5,
    steps: 2,
    depth: 2,
    changes: 1,
    may_lower: false,
    mutation: None,
};

#[test]
fn no_number_comes_twice_whatever_is_lost_late_or_repeated() {
    assert_holds("segments", &check(SHORT), &[]);
}

/// As docs/inside-segments.md says, only the generator itself notices.
#[test]
fn who_lowers_max_id_breaks_no_generators_order() {
    let model = Segments { may_lower: true, greatest: 4, steps: 1, ..SHORT };
    assert_holds("segments, lowered", &check(model), &[]);
}

#[test]
fn each_mutation_violates_its_property() {
    for &(mutation, property) in Mutation::ALL {
        let may_lower = mutation == Mutation::AnyRange;
        let model = Segments { mutation: Some(mutation), may_lower, ..SHORT };
        let found = check_mutation(model, property);
        println!("{mutation:?}: {property} after {} states", found.unique);
        assert!(found.history.is_some(), "{mutation:?} does not violate {property}");
    }
}
