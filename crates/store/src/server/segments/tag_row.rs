//! Finds a tag's row among those that a query by name returned.

use crate::server::problem::Problem;
use crate::server::row::Row;
use crate::server::session::{Done, Session};

/// Returns the row of a tag, if there is one. The first column must be the exact name: the collation may treat `Orders`
/// and `orders` as equal, but they must not be two tags of one row.
pub async fn row_of<'a>(
    session: &mut dyn Session,
    rows: &'a [Row],
    tag: &str,
) -> Done<Option<&'a Row>> {
    let row = unique(rows, tag, session.dialect().one_row)?;
    if row.is_none() {
        session.check_absent(tag).await?;
    }
    match row {
        Some(row) if row.text(0)? == tag => Ok(Some(row)),
        _ => Ok(None),
    }
}

/// Refuses several rows of a tag. Taking from one would repeat what another has handed out.
pub fn unique<'a>(rows: &'a [Row], tag: &str, needs: &str) -> Result<Option<&'a Row>, Problem> {
    match rows {
        [] | [_] => Ok(rows.first()),
        _ => Err(Problem::Refused(format!("tag `{tag}` has {} rows: {needs}", rows.len()))),
    }
}
