//! Segments from the table `leaf_alloc` of a real server: what is reserved, what is refused, and what
//! becomes of a load when something fails.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore};
use uidring_postgres::PostgresSegments;
use uidring_store::{NewSegmentTag, SegmentTable, TableError};
use uidring_testkit::chain;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::proxy::Proxy;

use crate::support::{lost_answer, store, store_at, through};

fn new_tag(tag: &str, step: u64) -> NewSegmentTag {
    NewSegmentTag::new(tag, step).expect("allowed")
}

/// A fresh table with the tag `t` and this step.
fn table(server: &Arc<Postgres>, step: u64) -> Database {
    let database = server.database();
    let segments = store(&database).segments().create_table_if_missing(true);
    segments.create_tag(&new_tag("t", step)).expect("created");
    database
}

fn request(tag: &str, step: u64) -> SegmentRequest {
    SegmentRequest { tag: tag.into(), step }
}

fn load(store: &mut PostgresSegments, tag: &str, step: u64) -> Result<LoadedSegment, LoadError> {
    let mut done = None;
    store.load(&[request(tag, step)], &mut |index, result| {
        assert!(index == 0 && done.replace(result).is_none(), "handed over once");
    });
    done.expect("handed over")
}

fn range(store: &mut PostgresSegments, tag: &str, step: u64) -> (u64, u64) {
    let range = load(store, tag, step).expect("loaded");
    (range.start, range.end)
}

/// The text of a refusal, which must not tell the password.
fn refusal(store: &mut PostgresSegments, tag: &str) -> String {
    let error = load(store, tag, 0).expect_err("refused");
    for text in [chain(&error), format!("{error:?}"), format!("{store:?}")] {
        assert!(!text.contains("p@ss") && !text.contains("%40"), "{text}");
    }
    chain(&error)
}

fn max_id(database: &Database) -> u64 {
    database.column("SELECT max_id FROM leaf_alloc WHERE biz_tag = 't'")[0].parse().expect("one")
}

#[test]
fn what_is_reserved_stays_so_when_the_server_is_killed() {
    let server = Postgres::start_with(&["synchronous_commit=off", "wal_writer_delay=10s"]);
    let database = table(&server, 10);
    let mut segments = store(&database).segments();
    for round in 0..3 {
        assert_eq!(range(&mut segments, "t", 0), (1 + round * 10, 11 + round * 10));
        server.kill();
        server.start_again();
    }
    assert_eq!(max_id(&database), 31);
}

#[test]
fn a_column_or_a_trigger_that_makes_something_else_of_it_is_refused() {
    let database = table(&Postgres::shared(), 1_000);
    database.execute("ALTER TABLE leaf_alloc ALTER COLUMN max_id TYPE INT");
    database.execute("UPDATE leaf_alloc SET max_id = 2147483000");
    let mut segments = store(&database).segments();
    assert!(refusal(&mut segments, "t").contains("not as `uidring segment create` makes it"));
    assert_eq!(max_id(&database), 2_147_483_000, "rolled back");
    database.execute("ALTER TABLE leaf_alloc ALTER COLUMN max_id TYPE BIGINT");
    database.execute(
        "CREATE FUNCTION meddle() RETURNS TRIGGER LANGUAGE plpgsql AS
         'BEGIN NEW.max_id := 5; RETURN NEW; END';
         CREATE TRIGGER meddle BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION meddle()",
    );
    let mut is_refused = || {
        let text = refusal(&mut segments, "t");
        assert!(text.contains("reads 5") && text.contains("triggers"), "{text}");
        assert_eq!(max_id(&database), 2_147_483_000, "rolled back");
    };
    is_refused();
    // Such triggers follow the statement, or wait for the COMMIT.
    for (kind, when) in [("", ""), ("CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED")] {
        database.execute(&format!(
            "CREATE OR REPLACE FUNCTION meddle() RETURNS TRIGGER LANGUAGE plpgsql AS
             'BEGIN UPDATE leaf_alloc SET max_id = 5 WHERE max_id > 5; RETURN NULL; END';
             DROP TRIGGER meddle ON leaf_alloc;
             CREATE {kind} TRIGGER meddle AFTER UPDATE ON leaf_alloc {when}
             FOR EACH ROW EXECUTE FUNCTION meddle()"
        ));
        is_refused();
    }
    // One trigger may have the other wait again.
    database.execute(
        "CREATE FUNCTION later() RETURNS TRIGGER LANGUAGE plpgsql AS
         'BEGIN SET CONSTRAINTS ALL DEFERRED; RETURN NEW; END';
         CREATE TRIGGER later BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION later()",
    );
    is_refused();
}

