//! Reserves the ranges of many tags in one transaction.

use std::collections::HashMap;

use mysql_async::prelude::Queryable;
use mysql_async::{Row, Value};
use uidring_store::server::{LEAF_ALLOC, Load, LoadTogether, Loaded, Operation, Table, Together};
use uidring_store::tag_number;

use crate::MySqlStore;
use crate::columns::column;
use crate::problem::Problem;
use crate::session::Session;

impl Operation<MySqlStore> for LoadTogether<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Together;

    /// If the answer to the COMMIT is lost, all ranges are given up.
    async fn run(&self, conn: &mut Session) -> Result<Together, Problem> {
        match reserve(self, conn).await {
            Ok(loaded) => Ok(Together::Loaded(loaded)),
            Err(problem) if problem.is_answered() => {
                conn.query_drop("ROLLBACK").await?;
                Ok(Together::Apart { has_waited: problem.is_locked() })
            }
            Err(problem) => Err(problem),
        }
    }
}

/// A row that was read, and what is to be taken from it.
struct Found<'a> {
    tag: &'a str,
    max_id: Option<i64>,
    step: Option<i64>,
    loaded: Loaded,
}

/// The steps are those of a load of one tag. The index is named because rows are locked as they are read: a scan
/// of the table would also lock those of other tags.
async fn reserve(
    load: &LoadTogether<'_>,
    conn: &mut Session,
) -> Result<Vec<Option<Loaded>>, Problem> {
    let before = conn.written().await?;
    conn.query_drop("START TRANSACTION").await?;
    let all = find(load, conn).await?;
    let found: Vec<&Found<'_>> = all.iter().flatten().collect();
    if found.is_empty() {
        conn.query_drop("ROLLBACK").await?;
    } else {
        update(&found, conn).await?;
        conn.commit(before).await?;
    }
    Ok(all.into_iter().map(|found| Some(found?.loaded)).collect())
}

/// Locks the rows. Returns those from which a range can be taken, in the order of the requests.
async fn find<'a>(
    load: &LoadTogether<'a>,
    conn: &mut Session,
) -> Result<Vec<Option<Found<'a>>>, Problem> {
    let select = format!(
        "SELECT biz_tag, max_id, step, {} FROM leaf_alloc FORCE INDEX (PRIMARY)
         WHERE biz_tag IN ({}) ORDER BY biz_tag FOR UPDATE",
        conn.identity(),
        marks("?", load.requests.len(), ", ")
    );
    let tags: Vec<Value> = load.requests.iter().map(|request| (&request.tag).into()).collect();
    let rows: Vec<Row> = conn.exec(select, tags).await?;
    // By their exact names: by the column's collation `Orders` and `orders` may be one.
    let rows = rows.into_iter().map(|mut row| Ok((column::<Vec<u8>>(&mut row, 0)?, row)));
    let mut rows = rows.collect::<Result<HashMap<_, _>, Problem>>()?;
    let found = load.requests.iter().map(|&request| {
        let Some(mut row) = rows.remove(request.tag.as_bytes()) else { return Ok(None) };
        let (max_id, step) = (column(&mut row, 1)?, column(&mut row, 2)?);
        let server = column(&mut row, 3)?;
        if load.only_server.is_some_and(|only| only != server) {
            return Err(Problem::Refused(Load::OTHER_SERVER.into()));
        }
        let range = request.range(tag_number(max_id), tag_number(step)).ok();
        let loaded = range.map(|range| Loaded { range, server });
        Ok(loaded.map(|loaded| Found { tag: &request.tag, max_id, step, loaded }))
    });
    found.collect()
}

/// Changes the rows, if they are as they were read, and reads them back.
async fn update(found: &[&Found<'_>], conn: &mut Session) -> Result<(), Problem> {
    let apart = |what: &str| Problem::Conflict(format!("loads of several tags {what}"));
    let count = found.len();
    let update = format!(
        "UPDATE leaf_alloc FORCE INDEX (PRIMARY) SET max_id = CASE biz_tag {} END WHERE {}",
        marks("WHEN ? THEN ?", count, " "),
        marks("(biz_tag = ? AND max_id = ? AND step = ?)", count, " OR ")
    );
    let ends = found.iter().flat_map(|row| [row.tag.into(), row.loaded.range.end.into()]);
    let rows = found.iter().flat_map(|row| [row.tag.into(), row.max_id.into(), row.step.into()]);
    conn.exec_drop(update, ends.chain(rows).collect::<Vec<Value>>()).await?;
    if conn.affected_rows() != count as u64 {
        return Err(apart("did not change each its row"));
    }
    let select = format!(
        "SELECT biz_tag, max_id FROM leaf_alloc WHERE biz_tag IN ({})",
        marks("?", count, ", ")
    );
    let tags: Vec<Value> = found.iter().map(|row| row.tag.into()).collect();
    let rows: Vec<Row> = conn.exec(select, tags).await?;
    let rows = rows.into_iter().map(|mut row| Ok((column(&mut row, 0)?, column(&mut row, 1)?)));
    let now = rows.collect::<Result<HashMap<Vec<u8>, Option<u64>>, Problem>>()?;
    let is_as_set = |row: &&Found<'_>| {
        now.get(row.tag.as_bytes()).copied().flatten() == Some(row.loaded.range.end)
    };
    if found.iter().all(is_as_set) {
        Ok(())
    } else {
        Err(apart("read other numbers than they set"))
    }
}

/// Parameters of so many rows.
fn marks(of_one: &str, count: usize, between: &str) -> String {
    vec![of_one; count].join(between)
}
