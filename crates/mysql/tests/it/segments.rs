//! Segments from the table `leaf_alloc` of a real server, by the library's store: what is reserved,
//! what is refused, and what becomes of a load when something fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime;
use uidring::Error;
use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag};
use uidring_mysql::{MySqlSegments, MySqlStore};
use uidring_store::{NewSegmentTag, SegmentTable, TableError};
use uidring_testkit::chain;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::proxy::{Proxy, Verdict};

/// As Leaf's users have it.
const ORIGINAL_TABLE: &str = "CREATE TABLE `leaf_alloc` (
    `biz_tag` varchar(128) NOT NULL DEFAULT '',
    `max_id` bigint(20) NOT NULL DEFAULT '1',
    `step` int(11) NOT NULL,
    `description` varchar(256) DEFAULT NULL,
    `update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (`biz_tag`)) ENGINE=InnoDB";

fn server_at(url: &str) -> MySqlStore {
    MySqlStore::from_url(url).expect("a URL")
}

fn segments(database: &Database) -> MySqlSegments {
    server_at(&database.url()).segments()
}

fn through(database: &Database, proxy: &Proxy) -> MySqlSegments {
    server_at(&database.url_at(&format!("127.0.0.1:{}", proxy.port()))).segments()
}

fn new_tag(tag: &str, step: u64) -> NewSegmentTag {
    NewSegmentTag::new(tag, step).expect("allowed")
}

/// A fresh table with this tag.
fn table(server: &Arc<MariaDb>, tag: &str, step: u64) -> Database {
    let database = server.database();
    let segments = segments(&database).create_table_if_missing(true);
    segments.create_tag(&new_tag(tag, step)).expect("created");
    database
}

fn request(tag: &str, step: u64) -> SegmentRequest {
    SegmentRequest { tag: tag.into(), step }
}

fn load(store: &mut MySqlSegments, tag: &str, step: u64) -> Result<LoadedSegment, LoadError> {
    let mut done = None;
    store.load(&[request(tag, step)], &mut |index, result| {
        assert!(index == 0 && done.replace(result).is_none(), "handed over once");
    });
    done.expect("handed over")
}

fn range(store: &mut MySqlSegments, tag: &str, step: u64) -> (u64, u64) {
    let range = load(store, tag, step).expect("loaded");
    (range.start, range.end)
}

/// The text of a refusal, which must not tell the password.
fn refusal(store: &mut MySqlSegments, tag: &str) -> String {
    let error = load(store, tag, 0).expect_err("refused");
    for text in [chain(&error), format!("{error:?}"), format!("{store:?}")] {
        assert!(!text.contains("p@ss") && !text.contains("%40"), "{text}");
    }
    chain(&error)
}

fn max_id(database: &Database, tag: &str) -> i64 {
    database.query(&format!("SELECT max_id FROM leaf_alloc WHERE biz_tag = '{tag}'"))[0]
}

fn connects(database: &Database) -> usize {
    database.server().statements().matches(&format!("Connect\t{}", database.user())).count()
}

#[test]
fn the_original_table_goes_on_where_it_stands_beside_leaf() {
    let database = MariaDb::shared().database();
    database.execute(&format!("/* as it was made long ago */ {ORIGINAL_TABLE}"));
    database.execute(
        "INSERT INTO leaf_alloc VALUES ('leaf-segment-test', 4001, 2000, 'Test leaf Segment Mode \
         Get Id', '2020-01-01 00:00:00')",
    );
    let mut store = segments(&database);
    assert_eq!(range(&mut store, "leaf-segment-test", 0), (4_001, 6_001));
    // An instance of Leaf loads.
    database.execute(
        "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'leaf-segment-test'",
    );
    assert_eq!(range(&mut store, "leaf-segment-test", 5_000), (8_001, 13_001));
    store.create_tag(&new_tag("second", 7).start(70).expect("allowed")).expect("created");
    let tags = store.tags().expect("listed");
    assert_eq!(tags, store.list_tags().expect("listed"));
    let rows: Vec<_> = tags.iter().map(|tag| (&*tag.tag, tag.max_id, tag.step)).collect();
    assert_eq!(rows, [("leaf-segment-test", Ok(13_001), Ok(2_000)), ("second", Ok(70), Ok(7))]);
    assert_eq!(tags[0].description.as_deref(), Some("Test leaf Segment Mode Get Id"));
    assert!(tags[0].update_time > "2026-01-01".parse().ok(), "a load is a change: {:?}", tags[0]);
    assert!(tags[1].update_time.is_some());
}

#[test]
fn servers_of_every_temper_reserve_for_good() {
    for arguments in [
        &["--autocommit=0", "--sql-mode="][..],
        &["--sql-mode=ORACLE", "--explicit-defaults-for-timestamp=OFF"],
        &["--completion-type=CHAIN", "--transaction-isolation=SERIALIZABLE"],
        &["--completion-type=RELEASE", "--transaction-isolation=READ-UNCOMMITTED"],
        // Together they refuse to write below REPEATABLE READ.
        &[
            "--log-bin=log",
            "--server-id=1",
            "--binlog-format=STATEMENT",
            "--transaction-isolation=READ-COMMITTED",
        ],
    ] {
        let server = MariaDb::start_with(arguments);
        let database = table(&server, "t", 10);
        let (mut one, mut two) = (segments(&database), segments(&database));
        assert_eq!(range(&mut one, "t", 0), (1, 11), "{arguments:?}");
        assert_eq!(one.tags().expect("listed")[0].max_id, Ok(11), "{arguments:?}");
        assert_eq!(range(&mut two, "t", 0), (11, 21), "{arguments:?}");
        // A kept connection must not see the rows of long ago.
        assert_eq!(one.tags().expect("listed")[0].max_id, Ok(21), "{arguments:?}");
        assert_eq!(range(&mut one, "t", 0), (21, 31), "{arguments:?}");
        server.kill();
        server.start_again();
        assert_eq!(range(&mut two, "t", 0), (31, 41), "{arguments:?}");
    }
}

/// It is not supported, but it must not repeat a range either: two loads that meet are an error.
#[test]
fn a_table_without_transactions_repeats_nothing() {
    let database = table(&MariaDb::shared(), "t", 10);
    database.execute("ALTER TABLE leaf_alloc ENGINE = MyISAM");
    let stores: Vec<_> = (0..6).map(|_| segments(&database)).collect();
    let mut ranges: Vec<(u64, u64)> = thread::scope(|scope| {
        let loaders: Vec<_> = stores
            .into_iter()
            .map(|mut store| {
                scope.spawn(move || {
                    let loads = (0..50).map(|_| load(&mut store, "t", 0));
                    let loaded = loads.filter_map(|done| match done {
                        Ok(range) => Some((range.start, range.end)),
                        Err(error) => {
                            assert!(chain(&error).contains("InnoDB"), "{error}");
                            None
                        }
                    });
                    loaded.collect::<Vec<_>>()
                })
            })
            .collect();
        loaders.into_iter().flat_map(|loader| loader.join().expect("no panic")).collect()
    });
    ranges.sort_unstable();
    assert!(!ranges.is_empty());
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ranges:?}");
}

/// With Leaf's own script the server's collation decides. Neither is taken for the other.
#[test]
fn a_tag_is_its_exact_name() {
    let database = MariaDb::shared().database();
    database.execute(ORIGINAL_TABLE);
    let mut store = segments(&database);
    store.create_tag(&new_tag("Orders", 10)).expect("created");
    for tag in ["orders", "Orders ", "\u{d6}rders", "%", ""] {
        assert!(matches!(load(&mut store, tag, 0), Err(LoadError::NoSuchTag { .. })), "{tag}");
    }
    let error = store.create_tag(&new_tag("orders", 5)).expect_err("the same key");
    assert!(
        matches!(error.store(), Some(TableError::TagExists { tag, max_id: 1, step: 10 }) if tag == "Orders")
    );
    assert_eq!(range(&mut store, "Orders", 0), (1, 11));
    // Ours tells them apart.
    let own = table(&MariaDb::shared(), "Orders", 10);
    let mut store = segments(&own);
    store.create_tag(&new_tag("orders", 5)).expect("another tag");
    let snow = "\u{2603} \u{1f980}".repeat(32);
    store.create_tag(&new_tag(&snow, 5)).expect("of four bytes each");
    assert_eq!(range(&mut store, "orders", 0), (1, 6));
    assert_eq!(range(&mut store, &snow, 0), (1, 6));
}

/// A column too small would be filled up to its end by a lenient server, time and again.
#[test]
fn a_column_that_holds_less_is_refused() {
    let server = MariaDb::start_with(&["--sql-mode="]);
    let database = table(&server, "t", 1_000);
    database.execute("ALTER TABLE leaf_alloc MODIFY max_id INT NOT NULL");
    database.execute("UPDATE leaf_alloc SET max_id = 2147483000");
    for url in [database.url(), format!("{}?client_found_rows=true", database.url())] {
        let mut store = server_at(&url).segments();
        for _ in 0..2 {
            let text = refusal(&mut store, "t");
            assert!(text.contains("BIGINT"), "{text}");
            assert_eq!(max_id(&database, "t"), 2_147_483_000, "rolled back");
        }
    }
    database.execute(
        "CREATE TRIGGER meddle BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.max_id = 5",
    );
    assert!(refusal(&mut segments(&database), "t").contains("triggers"));
    database.execute("DROP TRIGGER meddle");
    database.execute("ALTER TABLE leaf_alloc MODIFY max_id BIGINT NOT NULL");
    assert_eq!(range(&mut segments(&database), "t", 0), (2_147_483_000, 2_147_484_000));
    // A name that does not fit would be cut, and be another tag.
    database.execute("ALTER TABLE leaf_alloc MODIFY biz_tag VARCHAR(4) NOT NULL");
    let error = segments(&database).create_tag(&new_tag("orders", 1)).expect_err("cut");
    assert!(chain(&error).contains("not found there as it was added"), "{error}");
    let tags = segments(&database).list_tags().expect("listed");
    assert_eq!(tags.len(), 1, "{tags:?}");
}

#[test]
fn a_missing_table_is_made_only_when_asked() {
    let database = MariaDb::shared().database();
    let mut store = segments(&database);
    let tag = new_tag("t", 10);
    for text in [
        refusal(&mut store, "t"),
        chain(&store.tags().expect_err("no table")),
        chain(&store.create_tag(&tag).expect_err("no table")),
        chain(&store.list_tags().expect_err("no table")),
    ] {
        assert!(text.contains("1146") && text.contains("uidring segment create"), "{text}");
    }
    assert!(database.query::<String>("SHOW TABLES").is_empty());
    let mut store = store.create_table_if_missing(true);
    assert_eq!(store.tags().expect("made"), Vec::<SegmentTag>::new());
    store.create_tag(&tag).expect("created");
    let error = store.create_tag(&tag).expect_err("it is there");
    assert!(
        matches!(error.store(), Some(TableError::TagExists { max_id: 1, step: 10, .. })),
        "{error}"
    );
    assert_eq!(range(&mut store, "t", 0), (1, 11));
}

#[test]
fn the_least_rights_are_enough() {
    let database = table(&MariaDb::shared(), "t", 10);
    let server = database.server();
    let (name, grantee) = (database.name(), format!("{}@'%'", database.user()));
    server.execute(&format!("REVOKE ALL ON {name}.* FROM {grantee}"));
    server.execute(&format!("GRANT SELECT ON {name}.leaf_alloc TO {grantee}"));
    let mut store = segments(&database).create_table_if_missing(true);
    assert_eq!(store.tags().expect("read").len(), 1);
    let text = refusal(&mut store, "t");
    assert!(text.contains("1142") && text.contains("SELECT and UPDATE"), "{text}");
    database.grant_as_docs_say("segments.md", "GRANT SELECT, UPDATE ON ids.leaf_alloc");
    assert_eq!(range(&mut store, "t", 0), (1, 11));
    let text = chain(&store.create_tag(&new_tag("u", 1)).expect_err("no INSERT"));
    assert!(text.contains("a new tag INSERT"), "{text}");
}

#[test]
fn the_connection_is_kept_and_each_load_is_one_transaction() {
    let server = MariaDb::start();
    let database = table(&server, "t", 10);
    server.log_statements();
    let mut store = segments(&database);
    for i in 0..4 {
        assert_eq!(range(&mut store, "t", 0), (1 + i * 10, 11 + i * 10));
        assert_eq!(store.tags().expect("listed").len(), 1);
    }
    assert_eq!(range(&mut store, "t", 0), (41, 51));
    load(&mut store, "none", 0).expect_err("no such tag");
    assert_eq!(range(&mut store, "t", 20), (51, 71));
    drop(store);
    // The server hears of the end a little later than we say it.
    let mut log = server.statements();
    for _ in 0..100 {
        if log.trim_end().ends_with("Quit") {
            break;
        }
        thread::sleep(Duration::from_millis(20));
        log = server.statements();
    }
    assert!(log.trim_end().ends_with("Quit"), "the connection is closed: {log}");
    assert_eq!(connects(&database), 1, "{log}");
    let count = |words: &str| log.matches(words).count();
    assert_eq!(count("Prepare\tUPDATE"), 1, "{log}");
    assert_eq!((count("Execute\tUPDATE leaf_alloc"), count("FOR UPDATE")), (6, 8), "{log}");
    assert_eq!((count("Query\tCOMMIT"), count("Query\tROLLBACK")), (6, 4 + 1), "{log}");
}

/// Also with several runtimes around, none of which it may use or disturb.
#[test]
fn it_works_within_runtimes_and_without() {
    let database = table(&MariaDb::shared(), "t", 10);
    let mut store = segments(&database);
    assert_eq!(range(&mut store, "t", 0), (1, 11));
    for (i, runtime) in [
        runtime::Builder::new_current_thread().build().expect("a runtime"),
        runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime"),
    ]
    .iter()
    .enumerate()
    {
        let start = 11 + i as u64 * 20;
        runtime.block_on(async {
            assert_eq!(range(&mut store, "t", 0), (start, start + 10));
            let mut inside = segments(&database);
            assert_eq!(range(&mut inside, "t", 0), (start + 10, start + 20));
            assert_eq!(inside.list_tags().expect("listed").len(), 1);
        });
    }
    assert_eq!(range(&mut store, "t", 0), (51, 61));
}

#[test]
fn a_connection_that_broke_while_idle_is_no_failure() {
    let server = MariaDb::start();
    let database = table(&server, "t", 10);
    server.log_statements();
    let proxy = Proxy::to(server.port());
    let mut store = through(&database, &proxy);
    assert_eq!(range(&mut store, "t", 0), (1, 11));
    // Broken so lately that it is found by the load itself.
    proxy.cut();
    assert_eq!(range(&mut store, "t", 0), (11, 21));
    proxy.cut();
    thread::sleep(Duration::from_millis(1_100));
    let start = Instant::now();
    assert_eq!(range(&mut store, "t", 0), (21, 31));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(connects(&database), 3, "{}", server.statements());
}

/// As behind a firewall that has forgotten the connection: whatever is sent gets no answer.
#[test]
fn a_connection_that_went_silent_is_replaced_within_the_deadline() {
    let server = MariaDb::start();
    let database = table(&server, "t", 10);
    let silent = Arc::new(AtomicBool::new(false));
    let proxy = Proxy::with(server.port(), {
        let silent = Arc::clone(&silent);
        move |chunk| match chunk.connection == 0 && silent.load(Ordering::Relaxed) {
            true => Verdict::Swallow,
            false => Verdict::Forward,
        }
    });
    let url = database.url_at(&format!("127.0.0.1:{}", proxy.port()));
    let patient = server_at(&url).connect_timeout(Duration::from_millis(500));
    let mut store = patient.segments();
    assert_eq!(range(&mut store, "t", 0), (1, 11));
    silent.store(true, Ordering::Relaxed);
    thread::sleep(Duration::from_millis(1_100));
    let start = Instant::now();
    assert_eq!(range(&mut store, "t", 0), (11, 21));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn a_server_that_is_away_costs_a_call_one_deadline() {
    let server = MariaDb::start();
    let database = table(&server, "t", 10);
    let impatient = server_at(&database.url()).deadline(Duration::from_secs(2));
    let mut store = impatient.segments();
    assert_eq!(range(&mut store, "t", 0), (1, 11));
    server.stop();
    let start = Instant::now();
    let mut errors = Vec::new();
    let wanted: Vec<_> = (0..50).map(|_| request("t", 0)).collect();
    store.load(&wanted, &mut |index, done| errors.push((index, done.expect_err("away"))));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert!(errors.iter().map(|(index, _)| *index).eq(0..50));
    for (_, error) in errors {
        assert!(matches!(error, LoadError::Store(Error::Store(_))), "{error:?}");
        let text = chain(&error);
        assert!(text.contains("is the server running?"), "{text}");
        assert!(!text.contains("p@ss") && !text.contains("%40"), "{text}");
    }
    server.start_again();
    assert_eq!(range(&mut store, "t", 0), (11, 21));

    server.freeze();
    let start = Instant::now();
    let text = refusal(&mut store, "t");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    server.thaw();
    let next = range(&mut store, "t", 0);
    assert!(next.0 >= 21 && max_id(&database, "t").unsigned_abs() == next.1, "{next:?}: {text}");
}

/// Somebody keeps one tag's row locked: the others are loaded all the same.
#[test]
fn a_locked_row_is_an_error_for_its_tag_alone() {
    let database = table(&MariaDb::shared(), "t", 10);
    let mut store = segments(&database);
    store.create_tag(&new_tag("u", 5)).expect("created");
    // The transaction that keeps the lock stays open at the proxy, which takes away its COMMIT.
    let proxy = Proxy::with(database.server().port(), |chunk| match chunk.asks("COMMIT") {
        true => Verdict::Swallow,
        false => Verdict::Forward,
    });
    let url = database.url_at(&format!("127.0.0.1:{}", proxy.port()));
    let mut keeper = server_at(&url).deadline(Duration::from_secs(4)).segments();
    thread::scope(|scope| {
        scope.spawn(|| load(&mut keeper, "t", 0).expect_err("no end"));
        thread::sleep(Duration::from_millis(300));
        let mut done = Vec::new();
        store.load(&[request("t", 0), request("u", 0)], &mut |_, result| done.push(result));
        let [locked, free] = <[_; 2]>::try_from(done).expect("two");
        let text = chain(&locked.expect_err("locked"));
        assert!(text.contains("another transaction has the row or table locked"), "{text}");
        assert_eq!(free.expect("loaded").end, 6);
    });
}
