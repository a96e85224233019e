//! The range of worker ids of a file, in the table `UIDRING_RANGE`. Recording a range creates the table.

use rusqlite::{Connection, OptionalExtension, Transaction};
use uidring_store::WorkerRange;

use crate::columns::unsigned;
use crate::dedicated;
use crate::dialect::DIALECT;
use crate::format::{self, Problem};

const UIDRING_RANGE: &str = "CREATE TABLE UIDRING_RANGE (
    ONE INTEGER PRIMARY KEY NOT NULL CHECK (ONE = 1),
    FIRST_ID BIGINT NOT NULL,
    LAST_ID BIGINT NOT NULL
)";

pub fn recorded(connection: &Connection) -> rusqlite::Result<Option<WorkerRange>> {
    if !format::has(connection, "UIDRING_RANGE")? {
        return Ok(None);
    }
    connection
        .query_row("SELECT FIRST_ID, LAST_ID FROM UIDRING_RANGE", [], |row| {
            let (first, last) = (unsigned(row, 0)?, unsigned(row, 1)?);
            let wrong = |_| rusqlite::Error::IntegralValueOutOfRange(1, last.cast_signed());
            WorkerRange::new(first, last).map_err(wrong)
        })
        .optional()
}

pub fn record(
    transaction: &Transaction<'_>,
    range: WorkerRange,
    place: String,
) -> Result<(), Problem> {
    dedicated::refuse(transaction, "other worker ids")?;
    let newest = format::last_worker_id(transaction)?.cast_unsigned();
    let found = recorded(transaction)?;
    let checked = range.check_new(found, Some(newest).filter(|newest| *newest > 0));
    checked.map_err(|refusal| refusal.error(place, range))?;
    if found.is_some() {
        return Ok(());
    }
    transaction.execute_batch(UIDRING_RANGE)?;
    let [first, last] = [range.first(), range.last()].map(u64::cast_signed);
    transaction.execute("INSERT INTO UIDRING_RANGE VALUES (1, ?1, ?2)", [first, last])?;
    if first > 1 {
        transaction.execute(&DIALECT.insert_seed(), (first - 1, range.to_string()))?;
    }
    Ok(())
}
