//! The options of URLs. Parsing, errors and docs/options.md all come from these rows.

mod given;
mod shared;
mod tls;

use std::ops::RangeInclusive;
use std::time::Duration;

pub use self::given::Given;
pub use self::shared::{
    AUTHORITY, CERTIFICATE, CLUSTER, CONNECT_TIMEOUT, DEADLINE, DURABILITY, KEY,
    MAX_CLOCK_DIFFERENCE, TLS,
};
pub use self::tls::{Tls, TlsMode};
use crate::values::{number, time};

/// An option of a URL, `name=value`.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its names in the engine's other clients.
    pub aliases: &'static [Alias],
    /// Its values.
    pub kind: Kind,
    /// What applies without it, or empty.
    pub default: &'static str,
    /// What it does, as a sentence without a full stop.
    pub help: &'static str,
}

/// The name of an option in another client.
#[derive(Debug)]
pub struct Alias {
    /// The name.
    pub name: &'static str,
    /// Translates a value of that client, or says what to write instead.
    pub read: fn(&str) -> Result<String, &'static str>,
}

/// The values of an option.
#[derive(Debug)]
pub enum Kind {
    /// One of these.
    Words(&'static [&'static str]),
    /// A whole number.
    Number(RangeInclusive<u64>),
    /// A time, such as `250ms`, `30s` or `5m`. A plain number is in seconds.
    Time(RangeInclusive<Duration>),
    /// The path of a file.
    Path,
    /// Any nonempty text.
    Text,
    /// A text of its own form.
    Form {
        /// The form, for errors.
        form: &'static str,
        /// Says what is wrong.
        check: fn(&str) -> Result<(), String>,
    },
}

/// Something that has options, such as an engine.
#[derive(Debug)]
pub struct Owner {
    /// Its name, for errors.
    pub name: &'static str,
    /// The options that it has.
    pub rows: &'static [&'static Row],
    /// Parameters of other clients that have no effect here.
    pub harmless: &'static [&'static str],
    /// Parameters of other clients that are refused, with advice.
    pub refused: &'static [(&'static str, &'static str)],
}

/// Whose options a URL may set.
#[derive(Debug, Default)]
pub struct Takers {
    /// The owners of allowed options. Errors name the first.
    pub takes: Vec<&'static Owner>,
    /// Owners whose options are read too, for [`Given::refuse_others`].
    pub refuses: &'static [&'static Owner],
    /// Engines that an error names if the option belongs to one of them.
    pub elsewhere: Vec<&'static Owner>,
}

impl From<&'static Owner> for Takers {
    fn from(owner: &'static Owner) -> Self {
        Self { takes: vec![owner], ..Self::default() }
    }
}

impl Row {
    /// Returns an option without aliases and default.
    pub const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, aliases: &[], kind, default: "", help }
    }

    /// Sets what applies without the option.
    #[must_use]
    pub const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// Sets its names in other clients.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [Alias]) -> Self {
        Self { aliases, ..self }
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// Says what is wrong.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match &self.kind {
            Kind::Words(words) if words.contains(&value) => Ok(()),
            Kind::Words(words) => Err(format!("write {}", words.join(" or "))),
            Kind::Number(range) => number::<u64>(range.clone())(value).map(|_| ()),
            Kind::Time(range) => time(range.clone())(value).map(|_| ()),
            Kind::Path | Kind::Text if value.is_empty() => Err("it is empty".into()),
            // Errors and logs show paths and names.
            Kind::Path | Kind::Text if value.contains(char::is_control) => {
                Err("it has a character that cannot be seen; leave that out".into())
            }
            Kind::Path | Kind::Text => Ok(()),
            Kind::Form { check, .. } => check(value),
        }
    }
}

impl Alias {
    /// Returns another name with the same values.
    pub const fn same(name: &'static str) -> Self {
        Self { name, read: |value| Ok(value.into()) }
    }
}
