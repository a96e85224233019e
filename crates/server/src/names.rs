//! The names that clients ask for ids of.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use uidring::SegmentGenerator;

use crate::issuer::Issuer;
use crate::listener::Protocol;
use crate::stats::NameCounters;

/// A name, what stands behind it, and what was issued.
#[derive(Debug)]
pub struct Name {
    text: String,
    issuer: Issuer,
    pub(crate) counters: NameCounters,
}

impl Name {
    fn new(text: &str, issuer: Issuer) -> Arc<Self> {
        Arc::new(Self { text: text.to_owned(), issuer, counters: NameCounters::default() })
    }

    /// The name.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Ids issued over a protocol.
    pub fn issued(&self, protocol: Protocol) -> u64 {
        self.counters.get(protocol).0
    }

    /// Where its ids come from.
    pub fn issuer(&self) -> &Issuer {
        &self.issuer
    }
}

/// The names of a server. One is the default, for requests that name none.
#[derive(Clone, Debug, Default)]
pub struct Names {
    default: Option<Arc<Name>>,
    own: HashMap<String, Arc<Name>>,
    segments: Option<Arc<SegmentGenerator>>,
    /// Tags that were asked for.
    tags: Arc<RwLock<HashMap<String, Arc<Name>>>>,
}

impl Names {
    /// Without any name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a name, or replaces it. The first one is the default.
    #[must_use]
    pub fn with(mut self, text: &str, issuer: Issuer) -> Self {
        let name = Name::new(text, issuer);
        self.default.get_or_insert_with(|| Arc::clone(&name));
        self.own.insert(text.to_owned(), name);
        self
    }

    /// Makes each tag of this generator a name, unless it is one already.
    #[must_use]
    pub fn with_segments(mut self, segments: Arc<SegmentGenerator>) -> Self {
        self.segments = Some(segments);
        self
    }

    /// The name for requests that name none.
    pub fn default_name(&self) -> Option<&Arc<Name>> {
        self.default.as_ref()
    }

    /// The generator of segments whose tags are names.
    pub fn segments(&self) -> Option<&Arc<SegmentGenerator>> {
        self.segments.as_ref()
    }

    /// Looks a name up. A tag that has been removed since stays a name, whose takes fail.
    pub fn get(&self, text: &str) -> Option<Arc<Name>> {
        if let Some(name) = self.own.get(text) {
            return Some(Arc::clone(name));
        }
        let segments = self.segments.as_ref()?;
        if let Some(name) = self.tags.read().unwrap_or_else(|lock| lock.into_inner()).get(text) {
            return Some(Arc::clone(name));
        }
        let handle = segments.tag(text).ok()?;
        let mut tags = self.tags.write().unwrap_or_else(|lock| lock.into_inner());
        let name = tags.entry(text.to_owned());
        Some(Arc::clone(name.or_insert_with(|| Name::new(text, Issuer::Segment(handle)))))
    }

    /// Closes all generators: leases are given back, and nothing more is issued.
    pub fn close(&self) {
        for name in self.own.values() {
            if let Some(generator) = name.issuer.generator() {
                generator.close();
            }
        }
        if let Some(segments) = &self.segments {
            segments.close();
        }
    }

    /// All names, in alphabetical order: the server's own, then the tags that are in the table.
    pub fn list(&self) -> Vec<Arc<Name>> {
        let mut own: Vec<_> = self.own.values().map(Arc::clone).collect();
        own.sort_by(|a, b| a.text.cmp(&b.text));
        let mut tags =
            self.segments.as_ref().and_then(|segments| segments.tags().ok()).unwrap_or_default();
        tags.retain(|tag| !self.own.contains_key(tag));
        tags.sort();
        own.extend(tags.iter().filter_map(|tag| self.get(tag)));
        own
    }
}
