//! The names that clients ask for ids of.

use std::collections::{BTreeSet, HashMap};
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

/// A name, what stands behind it, and what was issued.
#[derive(Debug)]
pub struct Name {
    text: String,
    issuer: Issuer,
    /// How many names the server knew before it.
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

    /// Where its worker id comes from, for people to read; none if nobody has said so.
    pub fn origin(&self) -> Option<&str> {
        self.origin.get().map(String::as_str)
    }
}

impl Name {
    /// Whether it is a tag that was not in the table when that was read last.
    pub(crate) fn is_removed(&self) -> bool {
        let Issuer::Segment(handle) = &self.issuer else { return false };
        matches!(handle.problem(), Some(SegmentError::RemovedTag(_)))
    }

    /// Why it is not to be asked, as far as that is known without waiting. Of uids, one is taken.
    pub(crate) fn problem(&self) -> Option<String> {
        let ahead = || self.lead.problem(self.issuer.generator()?);
        self.issuer.problem().or_else(ahead)
    }
}

/// Reads the rows of the table of segments.
pub(crate) type ReadRows = dyn Fn() -> Result<Vec<SegmentTag>, Error> + Send + Sync;

/// The names of a server. One is the default, for requests that name none.
#[derive(Clone, Default)]
pub struct Names {
    default: Option<Arc<Name>>,
    own: HashMap<String, Arc<Name>>,
    segments: Option<Arc<SegmentGenerator>>,
    rows: Option<Arc<ReadRows>>,
    /// Tags that were asked for, those that were deleted since included.
    tags: Arc<RwLock<HashMap<String, Arc<Name>>>>,
    /// Held while the table is read for a name that is unknown.
    readings: Arc<Mutex<Readings>>,
}

/// When the table was read for names that were unknown.
#[derive(Default)]
struct Readings {
    /// When the last one began.
    begun: Option<Instant>,
    /// When the last one began that has ended: it shows all tags that were created before, unless it failed.
    ended: Option<Instant>,
    has_failed: bool,
}

/// Unknown names trigger a reading at most this often; a request waits at most this long for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_FOR: Duration = Duration::from_secs(1);

/// In texts for people, more names than this are counted, and not listed.
pub const SHOWN: usize = 100;

impl Names {
    /// Without any name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a name, or replaces it. The first one is the default.
    #[must_use]
    pub fn with(mut self, text: &str, issuer: Issuer) -> Self {
        let name = Name::new(text, issuer, self.own.len());
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

    /// Says where a name's worker id comes from, such as "leased from uidring.db", for people to read. The first
    /// word on it counts; without such a name it does nothing.
    #[must_use]
    pub fn with_origin(self, text: &str, origin: impl Into<String>) -> Self {
        if let Some(name) = self.own.get(text) {
            name.origin.get_or_init(|| origin.into());
        }
        self
    }

    /// Reads the rows of the table of segments for the page that shows them. It may block: it is called in a
    /// thread of its own, one at a time.
    #[must_use]
    pub fn with_rows(
        mut self,
        rows: impl Fn() -> Result<Vec<SegmentTag>, Error> + Send + Sync + 'static,
    ) -> Self {
        self.rows = Some(Arc::new(rows));
        self
    }

    /// What reads the rows.
    pub(crate) fn rows(&self) -> Option<&Arc<ReadRows>> {
        self.rows.as_ref()
    }

    /// Whether any name is, or may be, a tag.
    pub(crate) fn have_segments(&self) -> bool {
        let mut own = self.own.values();
        self.segments.is_some() || own.any(|name| matches!(name.issuer, Issuer::Segment(_)))
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
        let rank = self.own.len() + tags.len();
        let name = tags.entry(text.to_owned());
        Some(Arc::clone(name.or_insert_with(|| Name::new(text, Issuer::Segment(handle), rank))))
    }

    /// Looks a name up, unless it is a tag that was gone: it may be there again.
    pub(crate) fn get_present(&self, text: &str) -> Option<Arc<Name>> {
        self.get(text).filter(|name| !name.is_removed())
    }

    /// Looks a name up. An unknown one, or one that was gone, may be a tag that was created since the table was read, which
    /// is read again then: a tag that was there when the request arrived is found, unless that takes too long. `arrived`
    /// is set at the first unknown name: requests that arrived together share it, so that they wait for one reading.
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
        // In memory of its own, which requests for known names do without.
        let has_failed = Box::pin(look).await.unwrap_or(false);
        if has_failed && self.get_present(text).is_none() {
            return Err(IssueError::Unread);
        }
        Ok(self.get(text))
    }

    /// Waits for a reading of the tags that began no earlier than `since`, and returns whether it failed. Those who wait
    /// for one share it.
    async fn look(&self, segments: &SegmentGenerator, since: Instant) -> bool {
        let mut readings = self.readings.lock().await;
        if readings.ended.is_none_or(|begun| begun < since) {
            if let Some(begun) = readings.begun {
                sleep_until((begun + LOOK_EVERY).into()).await;
            }
            let now = Instant::now();
            readings.begun = Some(now);
            // What fails is logged, and the tags stay as they were.
            readings.has_failed = segments.refresh_async().await.is_err();
            readings.ended = Some(now);
        }
        readings.has_failed
    }

    /// Looks how far the uids of each name are ahead of the clock.
    pub(crate) fn look_at_leads(&self) {
        for name in self.own.values() {
            if let Some(generator) = name.issuer.generator() {
                name.lead.look(&name.text, generator);
            }
        }
    }

    /// Whether a name has lost the lease of its worker id: it issues nothing until the server is started again.
    pub(crate) fn any_lost_lease(&self) -> bool {
        self.own.values().any(|name| name.issuer.has_lost_lease())
    }

    /// Whether nothing is issued until the server is started again: all names are generators that have lost the leases
    /// of their worker ids.
    pub fn have_lost_all_leases(&self) -> bool {
        let mut own = self.own.values();
        !self.own.is_empty()
            && own.all(|name| name.issuer.has_lost_lease())
            && self.tags().is_empty()
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
        self.list_of(&self.tags())
    }

    /// The same, and then the tags that were asked for and have been deleted, in no order.
    pub(crate) fn list_with_deleted(&self) -> (Vec<Arc<Name>>, Vec<Arc<Name>>) {
        let tags = self.tags();
        let names = self.list_of(&tags);
        let known = self.tags.read().unwrap_or_else(|lock| lock.into_inner());
        let deleted = known.values().filter(|name| !tags.contains(&name.text));
        (names, deleted.map(Arc::clone).collect())
    }

    fn list_of(&self, tags: &BTreeSet<String>) -> Vec<Arc<Name>> {
        let mut own: Vec<_> = self.own.values().map(Arc::clone).collect();
        own.sort_by(|a, b| a.text.cmp(&b.text));
        own.extend(tags.iter().filter_map(|tag| self.get(tag)));
        own
    }

    /// The texts of all names, in no order.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.tags().into_iter().chain(self.own.keys().cloned()).collect()
    }

    /// The tags in the table that are no names of the server's own.
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
