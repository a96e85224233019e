//! What is done with the table `leaf_alloc`, in SQL.

use mysql_async::Row;
use mysql_async::prelude::Queryable;
use uidring::Error;
use uidring::segment::{LoadError, SegmentTag};
use uidring_store::server::{
    Change, CreateTag, LEAF_ALLOC, Load, Loaded, NotLoaded, Operation, Table, TagChange, TagStep,
    Tags, Waits,
};
use uidring_store::sql::{DELETE_TAG, INSERT_TAG, SET_STEP};
use uidring_store::{NewSegmentTag, tag_number};

use crate::MySqlStore;
use crate::columns::{column, optional_text, text};
use crate::dialect::DIALECT;
use crate::problem::Problem;
use crate::session::Session;
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

/// The server's code if it does not know the word `NOWAIT`.
const SYNTAX_ERROR: u16 = 1064;

impl Operation<MySqlStore> for Load<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<Loaded, NotLoaded<Problem>>;

    /// If the answer to the COMMIT is lost, nobody can tell whether the range is reserved: it is
    /// given up, and another attempt reserves another one.
    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        let before = conn.written().await?;
        conn.query_drop("START TRANSACTION").await?;
        let done = match reserve(self, conn).await {
            Ok(done) => done,
            Err(problem) if problem.is_locked() => Err(NotLoaded::Locked(problem)),
            Err(problem) if problem.code() == Some(SYNTAX_ERROR) && self.waits == Waits::Not => {
                Err(NotLoaded::MustWait)
            }
            Err(problem) => return Err(problem),
        };
        if done.is_ok() {
            conn.commit(before).await?;
        } else {
            conn.query_drop("ROLLBACK").await?;
        }
        Ok(done)
    }
}

/// The SELECT reads what is committed now, whatever the isolation, and locks the row until the
/// transaction's end: between it and the UPDATE neither another load nor a person with a new step
/// can come. The UPDATE relies on nothing of it: it names what was read, so that even a table
/// without transactions cannot have one range reserved twice. What then stands in the row is
/// read once more: a column of a smaller type, or a trigger, may have made something else of it.
async fn reserve(
    load: &Load<'_>,
    conn: &mut Session,
) -> Result<Result<Loaded, NotLoaded<Problem>>, Problem> {
    let tag = &load.request.tag;
    let no_such_tag = || Ok(Err(NotLoaded::Row(LoadError::NoSuchTag { tag: tag.clone() })));
    let nowait = if load.waits == Waits::Not { " NOWAIT" } else { "" };
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
    if load.only_server.is_some_and(|only| only != server) {
        return Err(Problem::Refused(Load::OTHER_SERVER.into()));
    }
    let (max_id, step): (Option<i64>, Option<i64>) = (column(&mut row, 1)?, column(&mut row, 2)?);
    let range = match load.request.range(tag_number(max_id), tag_number(step)) {
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
        return Err(conn.not_read_back(format!(
            "max_id of tag `{tag}` was set to {} and reads {now:?}: the column has to be a \
             BIGINT, without triggers, in a table with the engine InnoDB",
            range.end
        )));
    }
    Ok(Ok(Loaded { range, server }))
}

impl Operation<MySqlStore> for Tags {
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
    rows.into_iter().map(tag_of).collect()
}

fn tag_of(mut row: Row) -> Result<SegmentTag, Problem> {
    Ok(SegmentTag {
        tag: text(&mut row, 0)?,
        max_id: tag_number(column(&mut row, 1)?),
        step: tag_number(column(&mut row, 2)?),
        description: optional_text(&mut row, 3)?,
        update_time: optional_text(&mut row, 4)?.unwrap_or_default(),
    })
}

impl Operation<MySqlStore> for CreateTag<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<(), Error>;

    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        match insert(self, conn).await {
            Err(problem) if self.create_table && problem.is_no_table() => {
                conn.query_drop(CREATE_TABLE).await?;
                insert(self, conn).await
            }
            done => done,
        }
    }
}

