//! Segments from the table `leaf_alloc`: what is reserved, what is refused, and what failures do to a load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::Error;
use uidring::segment::{LoadError, SegmentRequest, SegmentStore, SegmentTag};
use uidring_store::{SegmentTable, TableError};

use super::{
    TestedEngine, grant, load, load_all, lost_commit, max_id, meddling_triggers, new_tag, range,
    refusal, runtimes, shared, statements_of, store, store_at, through, told, with_tags,
};
use crate::chain;
use crate::database::Databases;
use crate::proxy::{Proxy, Verdict};

/// The most that a deadline takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

const TAGS: [&str; 4] = ["a", "b", "c", "d"];

fn starts(segments: &mut impl SegmentStore) -> [u64; 4] {
    load_all(segments, TAGS)
        .map(|done| done.unwrap_or_else(|error| panic!("{}", chain(&error))).start)
}

pub fn a_missing_table_is_made_only_when_asked<T: TestedEngine>() {
    let database = shared::<T>();
    let mut segments = store::<T>(&database).segments();
    let tag = new_tag("t", 10);
    for text in [
        refusal(&mut segments, "t"),
        chain(&segments.tags().expect_err("no table")),
        chain(&segments.create_tag(&tag).expect_err("no table")),
        chain(&segments.list_tags().expect_err("no table")),
    ] {
        assert!(text.contains(T::NO_TABLE) && text.contains("uidring segment create"), "{text}");
    }
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = ";
    assert!(database.column(&format!("{tables}{}", T::SCHEMA)).is_empty());
    let mut segments = segments.create_table_if_missing(true);
    assert_eq!(segments.tags().expect("made"), Vec::<SegmentTag>::new());
    segments.create_tag(&tag).expect("created");
    let error = segments.create_tag(&tag).expect_err("it is there");
    let is_there = matches!(error.store(), Some(TableError::TagExists { max_id: 1, step: 10, .. }));
    assert!(is_there, "{error}");
    assert_eq!(range(&mut segments, "t"), (1, 11));
}

/// As after a migration that lost the key. A client that took one of two rows would repeat the other's ids.
pub fn a_table_without_its_key_repeats_nothing<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &["t", "u"]);
    for statement in [
        "CREATE TABLE copied AS SELECT * FROM leaf_alloc",
        "DROP TABLE leaf_alloc",
        "ALTER TABLE copied RENAME TO leaf_alloc",
    ] {
        database.execute(statement);
    }
    let mut segments = store::<T>(&database).segments();
    assert_eq!(range(&mut segments, "t"), (1, 11));
    let text = chain(&segments.create_tag(&new_tag("t", 10)).expect_err("no key"));
    assert!(text.contains("key") || text.contains("constraint"), "{text}");
    assert_eq!(segments.list_tags().expect("listed").len(), 2, "none was added");
    database.execute("INSERT INTO leaf_alloc SELECT * FROM leaf_alloc WHERE biz_tag = 't'");
    let text = refusal(&mut segments, "t");
    assert!(text.contains("has 2 rows") && text.contains("primary key"), "{text}");
    for text in [
        chain(&segments.set_step("t", 20).expect_err("two rows")),
        chain(&segments.delete_tag("t").expect_err("two rows")),
    ] {
        assert!(text.contains("has 2 rows"), "{text}");
    }
    let wanted = ["t", "u"].map(|tag| SegmentRequest { tag: tag.into(), step: 0 });
    let mut done = [false; 2];
    segments.load(&wanted, &mut |index, loaded| done[index] = loaded.is_ok());
    assert_eq!(done, [false, true], "it concerns that tag alone");
}

pub fn the_rights_of_the_docs_are_enough<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &["t"]);
    let url = grant::<T>(&database, 2);
    let mut segments = store_at::<T>(&url).segments().create_table_if_missing(true);
    assert_eq!(segments.tags().expect("read").len(), 1);
    assert_eq!(range(&mut segments, "t"), (1, 11));
    let text = told(&segments.create_tag(&new_tag("u", 1)).expect_err("no INSERT"), &segments);
    assert!(text.contains("a new tag INSERT"), "{text}");
}