#[test]
fn a_tag_that_does_not_stay_as_it_is_set_is_refused() {
    let database = table(&Postgres::shared(), 10);
    let segments = store(&database).segments();
    database.execute("UPDATE leaf_alloc SET max_id = 71");
    for (change, text) in [
        ("NEW.step := LEAST(NEW.step, 127)", "and has step 127 and max_id 71"),
        ("NEW.max_id := 1", "and has step 5000 and max_id 1"),
    ] {
        database.execute(&format!(
            "CREATE OR REPLACE FUNCTION meddle() RETURNS TRIGGER LANGUAGE plpgsql AS
             'BEGIN {change}; RETURN NEW; END';
             CREATE OR REPLACE TRIGGER meddle BEFORE INSERT OR UPDATE ON leaf_alloc
             FOR EACH ROW EXECUTE FUNCTION meddle()"
        ));
        let error = chain(&segments.set_step("t", 5_000).expect_err("refused"));
        assert!(error.contains("to have step 5000") && error.contains(text), "{error}");
        assert_eq!(max_id(&database), 71, "rolled back");
    }
    let late = new_tag("late", 10).start(1_000).expect("allowed");
    let error = chain(&segments.create_tag(&late).expect_err("refused"));
    assert!(error.contains("is not found there as it was added"), "{error}");
}

#[test]
fn tags_are_added_changed_and_deleted() {
    let database = Postgres::shared().database();
    let mut segments = store(&database).segments();
    let text = refusal(&mut segments, "t");
    assert!(text.contains("uidring segment create"), "{text}");
    let segments = segments.create_table_if_missing(true);
    let snow = "\u{2603} \u{1f980}".repeat(32);
    for tag in ["t", "Orders", "orders", &snow] {
        let tag = new_tag(tag, 7).start(70).expect("allowed").description("of\u{2603}");
        segments.create_tag(&tag.expect("short")).expect("created");
    }
    let error = segments.create_tag(&new_tag("t", 1)).expect_err("it is there");
    assert!(matches!(error.store(), Some(TableError::TagExists { max_id: 70, step: 7, .. })));
    let tags = segments.list_tags().expect("listed");
    let names: Vec<_> = tags.iter().map(|tag| &*tag.tag).collect();
    assert_eq!(names, ["Orders", "orders", "t", &*snow]);
    assert_eq!(tags[2].description.as_deref(), Some("of\u{2603}"));
    assert!(tags[2].update_time.is_some());
    assert_eq!(segments.set_step("t", 9).expect("set").step, Ok(7));
    let error = segments.set_step("none", 9).expect_err("no such tag");
    assert!(matches!(error.store(), Some(TableError::NoSuchTag { .. })), "{error}");
    let gone = segments.delete_tag("t").expect("deleted");
    assert_eq!((gone.max_id, gone.step), (Ok(70), Ok(9)));
    assert!(segments.delete_tag("t").is_err());
    // Whoever deletes a tag must learn where it ended, even if nobody knows whether it is gone.
    let proxy = lost_answer(&database, "COMMIT\0");
    let error =
        chain(&through(&database, &proxy).segments().delete_tag("orders").expect_err("lost"));
    assert!(error.contains("its ids ended at max_id 70"), "{error}");
    assert_eq!(segments.list_tags().expect("listed").len(), 2, "it is gone");
}

#[test]
fn the_rights_of_the_docs_are_enough() {
    let database = table(&Postgres::shared(), 10);
    let url = database.grant_as_docs_say("postgresql.md", "GRANT SELECT, UPDATE ON leaf_alloc");
    let mut segments = store_at(&url).segments().create_table_if_missing(true);
    assert_eq!(segments.tags().expect("read").len(), 1);
    assert_eq!(range(&mut segments, "t", 0), (1, 11));
    let text = chain(&segments.create_tag(&new_tag("u", 1)).expect_err("no INSERT"));
    assert!(text.contains("a new tag INSERT"), "{text}");
}

