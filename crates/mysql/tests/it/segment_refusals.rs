//! Loads of segments that a server refuses, or that wait for a lock: who is told, when, and who goes on.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::SegmentGenerator;
use uidring::policy::TakePolicy;
use uidring::segment::{SegmentBuilder, SegmentError};
use uidring_mysql::MySqlStore;
use uidring_store::{NewSegmentTag, SegmentTable};
use uidring_testkit::chain;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::servers::load_all;

/// Longer than any test; who waits so long has not been told.
const PATIENCE: Duration = Duration::from_secs(60);

fn server_at(database: &Database) -> MySqlStore {
    MySqlStore::from_url(&database.url()).expect("a URL")
}

fn database(server: &Arc<MariaDb>, tags: &[&str]) -> Database {
    let database = server.database();
    let table = server_at(&database).segments().create_table_if_missing(true);
    for &tag in tags {
        table.create_tag(&NewSegmentTag::new(tag, 10).expect("allowed")).expect("created");
    }
    database
}

fn builder(database: &Database) -> SegmentBuilder {
    SegmentGenerator::builder(server_at(database).segments())
        .step_factor(1)
        .take_policy(TakePolicy::WaitFor(PATIENCE))
        .retry(Duration::from_millis(10), Duration::from_millis(50))
}

/// Takes until it succeeds, and fails if that takes too long.
fn heals(generator: &SegmentGenerator, tag: &str) -> u64 {
    let begin = Instant::now();
    loop {
        match generator.next_id(tag) {
            Ok(id) => return id,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Gives the database's user these rights on the table, and no others. On the table: rights on a
/// database count in a connection as they were when it began.
fn grant(database: &Database, rights: &str) {
    let (name, user) = (database.name(), database.user());
    let server = database.server();
    server.execute(&format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {user}"));
    server.execute(&format!("GRANT {rights} ON {name}.leaf_alloc TO {user}"));
}

#[test]
fn a_right_that_was_revoked_is_told_at_once_and_heals_when_granted() {
    let database = database(&MariaDb::shared(), &["t", "u"]);
    grant(&database, "SELECT, UPDATE");
    let generator = builder(&database).depth(1).max_depth(1).build().expect("built");
    let first: Vec<u64> = (0..9).map(|_| generator.next_id("t").expect("taken")).collect();
    assert_eq!(first, (1..=9).collect::<Vec<_>>());
    grant(&database, "SELECT");
    assert_eq!(generator.next_id("t").expect("in memory"), 10);
    let begin = Instant::now();
    let error = generator.next_id("t").expect_err("no UPDATE");
    let text = chain(&error);
    assert!(matches!(error, SegmentError::Refused(_)), "{error:?}");
    assert!(text.contains("1142") && text.contains("SELECT and UPDATE"), "{text}");
    // Not the deadline, and not the policy's patience; also for a tag that was never loaded.
    let error = generator.next_id("u").expect_err("no UPDATE");
    assert!(matches!(error, SegmentError::Refused(_)), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    // It is looked at again, though not as often as it is asked for.
    let loads = || generator.stats("t").expect("known").load_failures;
    let before = loads();
    let second = Instant::now() + Duration::from_secs(1);
    while Instant::now() < second {
        assert!(generator.next_id("t").is_err());
    }
    let more = loads() - before;
    assert!(more < 60, "{more} loads in a second");
    grant(&database, "SELECT, UPDATE");
    assert_eq!(heals(&generator, "t"), 11);
    assert_eq!(heals(&generator, "u"), 1);
}

#[test]
fn a_reading_on_demand_looks_at_what_was_refused() {
    let database = database(&MariaDb::shared(), &["t"]);
    grant(&database, "SELECT, UPDATE");
    let slow = builder(&database).retry(Duration::from_secs(600), Duration::from_secs(600));
    let generator = slow.build().expect("built");
    grant(&database, "SELECT");
    assert!(matches!(generator.next_id("t"), Err(SegmentError::Refused(_))));
    grant(&database, "SELECT, UPDATE");
    generator.refresh().expect("read");
    assert_eq!(heals(&generator, "t"), 1);
}

/// What is in memory is good.
#[test]
fn a_table_that_is_gone_or_of_another_form_is_told_at_once() {
    for (change, back, code) in [
        ("RENAME TABLE leaf_alloc TO gone", "RENAME TABLE gone TO leaf_alloc", "1146"),
        (
            "ALTER TABLE leaf_alloc CHANGE step stride INT NOT NULL",
            "ALTER TABLE leaf_alloc CHANGE stride step INT NOT NULL",
            "1054",
        ),
        (
            "CREATE TRIGGER cut BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.max_id = 5",
            "DROP TRIGGER cut",
            "without triggers",
        ),
    ] {
        let database = database(&MariaDb::shared(), &["t"]);
        let generator = builder(&database).depth(1).max_depth(1).build().expect("built");
        generator.next_id("t").expect("taken");
        database.execute(change);
        for id in 2..=10 {
            assert_eq!(generator.next_id("t").expect("in memory"), id);
        }
        let begin = Instant::now();
        let error = generator.next_id("t").expect_err("refused");
        assert!(matches!(error, SegmentError::Refused(_)), "{change}: {error:?}");
        assert!(chain(&error).contains(code), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{change}: {:?}", begin.elapsed());
        database.execute(back);
        assert_eq!(heals(&generator, "t"), 11, "{change}");
    }
}

/// A session that has locked the row of a tag.
fn lock(database: &Database, tag: &str) -> Box<dyn FnMut(&str)> {
    let mut session = database.session();
    session("BEGIN");
    session(&format!("SELECT * FROM leaf_alloc WHERE biz_tag = '{tag}' FOR UPDATE"));
    session
}

#[test]
fn a_locked_row_holds_up_its_own_tag_alone() {
    let database = database(&MariaDb::shared(), &["a", "b", "c"]);
    let [mut one, mut two] = [lock(&database, "a"), lock(&database, "c")];
    thread::scope(|scope| {
        let generator = builder(&database).depth(1).max_depth(1).build().expect("built");
        let waiters = ["a", "c"].map(|tag| {
            let handle = generator.tag(tag).expect("known");
            scope.spawn(move || handle.next_id())
        });
        // Every ten ids take a load. If a load waited for the locked rows, none would come.
        let begin = Instant::now();
        for _ in 0..500 {
            generator.next_id("b").expect("taken");
            assert!(begin.elapsed() < PATIENCE, "the locks hold up another tag");
        }
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "they wait for their rows");
        let unlocked = Instant::now();
        one("ROLLBACK");
        two("ROLLBACK");
        for waiter in waiters {
            assert_eq!(waiter.join().expect("no panic").expect("unlocked"), 1);
        }
        assert!(unlocked.elapsed() < PATIENCE, "{:?}", unlocked.elapsed());
    });
}

/// A DDL statement or a backup with FLUSH TABLES WITH READ LOCK blocks the table like this.
#[test]
fn a_table_without_an_answer_costs_a_few_deadlines_whatever_the_number_of_tags() {
    let tags = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let database = database(&MariaDb::shared(), &tags);
    let mut lock = database.session();
    lock("LOCK TABLES leaf_alloc WRITE");
    let mut segments = server_at(&database).deadline(Duration::from_secs(1)).segments();
    let begin = Instant::now();
    for done in load_all(&mut segments, tags) {
        let text = chain(&done.expect_err("locked"));
        assert!(text.contains("a statement did not end within 1s"), "{text}");
    }
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
}