async fn insert(work: &CreateTag<'_>, conn: &mut Session) -> Result<Result<(), Error>, Problem> {
    let (tag, start, step, description) = work.tag.columns();
    let before = conn.written().await?;
    begin(conn).await?;
    let inserted = conn.exec_drop(INSERT_TAG, (tag, start, step, description)).await;
    let inserted = inserted.map_err(Problem::from);
    let is_there = inserted.as_ref().is_err_and(Problem::is_duplicate);
    if !is_there {
        inserted?;
    }
    // Also a row of ours is looked at: a lenient server would have cut what does not fit.
    let row: Option<Row> = conn.exec_first(DIALECT.find_tag(), (tag,)).await?;
    match row.map(tag_of).transpose()? {
        Some(found) if is_there => Ok(Err(NewSegmentTag::exists(found))),
        Some(ours) if (&*ours.tag, ours.max_id, ours.step) == (tag, Ok(start), Ok(step)) => {
            conn.commit(before).await?;
            Ok(Ok(()))
        }
        _ => Err(conn.not_read_back(format!(
            "tag `{tag}` was added to leaf_alloc, and is not found there as it was added; it was undone: \
             see the types and character sets of the table's columns, and its triggers"
        ))),
    }
}

impl Operation<MySqlStore> for TagChange<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<SegmentTag, Error>;

    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        conn.query_drop("SET time_zone = '+00:00'").await?;
        let written = conn.written().await?;
        begin(conn).await?;
        let select = format!("{} FOR UPDATE", DIALECT.find_tag());
        let row: Option<Row> = conn.exec_first(select, (self.tag,)).await?;
        // By the column's collation another tag may be equal to it.
        let found = row.map(tag_of).transpose()?.filter(|found| found.tag == self.tag);
        let (before, earlier) = match self.on_row(found.as_ref()) {
            TagStep::Done(done) => {
                conn.query_drop("ROLLBACK").await?;
                return Ok(done);
            }
            TagStep::Conflict(why) => return Err(Problem::Conflict(why)),
            TagStep::Found { before, earlier } => (before, earlier),
        };
        let Some(found) = found else { return Ok(Ok(before)) };
        let done = match change(self, conn, &found).await {
            Ok(true) => match conn.commit(written).await {
                // The answer to a COMMIT that fails does not say what became of it.
                Err(problem) if !matches!(problem, Problem::Undone) => return Err(problem),
                done => done,
            },
            Ok(false) => conn.query_drop("ROLLBACK").await.map_err(Problem::from),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = done {
            // The server has answered, so that no later attempt needs to know.
            if problem.code().is_some() || matches!(problem, Problem::Conflict(_) | Problem::Undone)
            {
                self.on_refusal(earlier);
            }
            return Err(problem);
        }
        Ok(Ok(before))
    }
}

/// Names what was read, so that even in a table without transactions or without its key nothing else
/// is changed. Returns whether anything is.
async fn change(
    work: &TagChange<'_>,
    conn: &mut Session,
    found: &SegmentTag,
) -> Result<bool, Problem> {
    // `on_row` refuses a max_id of NULL.
    let max_id = found.max_id.unwrap_or_default();
    let as_found = "AND max_id = ? AND step <=> ?";
    match work.change {
        // The server does not count a row that stays as it is.
        Change::Step(new) if found.step == Ok(new) => return Ok(false),
        Change::Step(new) => {
            let values = (new, work.tag, max_id, found.step.ok());
            conn.exec_drop(format!("{SET_STEP} {as_found}"), values).await?;
        }
        Change::Delete => {
            let values = (work.tag, max_id, found.step.ok());
            conn.exec_drop(format!("{DELETE_TAG} {as_found}"), values).await?;
        }
    }
    let rows = conn.affected_rows();
    if rows != 1 {
        return Err(Problem::Conflict(format!(
            "a change of tag `{}` at max_id {max_id} changed {rows} rows and not 1: leaf_alloc needs \
             the engine InnoDB, and biz_tag for its primary key; try again",
            work.tag
        )));
    }
    if let Change::Step(new) = work.change {
        let select = "SELECT step, max_id FROM leaf_alloc WHERE biz_tag = ?";
        let row: Option<Row> = conn.exec_first(select, (work.tag,)).await?;
        let now: Option<(i64, i64)> = row
            .map(|mut row| Ok::<_, Problem>((column(&mut row, 0)?, column(&mut row, 1)?)))
            .transpose()?;
        if now != Some((new, max_id)) {
            let now = now.map_or_else(
                || "nothing".into(),
                |(step, max_id)| format!("{step}, with max_id {max_id}"),
            );
            return Err(conn.not_read_back(format!(
                "the step of tag `{}` was set to {new} and reads {now}: the column has to be an INT, \
                 without triggers",
                work.tag
            )));
        }
    }
    Ok(true)
}
