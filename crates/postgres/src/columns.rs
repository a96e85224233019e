//! Reads columns of rows.

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};
use uidring::Timestamp;

use crate::problem::Problem;

/// Returns a column of a row, for which the driver's own conversions would panic.
pub fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, Problem> {
    row.try_get(index).map_err(|_| unusable(row, index))
}

fn unusable(row: &Row, index: usize) -> Problem {
    let name = row.columns().get(index).map(|column| column.name().to_uppercase());
    let name = name.unwrap_or_else(|| index.to_string());
    Problem::Refused(format!("the server's answer has no usable value in column `{name}`"))
}

/// Returns a column of integers of any size.
pub fn optional_int(row: &Row, index: usize) -> Result<Option<i64>, Problem> {
    match row.columns().get(index).map(|column| column.type_()) {
        Some(&Type::INT2) => Ok(column::<Option<i16>>(row, index)?.map(i64::from)),
        Some(&Type::INT4) => Ok(column::<Option<i32>>(row, index)?.map(i64::from)),
        _ => column(row, index),
    }
}

/// The same, without NULL.
pub fn int(row: &Row, index: usize) -> Result<i64, Problem> {
    optional_int(row, index)?.ok_or_else(|| unusable(row, index))
}

/// Returns a column of integers from 0.
pub fn optional_unsigned(row: &Row, index: usize) -> Result<Option<u64>, Problem> {
    let number = optional_int(row, index)?.map(u64::try_from);
    number.transpose().map_err(|_| unusable(row, index))
}

/// The same, without NULL.
pub fn unsigned(row: &Row, index: usize) -> Result<u64, Problem> {
    optional_unsigned(row, index)?.ok_or_else(|| unusable(row, index))
}

/// Returns a column of milliseconds since 1970.
pub fn millis(row: &Row, index: usize) -> Result<Timestamp, Problem> {
    int(row, index).map(Timestamp::from_millis)
}

/// Returns a column of seconds since 1970.
pub fn seconds(row: &Row, index: usize) -> Result<Timestamp, Problem> {
    int(row, index).map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1_000)))
}
