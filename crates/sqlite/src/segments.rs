//! Segments from a SQLite file.

mod load;

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Params, Row, Transaction};
use uidring::Error;
use uidring::segment::{SegmentTag, TagNumber};
use uidring_store::sql::INSERT_TAG;
use uidring_store::{NewSegmentTag, SegmentTable, check_step, end_of, no_such_tag};

use crate::dedicated;
use crate::dialect::DIALECT;
use crate::file::StoreFile;
use crate::format::{self, Problem};

/// A table `leaf_alloc` in a SQLite file, from which segments are loaded.
///
/// Any number of processes of one host may use the file at once. It may also hold worker ids. Keep it, as
/// [`SqliteStore`](crate::SqliteStore) says.
///
/// Each load opens the file again, so that a file that was removed is an error.
///
/// ```
/// use uidring_store::{NewSegmentTag, SegmentTable};
/// use uidring::SegmentGenerator;
/// use uidring_sqlite::SqliteStore;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("segments.db");
/// let table = SqliteStore::new(path).segments();
/// table.create_tag(&NewSegmentTag::new("orders", 1_000)?)?;
/// let generator = SegmentGenerator::builder(table).build()?;
/// assert_eq!(generator.next_id("orders")?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteSegments {
    pub(crate) file: StoreFile,
}

