//! Segments of many tags, loaded together.

use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore};
use uidring_postgres::PostgresSegments;
use uidring_store::{NewSegmentTag, SegmentTable};
use uidring_testkit::chain;
use uidring_testkit::postgres::{Database, Postgres};

use crate::support::{lost_answer, store, through};

const TAGS: [&str; 4] = ["a", "b", "c", "d"];

fn table(database: &Database) -> PostgresSegments {
    let table = store(database).segments().create_table_if_missing(true);
    for tag in TAGS {
        table.create_tag(&NewSegmentTag::new(tag, 10).expect("allowed")).expect("created");
    }
    table
}

fn load(table: &mut PostgresSegments) -> [Result<LoadedSegment, LoadError>; 4] {
    let wanted = TAGS.map(|tag| SegmentRequest { tag: tag.into(), step: 0 });
    let mut done = [const { None }; 4];
    table.load(&wanted, &mut |index, result| {
        assert!(done[index].replace(result).is_none(), "{index} twice");
    });
    done.map(|done| done.expect("an answer"))
}

fn starts(table: &mut PostgresSegments) -> [u64; 4] {
    load(table).map(|done| done.unwrap_or_else(|error| panic!("{}", chain(&error))).start)
}

#[test]
fn tags_that_wait_are_loaded_in_one_transaction() {
    let server = Postgres::start();
    let database = server.database();
    let mut table = table(&database);
    assert_eq!(starts(&mut table), [1; 4]);
    server.log_statements();
    let before = server.log().len();
    assert_eq!(starts(&mut table), [11; 4]);
    let log = server.log()[before..].to_owned();
    let count = |words: &str| log.matches(words).count();
    assert_eq!((count("FOR UPDATE"), count("UPDATE leaf_alloc")), (1, 1), "{log}");
    assert_eq!((count("BEGIN ISOLATION"), count("statement: COMMIT")), (1, 1), "{log}");
}

/// The others are loaded, and its row stays as it is.
#[test]
fn a_trigger_of_one_tag_concerns_that_tag_alone() {
    let database = Postgres::shared().database();
    let mut table = table(&database);
    let meddle = "UPDATE leaf_alloc SET max_id = 5 WHERE biz_tag = 'b' AND max_id <> 5";
    for (kind, when, body) in [
        ("", "", meddle),
        ("CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED", meddle),
        ("", "", "RAISE EXCEPTION 'not this one'"),
    ] {
        database.execute(&format!(
            "CREATE OR REPLACE FUNCTION meddle() RETURNS TRIGGER LANGUAGE plpgsql AS $$
             BEGIN IF NEW.biz_tag = 'b' THEN {body}; END IF; RETURN NULL; END $$;
             DROP TRIGGER IF EXISTS meddle ON leaf_alloc;
             CREATE {kind} TRIGGER meddle AFTER UPDATE ON leaf_alloc {when}
             FOR EACH ROW EXECUTE FUNCTION meddle()"
        ));
        let [a, b, c, d] = load(&mut table);
        b.expect_err("refused");
        let starts = [a, c, d].map(|done| done.expect("loaded").start);
        assert_eq!(starts, [starts[0]; 3], "{body}");
        let row = database.column("SELECT max_id FROM leaf_alloc WHERE biz_tag = 'b'");
        assert_eq!(row, ["1"], "{body}");
    }
}

/// The range that was reserved by then is given up with all others of its transaction.
#[test]
fn an_answer_to_the_commit_that_is_lost_repeats_nothing() {
    let database = Postgres::shared().database();
    table(&database);
    let proxy = lost_answer(&database, "COMMIT\0");
    let mut table = through(&database, &proxy).segments();
    assert_eq!(starts(&mut table), [11; 4]);
}
