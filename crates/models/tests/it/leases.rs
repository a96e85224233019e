//! Leases.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use uidring_models::leases::{FILES, Leases, Mutation, SAME_PROTOCOL};
use uidring_models::{Clocks, check, check_mutation};

use crate::assert_holds;

fn short(clocks: Clocks) -> Leases {
    // What depends on time does not depend on how much is issued.
    let (ticks, uids_per_tick) = if clocks == Clocks::Calm { (1, 1) } else { (2, 2) };
    Leases { ticks, uids_per_tick, clocks, ..Leases::SMALL }
}

#[test]
fn no_uid_comes_twice_whatever_clocks_and_messages_do() {
    assert_holds("leases", &check(short(Clocks::Anything)), &[]);
}

#[test]
fn three_starts_follow_each_other() {
    let model = Leases { starts: 3, ticks: 1, ..short(Clocks::Anything) };
    assert_holds("leases, three starts", &check(model), &["two have one worker id ready"]);
}

#[test]
fn an_operator_may_end_any_lease() {
    let model = Leases { ticks: 1, operations: 1, ..short(Clocks::Anything) };
    assert_holds("leases, an operator", &check(model), &["two have one worker id ready"]);
}

#[test]
fn with_calm_clocks_who_is_live_owns_its_row() {
    let checked = check(short(Clocks::Calm));
    assert_holds("leases, calm", &checked, &["two have one worker id ready"]);
}

#[test]
fn each_mutation_violates_its_property() {
    for &(mutation, property, clocks) in Mutation::ALL {
        let operations =
            matches!(mutation, Mutation::OwnerForToken | Mutation::FreesTheHeld).into();
        let model = Leases { mutation: Some(mutation), operations, ..short(clocks) };
        let found = check_mutation(model, property);
        println!("{mutation:?}: {property} after {} states", found.unique);
        assert!(found.history.is_some(), "{mutation:?} does not violate {property}");
    }
}

/// Checks what [`SAME_PROTOCOL`] says.
#[test]
fn a_release_may_keep_the_token() {
    let mutation = Some(Mutation::ReleaseKeepsToken);
    let model = Leases { mutation, ticks: 1, ..short(Clocks::Anything) };
    assert_holds(
        "leases, a release keeps the token",
        &check(model),
        &["two have one worker id ready"],
    );
}

/// Every mutation of the code has one here, and each of these is checked.
#[test]
fn every_mutation_of_the_code_has_its_like() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/mutations");
    let mut files = BTreeSet::new();
    for group in ["leases", "lease-rows"] {
        for entry in fs::read_dir(root.join(group)).expect("a folder") {
            let name = entry.expect("a file").file_name().into_string().expect("a name");
            files.insert(format!("{group}/{}", name.trim_end_matches(".mutation")));
        }
    }
    let named = FILES.iter().map(|(file, _)| *file);
    let named: BTreeSet<_> =
        named.chain(SAME_PROTOCOL.iter().map(|(file, _)| *file)).map(String::from).collect();
    assert_eq!(files, named);
    for (file, mutation) in FILES {
        assert!(Mutation::ALL.iter().any(|(checked, ..)| checked == mutation), "{file}");
    }
}
