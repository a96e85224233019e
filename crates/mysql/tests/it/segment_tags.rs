//! Tags that people change and delete on a server.

use std::sync::Arc;

use uidring::segment::LoadError;
use uidring::{Error, SegmentGenerator};
use uidring_mysql::MySqlStore;
use uidring_store::{NewSegmentTag, SegmentTable, TableError};
use uidring_testkit::chain;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::proxy::Proxy;
use uidring_testkit::servers::load_all;

fn table_at(url: &str) -> impl SegmentTable + use<> {
    MySqlStore::from_url(url).expect("a URL").segments().create_table_if_missing(true)
}

/// A database with the tag `t`, at 70 with step 10.
fn database() -> Database {
    let database = MariaDb::shared().database();
    let tag = NewSegmentTag::new("t", 10).and_then(|tag| tag.start(70)).expect("allowed");
    table_at(&database.url()).create_tag(&tag).expect("created");
    database
}

fn row(database: &Database) -> Vec<(i64, i64)> {
    database.query("SELECT max_id, step FROM leaf_alloc")
}

#[test]
fn a_tag_that_is_in_use_meanwhile_is_not_deleted() {
    let database = Arc::new(database());
    let proxy = Proxy::before(database.server().port(), "FOR UPDATE", {
        let database = Arc::clone(&database);
        move || database.execute("UPDATE leaf_alloc SET max_id = 200")
    });
    let table = table_at(&database.url_at(&format!("127.0.0.1:{}", proxy.port())));
    let error = chain(&table.delete_tag("t").expect_err("in use"));
    for part in ["was at max_id 70 when", "is at 200 now", "its ids ended at max_id 70"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(row(&database), [(200, 10)]);
}

/// Without transactions, a load may come between what a change reads and what it writes.
#[test]
fn without_transactions_only_what_was_read_is_changed() {
    for is_deleted in [false, true] {
        let database = Arc::new(database());
        database.execute("ALTER TABLE leaf_alloc ENGINE = MyISAM");
        let statement =
            if is_deleted { "DELETE FROM leaf_alloc" } else { "UPDATE leaf_alloc SET step" };
        let proxy = Proxy::before(database.server().port(), statement, {
            let database = Arc::clone(&database);
            move || database.execute("UPDATE leaf_alloc SET max_id = 90")
        });
        let table = table_at(&database.url_at(&format!("127.0.0.1:{}", proxy.port())));
        let done = if is_deleted { table.delete_tag("t") } else { table.set_step("t", 20) };
        let error = chain(&done.expect_err("refused"));
        assert!(error.contains("changed 0 rows and not 1"), "{error}");
        assert_eq!(row(&database), [(90, 10)]);
    }
}

/// By the collation of a table that Leaf's script made, `T` is `t`.
#[test]
fn a_tag_of_another_case_is_another_tag() {
    let database = database();
    database.execute(
        "ALTER TABLE leaf_alloc MODIFY biz_tag VARCHAR(128) COLLATE utf8mb4_general_ci NOT NULL",
    );
    let table = table_at(&database.url());
    for result in [table.set_step("T", 5), table.delete_tag("T"), table.delete_tag("t ")] {
        let error: Error = result.expect_err("no such tag");
        assert!(matches!(error.store(), Some(TableError::NoSuchTag { .. })), "{error}");
    }
    assert_eq!(row(&database), [(70, 10)]);
    assert!(table.set_step("t", 0).is_err() && table.set_step("t", 1 << 31).is_err());
    assert_eq!(row(&database), [(70, 10)], "steps out of range change nothing");
    assert_eq!(table.set_step("t", (1 << 31) - 1).expect("set").step, Ok(10));
    assert_eq!(row(&database), [(70, (1 << 31) - 1)]);
}

/// A server that cuts the answers of all its users.
#[test]
fn all_tags_are_read_whatever_the_servers_limit_is() {
    let server = MariaDb::start();
    let database = server.database();
    let table = table_at(&database.url());
    for tag in ["t", "u", "v"] {
        table.create_tag(&NewSegmentTag::new(tag, 5).expect("allowed")).expect("created");
    }
    server.execute("SET GLOBAL sql_select_limit = 1");
    assert_eq!(table.list_tags().expect("listed").len(), 3);
}

/// As Leaf's script makes it where the server's character set is an old one.
#[test]
fn a_character_that_the_column_lacks_is_named_as_that() {
    for mode in ["", "STRICT_TRANS_TABLES"] {
        let server = MariaDb::start_with(&[&format!("--sql-mode={mode}")]);
        let database = server.database();
        let table = table_at(&database.url());
        table.create_tag(&NewSegmentTag::new("t", 5).expect("allowed")).expect("created");
        database.execute(
            "ALTER TABLE leaf_alloc MODIFY biz_tag VARCHAR(128) CHARACTER SET utf8mb3 NOT NULL",
        );
        let crab = NewSegmentTag::new("\u{1f980}", 5).expect("allowed");
        let text = chain(&table.create_tag(&crab).expect_err("refused"));
        assert!(text.contains("character set"), "{text}");
        assert!(!text.contains("script makes it"), "{text}");
        assert_eq!(table.list_tags().expect("listed").len(), 1, "nothing was added");
    }
}

/// A table that was made or changed by hand may hold such a value.
#[test]
fn a_number_that_cannot_be_read_stops_its_own_tag_alone() {
    for (column, value, why) in [
        ("max_id VARCHAR(30)", "max_id = 'seventy'", "its max_id is not a 64-bit integer"),
        ("max_id BIGINT UNSIGNED", "max_id = 9223372036854775808", "its max_id is not a 64-bit"),
        ("step VARCHAR(30)", "step = 'seven'", "its step is not a 64-bit integer"),
    ] {
        let database = database();
        let mut table = MySqlStore::from_url(&database.url()).expect("a URL").segments();
        table.create_tag(&NewSegmentTag::new("u", 10).expect("allowed")).expect("created");
        database.execute(&format!("ALTER TABLE leaf_alloc MODIFY {column}"));
        database.execute(&format!("UPDATE leaf_alloc SET {value} WHERE biz_tag = 't'"));
        let [bad, good] = load_all(&mut table, ["t", "u"]);
        assert_eq!(good.expect("its row is sound").start, 1, "{value}");
        let bad = bad.expect_err("refused");
        assert!(
            matches!(bad, LoadError::InvalidRow { .. }) && chain(&bad).contains(why),
            "{bad:?}"
        );
        let generator = SegmentGenerator::builder(table).build().expect("starts");
        assert_eq!(generator.next_id("u").expect("an id"), 11);
    }
}
