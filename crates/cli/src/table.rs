//! Rows as columns for people, or as JSON for programs.

use serde_json::Value;

use crate::failure::Failure;
use crate::stdio;

pub struct Column<T> {
    name: &'static str,
    /// Whether cells are aligned right.
    is_number: bool,
    text: fn(&T) -> String,
}

impl<T> Column<T> {
    pub fn text(name: &'static str, text: fn(&T) -> String) -> Self {
        Self { name, is_number: false, text }
    }

    pub fn number(name: &'static str, text: fn(&T) -> String) -> Self {
        Self { name, is_number: true, text }
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
    stdio::print(&aligned(&cells, |index| columns[index].is_number))
}

/// Returns a line for each fact and its name.
pub fn facts(rows: Vec<(&str, String)>) -> String {
    let cells: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.into(), value]).collect();
    aligned(&cells, |_| false)
}

/// Returns a line for each row, with cells as wide as the widest of their column.
pub fn aligned(rows: &[Vec<String>], is_number: impl Fn(usize) -> bool) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let pad = |(column, (cell, &width)): (usize, (&String, &usize))| {
        if is_number(column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    };
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = row.iter().zip(&widths).enumerate().map(pad).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
