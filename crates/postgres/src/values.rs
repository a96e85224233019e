//! Converts parameters and rows to and from the driver's types.

use std::sync::Arc;

use tokio_postgres::types::{FromSql, ToSql, Type};
use uidring_store::server::{Cell, Row, Value};

/// Returns a statement's parameters with their types, so that the server need not prepare it first.
pub fn parameters<'a>(values: &'a [Value<'_>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    let parameter = |value: &'a Value<'_>| match value {
        Value::Int(number) => (number as &(dyn ToSql + Sync), Type::INT8),
        Value::Text(text) => (text as _, Type::TEXT),
    };
    values.iter().map(parameter).collect()
}

pub fn rows(found: &[tokio_postgres::Row]) -> Vec<Row> {
    let columns = found.first().map_or(&[][..], |row| row.columns());
    let names: Arc<[String]> = columns.iter().map(|column| column.name().to_owned()).collect();
    let row = |row: &tokio_postgres::Row| Row {
        cells: (0..row.len()).map(|index| cell(row, index)).collect(),
        names: Arc::clone(&names),
    };
    found.iter().map(row).collect()
}

fn cell(row: &tokio_postgres::Row, index: usize) -> Cell {
    match *row.columns()[index].type_() {
        Type::BOOL => read(row, index, |is: bool| Cell::Int(is.into())),
        Type::INT2 => read(row, index, |number: i16| Cell::Int(number.into())),
        Type::INT4 => read(row, index, |number: i32| Cell::Int(number.into())),
        Type::INT8 => read(row, index, Cell::Int),
        _ => read(row, index, Cell::Text),
    }
}

fn read<'a, T: FromSql<'a>>(
    row: &'a tokio_postgres::Row,
    index: usize,
    cell: impl Fn(T) -> Cell,
) -> Cell {
    match row.try_get::<_, Option<T>>(index) {
        Ok(value) => value.map_or(Cell::Null, cell),
        Err(_) => Cell::Other,
    }
}
