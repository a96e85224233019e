//! The row of a tag, among those that a query by its name found.

use crate::server::problem::Problem;
use crate::server::row::Row;
use crate::server::session::{Done, Session};

/// Returns the row of a tag, if there is one. The first column is its name: by the column's collation `Orders` and
/// `orders` may be one, and they are not two tags of one row here.
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

/// Refuses several rows of a tag: taking from one of them would repeat what another has handed out.
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
