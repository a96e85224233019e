//! The names that clients can ask for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::{sleep_until, timeout_at};
use uidring::segment::{SegmentError, SegmentTag};
use uidring::{Error, SegmentGenerator};

use crate::error::IssueError;
use crate::issuer::Issuer;
use crate::lead::Lead;
use crate::listener::Protocol;
use crate::stats::NameCounters;

/// A name, its source of ids, and its counters.
#[derive(Debug)]
pub struct Name {
    text: String,
    issuer: Issuer,
    /// How many names the server had before it.
    pub(crate) rank: usize,
    origin: OnceLock<String>,
    lead: Lead,
    pub(crate) counters: NameCounters,
}

impl Name {
    fn new(text: &str, issuer: Issuer, rank: usize) -> Arc<Self> {
        let (origin, counters) = (OnceLock::new(), NameCounters::default());
        let (text, lead) = (text.to_owned(), Lead::default());
        Arc::new(Self { text, issuer, rank, origin, lead, counters })
    }

    /// Returns the name.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns how many ids were issued over a protocol.
    pub fn issued(&self, protocol: Protocol) -> u64 {
        self.counters.get(protocol).0
    }

    /// Returns the source of its ids.
    pub fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Returns where its worker id comes from, for people; `None` if not set.
    pub fn origin(&self) -> Option<&str> {
        self.origin.get().map(String::as_str)
    }

    /// Whether it is a tag that was missing when the table was last read.
    pub(crate) fn is_removed(&self) -> bool {
        let Issuer::Segment(handle) = &self.issuer else { return false };
        matches!(handle.problem(), Some(SegmentError::RemovedTag(_)))
    }

    /// Why clients should not ask for it, as far as that is known without waiting. Takes a uid to find out.
    pub(crate) fn problem(&self) -> Option<String> {
        let ahead = || self.lead.problem(self.issuer.generator()?);
        self.issuer.problem().or_else(ahead)
    }
}

/// Reads the rows of the segment table.
pub(crate) type ReadRows = dyn Fn() -> Result<Vec<SegmentTag>, Error> + Send + Sync;

/// A server's names. One is the default, for requests without a name.
#[derive(Clone, Default)]
pub struct Names {
    default: Option<Arc<Name>>,
    own: BTreeMap<String, Arc<Name>>,
    segments: Option<Arc<SegmentGenerator>>,
    rows: Option<Arc<ReadRows>>,
    /// Tags that were asked for, including deleted ones.
    tags: Arc<RwLock<HashMap<String, Arc<Name>>>>,
    /// Locked while the table is read for an unknown name.
    readings: Arc<Mutex<Readings>>,
}

/// When the table was read for unknown names.
#[derive(Default)]
struct Readings {
    /// When the last reading began.
    begun: Option<Instant>,
    /// When the last completed reading began. Unless it failed, it shows all tags created before.
    ended: Option<Instant>,
    has_failed: bool,
}

/// The least time between readings for unknown names, and how long a request waits for one.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_FOR: Duration = Duration::from_secs(1);

/// Texts for people list up to this many names, and count the rest.
pub const SHOWN: usize = 100;

impl Names {
    /// Creates an empty set of names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a name. The first one becomes the default.
    #[must_use]
    pub fn with(mut self, text: &str, issuer: Issuer) -> Self {
        let name = Name::new(text, issuer, self.own.len());
        self.default.get_or_insert_with(|| Arc::clone(&name));
        self.own.insert(text.to_owned(), name);
        self
    }

    /// Makes each tag of this generator a name, unless the name exists.
    #[must_use]
    pub fn with_segments(mut self, segments: Arc<SegmentGenerator>) -> Self {
        self.segments = Some(segments);
        self
    }

    /// Describes where a name's worker id comes from, for people, such as "leased from uidring.db". Only the first call
    /// for a name counts. Does nothing if there is no such name.
    #[must_use]
    pub fn with_origin(self, text: &str, origin: impl Into<String>) -> Self {
        if let Some(name) = self.own.get(text) {
            name.origin.get_or_init(|| origin.into());
        }
        self
    }

    /// Sets how to read the rows of the segment table, for the page that shows them. The function may block: it runs in
    /// a separate thread, one call at a time.
    #[must_use]
    pub fn with_rows(
        mut self,
        rows: impl Fn() -> Result<Vec<SegmentTag>, Error> + Send + Sync + 'static,
    ) -> Self {
        self.rows = Some(Arc::new(rows));
        self
    }

    pub(crate) fn rows(&self) -> Option<&Arc<ReadRows>> {
        self.rows.as_ref()
    }

    /// Whether any name is or may be a tag.
    pub(crate) fn have_segments(&self) -> bool {
        let mut own = self.own.values();
        self.segments.is_some() || own.any(|name| matches!(name.issuer, Issuer::Segment(_)))
    }

    /// Returns the name for requests without one.
    pub fn default_name(&self) -> Option<&Arc<Name>> {
        self.default.as_ref()
    }

