//! Each broken rule is found by the property named here.

use uidring_testkit::suite::{herd, leases, processes, segments, worker_ids};

use crate::store::OwnStore;
use crate::table::Rule;

/// Defines tests that must fail.
macro_rules! found {
    ($($rule:ident: $of:ident::$property:ident, $says:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $says)]
        #[allow(non_snake_case)]
        fn $rule() {
            $of::$property(&OwnStore { without: Some(Rule::$rule) });
        }
    )*};
}

found! {
    CountsAtOnce: worker_ids::starts_at_once_have_one_each, "a scoped thread panicked";
    StartsAboveTheHorizon: leases::what_is_given_back_is_had_again_above_what_was_issued, "is below";
    StoresTheHorizon: leases::what_is_issued_was_in_the_store_before, "is out";
    SparesTheLiving: leases::when_all_are_held_the_error_says_so_or_the_start_waits, "more than the layout has";
    RenewsByToken: leases::a_change_by_others_ends_the_lease, "lost";
    ReleasesByToken: leases::the_next_holder_after_a_fence_is_above_the_one_before, "is_held";
    NoticesLostCommits: leases::a_horizon_that_was_set_back_ends_the_lease, "after commits were lost";
    HasOneLayout: herd::starts_of_two_layouts_at_once_have_leases_of_one, "layouts of ";
    GivesBackTheUnused: leases::what_is_not_used_is_given_back, "all worker ids are held";
    SaysThatAllAreHeld: leases::when_all_are_held_the_error_says_so_or_the_start_waits, "is not Held";
    LoadsAtOnce: segments::loads_at_once_have_no_id_in_common, "two ranges overlap";
    SparesInvalidRows: segments::what_cannot_be_served_leaves_the_row_as_it_is, "refused";
}

/// With each host's own clock, a start whose clock is ahead takes a held worker id.
#[test]
#[should_panic(expected = "a live lease was taken")]
#[allow(non_snake_case)]
fn HasItsOwnClock() {
    let child = concat!(module_path!(), "::child");
    processes::a_wrong_clock_ends_nobodys_lease(&BY_THE_HOSTS_CLOCKS, child);
}

static BY_THE_HOSTS_CLOCKS: OwnStore = OwnStore { without: Some(Rule::HasItsOwnClock) };

/// Not a test by itself: the process with the wrong clock.
#[test]
fn child() {
    processes::child(&BY_THE_HOSTS_CLOCKS);
}
