//! What is done with the table `leaf_alloc`, in SQL.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mysql_async::Row;
use mysql_async::prelude::Queryable;
use uidring::Error;
use uidring::adapter::log;
use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentTag};
use uidring_store::sql::{DELETE_TAG, INSERT_TAG, SET_STEP};
use uidring_store::{NewSegmentTag, no_such_tag};

use crate::client::connection::Operation;
use crate::columns::{column, optional_text, text};
use crate::dialect::DIALECT;
use crate::error::advice::with_note;
use crate::problem::Problem;
use crate::session::Session;
use crate::tables::{LEAF_ALLOC, Table};
use crate::worker_nodes::rows::begin;

/// The columns of Leaf. Tags that differ by case alone are two, which is up to the server's default
/// where Leaf's own script made the table.
const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS leaf_alloc (
    biz_tag VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    max_id BIGINT NOT NULL DEFAULT 1 COMMENT 'the first id that is not reserved',
    step INT NOT NULL COMMENT 'ids that a load reserves at least',
    description VARCHAR(256) CHARACTER SET utf8mb4 DEFAULT NULL,
    update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (biz_tag)
) ENGINE = InnoDB COMMENT 'uidring version 1: segments'";

/// The server's code for a key that exists.
const DUPLICATE_KEY: u16 = 1062;

/// The server's code if it does not know the word `NOWAIT`.
const SYNTAX_ERROR: u16 = 1064;

/// Reserves a range.
///
/// What is wrong with the row is no problem of the connection's, and is not tried again.
pub struct Load<'a> {
    pub request: &'a SegmentRequest,
    /// How long a row is waited for that somebody else has locked.
    pub waits: Waits,
    /// The only server that is a good one, where that matters.
    pub only_server: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// As long as a session does.
    Briefly,
    /// Not at all.
    Not,
}

/// A range that is reserved.
pub struct Loaded {
    pub range: LoadedSegment,
    /// A number of the server that has reserved it; 0 where it does not say.
    pub server: u64,
}

/// Why none is.
pub enum NotLoaded {
    Row(LoadError),
    /// Somebody else has the row locked.
    Locked(Problem),
    /// The server cannot but wait.
    MustWait,
}

impl Operation for Load<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<Loaded, NotLoaded>;

    /// If the answer to the COMMIT is lost, nobody can tell whether the range is reserved: it is
    /// given up, and another attempt reserves another one.
    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        conn.query_drop("START TRANSACTION").await?;
        let done = match self.reserve(conn).await {
            Ok(done) => done,
            Err(problem) if problem.is_locked() => Err(NotLoaded::Locked(problem)),
            Err(problem) if problem.code() == Some(SYNTAX_ERROR) && self.waits == Waits::Not => {
                Err(NotLoaded::MustWait)
            }
            Err(problem) => return Err(problem),
        };
        conn.query_drop(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        Ok(done)
    }
}

impl Load<'_> {
    /// The SELECT reads what is committed now, whatever the isolation, and locks the row until the
    /// transaction's end: between it and the UPDATE neither another load nor a person with a new step
    /// can come. The UPDATE relies on nothing of it: it names what was read, so that even a table
    /// without transactions cannot have one range reserved twice. What then stands in the row is
    /// read once more: a column of a smaller type, or a trigger, may have made something else of it.
    async fn reserve(&self, conn: &mut Session) -> Result<Result<Loaded, NotLoaded>, Problem> {
        let tag = &self.request.tag;
        let no_such_tag = || Ok(Err(NotLoaded::Row(LoadError::NoSuchTag { tag: tag.clone() })));
        let nowait = if self.waits == Waits::Not { " NOWAIT" } else { "" };
        let select = format!(
            "SELECT biz_tag, max_id, step, {} FROM leaf_alloc WHERE biz_tag = ? FOR UPDATE{nowait}",
            conn.identity()
        );
        let row: Option<Row> = conn.exec_first(select, (tag,)).await?;
        let Some(mut row) = row else { return no_such_tag() };
        // By the column's collation `Orders` and `orders` may be one. They are not two tags of one
        // row here.
        if column::<Vec<u8>>(&mut row, 0)? != tag.as_bytes() {
            return no_such_tag();
        }
        let server: u64 = column(&mut row, 3)?;
        if self.only_server.is_some_and(|only| only != server) {
            return Err(Problem::Refused(
                "another server answers than at the start of this process: that may be a failover \
                 which has lost commits, and ids may come twice; see that every max_id is above all \
                 ids in use, and start anew"
                    .into(),
            ));
        }
        let (max_id, step): (i64, i64) = (column(&mut row, 1)?, column(&mut row, 2)?);
        let range = match self.request.range(max_id, step) {
            Ok(range) => range,
            Err(refusal) => return Ok(Err(NotLoaded::Row(refusal))),
        };
        conn.exec_drop(
            "UPDATE leaf_alloc SET max_id = ? WHERE biz_tag = ? AND max_id = ? AND step = ?",
            (range.end, tag, max_id, step),
        )
        .await?;
        let rows = conn.affected_rows();
        if rows != 1 {
            return Err(Problem::Conflict(format!(
                "a load of tag `{tag}` changed {rows} rows and not 1: leaf_alloc needs the engine \
                 InnoDB, and biz_tag for its primary key"
            )));
        }
        let row: Option<Row> =
            conn.exec_first("SELECT max_id FROM leaf_alloc WHERE biz_tag = ?", (tag,)).await?;
        let now: Option<u64> = row.map(|mut row| column(&mut row, 0)).transpose()?;
        if now != Some(range.end) {
            return Err(Problem::Refused(format!(
                "max_id of tag `{tag}` was set to {} and reads {now:?}: the column has to be a \
                 BIGINT, without triggers, in a table with the engine InnoDB",
                range.end
            )));
        }
        Ok(Ok(Loaded { range, server }))
    }
}

