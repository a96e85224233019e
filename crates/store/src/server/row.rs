//! Rows from a server.

use std::sync::Arc;

use uidring::Timestamp;
use uidring::segment::TagNumber;

use super::problem::Problem;

/// A value of a row.
#[derive(Clone, Debug)]
pub enum Cell {
    /// NULL.
    Null,
    /// An integer or a boolean.
    Int(i64),
    /// A text. Some servers send integers as texts.
    Text(String),
    /// A value of a type that no operation uses.
    Other,
}

/// A row. Operations find columns by index.
#[derive(Clone, Debug)]
pub struct Row {
    /// The values.
    pub cells: Vec<Cell>,
    /// The names of the columns, for errors.
    pub names: Arc<[String]>,
}

impl Row {
    /// Returns an integer, or `None` for NULL.
    ///
    /// # Errors
    ///
    /// [`Problem::Refused`] for other values. All methods return this error.
    pub fn optional_int(&self, index: usize) -> Result<Option<i64>, Problem> {
        match self.cells.get(index) {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Int(number)) => Ok(Some(*number)),
            Some(Cell::Text(text)) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(self.unusable(index)),
            },
            Some(Cell::Other) | None => Err(self.unusable(index)),
        }
    }

    /// Returns an integer.
    pub fn int(&self, index: usize) -> Result<i64, Problem> {
        self.optional_int(index)?.ok_or_else(|| self.unusable(index))
    }

    /// Returns `max_id` or `step` of a tag. A value that cannot be read fails this tag only, so that others still load.
    pub fn tag_number(&self, index: usize) -> TagNumber {
        match self.optional_int(index) {
            Ok(number) => number.ok_or("is NULL"),
            Err(_) => Err("is not a 64-bit integer"),
        }
    }

    /// Returns a nonnegative integer, or `None` for NULL.
    pub fn optional_unsigned(&self, index: usize) -> Result<Option<u64>, Problem> {
        let number = self.optional_int(index)?.map(u64::try_from);
        number.transpose().map_err(|_| self.unusable(index))
    }

    /// Returns a nonnegative integer.
    pub fn unsigned(&self, index: usize) -> Result<u64, Problem> {
        self.optional_unsigned(index)?.ok_or_else(|| self.unusable(index))
    }

    /// Returns the number of a server, or `None` if it has none.
    pub fn server(&self, index: usize) -> Result<Option<u64>, Problem> {
        Ok(self.optional_unsigned(index)?.filter(|server| *server > 0))
    }

    /// Returns a text, or `None` for NULL.
    pub fn optional_text(&self, index: usize) -> Result<Option<&str>, Problem> {
        match self.cells.get(index) {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Text(text)) => Ok(Some(text)),
            _ => Err(self.unusable(index)),
        }
    }

    /// Returns a text.
    pub fn text(&self, index: usize) -> Result<&str, Problem> {
        self.optional_text(index)?.ok_or_else(|| self.unusable(index))
    }

    /// Returns a time in milliseconds since 1970.
    pub fn millis(&self, index: usize) -> Result<Timestamp, Problem> {
        self.int(index).map(Timestamp::from_millis)
    }

    /// Returns a time in seconds since 1970.
    pub fn seconds(&self, index: usize) -> Result<Timestamp, Problem> {
        let seconds = self.int(index)?;
        Ok(Timestamp::from_millis(seconds.saturating_mul(1_000)))
    }

    fn unusable(&self, index: usize) -> Problem {
        let name =
            self.names.get(index).map_or_else(|| index.to_string(), |name| name.to_uppercase());
        Problem::Refused(format!("the server's answer has no usable value in column `{name}`"))
    }
}

/// Returns the row of a statement that always returns one.
///
/// # Errors
///
/// [`Problem::Refused`] if there is none.
pub fn only(mut rows: Vec<Row>) -> Result<Row, Problem> {
    rows.pop().ok_or_else(|| Problem::Refused("the server gave no row where one always is".into()))
}
