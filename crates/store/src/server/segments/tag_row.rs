//! Finds a tag's row among those that a query by name returned.

use crate::server::problem::Problem;
use crate::server::row::Row;
use crate::server::session::{Done, Session};

/// Returns the row of a tag, if there is one. The first column must be the exact name: the collation may treat `Orders`
/// and `orders` as equal, but they must not be two tags of one row.
pub async fn row_of<'a, S: Session>(
    session: &mut S,
    rows: &'a [Row],
    tag: &str,
) -> Done<S, Option<&'a Row>> {
    let row = unique(rows, tag, S::DIALECT.one_row)?;
    if row.is_none() {
        session.check_absent(tag).await?;
    }
    match row {
        Some(row) if row.text(0)? == tag => Ok(Some(row)),
        _ => Ok(None),
    }
}

/// Refuses several rows of a tag. Taking from one would repeat what another has handed out.
pub fn unique<'a, F>(
    rows: &'a [Row],
    tag: &str,
    needs: &str,
) -> Result<Option<&'a Row>, Problem<F>> {
    match rows {
        [] | [_] => Ok(rows.first()),
        _ => Err(Problem::Refused(format!("tag `{tag}` has {} rows: {needs}", rows.len()))),
    }
}
