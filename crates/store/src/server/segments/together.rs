//! Reserves ranges of many tags in one transaction, in SQL.

use std::collections::HashMap;

use uidring::segment::{LoadedSegment, SegmentRequest};

use super::load::{Loaded, check_server};
use crate::server::connection::Operation;
use crate::server::problem::Problem;
use crate::server::row::Row;
use crate::server::session::{Done, Session};
use crate::server::tables::{LEAF_ALLOC, Table};
use crate::server::value::Value;

/// Reserves a range for each of several tags, in one transaction.
///
/// It handles only the simple case. If a tag's row is missing or not sound, it stays as it is, and a separate load says
/// why.
pub struct LoadTogether<'a> {
    /// The tags, each once.
    pub requests: &'a [&'a SegmentRequest],
    /// The only server that may answer, if there is one.
    pub only_server: Option<u64>,
}

pub enum Together {
    /// The reserved ranges, in the order of the requests.
    Loaded(Vec<Option<Loaded>>),
    /// Nothing is reserved: the server refused one of them, and all were rolled back.
    Apart {
        /// The transaction waited for a locked row.
        has_waited: bool,
    },
}

impl Operation for LoadTogether<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Together;

    /// If the reply to the COMMIT is lost, all ranges are given up.
    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        match self.reserve(session).await {
            Ok(loaded) => Ok(Together::Loaded(loaded)),
            Err(problem) if problem.is_answered() => {
                session.rollback().await?;
                Ok(Together::Apart { has_waited: problem.is_locked() })
            }
            Err(problem) => Err(problem),
        }
    }
}

/// A row, and the range to reserve from it.
struct Found<'a> {
    tag: &'a str,
    loaded: Loaded,
}

impl<'a> LoadTogether<'a> {
    /// Takes the same steps as a load of one tag.
    async fn reserve(&self, session: &mut dyn Session) -> Done<Vec<Option<Loaded>>> {
        let all = self.find(session).await?;
        let found: Vec<&Found<'_>> = all.iter().flatten().collect();
        if found.is_empty() {
            session.rollback().await?;
        } else {
            update(&found, session).await?;
            session.commit().await?;
        }
        Ok(all.into_iter().map(|found| Some(found?.loaded)).collect())
    }

    /// Locks the rows, always in the same order, so that two loads cannot deadlock. Returns those that have a range, in
    /// the order of the requests.
    async fn find(&self, session: &mut dyn Session) -> Done<Vec<Option<Found<'a>>>> {
        // Rows are locked as they are read, so a table scan would also lock other tags. Naming the index prevents that.
        let select = format!(
            "SELECT biz_tag, max_id, step, {} FROM leaf_alloc{} WHERE biz_tag IN ({})
             ORDER BY biz_tag FOR UPDATE",
            session.identity(),
            session.dialect().by_key,
            marks("?", self.requests.len(), ", ")
        );
        let tags: Vec<Value<'_>> = self.requests.iter().map(|one| (&one.tag).into()).collect();
        let rows = session.begin_with(&select, &tags).await?;
        // By exact names: the collation may treat `Orders` and `orders` as equal.
        let rows = by_tag(&rows)?;
        let found = self.requests.iter().map(|&request| {
            let Some(row) = rows.get(&*request.tag) else { return Ok(None) };
            let server = row.unsigned(3)?;
            check_server(self.only_server, server)?;
            let range = request.range(row.tag_number(1), row.tag_number(2)).ok();
            Ok(range.map(|range| Found { tag: &request.tag, loaded: Loaded { range, server } }))
        });
        found.collect()
    }
}

/// Changes the rows if they are as they were read, and reads them back.
async fn update(found: &[&Found<'_>], session: &mut dyn Session) -> Done<()> {
    let apart = |what: &str| Problem::Conflict(format!("loads of several tags {what}"));
    let count = found.len();
    let update = format!(
        "UPDATE leaf_alloc{} SET max_id = CASE biz_tag {} END, update_time = CURRENT_TIMESTAMP WHERE {}",
        session.dialect().by_key,
        marks("WHEN ? THEN ?", count, " "),
        marks("(biz_tag = ? AND max_id = ? AND step = ?)", count, " OR ")
    );
    let ends = found.iter().flat_map(|row| [row.tag.into(), row.loaded.range.end.into()]);
    let rows = found.iter().flat_map(|row| {
        let LoadedSegment { start, table_step, .. } = row.loaded.range;
        [row.tag.into(), start.into(), table_step.into()]
    });
    let values: Vec<Value<'_>> = ends.chain(rows).collect();
    let select = format!(
        "SELECT biz_tag, max_id FROM leaf_alloc WHERE biz_tag IN ({})",
        marks("?", count, ", ")
    );
    let tags: Vec<Value<'_>> = found.iter().map(|row| row.tag.into()).collect();
    let (changed, rows) = session.change_and_look((&update, &values), (&select, &tags)).await?;
    if changed != count as u64 {
        return Err(apart("did not change each its row"));
    }
    let now = by_tag(&rows)?;
    for row in found {
        let max_id = now.get(row.tag).map(|row| row.optional_unsigned(1)).transpose()?.flatten();
        if max_id != Some(row.loaded.range.end) {
            return Err(apart("read other numbers than they set"));
        }
    }
    Ok(())
}

/// Refuses two rows of one tag. A separate load says why.
fn by_tag(rows: &[Row]) -> Result<HashMap<&str, &Row>, Problem> {
    let by_tag: HashMap<&str, &Row> =
        rows.iter().map(|row| Ok((row.text(0)?, row))).collect::<Result<_, Problem>>()?;
    match by_tag.len() == rows.len() {
        true => Ok(by_tag),
        false => Err(Problem::Conflict("a tag has several rows".into())),
    }
}

/// The placeholders of `count` rows.
fn marks(of_one: &str, count: usize, between: &str) -> String {
    vec![of_one; count].join(between)
}
