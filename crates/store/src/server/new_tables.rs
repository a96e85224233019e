//! Creates tables.

use super::problem::Problem;
use super::session::{Done, Session};
use super::tables::{Table, WORKER_NODE};
use crate::sql::{NEWEST_LEASE, NEWEST_NODE};

/// Creates the tables that are missing.
pub async fn create(session: &mut dyn Session, tables: &[Table]) -> Done<()> {
    if tables.iter().any(|table| table.name == WORKER_NODE.name) {
        check_leases(session).await?;
    }
    for table in tables {
        session.create_table(table).await?;
    }
    Ok(())
}

/// Refuses a database whose leases show that `WORKER_NODE` lost rows: a new table would hand out their worker ids
/// again.
async fn check_leases(session: &mut dyn Session) -> Done<()> {
    let newest = greatest(session, NEWEST_NODE).await?;
    let leased = match greatest(session, NEWEST_LEASE).await {
        // The account may have no rights on leases.
        Err(problem) if problem.is_answered() => None,
        leased => leased?,
    };
    let Some(leased) = leased.filter(|id| newest < Some(*id)) else { return Ok(()) };
    let newest = newest.map_or_else(|| "none".into(), |newest| newest.to_string());
    Err(Problem::Refused(format!(
        "the greatest worker id in UIDRING_LEASE is {leased}, and that in WORKER_NODE is {newest}: rows of WORKER_NODE were \
         lost, and worker ids would repeat; restore the table with its counter above all worker ids that were ever handed \
         out, or use a new database with a range of worker ids above them"
    )))
}

async fn greatest(session: &mut dyn Session, sql: &str) -> Done<Option<u64>> {
    let rows = session.look_if_there(sql).await?;
    rows.first().map_or(Ok(None), |row| row.optional_unsigned(0))
}
