//! Tags that people add, change and delete.

use uidring::segment::LoadError;
use uidring_store::{NewSegmentTag, SegmentTable, TableError};

use super::{
    DatabaseOf, TestedEngine, is_lacking, load_all, lost_commit, new_tag, refusal, shared, store,
    through,
};
use crate::chain;

/// Creates a database with the tag `t`, at 70 with step 10.
fn database<T: TestedEngine>() -> DatabaseOf<T> {
    let database = shared::<T>();
    let table = store::<T>(&database).segments().create_table_if_missing(true);
    table.create_tag(&new_tag("t", 10).start(70).expect("allowed")).expect("created");
    database
}

fn row<T: TestedEngine>(database: &DatabaseOf<T>) -> Vec<(i64, i64)> {
    let tags = store::<T>(database).segments().list_tags().expect("listed");
    tags.iter().map(|tag| (tag.max_id.expect("one"), tag.step.expect("one"))).collect()
}

pub fn tags_are_added_changed_and_deleted<T: TestedEngine>() {
    let database = shared::<T>();
    let mut segments = store::<T>(&database).segments();
    let text = refusal(&mut segments, "t");
    assert!(text.contains("uidring segment create"), "{text}");
    let segments = segments.create_table_if_missing(true);
    let snow = "\u{2603} \u{1f980}".repeat(32);
    for tag in ["t", "Orders", "orders", &snow] {
        let tag = new_tag(tag, 7).start(70).and_then(|tag| tag.description("of\u{2603}"));
        segments.create_tag(&tag.expect("allowed")).expect("created");
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
    assert!(is_lacking(&error), "{error}");
    let gone = segments.delete_tag("t").expect("deleted");
    assert_eq!((gone.max_id, gone.step), (Ok(70), Ok(9)));
    assert!(is_lacking(&segments.delete_tag("t").expect_err("gone")));
}

/// A person who deletes a tag must learn where it ended, even if the deletion is uncertain.
pub fn a_change_whose_answer_was_lost_is_not_tried_again<T: TestedEngine>() {
    for is_deleted in [false, true] {
        let database = database::<T>();
        let proxy = lost_commit::<T>(&database);
        let table = through::<T>(&database, &proxy).segments();
        let done = if is_deleted { table.delete_tag("t") } else { table.set_step("t", 20) };
        let error = chain(&done.expect_err("the answer was lost"));
        assert_eq!(error.contains("its ids ended at max_id 70"), is_deleted, "{error}");
        assert_eq!(row::<T>(&database), if is_deleted { vec![] } else { vec![(70, 20)] });
    }
}

pub fn a_step_that_does_not_stay_is_refused<T: TestedEngine>() {
    let database = database::<T>();
    for (change, words) in [
        ("NEW.step = LEAST(NEW.step, 127)", "has step 127 and max_id 70"),
        ("NEW.max_id = 1", "has step 5000 and max_id 1"),
    ] {
        database.execute(&T::before_update("leaf_alloc", &format!("{}{change}", T::SET)));
        let changed = store::<T>(&database).segments().set_step("t", 5_000);
        let error = chain(&changed.expect_err("refused"));
        assert!(error.contains("to have step 5000 and max_id 70, and "), "{error}");
        assert!(error.contains(words), "{words}: {error}");
        assert_eq!(row::<T>(&database), [(70, 10)], "rolled back");
    }
}

pub fn a_row_with_null_stops_its_own_tag_alone<T: TestedEngine>() {
    for column in ["max_id", "step"] {
        let database = database::<T>();
        let mut segments = store::<T>(&database).segments();
        segments.create_tag(&NewSegmentTag::new("u", 5).expect("allowed")).expect("created");
        database.execute(&T::nullable("leaf_alloc", column));
        database.execute(&format!("UPDATE leaf_alloc SET {column} = NULL WHERE biz_tag = 't'"));
        let [null, loaded] = load_all(&mut segments, ["t", "u"]);
        assert_eq!(loaded.expect("loaded").start, 1);
        let error = &null.expect_err("NULL");
        let (is_row, text) = (matches!(error, LoadError::InvalidRow { .. }), chain(error));
        assert!(is_row && text.contains(&format!("{column} is NULL")), "{text}");
        assert!(text.contains("tag `t`") && text.contains("leaf_alloc"), "{text}");
        assert_eq!(segments.list_tags().expect("listed").len(), 2);
        if column == "step" {
            segments.set_step("t", 5).expect("set right");
            continue;
        }
        // Nobody could tell where its ids ended.
        for refused in [segments.delete_tag("t"), segments.set_step("t", 20)] {
            let text = chain(&refused.expect_err("refused"));
            assert!(text.contains("the max_id of tag `t` is NULL"), "{text}");
        }
        let step = database.column("SELECT step FROM leaf_alloc WHERE biz_tag = 't'");
        assert_eq!(step, ["10"]);
    }
}
