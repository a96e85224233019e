//! What a URL names: a store or a worker id.

use uidring_store::StoreKind;
use uidring_store::options::{Owner, Takers};
use uidring_store::url::Url;

use crate::engines::{kind_of, kinds};
use crate::rows::{CACHED, CLOCKED, DISPOSABLE, LEASED, ORDINAL, SEGMENT};
use crate::worker::{self, FixedWorker};

/// How to write a URL of an unknown engine.
pub const FORM: &str =
    "a URL such as sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE or worker:N";

/// How to write the URL of a store.
pub const STORE_FORM: &str =
    "the URL of a store, such as sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE";

/// Owners whose options apply only if a URL may choose the kind of worker ids, or a tag.
const CHOSEN: &[&Owner] = &[&SEGMENT, &DISPOSABLE, &LEASED, &ORDINAL];

/// Where worker ids come from.
#[derive(Clone, Copy)]
pub enum Source {
    Store(&'static StoreKind),
    Fixed(FixedWorker),
}

impl Source {
    pub fn of(url: &str) -> Result<Self, String> {
        if url.is_empty() {
            return Err("it is empty".into());
        }
        match url.strip_prefix("worker:") {
            Some(_) => FixedWorker::of(url).map(Self::Fixed),
            None => kind_of(url).map(Self::Store),
        }
    }

    pub fn split(&self, text: &str) -> Result<Url, String> {
        match self {
            Self::Store(kind) => kind.split(text),
            Self::Fixed(_) => Url::split_path(text, "worker"),
        }
    }

    pub fn form(&self) -> &'static str {
        match self {
            Self::Store(kind) => kind.form,
            Self::Fixed(_) => worker::FORM,
        }
    }

    /// Returns whose options the URL may set.
    pub fn takers(&self) -> Takers {
        let first = match self {
            Self::Store(kind) => kind.options,
            Self::Fixed(_) => &worker::OWNER,
        };
        let (chosen, refuses) =
            if self.has_kinds() { (CHOSEN, &[][..]) } else { (&[][..], CHOSEN) };
        Takers {
            takes: [&[first, &CACHED, &CLOCKED], chosen].concat(),
            refuses,
            elsewhere: kinds().iter().map(|kind| kind.options).collect(),
        }
    }

    /// Whether the URL may choose the kind of worker ids, or a tag.
    fn has_kinds(&self) -> bool {
        matches!(self, Self::Store(kind) if !kind.has_own_workers)
    }
}
