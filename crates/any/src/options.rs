//! A URL that was read, and what code adds to it.

use std::env;
use std::path::Path;

use uidring::adapter::{in_own_thread, log};
use uidring::generator::{CachedBuilder, ClockedBuilder, GeneratorBuilder, OnClockBack};
use uidring::{
    CachedUidGenerator, ClockedUidGenerator, Error, Layout, SegmentGenerator, Uid, WorkerSource,
};
use uidring_store::options::{Given, Kind, MAX_CLOCK_DIFFERENCE, Owner};
use uidring_store::url::Url;
use uidring_store::{AnyStore, ServerError, StoreKind, TableError, read_secret};

use crate::engines::kind_of;
use crate::generator::{AnyGenerator, TagGenerator};
use crate::layout;
use crate::rows::{self, CACHED, CLOCKED, DISPOSABLE, GENERATORS, LEASED, ORDINAL, SEGMENT};
use crate::worker::{self, FixedWorker};

/// The environment variable with a URL.
const VARIABLE: &str = "UIDRING_URL";

/// How URLs are written, where the engine is not known.
const FORM: &str = "a URL such as sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE or worker:N";

/// Owners whose options apply only where a URL may choose the kind of worker ids, or a tag.
const CHOSEN: &[&Owner] = &[&SEGMENT, &DISPOSABLE, &LEASED, &ORDINAL];

/// The options of a generator: those of its URL, and what code adds.
///
/// ```
/// use uidring_any::Options;
///
/// let last = uidring_any::open("worker:7")?.next_uid()?;
/// let options = Options::from_url("worker:7?max-borrow=10s")?.set("layout", "uid")?;
/// let generator = options.start_after("965997071821758506".parse()?).open()?;
/// # drop((last, generator));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Options {
    source: Source,
    url: Url,
    given: Given,
    place: String,
    start_after: Option<Uid>,
}

