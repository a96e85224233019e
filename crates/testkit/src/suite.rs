//! Tests of what every store must guarantee, for use in any crate.
//!
//! A store implements [`Store`], which says how a process opens it, and [`Site`], a store that was started for a test.
//! [`suite!`](crate::suite!) makes a test of each property, so the name of a failing test names store and property. For
//! what a store lacks, the test is ignored, with the reason.
//!
//! ```
//! use uidring::worker::FixedWorkerId;
//! use uidring::{Error, WorkerSource};
//! use uidring_testkit::suite;
//! use uidring_testkit::suite::{Place, Site, Store};
//!
//! /// It would fail: each start has the same worker id.
//! struct Fixed;
//!
//! struct Nowhere;
//!
//! impl Store for Fixed {
//!     fn start(&self) -> Box<dyn Site> {
//!         Box::new(Nowhere)
//!     }
//!
//!     fn worker_ids(&self, _: &Place) -> Result<Box<dyn WorkerSource>, Error> {
//!         Ok(Box::new(FixedWorkerId(1)))
//!     }
//! }
//!
//! impl Site for Nowhere {
//!     fn address(&self, _: usize) -> String {
//!         String::new()
//!     }
//! }
//!
//! suite! {
//!     mod fixed: Fixed,
//!     prune: "there is nothing to be pruned",
//!     ranges: "none is recorded",
//!     leases: "it has none",
//!     rows: "it has none",
//!     segments: "it has none",
//!     server: "it has none",
//!     network: "it has none",
//!     herd: "it has no leases",
//!     own_clock: "it has no leases",
//! }
//! # fn main() {
//! #     let found = std::panic::catch_unwind(|| {
//! #         suite::worker_ids::each_start_has_a_new_one_above_all_before(&Fixed);
//! #     });
//! #     assert!(found.is_err());
//! # }
//! ```
//!
//! `crates/testkit/tests/own_store` is a complete third-party store: a table in a file. The tests beside it each break
//! one rule, and a property finds it. `docs/your-own-store.md` says how to run the suite and what it does not prove.
// The example's modules must be beside its types.
#![allow(clippy::needless_doctest_main)]

mod counted;
#[cfg(all(feature = "servers", any(feature = "mariadb", feature = "postgres")))]
pub mod engine;
pub mod herd;
pub mod leases;
pub mod messages;
pub mod outages;
pub mod processes;
pub mod ranges;
pub mod segments;
mod setting;
mod store;
#[cfg(feature = "tables")]
pub mod tables;
pub mod worker_ids;

pub(crate) use self::setting::{is_none_free, kind};
pub use self::store::{Cause, Change, Place, Row, Rows, Server, Site, Store, Tags, Terms};