/// Several runtimes exist; it must neither use nor disturb any.
pub fn it_works_within_runtimes_and_without<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &["t"]);
    let mut segments = store::<T>(&database).segments();
    assert_eq!(range(&mut segments, "t"), (1, 11));
    for (runtime, start) in runtimes().iter().zip([11, 31]) {
        runtime.block_on(async {
            assert_eq!(range(&mut segments, "t"), (start, start + 10));
            let mut inside = store::<T>(&database).segments();
            assert_eq!(range(&mut inside, "t"), (start + 10, start + 20));
            assert_eq!(inside.list_tags().expect("listed").len(), 1);
        });
    }
    assert_eq!(range(&mut segments, "t"), (51, 61));
}

pub fn a_connection_that_broke_while_idle_is_no_failure<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &["t"]);
    let connections = Arc::new(AtomicUsize::new(0));
    let proxy = Proxy::with(database.server().port(), {
        let connections = Arc::clone(&connections);
        move |chunk| {
            connections.fetch_max(chunk.connection + 1, Ordering::Relaxed);
            Verdict::Forward
        }
    });
    let mut segments = through::<T>(&database, &proxy).segments();
    assert_eq!(range(&mut segments, "t"), (1, 11));
    // The load itself notices a connection that just broke.
    for (pause, start) in [(0, 11), (1_100, 21)] {
        proxy.cut();
        thread::sleep(Duration::from_millis(pause));
        let begin = Instant::now();
        assert_eq!(range(&mut segments, "t"), (start, start + 10));
        assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    }
    assert_eq!(connections.load(Ordering::Relaxed), 3);
}

/// As if a firewall had forgotten the connection: nothing that is sent gets an answer.
pub fn a_connection_that_went_silent_is_replaced_within_the_deadline<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &["t"]);
    let silent = Arc::new(AtomicBool::new(false));
    let proxy = Proxy::with(database.server().port(), {
        let silent = Arc::clone(&silent);
        move |chunk| match chunk.connection == 0 && silent.load(Ordering::Relaxed) {
            true => Verdict::Swallow,
            false => Verdict::Forward,
        }
    });
    let store = through::<T>(&database, &proxy).connect_timeout(Duration::from_millis(500));
    let mut segments = store.segments();
    assert_eq!(range(&mut segments, "t"), (1, 11));
    silent.store(true, Ordering::Relaxed);
    thread::sleep(Duration::from_millis(1_100));
    let begin = Instant::now();
    assert_eq!(range(&mut segments, "t"), (11, 21));
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

pub fn a_server_that_is_away_costs_a_call_one_deadline<T: TestedEngine>() {
    let server = T::Kind::start_with(&[]);
    let database = with_tags::<T>(&server, &["t"]);
    let mut segments = store::<T>(&database).deadline(Duration::from_secs(2)).segments();
    assert_eq!(range(&mut segments, "t"), (1, 11));
    server.stop();
    let begin = Instant::now();
    let mut errors = Vec::new();
    let wanted: Vec<_> = (0..50).map(|_| SegmentRequest { tag: "t".into(), step: 0 }).collect();
    segments.load(&wanted, &mut |index, done| errors.push((index, done.expect_err("away"))));
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    assert!(errors.iter().map(|(index, _)| *index).eq(0..50));
    for (_, error) in errors {
        assert!(matches!(error, LoadError::Store(Error::Store(_))), "{error:?}");
        let text = told(&error, &segments);
        assert!(text.contains("is the server running?"), "{text}");
    }
    server.start_again();
    assert_eq!(range(&mut segments, "t"), (11, 21));

    server.freeze();
    let begin = Instant::now();
    let text = refusal(&mut segments, "t");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    server.thaw();
    let next = range(&mut segments, "t");
    assert!(next.0 >= 21 && max_id::<T>(&database, "t") == next.1, "{next:?}: {text}");
}

