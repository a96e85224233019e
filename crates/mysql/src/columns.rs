//! Reads columns of rows.

use mysql_async::Row;
use mysql_async::prelude::FromValue;
use uidring::Timestamp;

use crate::problem::Problem;

/// Returns a column of a row, for which the driver's own conversions would panic.
pub fn column<T: FromValue>(row: &mut Row, index: usize) -> Result<T, Problem> {
    let value = row.take_opt(index).and_then(Result::ok);
    value.ok_or_else(|| {
        let names = row.columns_ref();
        let name = names.get(index).map(|column| column.name_str().into_owned());
        let name = name.unwrap_or_else(|| index.to_string());
        Problem::Refused(format!("the server's answer has no usable value in column `{name}`"))
    })
}

/// Returns a column of text.
pub fn text(row: &mut Row, index: usize) -> Result<String, Problem> {
    column::<Vec<u8>>(row, index).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the row of a statement that always has one.
pub fn only(row: Option<Row>) -> Result<Row, Problem> {
    row.ok_or_else(|| Problem::Refused("the server gave no row where one always is".into()))
}

/// Returns a column of text that may be NULL.
pub fn optional_text(row: &mut Row, index: usize) -> Result<Option<String>, Problem> {
    let bytes: Option<Vec<u8>> = column(row, index)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns a column of milliseconds since 1970.
pub fn millis(row: &mut Row, index: usize) -> Result<Timestamp, Problem> {
    column(row, index).map(Timestamp::from_millis)
}

/// Returns a column of seconds since 1970.
pub fn seconds(row: &mut Row, index: usize) -> Result<Timestamp, Problem> {
    column::<i64>(row, index).map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1_000)))
}