/// All rows.
pub struct Tags {
    pub create_table: bool,
}

impl Operation for Tags {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Vec<SegmentTag>;

    async fn run(&self, conn: &mut Session) -> Result<Vec<SegmentTag>, Problem> {
        match list(conn).await {
            Err(problem) if self.create_table && problem.is_no_table() => {
                conn.query_drop(CREATE_TABLE).await?;
                list(conn).await
            }
            done => done,
        }
    }
}

/// In a transaction of its own: a server that does not commit by itself, or begins the next
/// transaction by itself, would show an open connection the same old rows again and again.
async fn list(conn: &mut Session) -> Result<Vec<SegmentTag>, Problem> {
    conn.query_drop("SET time_zone = '+00:00'").await?;
    conn.query_drop("START TRANSACTION").await?;
    let rows: Vec<Row> = conn.query(DIALECT.list_tags()).await?;
    conn.query_drop("COMMIT").await?;
    rows.into_iter().map(tag).collect()
}

fn tag(mut row: Row) -> Result<SegmentTag, Problem> {
    Ok(SegmentTag {
        tag: text(&mut row, 0)?,
        max_id: column(&mut row, 1)?,
        step: column(&mut row, 2)?,
        description: optional_text(&mut row, 3)?,
        update_time: optional_text(&mut row, 4)?.unwrap_or_default(),
    })
}

/// Adds a row.
pub struct CreateTag<'a> {
    pub tag: &'a NewSegmentTag,
    pub create_table: bool,
}

impl Operation for CreateTag<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<(), Error>;

    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        match self.insert(conn).await {
            Err(problem) if self.create_table && problem.is_no_table() => {
                conn.query_drop(CREATE_TABLE).await?;
                self.insert(conn).await
            }
            done => done,
        }
    }
}

impl CreateTag<'_> {
    async fn insert(&self, conn: &mut Session) -> Result<Result<(), Error>, Problem> {
        let (tag, start, step, description) = self.tag.columns();
        begin(conn).await?;
        let inserted = conn.exec_drop(INSERT_TAG, (tag, start, step, description)).await;
        let inserted = inserted.map_err(Problem::from);
        let is_there =
            inserted.as_ref().is_err_and(|problem| problem.code() == Some(DUPLICATE_KEY));
        if !is_there {
            inserted?;
        }
        // Also a row of ours is looked at: a lenient server would have cut what does not fit.
        let row: Option<Row> = conn.exec_first(DIALECT.find_tag(), (tag,)).await?;
        match row.map(self::tag).transpose()? {
            Some(found) if is_there => Ok(Err(NewSegmentTag::exists(found))),
            Some(ours) if (&*ours.tag, ours.max_id, ours.step) == (tag, start, step) => {
                conn.query_drop("COMMIT").await?;
                Ok(Ok(()))
            }
            _ => Err(Problem::Refused(format!(
                "tag `{tag}` is not found again as it was added: leaf_alloc is not as Leaf's script \
                 makes it"
            ))),
        }
    }
}

/// Changes a row, whose tag as it was before is returned.
pub struct ChangeTag<'a> {
    tag: &'a str,
    change: Change,
    /// What the first attempt found that may have changed the row: the reply may have been lost.
    before: Mutex<Option<SegmentTag>>,
}