impl SqliteSegments {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Fails where a start would fail, as far as can be seen without changing anything. Returns the names of the tags.
    pub(crate) fn check(&self) -> Result<Vec<String>, Error> {
        self.file.check(|connection| {
            dedicated::refuse(connection, "segments")?;
            let mut tags = connection.prepare(&DIALECT.list_tags())?;
            let tags = tags.query_map([], |row| Ok(tag(row)?.tag))?;
            Ok(tags.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Runs a statement on a tag's row, which must then have this step, or be gone. Returns the tag as it was before.
    fn change(
        &self,
        tag: &str,
        step: Option<i64>,
        statement: &str,
        values: impl Params,
    ) -> Result<SegmentTag, Error> {
        self.file.write(&mut self.file.open("leaf_alloc")?, |transaction| {
            let found = find(transaction, tag)?.ok_or_else(|| no_such_tag(tag))?;
            end_of(&found)?;
            change_row(transaction, tag, statement, values)?;
            if let Some(step) = step {
                check_kept(transaction, tag, found.max_id, Some(step))?;
            }
            Ok(found)
        })
    }
}

impl SegmentTable for SqliteSegments {
    /// Creates the file and the table if they are missing.
    fn create_tag(&self, new: &NewSegmentTag) -> Result<(), Error> {
        let (tag, start, step, description) = new.columns();
        self.file.write(&mut self.file.open_or_create()?, |transaction| {
            if let Some(found) = find(transaction, tag)? {
                return Err(NewSegmentTag::exists(found).into());
            }
            transaction.execute(INSERT_TAG, (tag, start, step, description))?;
            check_kept(transaction, tag, Ok(start), Some(step))
        })
    }

    fn list_tags(&self) -> Result<Vec<SegmentTag>, Error> {
        self.file.read(|connection| {
            connection.prepare(&DIALECT.list_tags())?.query_map([], tag)?.collect()
        })
    }

    fn set_step(&self, tag: &str, step: u64) -> Result<SegmentTag, Error> {
        let step = check_step(step)?;
        let update =
            "UPDATE leaf_alloc SET step = ?, update_time = CURRENT_TIMESTAMP WHERE biz_tag = ?";
        self.change(tag, Some(step), update, (step, tag))
    }

    fn delete_tag(&self, tag: &str) -> Result<SegmentTag, Error> {
        self.change(tag, None, "DELETE FROM leaf_alloc WHERE biz_tag = ?", [tag])
    }
}

fn find(transaction: &Transaction<'_>, tag: &str) -> rusqlite::Result<Option<SegmentTag>> {
    transaction.query_row(&DIALECT.find_tag(), [tag], self::tag).optional()
}

/// Returns `max_id` and step of a tag.
fn numbers(
    transaction: &Transaction<'_>,
    tag: &str,
) -> rusqlite::Result<Option<(TagNumber, TagNumber)>> {
    let select = "SELECT max_id, step FROM leaf_alloc WHERE biz_tag = ?";
    transaction
        .prepare_cached(select)?
        .query_row([tag], |row| Ok((number(row.get_ref(0)?), number(row.get_ref(1)?))))
        .optional()
}

/// Runs a statement that changes a tag's row.
fn change_row(
    transaction: &Transaction<'_>,
    tag: &str,
    statement: &str,
    values: impl Params,
) -> Result<(), Problem> {
    match transaction.prepare_cached(statement)?.execute(values)? {
        1 => Ok(()),
        rows => format::unusable(format!(
            "a change of tag `{tag}` changed {rows} rows and not 1: biz_tag has to be the primary key"
        )),
    }
}

/// Refuses a row that does not have this `max_id`, and this step if one is given, because a trigger changed it.
fn check_kept(
    transaction: &Transaction<'_>,
    tag: &str,
    max_id: TagNumber,
    step: Option<i64>,
) -> Result<(), Problem> {
    let now = numbers(transaction, tag)?;
    let is_step = |now| step.is_none_or(|step| now == Ok(step));
    if now.is_some_and(|(now, step)| now == max_id && is_step(step)) {
        return Ok(());
    }
    let step = step.map_or_else(String::new, |step| format!(" and step {step}"));
    format::unusable(format!(
        "tag `{tag}` was to have max_id {}{step}, and reads {} and {}: leaf_alloc has to be without triggers \
         that change it",
        shown(Some(max_id)),
        shown(now.map(|(max_id, _)| max_id)),
        shown(now.map(|(_, step)| step))
    ))
}

fn shown(number: Option<TagNumber>) -> String {
    match number {
        Some(Ok(number)) => number.to_string(),
        Some(Err(flaw)) => flaw.to_owned(),
        None => "nothing".to_owned(),
    }
}

/// Reads a row. A damaged one stays in a list: without it, the tag would look as if it could be created again.
fn tag(row: &Row<'_>) -> rusqlite::Result<SegmentTag> {
    let text = |index| row.get_ref(index).map(|value| value.as_str().ok().map(str::to_owned));
    Ok(SegmentTag {
        tag: text(0)?.unwrap_or_default(),
        max_id: number(row.get_ref(1)?),
        step: number(row.get_ref(2)?),
        description: text(3)?,
        update_time: text(4)?.and_then(|time| time.parse().ok()),
    })
}

/// SQLite stores a value of any type in a column.
fn number(value: ValueRef<'_>) -> TagNumber {
    match value {
        ValueRef::Integer(number) => Ok(number),
        ValueRef::Null => Err("is NULL"),
        ValueRef::Real(_) => Err("is of type Real"),
        ValueRef::Text(_) => Err("is of type Text"),
        ValueRef::Blob(_) => Err("is of type Blob"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rusqlite::Connection;
    use uidring::segment::{LoadError, SegmentRequest, SegmentStore};
    use uidring_testkit::chain;

    use super::*;
    use crate::{SqliteStore, TableError};

    fn new_file() -> (tempfile::TempDir, SqliteSegments) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::in_folder(&folder.path().join("a/b"));
        (folder, store.segments())
    }

    fn new_tag(tag: &str, step: u64) -> NewSegmentTag {
        NewSegmentTag::new(tag, step).expect("allowed")
    }

    fn load(store: &mut SqliteSegments, tag: &str, step: u64) -> Result<(u64, u64), LoadError> {
        let mut done = None;
        let wanted = [SegmentRequest { tag: tag.into(), step }];
        store.load(&wanted, &mut |index, result| {
            assert!(index == 0 && done.replace(result).is_none(), "handed over once");
        });
        done.expect("handed over").map(|range| (range.start, range.end))
    }

    #[test]
    fn ranges_follow_each_other() {
        let (_folder, mut store) = new_file();
        store.create_tag(&new_tag("a", 10).start(100).expect("allowed")).expect("created");
        store.create_tag(&new_tag("b", 1).description("b's").expect("short")).expect("created");
        assert_eq!(load(&mut store, "a", 0).expect("loaded"), (100, 110));
        assert_eq!(load(&mut store, "a", 25).expect("loaded"), (110, 135));
        assert_eq!(load(&mut store, "b", 1).expect("loaded"), (1, 2));
        let tags = store.tags().expect("listed");
        let rows: Vec<_> = tags.iter().map(|t| (&*t.tag, t.max_id, t.step)).collect();
        assert_eq!(rows, [("a", Ok(135), Ok(10)), ("b", Ok(2), Ok(1))]);
        assert_eq!(tags[1].description.as_deref(), Some("b's"));
        assert!(tags[0].update_time.is_some());
    }

    #[test]
    fn several_loads_in_one_call_are_handed_over_each_by_its_place() {
        let (_folder, mut store) = new_file();
        store.create_tag(&new_tag("a", 10)).expect("created");
        let wanted = ["a", "none", "a"].map(|tag| SegmentRequest { tag: tag.into(), step: 0 });
        let mut ends = Vec::new();
        store.load(&wanted, &mut |index, done| ends.push((index, done.ok().map(|r| r.end))));
        assert_eq!(ends, [(0, Some(11)), (1, None), (2, Some(21))]);
    }

    #[test]
    fn tags_that_wait_are_loaded_in_one_transaction_unless_one_prevents_it() {
        let (_folder, mut store) = new_file();
        let tags = ["a", "b", "c"];
        tags.iter().for_each(|tag| store.create_tag(&new_tag(tag, 10)).expect("created"));
        let connection = Connection::open(store.path()).expect("opens");
        let commits = || {
            let select = "SELECT COMMITS FROM UIDRING_FILE";
            connection.query_row(select, [], |row| row.get::<_, i64>(0)).expect("read")
        };
        let starts = |store: &mut SqliteSegments| {
            let wanted = tags.map(|tag| SegmentRequest { tag: tag.into(), step: 0 });
            let mut starts = [const { None }; 3];
            store.load(&wanted, &mut |index, done| starts[index] = done.ok().map(|r| r.start));
            starts
        };
        let before = commits();
        assert_eq!(starts(&mut store), [Some(1); 3]);
        assert_eq!(commits(), before + 1);
        let refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON leaf_alloc WHEN NEW.biz_tag = 'b'
                      BEGIN SELECT RAISE(ABORT, 'not this one'); END";
        connection.execute_batch(refuse).expect("created");
        assert_eq!(starts(&mut store), [Some(11), None, Some(11)]);
        assert_eq!(commits(), before + 3);
    }

    #[test]
    fn what_cannot_be_served_leaves_the_row_as_it_is() {
        let (_folder, mut store) = new_file();
        store.create_tag(&new_tag("a", 10)).expect("created");
        let set = |columns: &str| {
            let connection = Connection::open(store.path()).expect("opens");
            connection.execute(&format!("UPDATE leaf_alloc SET {columns}"), []).expect("updates");
        };
        for (columns, row) in [
            ("step = 0", (1, 0)),
            ("step = -1", (1, -1)),
            ("step = 5, max_id = -7", (-7, 5)),
            ("max_id = 9223372036854775807", (i64::MAX, 5)),
        ] {
            set(columns);
            let error = load(&mut store.clone(), "a", 0).expect_err("refused");
            assert!(!matches!(error, LoadError::Store(_)), "{error}");
            let tags = store.list_tags().expect("listed");
            assert_eq!((tags[0].max_id, tags[0].step), (Ok(row.0), Ok(row.1)), "{columns}");
        }
        assert!(matches!(load(&mut store, "A", 0), Err(LoadError::NoSuchTag { .. })));
    }

    /// A call waits once for SQLite's lock, not once for each tag.
    #[test]
    fn a_file_that_is_locked_passes_and_costs_a_call_one_patience() {
        let (_folder, store) = new_file();
        store.create_tag(&new_tag("a", 10)).expect("created");
        let patience = std::time::Duration::from_millis(300);
        let patient = store.file.patience.at_most(patience);
        let mut store = SqliteSegments { file: StoreFile { patience: patient, ..store.file } };
        let other = Connection::open(store.path()).expect("opens");
        other.execute_batch("BEGIN IMMEDIATE").expect("locks");
        let wanted = [(); 20].map(|()| SegmentRequest { tag: "a".into(), step: 0 });
        let limit = uidring::adapter::Deadline::after(Some(10 * patience));
        let mut told = 0;
        store.load(&wanted, &mut |_, done| {
            let error = done.expect_err("locked");
            assert!(matches!(error, LoadError::Store(_)), "{error:?}");
            assert!(chain(&error).contains("locked"), "{error}");
            told += 1;
        });
        assert_eq!(told, 20);
        assert_ne!(limit.remaining(), Some(std::time::Duration::ZERO), "it waited again");
        other.execute_batch("ROLLBACK").expect("unlocks");
        assert_eq!(load(&mut store, "a", 0).expect("loaded"), (1, 11));
    }

    #[test]
    fn a_file_or_table_that_is_gone_is_refused() {
        let (_folder, mut store) = new_file();
        assert!(matches!(load(&mut store, "a", 0), Err(LoadError::Refused(_))), "no file");
        store.create_tag(&new_tag("a", 10)).expect("created");
        let change = |sql: &str| {
            Connection::open(store.path()).and_then(|c| c.execute_batch(sql)).expect("changed");
        };
        change("ALTER TABLE leaf_alloc RENAME TO gone");
        assert!(matches!(load(&mut store.clone(), "a", 0), Err(LoadError::Refused(_))), "no table");
        change("ALTER TABLE gone RENAME TO leaf_alloc");
        assert_eq!(load(&mut store.clone(), "a", 0).expect("loaded"), (1, 11));
        fs::write(
            store.path(),
            "no database, though a text that is longer than its head, which has \
            a hundred bytes, so that it is told from an empty file",
        )
        .expect("writes");
        let error = load(&mut store, "a", 0).expect_err("no database");
        assert!(matches!(error, LoadError::Refused(_)), "{error:?}");
    }

    #[test]
    fn a_tag_that_is_there_is_refused_and_left() {
        let (_folder, mut store) = new_file();
        store.create_tag(&new_tag("a", 10)).expect("created");
        load(&mut store, "a", 0).expect("loaded");
        let error = store.create_tag(&new_tag("a", 99)).expect_err("refused");
        assert!(
            matches!(error.store(), Some(TableError::TagExists { max_id: 11, step: 10, .. })),
            "{error}"
        );
        assert_eq!(store.tags().expect("listed").len(), 1);
    }

    #[test]
    fn a_missing_file_or_table_names_the_command_and_is_not_made() {
        let (_folder, mut store) = new_file();
        let file = chain(&load(&mut store, "a", 0).expect_err("no file"));
        assert!(file.contains("no such file") && file.contains("uidring segment create"), "{file}");
        assert!(store.tags().is_err() && !store.path().exists(), "nothing was made");
        fs::create_dir_all(store.path().parent().expect("has one")).expect("made");
        Connection::open(store.path())
            .and_then(|c| c.execute_batch("CREATE TABLE T (ID INTEGER PRIMARY KEY)"))
            .expect("creates");
        let mut store = SqliteStore::new(store.path()).foreign(true).segments();
        let table = chain(&load(&mut store, "a", 0).expect_err("no table"));
        assert!(table.contains("no such table") && table.contains("segment create"), "{table}");
        store.create_tag(&new_tag("x", 10)).expect("created");
        let changed =
            "DROP TABLE leaf_alloc; CREATE TABLE leaf_alloc (biz_tag, max_id, step, update_time);
                       INSERT INTO leaf_alloc VALUES ('a', 1, 5, ''), ('a', 1, 5, '')";
        Connection::open(store.path()).and_then(|c| c.execute_batch(changed)).expect("changes");
        let twice = chain(&load(&mut store, "a", 0).expect_err("two rows"));
        assert!(twice.contains("2 rows") && twice.contains("primary key"), "{twice}");
        let null = "DELETE FROM leaf_alloc; INSERT INTO leaf_alloc VALUES ('a', NULL, 5, ''), ('b', 1, 5, '')";
        Connection::open(store.path()).and_then(|c| c.execute_batch(null)).expect("changes");
        let text = chain(&load(&mut store, "a", 0).expect_err("NULL"));
        assert!(text.contains("tag `a`") && text.contains("max_id is NULL"), "{text}");
        assert_eq!(load(&mut store, "b", 0).expect("loaded"), (1, 6));
    }

    #[cfg(unix)]
    #[test]
    fn file_and_folder_are_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, store) = new_file();
        store.create_tag(&new_tag("a", 10)).expect("created");
        let mode = |path: &Path| fs::metadata(path).expect("exists").permissions().mode() & 0o777;
        assert_eq!(mode(store.path()), 0o600);
        assert_eq!(mode(store.path().parent().expect("has one")), 0o700);
    }

    #[test]
    fn worker_ids_may_come_from_the_same_file() {
        use uidring::Layout;
        use uidring_store::WorkerTable;

        let (_folder, mut store) = new_file();
        let nodes = SqliteStore::new(store.path()).worker_nodes();
        store.create_tag(&new_tag("a", 10)).expect("created");
        assert_eq!(nodes.assign(&Layout::UID_GENERATOR).expect("assigned"), 1);
        assert_eq!(load(&mut store, "a", 0).expect("loaded"), (1, 11));
        assert_eq!(nodes.assign(&Layout::UID_GENERATOR).expect("assigned"), 2);
    }

    #[test]
    fn a_url_is_no_file_and_is_not_repeated() {
        let mut store = SqliteStore::new("mysql://u:s3cret@h/d").segments();
        for error in [
            store.create_tag(&new_tag("a", 1)).expect_err("no path"),
            store.tags().expect_err("no path"),
        ] {
            assert!(matches!(error.store(), Some(TableError::UrlForPath { .. })), "{error:?}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
