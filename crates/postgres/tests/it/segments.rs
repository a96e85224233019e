//! Segments from the table `leaf_alloc` of a real server: what is reserved, what is refused, and what
//! becomes of a load when something fails.

use std::sync::Arc;

use uidring_postgres::PostgresSegments;
use uidring_store::SegmentTable;
use uidring_testkit::chain;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::servers::{load, new_tag, range, told};

use crate::support::store;

/// A fresh table with the tag `t` and this step.
fn table(server: &Arc<Postgres>, step: u64) -> Database {
    let database = server.database();
    let segments = store(&database).segments().create_table_if_missing(true);
    segments.create_tag(&new_tag("t", step)).expect("created");
    database
}

fn refusal(store: &mut PostgresSegments, tag: &str) -> String {
    told(&load(store, tag).expect_err("refused"), store)
}

fn max_id(database: &Database) -> u64 {
    database.column("SELECT max_id FROM leaf_alloc WHERE biz_tag = 't'")[0].parse().expect("one")
}

#[test]
fn a_column_that_holds_less_is_refused() {
    let database = table(&Postgres::shared(), 1_000);
    database.execute("ALTER TABLE leaf_alloc ALTER COLUMN max_id TYPE INT");
    database.execute("UPDATE leaf_alloc SET max_id = 2147483000");
    let mut segments = store(&database).segments();
    assert!(
        refusal(&mut segments, "t")
            .contains("not as `uidring segment create TAG --step S` makes it")
    );
    assert_eq!(max_id(&database), 2_147_483_000, "rolled back");
    database.execute("ALTER TABLE leaf_alloc ALTER COLUMN max_id TYPE BIGINT");
    assert_eq!(range(&mut segments, "t"), (2_147_483_000, 2_147_484_000));
}

#[test]
fn a_tag_that_is_not_added_as_it_was_asked_for_is_refused() {
    let database = table(&Postgres::shared(), 10);
    database.execute(
        "CREATE FUNCTION meddle() RETURNS TRIGGER LANGUAGE plpgsql AS
         'BEGIN NEW.max_id := 1; RETURN NEW; END';
         CREATE TRIGGER meddle BEFORE INSERT ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION meddle()",
    );
    let late = new_tag("late", 10).start(1_000).expect("allowed");
    let error = chain(&store(&database).segments().create_tag(&late).expect_err("refused"));
    assert!(error.contains("is not found there as it was added"), "{error}");
}

#[test]
fn a_load_is_one_transaction_of_three_round_trips() {
    let server = Postgres::start();
    let database = table(&server, 10);
    let mut segments = store(&database).segments();
    range(&mut segments, "t");
    server.log_statements();
    let before = server.log().len();
    range(&mut segments, "t");
    let log = server.log()[before..].to_owned();
    let count = |words: &str| log.matches(words).count();
    assert_eq!((count("SELECT biz_tag, max_id"), count("UPDATE leaf_alloc")), (1, 1), "{log}");
    assert_eq!((count("BEGIN ISOLATION"), count("statement: COMMIT")), (1, 1), "{log}");
    assert!(log.contains("execute <unnamed>") && !log.contains("PREPARE"), "{log}");
}