#[derive(Clone, Copy)]
pub enum Change {
    Step(i64),
    Delete,
}

impl Operation for ChangeTag<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<SegmentTag, Error>;

    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        conn.query_drop("SET time_zone = '+00:00'").await?;
        begin(conn).await?;
        let select = format!("{} FOR UPDATE", DIALECT.find_tag());
        let row: Option<Row> = conn.exec_first(select, (self.tag,)).await?;
        // By the column's collation another tag may be equal to it.
        let found = row.map(self::tag).transpose()?.filter(|found| found.tag == self.tag);
        let earlier = self.before().clone();
        let Some(found) = found else {
            conn.query_drop("ROLLBACK").await?;
            return Ok(self.is_gone(earlier));
        };
        // It may be another one of the same name, which somebody created meanwhile.
        if let (Change::Delete, Some(SegmentTag { max_id, .. })) = (self.change, &earlier)
            && *max_id != found.max_id
        {
            return Err(Problem::Conflict(format!(
                "tag `{}` was at max_id {max_id} when it was first to be deleted, and is at {} now: \
                 see whether it is still the same, and try again",
                self.tag, found.max_id
            )));
        }
        let before = earlier.clone().unwrap_or_else(|| found.clone());
        *self.before() = Some(before.clone());
        if let Err(problem) = self.change(conn, &found).await {
            // The server has answered, so that no later attempt needs to know.
            if problem.code().is_some() || matches!(problem, Problem::Conflict(_)) {
                *self.before() = earlier;
            }
            return Err(problem);
        }
        conn.query_drop("COMMIT").await?;
        Ok(Ok(before))
    }
}

impl<'a> ChangeTag<'a> {
    pub fn new(tag: &'a str, change: Change) -> Self {
        Self { tag, change, before: Mutex::new(None) }
    }

    /// Adds to an error where a tag ended that may be deleted all the same.
    pub fn explain(&self, error: Error) -> Error {
        match (self.change, &*self.before()) {
            (Change::Delete, Some(SegmentTag { max_id, .. })) => with_note(
                error,
                &format!(" (the tag may be deleted; if so, its ids ended at max_id {max_id})"),
            ),
            _ => error,
        }
    }

    fn before(&self) -> MutexGuard<'_, Option<SegmentTag>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to say where no row is found.
    fn is_gone(&self, earlier: Option<SegmentTag>) -> Result<SegmentTag, Error> {
        let deleted = earlier.filter(|_| matches!(self.change, Change::Delete));
        let deleted = deleted.ok_or_else(|| no_such_tag(self.tag))?;
        log!(
            warn,
            "tag `{}` is deleted, by an attempt whose reply was lost or by somebody else: its ids ended at \
             max_id {}, or later",
            self.tag,
            deleted.max_id
        );
        Ok(deleted)
    }

    /// Names what was read, so that even in a table without transactions or without its key nothing else
    /// is changed.
    async fn change(&self, conn: &mut Session, found: &SegmentTag) -> Result<(), Problem> {
        let SegmentTag { max_id, step, .. } = *found;
        let as_found = "AND max_id = ? AND step = ?";
        match self.change {
            // The server does not count a row that stays as it is.
            Change::Step(new) if new == step => return Ok(()),
            Change::Step(new) => {
                let values = (new, self.tag, max_id, step);
                conn.exec_drop(format!("{SET_STEP} {as_found}"), values).await?;
            }
            Change::Delete => {
                let values = (self.tag, max_id, step);
                conn.exec_drop(format!("{DELETE_TAG} {as_found}"), values).await?;
            }
        }
        let rows = conn.affected_rows();
        if rows != 1 {
            return Err(Problem::Conflict(format!(
                "a change of tag `{}` at max_id {max_id} changed {rows} rows and not 1: leaf_alloc needs \
                 the engine InnoDB, and biz_tag for its primary key; try again",
                self.tag
            )));
        }
        if let Change::Step(new) = self.change {
            let select = "SELECT step FROM leaf_alloc WHERE biz_tag = ?";
            let row: Option<Row> = conn.exec_first(select, (self.tag,)).await?;
            let now: Option<i64> = row.map(|mut row| column(&mut row, 0)).transpose()?;
            if now != Some(new) {
                let now = now.map_or_else(|| "nothing".into(), |now| now.to_string());
                return Err(Problem::Refused(format!(
                    "the step of tag `{}` was set to {new} and reads {now}: the column has to be an INT, \
                     without triggers",
                    self.tag
                )));
            }
        }
        Ok(())
    }
}
