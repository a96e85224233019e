//! Rows for people, in columns; or for programs, as JSON.

use serde_json::Value;

use crate::failure::Failure;
use crate::stdio;

/// A column of a table for people.
pub struct Column<T> {
    name: &'static str,
    align: Align,
    text: fn(&T) -> String,
}

/// Where a cell's text stands.
#[derive(Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

impl<T> Column<T> {
    pub fn text(name: &'static str, text: fn(&T) -> String) -> Self {
        Self { name, align: Align::Left, text }
    }

    pub fn number(name: &'static str, text: fn(&T) -> String) -> Self {
        Self { name, align: Align::Right, text }
    }
}

/// Prints rows: as a table for people, or as a JSON array.
pub fn print<T>(
    rows: &[T],
    as_json: bool,
    row_as_json: fn(&T) -> Value,
    columns: &[Column<T>],
) -> Result<(), Failure> {
    if as_json {
        return stdio::print(&Value::from_iter(rows.iter().map(row_as_json)).to_string());
    }
    let mut cells = vec![columns.iter().map(|column| column.name.to_owned()).collect()];
    cells.extend(
        rows.iter().map(|row| columns.iter().map(|column| (column.text)(row)).collect::<Vec<_>>()),
    );
    stdio::print(&aligned(&cells, |index| columns[index].align).join("\n"))
}

/// Returns a line for each row, whose cells are as wide as the widest of their column.
pub fn aligned(rows: &[Vec<String>], align: impl Fn(usize) -> Align) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells =
            row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                match align(column) {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                }
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