/// Where worker ids come from.
#[derive(Clone, Copy)]
enum Source {
    Store(&'static StoreKind),
    Fixed(FixedWorker),
}

impl Options {
    /// Reads a URL. It does not connect.
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](uidring_store::ServerError::Address) says what is wrong with the URL or its options. It
    /// does not repeat the URL, which may hold a password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        Self::read(url, "as given")
    }

    /// Reads the URL in the first line of this file, which keeps a password out of the list of processes.
    ///
    /// # Errors
    ///
    /// Those of [`from_url`](Self::from_url), also for a relative path, which would mean different files in different
    /// folders; [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) if the file cannot be
    /// read; [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath) if the path is the URL itself.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let text = read_secret("the URL", path)?;
        let url = text.lines().next().unwrap_or_default().trim();
        Self::read(url, &format!("in the file {}", path.display()))?.absolute()
    }

    /// Reads the URL in the environment variable `UIDRING_URL`.
    ///
    /// # Errors
    ///
    /// Those of [`from_url`](Self::from_url), also for a relative path; [`Error::Environment`] if the variable is not set
    /// or not UTF-8.
    pub fn from_env() -> Result<Self, Error> {
        let url = env::var_os(VARIABLE).ok_or_else(|| Error::Environment {
            problem: format!("the environment variable {VARIABLE} is not set; set it to {FORM}"),
        })?;
        let url = url.to_str().ok_or_else(|| Error::Environment {
            problem: format!(
                "the environment variable {VARIABLE} is no UTF-8 text; set it to {FORM}"
            ),
        })?;
        Self::read(url.trim(), &format!("in {VARIABLE}"))?.absolute()
    }

    /// Sets an option that the URL does not set.
    ///
    /// # Errors
    ///
    /// As [`from_url`](Self::from_url).
    pub fn set(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let added = self.given.add(&self.source.takers(), self.source.others(), name, value);
        added.map_err(|problem| wrong(&self.source, &self.place, problem))?;
        Ok(self)
    }

    /// Issues only uids above this one: the greatest so far with the worker id of a `worker:` URL, which has no memory.
    #[must_use]
    pub fn start_after(mut self, uid: Uid) -> Self {
        self.start_after = Some(uid);
        self
    }

    /// Returns the store, to look after its worker ids, leases and tags. It does not connect.
    ///
    /// # Errors
    ///
    /// Those of the store's files; [`ServerError::Address`](uidring_store::ServerError::Address) if options contradict
    /// each other, or for a `worker:` URL, which has no store.
    pub fn store(&self) -> Result<Box<dyn AnyStore>, Error> {
        match self.source {
            Source::Store(kind) => {
                (kind.open)(&self.url, &self.given).map_err(|error| self.placed(error))
            }
            Source::Fixed(_) => Err(self.wrong("it names a worker id, and no store")),
        }
    }

    /// Builds the generator. It blocks until the store has answered.
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](uidring_store::ServerError::Address) if the engine or the generator does not take an
    /// option; those of [`CachedBuilder::build`], [`ClockedBuilder::build`], [`SegmentGenerator`] and of the store.
    pub fn open(self) -> Result<AnyGenerator, Error> {
        let default = if self.given.text(&rows::TAG).is_some() { "segment" } else { "cached" };
        let kind = self.given.text(&rows::GENERATOR).unwrap_or(default);
        let chosen = match kind {
            "segment" => &SEGMENT,
            "cached" => &CACHED,
            _ => &CLOCKED,
        };
        self.refuse_others(chosen, &GENERATORS)?;
        match kind {
            "segment" => self.segment(),
            "cached" => self.cached(),
            "clock" => self.clocked(ClockedUidGenerator::builder(), Layout::UID_GENERATOR),
            "snowflake" => self.clocked(ClockedUidGenerator::snowflake(), Layout::SNOWFLAKE),
            _ => self.clocked(ClockedUidGenerator::leaf_snowflake(), Layout::SNOWFLAKE),
        }
    }

    /// [`open`](Self::open) for a task: what blocks runs in a thread of its own.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open); [`Error::Thread`] if the operating system starts no thread.
    pub async fn open_async(self) -> Result<AnyGenerator, Error> {
        in_own_thread(|| self.open()).await
    }

    fn read(text: &str, place: &str) -> Result<Self, Error> {
        let form = if text.starts_with("worker:") { worker::FORM } else { FORM };
        let source = Source::of(text).map_err(|problem| address(form, place, problem))?;
        let wrong = |problem| wrong(&source, place, problem);
        let url = source.split(text).map_err(wrong)?;
        let given =
            Given::read(&source.takers(), source.others(), &url.parameters).map_err(wrong)?;
        if !given.harmless().is_empty() {
            let names = given.harmless().join(", ");
            log!(debug, "these parameters of the URL {place} change nothing: {names}");
        }
        Ok(Self { source, url, given, place: place.into(), start_after: None })
    }

    /// Refuses a relative path.
    fn absolute(self) -> Result<Self, Error> {
        let own = match self.source {
            Source::Store(kind) if kind.is_file => {
                Some(("its path".into(), self.url.path.concat()))
            }
            _ => None,
        };
        let rows = self.source.takers().into_iter().flat_map(|owner| owner.rows);
        let rows = rows.filter(|row| matches!(row.kind, Kind::Path));
        let given = rows.filter_map(|row| {
            Some((format!("the path of `{}`", row.name), self.given.text(row)?.to_owned()))
        });
        let mut paths = own.into_iter().chain(given);
        match paths.find(|(_, path)| !path.is_empty() && !path.starts_with('/')) {
            Some((what, _)) => Err(self.wrong(format!(
                "{what} is relative, and would mean another file in another folder"
            ))),
            None => Ok(self),
        }
    }

    fn cached(self) -> Result<AnyGenerator, Error> {
        let (given, layout) = (&self.given, self.layout(Layout::UID_GENERATOR));
        let mut builder = self.set_up(CachedUidGenerator::builder(), layout)?;
        if let Some(power) = given.number(&rows::BOOST_POWER) {
            builder = builder.boost_power(power.try_into().unwrap_or(u32::MAX));
        }
        if let Some(limit) = given.time(&rows::MAX_BORROW) {
            builder = CachedBuilder::max_borrow(builder, limit);
        }
        if let Some(limit) = given.time(&rows::MAX_LAG) {
            builder = builder.max_lag(limit);
        }
        if given.is(&rows::ON_CLOCK_BACK, "new-worker-id") {
            builder = builder.on_clock_back(OnClockBack::NewWorkerId);
        }
        Ok(AnyGenerator::Cached(builder.build()?))
    }

    fn clocked(self, builder: ClockedBuilder, usual: Layout) -> Result<AnyGenerator, Error> {
        let layout = self.layout(usual);
        Ok(AnyGenerator::Clocked(self.set_up(builder, layout)?.build()?))
    }

    fn segment(self) -> Result<AnyGenerator, Error> {
        self.refuse_workers(&SEGMENT)?;
        if self.start_after.is_some() {
            return Err(self.wrong("`start_after` is not for generator=segment"));
        }
        let tag = self.given.text(&rows::TAG);
        let tag = tag.ok_or_else(|| self.wrong("generator=segment needs a `tag`"))?;
        // It may hold a password, and errors name the tag.
        if tag.contains("://") {
            return Err(TableError::UrlForTag.into());
        }
        let mut builder = SegmentGenerator::builder(self.store()?.segment_store()?);
        if let Some(policy) = self.given.text(&rows::TAKE).and_then(|text| rows::policy(text).ok())
        {
            builder = builder.take_policy(policy);
        }
        Ok(AnyGenerator::Segment(TagGenerator::new(builder.build()?, tag)?))
    }

    fn layout(&self, usual: Layout) -> Layout {
        let given = self.given.text(&rows::LAYOUT).and_then(|text| layout::read(text).ok());
        given.unwrap_or(usual)
    }

    /// Sets what all generators with a layout have.
    fn set_up<O>(
        &self,
        builder: GeneratorBuilder<O>,
        layout: Layout,
    ) -> Result<GeneratorBuilder<O>, Error> {
        let mut builder = builder.layout(layout).worker_from(self.worker(layout)?);
        if let Some(name) = self.given.text(&rows::NAMESPACE) {
            builder = builder.namespace(name);
        }
        if let Some(limit) = self.given.time(&rows::MAX_START_WAIT) {
            builder = builder.max_start_wait(limit);
        }
        if let Some(policy) = self.given.text(&rows::TAKE).and_then(|text| rows::policy(text).ok())
        {
            builder = builder.take_policy(policy);
        }
        Ok(match self.start_after {
            Some(uid) => builder.start_after(uid),
            None => builder,
        })
    }

    fn worker(&self, layout: Layout) -> Result<Box<dyn WorkerSource + Send>, Error> {
        if let Source::Fixed(worker) = self.source {
            self.refuse_workers(&worker::OWNER)?;
            if self.start_after.is_none() {
                log!(
                    warn,
                    "a worker id of your own choice has no memory: another run within one tick, after a long borrow, or \
                     after the clock was set back repeats uids; start after the greatest uid so far, or use a store"
                );
            }
            return Ok(Box::new(worker));
        }
        if self.start_after.is_some() {
            return Err(self.wrong("`start_after` is for worker:N; a store knows what was issued"));
        }
        worker::source(&*self.store()?, &self.given, layout, |chosen| self.refuse_workers(chosen))
    }

    /// Refuses the options of other kinds of worker ids.
    fn refuse_workers(&self, chosen: &Owner) -> Result<(), Error> {
        self.refuse_others(chosen, &rows::WORKERS)?;
        // The engine takes this option, but only for disposable worker ids.
        let compares = [&LEASED, &ORDINAL, &SEGMENT].iter().all(|owner| owner.name != chosen.name);
        match self.given.text(&MAX_CLOCK_DIFFERENCE) {
            Some(_) if !compares => Err(self.wrong(format!(
                "`max-clock-difference` is for worker=disposable, and not for {}",
                chosen.name
            ))),
            _ => Ok(()),
        }
    }

    fn refuse_others(&self, chosen: &Owner, owners: &[&Owner]) -> Result<(), Error> {
        self.given.refuse_others(chosen, owners).map_err(|problem| self.wrong(problem))
    }

    fn wrong(&self, problem: impl Into<String>) -> Error {
        wrong(&self.source, &self.place, problem.into())
    }

    /// Says where a URL was found that an engine calls wrong.
    fn placed(&self, error: Error) -> Error {
        match error.store() {
            Some(ServerError::Address { problem, form, .. }) => {
                address(form, &self.place, problem.clone())
            }
            _ => error,
        }
    }
}

