//! Reads columns of rows.

use rusqlite::Row;
use uidring::Timestamp;

/// Returns a column of numbers that are not negative.
pub fn unsigned(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    to_unsigned(index, row.get(index)?)
}

/// Like [`unsigned`], for a column that may be NULL.
pub fn optional_unsigned(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<u64>> {
    row.get::<_, Option<i64>>(index)?.map(|value| to_unsigned(index, value)).transpose()
}

/// Returns a column of milliseconds since 1970.
pub fn millis(row: &Row<'_>, index: usize) -> rusqlite::Result<Timestamp> {
    row.get(index).map(Timestamp::from_millis)
}

fn to_unsigned(index: usize, value: i64) -> rusqlite::Result<u64> {
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, value))
}
