//! Files for the single worker id of an ordinal.
//!
//! Each pod has its own file. If these files also handed out segments or other worker ids, they would all hand out the
//! same ones. So a file for one worker id hands out nothing else, and a file that has handed out something else cannot
//! become one.

use rusqlite::{Connection, Transaction};

use super::columns::optional_unsigned;
use super::format::{self, DAMAGED, Problem};

/// Reserves a new file for this worker id. Returns whether it was new. Fails like [`is_new`].
pub fn dedicate(transaction: &Transaction<'_>, worker_id: u64) -> Result<bool, Problem> {
    let is_new = is_new(transaction, worker_id)?;
    if is_new {
        let update = "UPDATE UIDRING_FILE SET ONLY_WORKER_ID = ?1";
        transaction.execute(update, [worker_id.cast_signed()])?;
    }
    Ok(is_new)
}

/// Returns whether a file is new. Refuses a file that is not for this worker id alone and cannot become so.
pub fn is_new(connection: &Connection, worker_id: u64) -> Result<bool, Problem> {
    match only_worker_id(connection)? {
        None => {}
        Some(found) if found == worker_id => {
            check_row(connection, worker_id)?;
            return Ok(false);
        }
        Some(found) => {
            return format::unusable(format!(
                "it is for worker id {found} alone, and this ordinal has worker id {worker_id}: two pods \
                 share a volume, or the offset has changed; each ordinal needs a volume of its own"
            ));
        }
    }
    let used = "SELECT (SELECT COUNT(*) FROM UIDRING_LEASE) + (SELECT COUNT(*) FROM leaf_alloc)
                + (SELECT LAST_WORKER_ID FROM UIDRING_FILE) + (SELECT COUNT(*) FROM WORKER_NODE)";
    let used: i64 = connection.query_row(used, [], |row| row.get(0))?;
    if used != 0 {
        return format::unusable(
            "it has worker ids of other starts, or tags of segments, and is no file for an ordinal's \
             worker id; name another file",
        );
    }
    Ok(true)
}

/// Refuses `wanted` from a file for a single worker id.
pub fn refuse(connection: &Connection, wanted: &str) -> Result<(), Problem> {
    match only_worker_id(connection)? {
        None => Ok(()),
        Some(worker_id) => format::unusable(format!(
            "it is for worker id {worker_id} alone, that of an ordinal, and hands out no {wanted}: other \
             pods' files would hand out the same; name another file, or use a server"
        )),
    }
}

fn only_worker_id(connection: &Connection) -> rusqlite::Result<Option<u64>> {
    let only = "SELECT ONLY_WORKER_ID FROM UIDRING_FILE";
    connection.query_row(only, [], |row| optional_unsigned(row, 0))
}

/// Refuses a file without the worker id's row. Without its horizon, the worker id would start anew.
fn check_row(connection: &Connection, worker_id: u64) -> Result<(), Problem> {
    let rows = "SELECT COUNT(*), MIN(WORKER_ID) FROM UIDRING_LEASE";
    let (count, found): (i64, Option<u64>) =
        connection.query_row(rows, [], |row| Ok((row.get(0)?, optional_unsigned(row, 1)?)))?;
    if count == 1 && found == Some(worker_id) {
        return Ok(());
    }
    format::unusable(format!(
        "it is damaged, or was changed by hand: it is for worker id {worker_id} alone, and its \
         UIDRING_LEASE has {count} rows; {DAMAGED}"
    ))
}