#[test]
fn a_connection_that_broke_while_idle_is_no_failure() {
    let database = table(&Postgres::shared(), 10);
    let proxy = Proxy::to(database.server().port());
    let mut segments = through(&database, &proxy).segments();
    assert_eq!(range(&mut segments, "t", 0), (1, 11));
    for (pause, start) in [(0, 11), (1_100, 21)] {
        proxy.cut();
        thread::sleep(Duration::from_millis(pause));
        assert_eq!(range(&mut segments, "t", 0), (start, start + 10));
    }
}

#[test]
fn a_server_that_is_away_costs_a_call_one_deadline() {
    let server = Postgres::start();
    let database = table(&server, 10);
    let mut segments = store(&database).deadline(Duration::from_secs(2)).segments();
    assert_eq!(range(&mut segments, "t", 0), (1, 11));
    server.stop();
    let begin = Instant::now();
    let wanted: Vec<_> = (0..50).map(|_| request("t", 0)).collect();
    let mut errors = Vec::new();
    segments.load(&wanted, &mut |_, done| errors.push(chain(&done.expect_err("away"))));
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert_eq!(errors.len(), 50);
    assert!(errors.iter().all(|text| text.contains("is the server running?")), "{errors:?}");
    server.start_again();
    assert_eq!(range(&mut segments, "t", 0), (11, 21));
    server.freeze();
    let begin = Instant::now();
    refusal(&mut segments, "t");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    server.thaw();
    let next = range(&mut segments, "t", 0);
    assert!(next.0 >= 21 && max_id(&database) == next.1, "{next:?}");
}

/// Somebody keeps one tag's row locked: the others are loaded all the same.
#[test]
fn a_locked_row_is_an_error_for_its_tag_alone() {
    let database = table(&Postgres::shared(), 10);
    let mut segments = store(&database).segments();
    segments.create_tag(&new_tag("u", 5)).expect("created");
    database.execute("CREATE TABLE released (n int)");
    thread::scope(|scope| {
        scope.spawn(|| {
            let lock = "BEGIN; SELECT * FROM leaf_alloc WHERE biz_tag = 't' FOR UPDATE;
                        DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM released) LOOP
                            PERFORM pg_sleep(0.05); END LOOP; END $$; COMMIT";
            database.execute(lock);
        });
        let locks = "SELECT FROM pg_locks WHERE relation = 'leaf_alloc'::regclass AND mode = 'RowShareLock'";
        while database.query(&format!("SELECT count(*) FROM ({locks}) AS l"))[0] == ["0"] {
            thread::sleep(Duration::from_millis(5));
        }
        for _ in 0..2 {
            let mut done = Vec::new();
            segments.load(&[request("t", 0), request("u", 0)], &mut |_, result| done.push(result));
            let [locked, free] = <[_; 2]>::try_from(done).expect("two");
            let text = chain(&locked.expect_err("locked"));
            assert!(text.contains("another transaction has the row or table locked"), "{text}");
            free.expect("loaded");
        }
        database.execute("INSERT INTO released VALUES (1)");
    });
    assert_eq!(range(&mut segments, "t", 0), (1, 11), "nothing was spent");
}

#[test]
fn a_load_is_one_transaction_of_three_round_trips() {
    let server = Postgres::start();
    let database = table(&server, 10);
    let mut segments = store(&database).segments();
    range(&mut segments, "t", 0);
    server.log_statements();
    let before = server.log().len();
    range(&mut segments, "t", 0);
    let log = server.log()[before..].to_owned();
    let count = |words: &str| log.matches(words).count();
    assert_eq!((count("SELECT biz_tag, max_id"), count("UPDATE leaf_alloc")), (1, 1), "{log}");
    assert_eq!((count("BEGIN ISOLATION"), count("statement: COMMIT")), (1, 1), "{log}");
    assert!(log.contains("execute <unnamed>") && !log.contains("PREPARE"), "{log}");
}