/// Makes a module with a test for each property that a [`Store`](crate::suite::Store) must have.
///
/// Name the capabilities that the store lacks, each with the reason, in this order:
///
/// | capability | needs |
/// |---|---|
/// | `worker_ids` | [`Store::worker_ids`](crate::suite::Store::worker_ids) |
/// | `prune` | [`Site::prune`](crate::suite::Site::prune) |
/// | `ranges` | [`Site::record_range`](crate::suite::Site::record_range) |
/// | `leases` | [`Store::lease`](crate::suite::Store::lease) |
/// | `rows` | [`Site::rows`](crate::suite::Site::rows) |
/// | `segments` | [`Store::segments`](crate::suite::Store::segments), [`Site::tags`](crate::suite::Site::tags) |
/// | `server` | [`Site::server`](crate::suite::Site::server) |
/// | `network` | [`Site::port`](crate::suite::Site::port), [`Site::address_at`](crate::suite::Site::address_at) |
/// | `herd` | that many starts of one lease at once make sense |
/// | `own_clock` | that the hosts' clocks do not decide when a lease ends |
#[macro_export]
macro_rules! suite {
    (
        mod $name:ident: $store:expr
        $(, worker_ids: $workers:literal)?
        $(, prune: $prune:literal)?
        $(, ranges: $ranges:literal)?
        $(, leases: $leases:literal)?
        $(, rows: $rows:literal)?
        $(, segments: $segments:literal)?
        $(, server: $server:literal)?
        $(, network: $network:literal)?
        $(, herd: $herd:literal)?
        $(, own_clock: $clock:literal)?
        $(,)?
    ) => {
        mod $name {
            use super::*;

            static STORE: &dyn $crate::suite::Store = &$store;

            mod worker_ids {
                $crate::properties!(worker_ids, [$($workers)?];
                    each_start_has_a_new_one_above_all_before,
                    starts_at_once_have_one_each,
                    one_that_does_not_fit_the_layout_is_refused,
                );
                $crate::properties!(worker_ids, [$($workers)? $($prune)?];
                    pruning_makes_none_available_again,
                );
            }

            mod ranges {
                $crate::properties!(ranges, [$($workers)? $($ranges)?];
                    starts_begin_at_the_first_and_end_at_the_last,
                    one_range_is_recorded_and_no_other,
                    a_range_without_what_was_handed_out_is_refused,
                    a_start_beside_the_recording_is_noticed,
                );
                $crate::properties!(ranges, [$($leases)? $($ranges)?];
                    leases_are_of_the_range,
                    two_stores_have_no_worker_id_in_common,
                    a_range_that_the_layout_does_not_hold_is_used_up,
                );
            }

            mod leases {
                $crate::properties!(leases, [$($leases)?];
                    what_is_given_back_is_had_again_above_what_was_issued,
                    what_is_not_used_is_given_back,
                    when_all_are_held_the_error_says_so_or_the_start_waits,
                    a_holder_that_lives_keeps_it_however_long_others_wait,
                    clocks_that_are_set_repeat_nothing,
                    many_threads_share_few_worker_ids,
                );
                $crate::properties!(leases, [$($leases)? $($rows)?];
                    a_lease_that_nobody_renews_runs_out_and_no_sooner,
                    what_was_used_ahead_of_the_clock_is_leased_last,
                    what_is_issued_was_in_the_store_before,
                    a_change_by_others_ends_the_lease,
                    the_next_holder_after_a_fence_is_above_the_one_before,
                    a_horizon_that_was_set_back_ends_the_lease,
                );
            }

            mod segments {
                $crate::properties!(segments, [$($segments)?];
                    loads_follow_each_other,
                    a_changed_step_holds_from_the_next_load_on,
                    loads_at_once_have_no_id_in_common,
                    each_request_of_a_call_is_answered_once,
                    a_tag_that_cannot_be_loaded_stops_no_other,
                    loads_of_many_tags_at_once_have_no_id_in_common,
                    a_tag_is_its_exact_name,
                    what_cannot_be_served_leaves_the_row_as_it_is,
                    the_last_id_is_had_once,
                    generators_at_once_repeat_no_id,
                );
            }

            mod herd {
                $crate::properties!(herd, [$($workers)?];
                    each_of_many_starts_has_a_worker_id,
                );
                $crate::properties!(herd, [$($leases)? $($herd)?];
                    each_of_many_starts_has_a_lease_where_enough_are_free,
                    as_many_starts_as_leases_are_free_have_one,
                    starts_of_two_layouts_at_once_have_leases_of_one,
                );
            }

            mod messages {
                $crate::properties!(messages, [$($workers)? $($network)?];
                    a_start_that_loses_a_message_has_a_new_worker_id,
                );
                $crate::properties!(messages, [$($leases)? $($network)?];
                    a_holder_that_loses_a_message_keeps_and_returns_its_worker_id,
                    a_renewal_that_loses_a_message_is_made_again,
                );
                $crate::properties!(messages, [$($segments)? $($network)?];
                    a_load_that_loses_a_message_reserves_another_range,
                );
            }

            mod outages {
                $crate::properties!(outages, [$($workers)? $($server)?];
                    worker_ids_go_on_after_a_crash,
                );
                $crate::properties!(outages, [$($leases)? $($server)?];
                    a_frozen_server_ends_the_lease_in_time,
                );
                $crate::properties!(outages, [$($leases)? $($rows)? $($server)?];
                    a_restart_within_the_lease_is_not_noticed,
                );
                $crate::properties!(outages, [$($segments)? $($server)?];
                    a_server_that_is_killed_repeats_no_range,
                    a_frozen_server_repeats_no_range,
                );
            }

            mod processes {
                /// Not a test by itself: a process that the others start.
                #[test]
                fn child() {
                    $crate::suite::processes::child(super::STORE);
                }

                $crate::properties!(processes, [$($leases)?];
                    the_lease_of_a_killed_holder_is_had_above_all_it_issued,
                    a_holder_that_was_paused_beyond_its_lease_repeats_nothing,
                );
                $crate::properties!(processes, [$($leases)? $($clock)?];
                    a_wrong_clock_ends_nobodys_lease,
                );
                $crate::properties!(herds, [$($workers)? $($ranges)?];
                    herds_of_several_processes_have_each_once,
                );
            }
        }
    };
}

/// Tests these properties if the store has all that they need; otherwise makes ignored tests that say why.
#[doc(hidden)]
#[macro_export]
macro_rules! properties {
    (processes, []; $($property:ident,)*) => {$(
        #[test]
        fn $property() {
            let child = concat!(module_path!(), "::child");
            $crate::suite::processes::$property(super::STORE, child);
        }
    )*};
    (herds, []; $($property:ident,)*) => {$(
        #[test]
        fn $property() {
            let child = concat!(module_path!(), "::child");
            $crate::suite::ranges::$property(super::STORE, child);
        }
    )*};
    ($of:ident, []; $($property:ident,)*) => {$(
        #[test]
        fn $property() {
            $crate::suite::$of::$property(super::STORE);
        }
    )*};
    ($of:ident, [$reason:literal $($more:literal)*]; $($property:ident,)*) => {$(
        #[test]
        #[ignore = $reason]
        fn $property() {}
    )*};
}
