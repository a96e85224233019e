//! How uids, layouts and stats are serialized (feature `serde`).
//!
//! A [`Uid`] is a number. JavaScript's numbers are exact up to 2^53, and `JSON.parse` silently rounds greater ones:
//! 9007199254740993 becomes 9007199254740992, another uid. Uids of most layouts are greater. For readers in JavaScript,
//! send texts by a module below, or use [`Layout::JAVASCRIPT_SAFE`](crate::Layout::JAVASCRIPT_SAFE), whose uids have 53
//! bits.
//!
//! | attribute of a field | JSON | reads |
//! |---|---|---|
//! | none | `3125927076831231` | numbers; texts in decimal, or in hex after `0x` |
//! | `#[serde(with = "uidring::serde_forms::string")]` | `"3125927076831231"` | the same |
//! | `#[serde(with = "uidring::serde_forms::hex")]` | `"0x000b1b039d021fff"` | hex, with or without `0x` |
//! | `#[serde(with = "uidring::serde_forms::base62")]` | `"00EJdhLXEuF"` | base62 |
//! | `#[serde(with = "uidring::serde_forms::base32")]` | `"002RV0EEG47ZZ"` | Crockford's base32 |
//!
//! Each module has a module `option` for fields of type `Option<Uid>`. Binary formats have the same numbers or texts,
//! and each form reads only what it writes.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use uidring::Uid;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order {
//!     #[serde(with = "uidring::serde_forms::string")]
//!     id: Uid,
//!     // Without `default`, the field must be there.
//!     #[serde(default, with = "uidring::serde_forms::base62::option")]
//!     replaces: Option<Uid>,
//! }
//!
//! let order: Order = serde_json::from_str(r#"{"id": "3125927076831231"}"#)?;
//! assert_eq!((order.id.get(), order.replaces), (3_125_927_076_831_231, None));
//! let order = Order { replaces: Some(order.id), ..order };
//! let json = r#"{"id":"3125927076831231","replaces":"00EJdhLXEuF"}"#;
//! assert_eq!(serde_json::to_string(&order)?, json);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! [`Layout`](crate::Layout), [`Bits`](crate::Bits), [`Tick`](crate::Tick) and [`Timestamp`](crate::Timestamp) are
//! texts. [`Decoded`](crate::Decoded), [`Fields`](crate::Fields) and the stats have named fields. A duration is in
//! whole milliseconds, and its name ends in `_millis`.

pub(crate) mod millis;

use std::fmt::{self, Display};

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::uid::Uid;

/// A module for `serde(with)`: how a uid is displayed and read.
macro_rules! text_form {
    ($(#[$doc:meta])* $name:ident, $display:expr, $read:expr) => {
        $(#[$doc])*
        pub mod $name {
            use super::{Deserialize, Deserializer, Serialize, Serializer, Uid};

            struct Text(Uid);

            impl Serialize for Text {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_str(&$display(self.0))
                }
            }

            impl<'de> Deserialize<'de> for Text {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    $read(deserializer).map(Self)
                }
            }

            /// Writes the text of a uid.
            ///
            /// # Errors
            ///
            /// The serializer's own.
            pub fn serialize<S: Serializer>(uid: &Uid, serializer: S) -> Result<S::Ok, S::Error> {
                Text(*uid).serialize(serializer)
            }

            /// Reads a uid.
            ///
            /// # Errors
            ///
            /// The deserializer's own, and if the input is no uid in this form.
            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uid, D::Error> {
                Text::deserialize(deserializer).map(|text| text.0)
            }

            /// The same for `Option<Uid>`.
            pub mod option {
                use super::{Deserialize, Deserializer, Serialize, Serializer, Text, Uid};

                /// Writes the text of a uid, or none.
                ///
                /// # Errors
                ///
                /// The serializer's own.
                pub fn serialize<S: Serializer>(
                    uid: &Option<Uid>,
                    serializer: S,
                ) -> Result<S::Ok, S::Error> {
                    uid.map(Text).serialize(serializer)
                }

                /// Reads a uid, or none.
                ///
                /// # Errors
                ///
                /// The deserializer's own, and if the input is no uid in this form.
                pub fn deserialize<'de, D: Deserializer<'de>>(
                    deserializer: D,
                ) -> Result<Option<Uid>, D::Error> {
                    Ok(Option::<Text>::deserialize(deserializer)?.map(|text| text.0))
                }
            }
        }
    };
}

text_form!(
    /// A uid as decimal text, which JavaScript does not round. In human-readable formats such as JSON, it also reads
    /// numbers.
    string,
    std::convert::identity,
    super::number_or_text
);
text_form!(
    /// A uid as `0x` and 16 hex digits.
    hex,
    Uid::hex,
    |from| super::from_text(from, "a uid in hex", Uid::from_hex)
);
text_form!(
    /// A uid as 11 characters of base62.
    base62,
    Uid::base62,
    |from| super::from_text(from, "a uid in base62", Uid::from_base62)
);
text_form!(
    /// A uid as 13 characters of Crockford's base32.
    base32,
    Uid::base32,
    |from| super::from_text(from, "a uid in base32", Uid::from_base32)
);

fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uid, D::Error> {
    if deserializer.is_human_readable() {
        Uid::deserialize(deserializer)
    } else {
        from_text(deserializer, "a uid as decimal text", str::parse)
    }
}

pub(crate) fn from_text<'de, D: Deserializer<'de>, T, E: Display>(
    deserializer: D,
    expecting: &'static str,
    read: fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    deserializer.deserialize_str(TextVisitor { expecting, read })
}

struct TextVisitor<T, E> {
    expecting: &'static str,
    read: fn(&str) -> Result<T, E>,
}

impl<T, E: Display> Visitor<'_> for TextVisitor<T, E> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<F: Error>(self, text: &str) -> Result<T, F> {
        (self.read)(text).map_err(F::custom)
    }
}

/// Serializes a type as its `Display` text, and parses it back.
macro_rules! as_text {
    ($type:ty, $expecting:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                crate::serde_forms::from_text(from, $expecting, str::parse)
            }
        }
    };
}
pub(crate) use as_text;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};
    use serde_test::{Configure, Token, assert_de_tokens_error, assert_tokens};

    use super::*;

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Forms {
        number: Uid,
        maybe: Option<Uid>,
        #[serde(with = "super::string")]
        string: Uid,
        #[serde(with = "super::hex")]
        hex: Uid,
        #[serde(with = "super::base62")]
        base62: Uid,
        #[serde(with = "super::base32")]
        base32: Uid,
        #[serde(default, with = "super::string::option")]
        maybe_string: Option<Uid>,
        #[serde(default, with = "super::base62::option")]
        maybe_base62: Option<Uid>,
    }

    fn forms(uid: Uid, maybe: Option<Uid>) -> Forms {
        Forms {
            number: uid,
            maybe,
            string: uid,
            hex: uid,
            base62: uid,
            base32: uid,
            maybe_string: maybe,
            maybe_base62: maybe,
        }
    }

    /// A number that JavaScript rounds.
    const LARGE: u64 = (1 << 53) + 1;

    #[test]
    fn each_form_is_read_as_it_is_written() {
        let uid = Uid::new(LARGE).expect("63 bits");
        let expected = json!({
            "number": LARGE,
            "maybe": LARGE,
            "string": "9007199254740993",
            "hex": "0x0020000000000001",
            "base62": "00fFgnDxSe9",
            "base32": "0080000000001",
            "maybe_string": "9007199254740993",
            "maybe_base62": "00fFgnDxSe9",
        });
        let written = serde_json::to_value(forms(uid, Some(uid))).expect("serializes");
        assert_eq!(written, expected);
        for forms in [forms(uid, Some(uid)), forms(Uid::MAX, None), forms(Uid::default(), None)] {
            let json = serde_json::to_string(&forms).expect("serializes");
            assert_eq!(serde_json::from_str::<Forms>(&json).expect(&json), forms);
        }
    }

    #[test]
    fn a_form_reads_no_other() {
        let base = serde_json::to_value(forms(Uid::MAX, None)).expect("serializes");
        for (field, wrong) in [
            ("number", json!(null)),
            ("string", json!("AzL8n0Y58m7")),
            ("string", json!(-1)),
            ("hex", json!(5)),
            ("base62", json!(5)),
            ("base62", json!("zzzzzzzzzzz")),
            ("base32", json!("U")),
            ("maybe_base62", json!(5)),
            ("maybe_string", json!("")),
        ] {
            let mut json: Value = base.clone();
            json[field] = wrong.clone();
            assert!(serde_json::from_value::<Forms>(json).is_err(), "{field}: {wrong}");
        }
        let mut json = base;
        for (field, right) in [("string", json!(5)), ("hex", json!("ff")), ("base32", json!("o"))] {
            json[field] = right;
        }
        json.as_object_mut().expect("an object").remove("maybe_string");
        let read: Forms = serde_json::from_value(json).expect("all are uids");
        assert_eq!((read.string.get(), read.hex.get(), read.base32.get()), (5, 255, 0));
        assert_eq!(read.maybe_string, None);
    }

    #[test]
    fn binary_formats_have_the_same_numbers_and_texts() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        struct AsString(#[serde(with = "super::string")] Uid);

        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        struct AsBase62(#[serde(with = "super::base62::option")] Option<Uid>);

        assert_tokens(&Uid::MAX.compact(), &[Token::U64(Uid::MAX.get())]);
        assert_tokens(&AsString(Uid::MAX).compact(), &[Token::Str("9223372036854775807")]);
        let text = [Token::Some, Token::Str("AzL8n0Y58m7")];
        assert_tokens(&AsBase62(Some(Uid::MAX)).compact(), &text);
        assert_tokens(&AsBase62(None).compact(), &[Token::None]);
        assert_de_tokens_error::<serde_test::Compact<AsString>>(
            &[Token::U64(5)],
            "invalid type: integer `5`, expected a uid as decimal text",
        );
    }

    #[test]
    fn uids_are_keys_of_objects() {
        let map = BTreeMap::from([(Uid::default(), 'a'), (Uid::MAX, 'z')]);
        let json = serde_json::to_string(&map).expect("serializes");
        assert_eq!(json, r#"{"0":"a","9223372036854775807":"z"}"#);
        assert_eq!(serde_json::from_str::<BTreeMap<Uid, char>>(&json).expect("reads"), map);
    }
}
