//! Values of parameters.

use std::error::Error;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};

/// A parameter of a statement. The server is told its type, so that no statement has to be prepared
/// beforehand.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Int(Option<i64>),
    Text(Option<&'a str>),
    Ints(&'a [i64]),
    Texts(&'a [&'a str]),
}

impl Value<'_> {
    pub fn kind(&self) -> Type {
        match self {
            Self::Int(_) => Type::INT8,
            Self::Text(_) => Type::TEXT,
            Self::Ints(_) => Type::INT8_ARRAY,
            Self::Texts(_) => Type::TEXT_ARRAY,
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Int(number) => number.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Ints(numbers) => numbers.to_sql(kind, out),
            Self::Texts(texts) => texts.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::INT8_ARRAY, Type::TEXT_ARRAY].contains(kind)
    }

    tokio_postgres::types::to_sql_checked!();
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

/// Worker ids, ticks and sequence numbers, all of which are below 2^63.
impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Int(Some(number.cast_signed()))
    }
}

impl From<Option<u64>> for Value<'_> {
    fn from(number: Option<u64>) -> Self {
        Self::Int(number.map(u64::cast_signed))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(text: Option<&'a str>) -> Self {
        Self::Text(text)
    }
}
