//! Segments of many tags, loaded together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore};
use uidring_mysql::{MySqlSegments, MySqlStore};
use uidring_store::{NewSegmentTag, SegmentTable};
use uidring_testkit::chain;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::proxy::{Proxy, Verdict};

const TAGS: [&str; 4] = ["a", "b", "c", "d"];

fn table(database: &Database) -> MySqlSegments {
    let table = MySqlStore::from_url(&database.url()).expect("a URL").segments();
    let table = table.create_table_if_missing(true);
    for tag in TAGS {
        table.create_tag(&NewSegmentTag::new(tag, 10).expect("allowed")).expect("created");
    }
    table
}

fn load(table: &mut MySqlSegments) -> [Result<LoadedSegment, LoadError>; 4] {
    let wanted = TAGS.map(|tag| SegmentRequest { tag: tag.into(), step: 0 });
    let mut done = [const { None }; 4];
    table.load(&wanted, &mut |index, result| {
        assert!(done[index].replace(result).is_none(), "{index} twice");
    });
    done.map(|done| done.expect("an answer"))
}

fn starts(table: &mut MySqlSegments) -> [u64; 4] {
    load(table).map(|done| done.unwrap_or_else(|error| panic!("{}", chain(&error))).start)
}

#[test]
fn tags_that_wait_are_loaded_in_one_transaction() {
    let server = MariaDb::start();
    let database = server.database();
    let mut table = table(&database);
    assert_eq!(starts(&mut table), [1; 4]);
    server.log_statements();
    assert_eq!(starts(&mut table), [11; 4]);
    let log = server.statements();
    let count = |words: &str| log.matches(words).count();
    // Each statement is noted when it is prepared and when it is executed, and kept prepared.
    assert_eq!((count("START TRANSACTION"), count("COMMIT")), (1, 1), "{log}");
    assert_eq!((count("FOR UPDATE"), count("UPDATE leaf_alloc")), (1, 1), "{log}");
}

/// The others are loaded, and its row stays as it is.
#[test]
fn a_trigger_of_one_tag_concerns_that_tag_alone() {
    let database = MariaDb::shared().database();
    let mut table = table(&database);
    for body in ["SET NEW.max_id = 5", "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'"]
    {
        database.execute(&format!(
            "CREATE OR REPLACE TRIGGER meddle BEFORE UPDATE ON leaf_alloc FOR EACH ROW
             IF NEW.biz_tag = 'b' THEN {body}; END IF"
        ));
        let [a, b, c, d] = load(&mut table);
        b.expect_err("refused");
        let starts = [a, c, d].map(|done| done.expect("loaded").start);
        assert_eq!(starts, [starts[0]; 3], "{body}");
        let row: Vec<u64> = database.query("SELECT max_id FROM leaf_alloc WHERE biz_tag = 'b'");
        assert_eq!(row, [1], "{body}");
    }
}

/// The range that was reserved by then is given up with all others of its transaction.
#[test]
fn an_answer_to_the_commit_that_is_lost_repeats_nothing() {
    let database = MariaDb::shared().database();
    table(&database);
    let (asked, cut) = (AtomicBool::new(false), AtomicBool::new(false));
    let proxy = Proxy::with(database.server().port(), move |chunk| {
        if chunk.asks("COMMIT") {
            asked.store(true, Ordering::SeqCst);
        }
        let is_answer = chunk.answers() && asked.load(Ordering::SeqCst);
        match is_answer && !cut.swap(true, Ordering::SeqCst) {
            true => Verdict::Cut,
            false => Verdict::Forward,
        }
    });
    let url = database.url_at(&format!("127.0.0.1:{}", proxy.port()));
    let mut table = MySqlStore::from_url(&url).expect("a URL").segments();
    assert_eq!(starts(&mut table), [11; 4]);
}

/// A row of a tag that was not asked for does not hold up those that were.
#[test]
fn only_the_rows_of_the_tags_are_locked() {
    let database = MariaDb::shared().database();
    let mut table = table(&database);
    table.create_tag(&NewSegmentTag::new("bb", 10).expect("allowed")).expect("created");
    thread::scope(|scope| {
        scope.spawn(|| {
            database.execute(
                "BEGIN NOT ATOMIC START TRANSACTION;
                 SELECT * FROM leaf_alloc WHERE biz_tag = 'bb' FOR UPDATE;
                 DO GET_LOCK(CONCAT(DATABASE(), '-locked'), 0);
                 DO SLEEP(60); END",
            );
        });
        let is_locked = "SELECT IS_USED_LOCK(CONCAT(DATABASE(), '-locked')) IS NOT NULL";
        while database.query::<u64>(is_locked) == [0] {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(starts(&mut table), [1; 4]);
        let holder = "SELECT IS_USED_LOCK(CONCAT(DATABASE(), '-locked'))";
        let holder: u64 = database.query(holder)[0];
        database.execute(&format!("KILL QUERY {holder}"));
    });
}
