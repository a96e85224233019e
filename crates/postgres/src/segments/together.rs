//! Reserves the ranges of many tags in one transaction.

use std::collections::HashMap;

use uidring_store::server::{LEAF_ALLOC, Load, LoadTogether, Loaded, Operation, Table, Together};

use crate::PostgresStore;
use crate::columns::{column, optional_int};
use crate::problem::Problem;
use crate::session::Session;
use crate::value::Value;

impl Operation<PostgresStore> for LoadTogether<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Together;

    /// If the answer to the COMMIT is lost, all ranges are given up.
    async fn run(&self, session: &mut Session) -> Result<Together, Problem> {
        match reserve(self, session).await {
            Ok(loaded) => Ok(Together::Loaded(loaded)),
            Err(problem) if problem.is_answered() => {
                session.rollback().await?;
                Ok(Together::Apart { has_waited: problem.is_locked() })
            }
            Err(problem) => Err(problem),
        }
    }
}

/// A row that was read, and what is to be taken from it.
struct Found<'a> {
    tag: &'a str,
    max_id: i64,
    step: i64,
    loaded: Loaded,
}

/// The steps are those of a load of one tag.
async fn reserve(
    load: &LoadTogether<'_>,
    session: &mut Session,
) -> Result<Vec<Option<Loaded>>, Problem> {
    let all = find(load, session).await?;
    let found: Vec<&Found<'_>> = all.iter().flatten().collect();
    if found.is_empty() {
        session.rollback().await?;
    } else {
        update(&found, session).await?;
        session.commit().await?;
    }
    Ok(all.into_iter().map(|found| Some(found?.loaded)).collect())
}

/// Locks the rows. Returns those from which a range can be taken, in the order of the requests.
async fn find<'a>(
    load: &LoadTogether<'a>,
    session: &mut Session,
) -> Result<Vec<Option<Found<'a>>>, Problem> {
    // In one order for all, so that two loads do not wait for each other.
    let select = format!(
        "SELECT CAST(biz_tag AS TEXT), max_id, step, {} FROM leaf_alloc WHERE biz_tag = ANY(?)
         ORDER BY biz_tag FOR UPDATE",
        session.identity()
    );
    let tags: Vec<&str> = load.requests.iter().map(|request| &*request.tag).collect();
    let rows = session.begin_with(&select, &[Value::Texts(&tags)]).await?;
    let rows = rows.iter().map(|row| Ok((column::<&str>(row, 0)?, row)));
    let rows = rows.collect::<Result<HashMap<_, _>, Problem>>()?;
    let found = load.requests.iter().map(|&request| {
        let Some(&row) = rows.get(&*request.tag) else { return Ok(None) };
        let server = Session::server(row, 3)?.unwrap_or(0);
        if load.only_server.is_some_and(|only| only != server) {
            return Err(Problem::Refused(Load::OTHER_SERVER.into()));
        }
        let columns = (optional_int(row, 1)?, optional_int(row, 2)?);
        let (Some(max_id), Some(step)) = columns else { return Ok(None) };
        let Ok(range) = request.range(Ok(max_id), Ok(step)) else { return Ok(None) };
        let loaded = Loaded { range, server };
        Ok(Some(Found { tag: &request.tag, max_id, step, loaded }))
    });
    found.collect()
}

/// Changes the rows, if they are as they were read, and reads them back.
async fn update(found: &[&Found<'_>], session: &mut Session) -> Result<(), Problem> {
    let numbers = |of: fn(&Found<'_>) -> i64| found.iter().map(|row| of(row)).collect::<Vec<_>>();
    let tags: Vec<&str> = found.iter().map(|row| row.tag).collect();
    let ends = numbers(|row| row.loaded.range.end.cast_signed());
    let [max_ids, steps] = [numbers(|row| row.max_id), numbers(|row| row.step)];
    let update = "UPDATE leaf_alloc SET max_id = NEW_END, update_time = CURRENT_TIMESTAMP
        FROM UNNEST(?, ?, ?, ?) AS FOUND (TAG, OLD_START, OLD_STEP, NEW_END)
        WHERE biz_tag = TAG AND max_id = OLD_START AND step = OLD_STEP RETURNING biz_tag";
    let values =
        [Value::Texts(&tags), Value::Ints(&max_ids), Value::Ints(&steps), Value::Ints(&ends)];
    let look = "SELECT CAST(biz_tag AS TEXT), max_id FROM leaf_alloc WHERE biz_tag = ANY(?)";
    let (changed, now) =
        session.query_twice((update, &values), (look, &[Value::Texts(&tags)])).await?;
    let now = now.iter().map(|row| Ok((column::<&str>(row, 0)?, optional_int(row, 1)?)));
    let now = now.collect::<Result<HashMap<_, _>, Problem>>()?;
    let is_as_set = |(tag, end): (&&str, &i64)| now.get(tag).copied().flatten() == Some(*end);
    if changed.len() == found.len() && tags.iter().zip(&ends).all(is_as_set) {
        Ok(())
    } else {
        Err(Problem::Conflict("loads of several tags did not change each its row".into()))
    }
}
