//! Tests of the tables on a database server, for any engine.
//!
//! An engine implements [`TestedEngine`]: how its servers start and how its SQL differs.
//! [`server_tests!`](crate::server_tests!) makes a test of each function. What only one engine has is tested in the
//! engine's crate.

pub mod conditions;
pub mod leases;
pub mod ranges;
pub mod restores;
pub mod segments;
pub mod tags;
pub mod tempers;
pub mod worker_nodes;

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime;
use uidring::Error;
use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore};
use uidring_store::server::{Engine, ServerSegments, ServerStore};
use uidring_store::{NewSegmentTag, SegmentTable};

use crate::chain;
use crate::database::{Database, Databases};
use crate::proxy::{Proxy, Verdict};
use crate::server::Server;
use crate::suite::{Cause, tables};

/// Longer than any operation takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// An engine, and how its tests differ.
pub trait TestedEngine: 'static {
    type Kind: Databases;
    type Engine: Engine;

    /// Server settings that must make no difference.
    const TEMPERS: &'static [&'static [&'static str]];
    /// Settings, some of which may lose commits: those come with the setting to change.
    const RISKS: &'static [(&'static [&'static str], Option<&'static str>)];
    /// How far a key may be above the previous one if the server was killed in between.
    const KEYS_AFTER_A_CRASH: RangeInclusive<u64>;
    /// The names of the tables of worker ids, leases and segments, as messages spell them.
    const TABLES: [&'static str; 3];
    /// For each of these tables, the page and the beginning of the block that grants its rights.
    const GRANTS: [(&'static str, &'static str); 3];
    /// The same for the right that a range needs in addition.
    const GRANT_RANGE: (&'static str, &'static str);
    /// The same for the statement that starts worker ids above 5,000.
    const BEGIN_ABOVE: (&'static str, &'static str);
    /// The tables' schema, in a query.
    const SCHEMA: &'static str;
    /// The end of a transaction on the wire.
    const COMMIT: &'static str;
    /// The begin and end of a transaction in the log of statements.
    const TRANSACTION: [&'static str; 2];
    /// The word before an assignment in a trigger.
    const SET: &'static str;
    /// The statement with which a trigger refuses a row.
    const RAISE: &'static str;
    /// The error text for a missing table.
    const NO_TABLE: &'static str;
    /// The error texts if the account may not create a table.
    const NO_RIGHT: [&'static str; 2];
    /// The error texts for a key in use.
    const KEY_TAKEN: [&'static str; 2];

    /// The current time, in a statement.
    const NOW: &'static str;
    /// The setting that allows a connection for each lease.
    const MANY_CONNECTIONS: &'static str;

    /// As [`Store::cause`](crate::suite::Store::cause).
    fn cause_of(error: &str) -> Option<Cause> {
        tables::server_cause(error)
    }
    /// Returns the statements that make this change while others load.
    fn beside_loads(change: String) -> String {
        change
    }
    fn set_counter(next: u64) -> String;
    /// Makes the server generate this key next, even if it is in use.
    fn set_next_key(database: &Database<Self::Kind>, key: u64);
    /// Returns the statement that makes a column nullable.
    fn nullable(table: &str, column: &str) -> String;
    /// Returns the statements that make a trigger with this body before updates, replacing an earlier one.
    fn before_update(table: &str, body: &str) -> String;
    /// Returns further triggers that set a column to 5 in rows that meet a condition. Each replaces an earlier one.
    fn late_triggers(table: &str, column: &str, condition: &str) -> Vec<String> {
        let _ = (table, column, condition);
        Vec::new()
    }
    /// Returns the statement that makes a table lose commits after a crash.
    fn make_forgetful(table: &str) -> String;
    /// Returns the statement that reverts this, as the error words it.
    fn make_durable(table: &str) -> String;
    fn set_comment(table: &str, comment: &str) -> String;
    fn comment(table: &str) -> String;
    fn back_up(database: &Database<Self::Kind>);
    fn restore(database: &Database<Self::Kind>);
}

type DatabaseOf<T> = Database<<T as TestedEngine>::Kind>;
type StoreOf<T> = ServerStore<<T as TestedEngine>::Engine>;

fn store_at<T: TestedEngine>(url: &str) -> StoreOf<T> {
    ServerStore::from_url(url).expect("a URL")
}

fn store<T: TestedEngine>(database: &DatabaseOf<T>) -> StoreOf<T> {
    store_at::<T>(&database.url())
}

fn through<T: TestedEngine>(database: &DatabaseOf<T>, proxy: &Proxy) -> StoreOf<T> {
    store_at::<T>(&database.url_at(&format!("127.0.0.1:{}", proxy.port())))
}

fn shared<T: TestedEngine>() -> DatabaseOf<T> {
    T::Kind::shared().database()
}

/// Returns the URL of an account with the documented rights on one of the [`TestedEngine::TABLES`].
fn grant<T: TestedEngine>(database: &DatabaseOf<T>, table: usize) -> String {
    let (page, beginning) = T::GRANTS[table];
    T::Kind::grant(database, page, beginning)
}

/// Returns the statements of all triggers that set a column to 5 in rows that meet a condition.
fn meddling_triggers<T: TestedEngine>(table: &str, column: &str, condition: &str) -> Vec<String> {
    let body = format!("IF NEW.{condition} THEN {}NEW.{column} = 5; END IF", T::SET);
    let mut all = T::late_triggers(table, column, condition);
    all.insert(0, T::before_update(table, &body));
    all
}

/// A proxy that ends the connection of the first commit after the server got it and before the client gets an answer.
fn lost_commit<T: TestedEngine>(database: &DatabaseOf<T>) -> Proxy {
    let (asked, cut) = (AtomicBool::new(false), AtomicBool::new(false));
    Proxy::with(database.server().port(), move |chunk| {
        if chunk.asks(T::COMMIT) {
            asked.store(true, Ordering::SeqCst);
        }
        let is_answer = chunk.answers() && asked.load(Ordering::SeqCst);
        match is_answer && !cut.swap(true, Ordering::SeqCst) {
            true => Verdict::Cut,
            false => Verdict::Forward,
        }
    })
}

/// Returns what the server logs of the work's statements.
fn statements_of<T: TestedEngine>(server: &Server<T::Kind>, work: impl FnOnce()) -> String {
    T::Kind::log_statements(server);
    let before = T::Kind::statements(server).len();
    work();
    T::Kind::statements(server)[before..].to_owned()
}

/// Returns the text of an error, after a check that neither the error nor `of` shows the password.
pub fn told(error: &(impl std::error::Error + 'static), of: &impl Debug) -> String {
    for text in [chain(error), format!("{error:?}"), format!("{of:?}")] {
        assert!(!text.contains("p@ss") && !text.contains("%40"), "{text}");
    }
    chain(error)
}

fn until(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < LIMIT, "{what} did not come");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a current-thread and a multi-thread runtime.
fn runtimes() -> [runtime::Runtime; 2] {
    [runtime::Builder::new_current_thread(), runtime::Builder::new_multi_thread()]
        .map(|mut builder| builder.worker_threads(2).enable_all().build().expect("a runtime"))
}

pub fn new_tag(tag: &str, step: u64) -> NewSegmentTag {
    NewSegmentTag::new(tag, step).expect("allowed")
}

/// Creates a database with a table of segments and these tags.
fn with_tags<T: TestedEngine>(server: &Arc<Server<T::Kind>>, tags: &[&str]) -> DatabaseOf<T> {
    let database = server.database();
    let table = store::<T>(&database).segments().create_table_if_missing(true);
    tags.iter().for_each(|tag| table.create_tag(&new_tag(tag, 10)).expect("created"));
    database
}

/// Loads these tags in one call.
pub fn load_all<const N: usize>(
    segments: &mut impl SegmentStore,
    tags: [&str; N],
) -> [Result<LoadedSegment, LoadError>; N] {
    let wanted = tags.map(|tag| SegmentRequest { tag: tag.into(), step: 0 });
    let mut done = [const { None }; N];
    segments.load(&wanted, &mut |index, result| {
        assert!(done[index].replace(result).is_none(), "{index} twice");
    });
    done.map(|done| done.expect("an answer"))
}

pub fn load(segments: &mut impl SegmentStore, tag: &str) -> Result<LoadedSegment, LoadError> {
    let [done] = load_all(segments, [tag]);
    done
}

pub fn range(segments: &mut impl SegmentStore, tag: &str) -> (u64, u64) {
    let range = load(segments, tag).unwrap_or_else(|error| panic!("{}", chain(&error)));
    (range.start, range.end)
}

fn refusal(segments: &mut ServerSegments, tag: &str) -> String {
    let error = load(segments, tag).expect_err("refused");
    told(&error, segments)
}

fn max_id<T: TestedEngine>(database: &DatabaseOf<T>, tag: &str) -> u64 {
    let select = format!("SELECT max_id FROM leaf_alloc WHERE biz_tag = '{tag}'");
    database.column(&select)[0].parse().expect("a number")
}

fn is_lacking(error: &Error) -> bool {
    use uidring_store::TableError;
    matches!(error.store(), Some(TableError::NoSuchTag { .. }))
}

/// Makes the tests of [`servers`](crate::servers) for a [`TestedEngine`](crate::servers::TestedEngine).
#[macro_export]
macro_rules! server_tests {
    ($engine:ident) => {
        $crate::server_tests! { $engine:
            worker_nodes {
                a_missing_table_is_made_only_when_asked,
                a_table_that_is_there_needs_no_right_to_make_one,
                assignments_work_within_runtimes,
                the_generator_lives_without_the_server,
                a_key_over_the_maximum_names_row_and_maximum,
                a_counter_that_went_backwards_is_refused,
                pruning_keeps_the_newest_row_and_the_counter,
            }
            leases {
                a_start_passes_over_what_another_has_locked,
                a_start_waits_where_everything_is_locked,
                a_row_that_cannot_be_read_is_lost,
                a_table_without_its_key_has_no_second_holder,
                the_rights_of_the_docs_are_enough,
                leases_begin_above_what_the_docs_set,
                a_paused_start_keeps_no_row_from_others,
                what_is_given_back_before_it_is_counted_is_taken,
                a_table_that_cannot_hold_the_horizon_is_refused,
                the_lack_of_the_tables_names_the_command_or_is_made_good,
                a_counter_that_went_backwards_is_refused,
                a_table_of_starts_that_was_lost_is_not_made_anew,
            }
            ranges {
                the_rights_of_the_docs_are_enough,
                the_right_to_record_one_is_named,
                it_begins_at_the_first_after_a_restart,
                without_its_table_nothing_is_handed_out,
                who_ignores_it_is_noticed,
                worker_ids_outside_are_not_reused,
                leases_outside_are_not_taken,
                recording_waits_for_starts_under_way,
            }
            segments {
                a_missing_table_is_made_only_when_asked,
                a_table_without_its_key_repeats_nothing,
                the_rights_of_the_docs_are_enough,
                it_works_within_runtimes_and_without,
                a_connection_that_broke_while_idle_is_no_failure,
                a_connection_that_went_silent_is_replaced_within_the_deadline,
                a_server_that_is_away_costs_a_call_one_deadline,
                a_locked_row_is_an_error_for_its_tag_alone,
                only_the_rows_of_the_tags_are_locked,
                a_trigger_that_makes_something_else_of_it_is_refused,
                tags_that_wait_are_loaded_in_one_transaction,
                a_trigger_of_one_tag_concerns_that_tag_alone,
                an_answer_to_the_commit_that_is_lost_repeats_nothing,
            }
            tags {
                tags_are_added_changed_and_deleted,
                a_change_whose_answer_was_lost_is_not_tried_again,
                a_step_that_does_not_stay_is_refused,
                a_row_with_null_stops_its_own_tag_alone,
            }
            tempers { servers_of_every_temper_commit_what_they_confirm, }
            restores { a_backup_that_is_restored_ends_live_holders, }
        }
    };
    ($engine:ident: $($of:ident { $($test:ident,)* })*) => {
        mod servers {$(
            mod $of {$(
                #[test]
                fn $test() {
                    $crate::servers::$of::$test::<super::super::$engine>();
                }
            )*}
        )*}
    };
}
