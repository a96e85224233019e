//! Segments from the table `leaf_alloc` of a real server, by the library's store: what is reserved,
//! what is refused, and what becomes of a load when something fails.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use uidring::segment::{LoadError, SegmentRequest, SegmentStore};
use uidring_mysql::{MySqlSegments, MySqlStore};
use uidring_store::{SegmentTable, TableError};
use uidring_testkit::chain;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::servers::{load, new_tag, range, told};

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

/// A fresh table with this tag.
fn table(server: &Arc<MariaDb>, tag: &str, step: u64) -> Database {
    let database = server.database();
    let segments = segments(&database).create_table_if_missing(true);
    segments.create_tag(&new_tag(tag, step)).expect("created");
    database
}

/// A load of another step than the row's.
fn range_of(store: &mut MySqlSegments, tag: &str, step: u64) -> (u64, u64) {
    let mut done = None;
    let wanted = [SegmentRequest { tag: tag.into(), step }];
    store.load(&wanted, &mut |_, result| done = Some(result.expect("loaded")));
    done.map(|range| (range.start, range.end)).expect("handed over")
}

fn refusal(store: &mut MySqlSegments, tag: &str) -> String {
    told(&load(store, tag).expect_err("refused"), store)
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
    assert_eq!(range(&mut store, "leaf-segment-test"), (4_001, 6_001));
    // An instance of Leaf loads.
    database.execute(
        "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'leaf-segment-test'",
    );
    assert_eq!(range_of(&mut store, "leaf-segment-test", 5_000), (8_001, 13_001));
    store.create_tag(&new_tag("second", 7).start(70).expect("allowed")).expect("created");
    let tags = store.tags().expect("listed");
    assert_eq!(tags, store.list_tags().expect("listed"));
    let rows: Vec<_> = tags.iter().map(|tag| (&*tag.tag, tag.max_id, tag.step)).collect();
    assert_eq!(rows, [("leaf-segment-test", Ok(13_001), Ok(2_000)), ("second", Ok(70), Ok(7))]);
    assert_eq!(tags[0].description.as_deref(), Some("Test leaf Segment Mode Get Id"));
    assert!(tags[0].update_time > "2026-01-01".parse().ok(), "a load is a change: {:?}", tags[0]);
    assert!(tags[1].update_time.is_some());
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
                    let loads = (0..50).map(|_| load(&mut store, "t"));
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
        assert!(matches!(load(&mut store, tag), Err(LoadError::NoSuchTag { .. })), "{tag}");
    }
    let error = store.create_tag(&new_tag("orders", 5)).expect_err("the same key");
    assert!(
        matches!(error.store(), Some(TableError::TagExists { tag, max_id: 1, step: 10 }) if tag == "Orders")
    );
    assert_eq!(range(&mut store, "Orders"), (1, 11));
    // Ours tells them apart.
    let own = table(&MariaDb::shared(), "Orders", 10);
    let mut store = segments(&own);
    store.create_tag(&new_tag("orders", 5)).expect("another tag");
    let snow = "\u{2603} \u{1f980}".repeat(32);
    store.create_tag(&new_tag(&snow, 5)).expect("of four bytes each");
    assert_eq!(range(&mut store, "orders"), (1, 6));
    assert_eq!(range(&mut store, &snow), (1, 6));
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
    database.execute("ALTER TABLE leaf_alloc MODIFY max_id BIGINT NOT NULL");
    assert_eq!(range(&mut segments(&database), "t"), (2_147_483_000, 2_147_484_000));
    // A name that does not fit would be cut, and be another tag.
    database.execute("ALTER TABLE leaf_alloc MODIFY biz_tag VARCHAR(4) NOT NULL");
    let error = segments(&database).create_tag(&new_tag("orders", 1)).expect_err("cut");
    assert!(chain(&error).contains("not found there as it was added"), "{error}");
    let tags = segments(&database).list_tags().expect("listed");
    assert_eq!(tags.len(), 1, "{tags:?}");
}

#[test]
fn the_connection_is_kept_and_each_load_is_one_transaction() {
    let server = MariaDb::start();
    let database = table(&server, "t", 10);
    server.log_statements();
    let mut store = segments(&database);
    for i in 0..4 {
        assert_eq!(range(&mut store, "t"), (1 + i * 10, 11 + i * 10));
        assert_eq!(store.tags().expect("listed").len(), 1);
    }
    assert_eq!(range(&mut store, "t"), (41, 51));
    load(&mut store, "none").expect_err("no such tag");
    assert_eq!(range_of(&mut store, "t", 20), (51, 71));
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