/// The other tags are loaded although one row stays locked.
pub fn a_locked_row_is_an_error_for_its_tag_alone<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &["t", "u"]);
    let mut segments = store::<T>(&database).segments();
    let mut other = database.session();
    other("BEGIN");
    other("SELECT * FROM leaf_alloc WHERE biz_tag = 't' FOR UPDATE");
    for start in [1, 11] {
        let [locked, free] = load_all(&mut segments, ["t", "u"]);
        let text = chain(&locked.expect_err("locked"));
        assert!(text.contains("another transaction has the row or table locked"), "{text}");
        assert_eq!(free.expect("loaded").start, start);
    }
    other("ROLLBACK");
    assert_eq!(range(&mut segments, "t"), (1, 11), "nothing was spent");
}

/// A locked row of another tag must not delay these.
pub fn only_the_rows_of_the_tags_are_locked<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &["a", "b", "bb", "c", "d"]);
    let mut other = database.session();
    other("BEGIN");
    other("SELECT * FROM leaf_alloc WHERE biz_tag = 'bb' FOR UPDATE");
    assert_eq!(starts(&mut store::<T>(&database).segments()), [1; 4]);
}

pub fn a_trigger_that_makes_something_else_of_it_is_refused<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &["t"]);
    database.execute("UPDATE leaf_alloc SET max_id = 2147483000");
    let mut segments = store::<T>(&database).segments();
    for trigger in meddling_triggers::<T>("leaf_alloc", "max_id", "biz_tag = 't'") {
        database.execute(&trigger);
        let text = refusal(&mut segments, "t");
        assert!(text.contains("reads 5") && text.contains("triggers"), "{text}");
        assert_eq!(max_id::<T>(&database, "t"), 2_147_483_000, "rolled back");
    }
}

pub fn tags_that_wait_are_loaded_in_one_transaction<T: TestedEngine>() {
    let server = T::Kind::start_with(&[]);
    let database = with_tags::<T>(&server, &TAGS);
    let mut segments = store::<T>(&database).segments();
    assert_eq!(starts(&mut segments), [1; 4]);
    let log = statements_of::<T>(&server, || assert_eq!(starts(&mut segments), [11; 4]));
    let count = |words: &str| log.matches(words).count();
    // Statements stay prepared.
    assert_eq!(T::TRANSACTION.map(count), [1, 1], "{log}");
    assert_eq!((count("FOR UPDATE"), count("UPDATE leaf_alloc")), (1, 1), "{log}");
}

/// The other tags are loaded, and its row stays unchanged.
pub fn a_trigger_of_one_tag_concerns_that_tag_alone<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &TAGS);
    let mut segments = store::<T>(&database).segments();
    let refuse = format!("IF NEW.biz_tag = 'b' THEN {}; END IF", T::RAISE);
    let mut triggers = meddling_triggers::<T>("leaf_alloc", "max_id", "biz_tag = 'b'");
    triggers.push(T::before_update("leaf_alloc", &refuse));
    for trigger in triggers {
        database.execute(&trigger);
        let [a, b, c, d] = load_all(&mut segments, TAGS);
        b.expect_err("refused");
        let starts = [a, c, d].map(|done| done.expect("loaded").start);
        assert_eq!(starts, [starts[0]; 3], "{trigger}");
        assert_eq!(max_id::<T>(&database, "b"), 1, "{trigger}");
    }
}

/// The range reserved by then is dropped, with all others of its transaction.
pub fn an_answer_to_the_commit_that_is_lost_repeats_nothing<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &TAGS);
    let proxy = lost_commit::<T>(&database);
    assert_eq!(starts(&mut through::<T>(&database, &proxy).segments()), [11; 4]);
    assert_eq!(load(&mut store::<T>(&database).segments(), "a").expect("loaded").start, 21);
}
