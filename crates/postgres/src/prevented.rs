//! Changes that a policy, trigger or rule of a table prevents without an error.

use crate::columns::column;
use crate::problem::Problem;
use crate::session::Session;
use crate::value::Value;

/// What can be seen of a row that could not be locked.
pub struct Sight {
    /// Whether there is one.
    pub is_there: bool,
    /// Whether row-level security may hide it, or keep it from being changed.
    pub is_secured: bool,
}

/// Looks for a row by its key.
pub async fn look_for(
    session: &mut Session,
    table: &str,
    key: &str,
    value: Value<'_>,
) -> Result<Sight, Problem> {
    let look = format!(
        "SELECT EXISTS (SELECT 1 FROM {table} WHERE {key} = ?), ROW_SECURITY_ACTIVE('{}')",
        table.to_lowercase()
    );
    let row = session.one(&look, &[value]).await?;
    Ok(Sight { is_there: column(&row, 0)?, is_secured: column(&row, 1)? })
}

/// A row that is there, which only a policy can have kept from being locked.
pub fn by_policy(row: &str) -> Problem {
    Problem::Denied(format!(
        "{row}, and no policy of its row-level security lets this account change it: add one FOR UPDATE, or FOR \
         ALL"
    ))
}

/// The error of a statement that changed no row, although nobody else holds a lock on it.
pub fn by_trigger(done: &str) -> Problem {
    Problem::Denied(format!(
        "{done}: a trigger, rule or policy of the table prevents it; remove it"
    ))
}
