//! The options of a URL: one table for all that read, write or explain them.

mod given;
mod shared;
mod tls;

use std::ops::RangeInclusive;
use std::time::Duration;

pub use self::given::Given;
pub use self::shared::{
    AUTHORITY, CERTIFICATE, CLUSTER, CONNECT_TIMEOUT, DEADLINE, DURABILITY, KEY, TLS,
};
pub use self::tls::{Tls, TlsMode};
use crate::values::{number, time};

/// An option, as URLs have it: `name=value`.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What the clients of a store call it.
    pub aliases: &'static [Alias],
    /// What its value is.
    pub kind: Kind,
    /// What applies without it; empty if nothing does.
    pub default: &'static str,
    /// What it does, in one sentence without its full stop.
    pub help: &'static str,
}

/// A name that a store's own clients have for an option.
#[derive(Debug)]
pub struct Alias {
    /// The name.
    pub name: &'static str,
    /// Returns the option's value for one of that client.
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
}

/// Whose options these are: an engine's, for example.
#[derive(Debug)]
pub struct Owner {
    /// What people call it.
    pub name: &'static str,
    /// The options that it takes.
    pub rows: &'static [&'static Row],
    /// Parameters of its other clients that change nothing here.
    pub harmless: &'static [&'static str],
    /// Parameters of its other clients that cannot be heeded, and what to do instead.
    pub refused: &'static [(&'static str, &'static str)],
}

impl Row {
    /// An option that no client of a store has by another name, and that nothing stands for if it is not given.
    pub const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, aliases: &[], kind, default: "", help }
    }

    /// Says what applies without it.
    #[must_use]
    pub const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// Adds what the clients of a store call it.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [Alias]) -> Self {
        Self { aliases, ..self }
    }

    /// Returns what is wrong with a value.
    fn check(&self, value: &str) -> Result<(), String> {
        match &self.kind {
            Kind::Words(words) if words.contains(&value) => Ok(()),
            Kind::Words(words) => Err(format!("write {}", words.join(" or "))),
            Kind::Number(range) => number::<u64>(range.clone())(value).map(|_| ()),
            Kind::Time(range) => time(range.clone())(value).map(|_| ()),
            Kind::Path | Kind::Text if value.is_empty() => Err("it is empty".into()),
            Kind::Path | Kind::Text => Ok(()),
        }
    }
}

impl Alias {
    /// A name whose values are the option's own.
    pub const fn same(name: &'static str) -> Self {
        Self { name, read: |value| Ok(value.into()) }
    }
}
