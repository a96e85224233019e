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

/// An option of a URL: `name=value`.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its names in the engine's other clients.
    pub aliases: &'static [Alias],
    /// The values it takes.
    pub kind: Kind,
    /// What applies without it; may be empty.
    pub default: &'static str,
    /// What it does, as a sentence without a full stop.
    pub help: &'static str,
    /// Whether a program has a flag for it, too.
    pub is_flag: bool,
}

/// The name of an option in another client of the engine.
#[derive(Debug)]
pub struct Alias {
    /// The name.
    pub name: &'static str,
    /// Translates a value of that client, or says what to write instead.
    pub read: fn(&str) -> Result<String, &'static str>,
}

/// What values an option takes.
#[derive(Debug)]
pub enum Kind {
    /// One of these.
    Words(&'static [&'static str]),
    /// A whole number.
    Number(RangeInclusive<u64>),
    /// A time, such as `250ms`, `30s` or `5m`; a plain number is in seconds.
    Time(RangeInclusive<Duration>),
    /// The path of a file.
    Path,
    /// Any text but an empty one.
    Text,
    /// A text in a form of its own.
    Form {
        /// How it is written.
        form: &'static str,
        /// Says what is wrong with it.
        check: fn(&str) -> Result<(), String>,
    },
}

/// Something that has options, such as an engine.
#[derive(Debug)]
pub struct Owner {
    /// Its name, for errors.
    pub name: &'static str,
    /// The options that it takes.
    pub rows: &'static [&'static Row],
    /// Parameters of other clients that are accepted and have no effect.
    pub harmless: &'static [&'static str],
    /// Parameters of other clients that are refused, with advice.
    pub refused: &'static [(&'static str, &'static str)],
}

/// Who takes which options of a URL.
#[derive(Debug, Default)]
pub struct Takers {
    /// Whose options the URL takes. The first names itself in errors.
    pub takes: Vec<&'static Owner>,
    /// Whose options are read too, for [`Given::refuse_others`].
    pub refuses: &'static [&'static Owner],
    /// Engines, for an error that says which one takes the option.
    pub elsewhere: Vec<&'static Owner>,
}

impl From<&'static Owner> for Takers {
    fn from(owner: &'static Owner) -> Self {
        Self { takes: vec![owner], ..Self::default() }
    }
}

impl Row {
    /// An option without aliases and without a default.
    pub const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, aliases: &[], kind, default: "", help, is_flag: false }
    }

    /// Sets what applies without it.
    #[must_use]
    pub const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// Sets its names in other clients.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [Alias]) -> Self {
        Self { aliases, ..self }
    }

    /// Makes it a flag of programs, too.
    #[must_use]
    pub const fn flag(self) -> Self {
        Self { is_flag: true, ..self }
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match &self.kind {
            Kind::Words(words) if words.contains(&value) => Ok(()),
            Kind::Words(words) => Err(format!("write {}", words.join(" or "))),
            Kind::Number(range) => number::<u64>(range.clone())(value).map(|_| ()),
            Kind::Time(range) => time(range.clone())(value).map(|_| ()),
            Kind::Path | Kind::Text if value.is_empty() => Err("it is empty".into()),
            // Paths and names are shown in errors and the log.
            Kind::Path | Kind::Text if value.contains(char::is_control) => {
                Err("it has a character that cannot be seen".into())
            }
            Kind::Path | Kind::Text => Ok(()),
            Kind::Form { check, .. } => check(value),
        }
    }
}

impl Alias {
    /// A name with the same values.
    pub const fn same(name: &'static str) -> Self {
        Self { name, read: |value| Ok(value.into()) }
    }
}
