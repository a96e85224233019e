//! `Serialize` and `Deserialize` for [`Uid`].

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{Uid, UidText};

/// Writes a number. [`uidring::serde_forms`](crate::serde_forms) has other forms, and explains why JavaScript needs
/// one.
impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

/// Reads a number or, in human-readable formats such as JSON, a text in decimal or `0x` hex.
impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(UidVisitor)
        } else {
            deserializer.deserialize_u64(UidVisitor)
        }
    }
}

/// Writes the text.
impl<const N: usize> Serialize for UidText<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

struct UidVisitor;

impl Visitor<'_> for UidVisitor {
    type Value = Uid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a uid, a whole number from 0 to 9223372036854775807")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Uid, E> {
        Uid::new(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Uid, E> {
        Uid::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Uid, E> {
        text.parse().map_err(E::custom)
    }
}