    /// Returns the generator whose tags are names.
    pub fn segments(&self) -> Option<&Arc<SegmentGenerator>> {
        self.segments.as_ref()
    }

    /// Looks up a name. A removed tag remains a name, but takes from it fail.
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
        let rank = self.own.len() + tags.len();
        let name = tags.entry(text.to_owned());
        Some(Arc::clone(name.or_insert_with(|| Name::new(text, Issuer::Segment(handle), rank))))
    }

    /// Looks up a name, but not a tag that was removed, because it may exist again.
    pub(crate) fn get_present(&self, text: &str) -> Option<Arc<Name>> {
        self.get(text).filter(|name| !name.is_removed())
    }

    /// Looks up a name. If it is unknown or was removed, the table is read again, because the tag may be new. So a tag
    /// that existed when the request arrived is found, unless that takes too long. `arrived` is set at the first
    /// unknown name. Requests that arrived together share it, and wait for one reading.
    ///
    /// # Errors
    ///
    /// [`IssueError::Unread`] if the name is unknown and the table could not be read.
    pub(crate) async fn find_or_look(
        &self,
        text: &str,
        arrived: &mut Option<Instant>,
    ) -> Result<Option<Arc<Name>>, IssueError> {
        if let Some(name) = self.get_present(text) {
            return Ok(Some(name));
        }
        let Some(segments) = &self.segments else { return Ok(None) };
        let arrived = *arrived.get_or_insert_with(Instant::now);
        let look = timeout_at((arrived + LOOK_FOR).into(), self.look(segments, arrived));
        // Boxed, to keep it out of the futures of requests for known names.
        let has_failed = Box::pin(look).await.unwrap_or(false);
        if has_failed && self.get_present(text).is_none() {
            return Err(IssueError::Unread);
        }
        Ok(self.get(text))
    }

    /// Waits for a reading of the tags that began at `since` or later, and returns whether it failed. Waiting requests
    /// share a reading.
    async fn look(&self, segments: &SegmentGenerator, since: Instant) -> bool {
        let mut readings = self.readings.lock().await;
        if readings.ended.is_none_or(|begun| begun < since) {
            if let Some(begun) = readings.begun {
                sleep_until((begun + LOOK_EVERY).into()).await;
            }
            let now = Instant::now();
            readings.begun = Some(now);
            // The generator logs failures, and keeps its tags.
            readings.has_failed = segments.refresh_async().await.is_err();
            readings.ended = Some(now);
        }
        readings.has_failed
    }

    /// Checks how far each name's uids are ahead of the clock.
    pub(crate) fn look_at_leads(&self) {
        for name in self.own.values() {
            if let Some(generator) = name.issuer.generator() {
                name.lead.look(&name.text, generator);
            }
        }
    }

    /// Whether a name lost its lease, and so issues nothing until a restart.
    pub(crate) fn any_lost_lease(&self) -> bool {
        self.own.values().any(|name| name.issuer.has_lost_lease())
    }

    /// Whether the server issues nothing until a restart, because all its names are generators that lost their leases.
    pub fn have_lost_all_leases(&self) -> bool {
        let mut own = self.own.values();
        !self.own.is_empty()
            && own.all(|name| name.issuer.has_lost_lease())
            && self.tags().is_empty()
    }

    /// Closes all generators. Leases are given back, and no more ids are issued.
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

    /// Returns all names in alphabetical order: first the server's own, then the tags in the table.
    pub fn list(&self) -> Vec<Arc<Name>> {
        self.list_of(&self.tags())
    }

    /// Like [`list`](Self::list), with the tags that were asked for and then deleted, in no order.
    pub(crate) fn list_with_deleted(&self) -> (Vec<Arc<Name>>, Vec<Arc<Name>>) {
        let tags = self.tags();
        let names = self.list_of(&tags);
        let known = self.tags.read().unwrap_or_else(|lock| lock.into_inner());
        let deleted = known.values().filter(|name| !tags.contains(&name.text));
        (names, deleted.map(Arc::clone).collect())
    }

    fn list_of(&self, tags: &BTreeSet<String>) -> Vec<Arc<Name>> {
        let own = self.own.values().map(Arc::clone);
        own.chain(tags.iter().filter_map(|tag| self.get(tag))).collect()
    }

    /// Returns the texts of all names, in no order.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.tags().into_iter().chain(self.own.keys().cloned()).collect()
    }

    /// Returns the tags in the table that are not the server's own names.
    fn tags(&self) -> BTreeSet<String> {
        let segments = self.segments.as_ref();
        let tags = segments.and_then(|segments| segments.tags().ok()).unwrap_or_default();
        tags.into_iter().filter(|tag| !self.own.contains_key(tag)).collect()
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names")
            .field("default", &self.default)
            .field("own", &self.own)
            .field("segments", &self.segments)
            .finish_non_exhaustive()
    }
}