impl Source {
    fn of(url: &str) -> Result<Self, String> {
        if url.is_empty() {
            return Err("it is empty".into());
        }
        match url.strip_prefix("worker:") {
            Some(_) => FixedWorker::of(url).map(Self::Fixed),
            None => kind_of(url).map(Self::Store),
        }
    }

    fn split(&self, text: &str) -> Result<Url, String> {
        match self {
            Self::Store(kind) => kind.split(text),
            Self::Fixed(_) => Url::split_path(text, "worker"),
        }
    }

    fn form(&self) -> &'static str {
        match self {
            Self::Store(kind) => kind.form,
            Self::Fixed(_) => worker::FORM,
        }
    }

    /// Returns the owners whose options this source takes.
    fn takers(&self) -> Vec<&'static Owner> {
        let first = match self {
            Self::Store(kind) => kind.options,
            Self::Fixed(_) => &worker::OWNER,
        };
        let chosen = if self.has_kinds() { CHOSEN } else { &[] };
        [&[first, &CACHED, &CLOCKED], chosen].concat()
    }

    /// Returns the other owners. Their options are refused, with a reason.
    fn others(&self) -> &'static [&'static Owner] {
        if self.has_kinds() { &[] } else { CHOSEN }
    }

    /// Whether the URL may choose the kind of worker ids, or a tag.
    fn has_kinds(&self) -> bool {
        matches!(self, Self::Store(kind) if !kind.has_own_workers)
    }
}

fn wrong(source: &Source, place: &str, problem: String) -> Error {
    address(source.form(), place, problem)
}

fn address(form: &'static str, place: &str, problem: String) -> Error {
    ServerError::Address { what: "the URL", place: place.into(), form, problem }.into()
}
