//! Parameters of statements.

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// An integer, or NULL.
    Int(Option<i64>),
    /// A text, or NULL.
    Text(Option<&'a str>),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

/// Worker ids, ticks and sequence numbers are below 2^63.
impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Int(Some(number.cast_signed()))
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(number: Option<i64>) -> Self {
        Self::Int(number)
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
