//! The options of a URL, and those that code adds.

use std::path::Path;

use uidring::adapter::{in_own_thread, log};
use uidring::generator::{CachedBuilder, ClockedBuilder, GeneratorBuilder, OnClockBack};
use uidring::policy::TakePolicy;
use uidring::worker::FixedWorkerId;
use uidring::{CachedUidGenerator, ClockedUidGenerator, Error, Layout, Uid, WorkerSource};
use uidring_store::options::{Given, Kind, MAX_CLOCK_DIFFERENCE, Owner};
use uidring_store::url::Url;
use uidring_store::{
    AnyStore, ServerError, StoreKind, StoreUse, TableError, check_no_url, read_secret,
    warn_if_exposed,
};

use crate::engines::{FORM, kind_of, takers};
use crate::environment::{self, VARIABLE};
use crate::generator::AnyGenerator;
use crate::layout;
use crate::prepared::{Prepared, PreparedTag};
use crate::rows::{self, CACHED, CLOCKED, GENERATORS, LEASED, ORDINAL, SEGMENT};
use crate::worker::{self, FixedWorker, WorkerKind};

/// Layouts with fewer worker ids lease them by default; others have enough to use up.
const MANY: u64 = 100_000;

/// The default of `boost-power`.
const USUAL_POWER: u32 = 3;

/// The options of a generator: those of its URL, and those that code adds.
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
    kind: &'static StoreKind,
    pub(crate) worker: Option<FixedWorker>,
    pub(crate) url: Url,
    pub(crate) given: Given,
    place: String,
    /// Whether paths must be absolute.
    is_absolute: bool,
    start_after: Option<Uid>,
}

impl Options {
    /// Reads a URL. Does not connect.
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](uidring_store::ServerError::Address) if the URL is wrong,
    /// [`ServerError::Options`](uidring_store::ServerError::Options) if its options are. The URL may hold a password,
    /// so it is not repeated.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        Self::read(url, "as given", false)
    }

    /// Reads a URL from a settings file. Errors name the file by `place`, such as `in /etc/shop.toml`.
    ///
    /// # Errors
    ///
    /// As [`from_url`](Self::from_url). Also fails for a relative path, whose meaning would depend on the working
    /// directory.
    pub fn from_settings(url: &str, place: &str) -> Result<Self, Error> {
        Self::read(url.trim(), place, true)
    }

    /// Reads the URL in the first line of a file, which keeps a password out of the list of processes. Logs a warning if
    /// the URL has a password and every user may read the file.
    ///
    /// # Errors
    ///
    /// As [`from_settings`](Self::from_settings). Also
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) if the file cannot be read, and
    /// [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath) if the path is the URL itself.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if kind_of(&path.to_string_lossy()).is_ok() {
            return Err(TableError::UrlForPath { what: "the URL" }.into());
        }
        let text = read_secret("the URL", path)?;
        let url = text.lines().next().unwrap_or_default().trim();
        let options = Self::from_settings(url, &format!("in the file {}", path.display()))?;
        if options.has_password() {
            warn_if_exposed(path);
        }
        Ok(options)
    }

    /// Reads the URL in the environment variable `UIDRING_URL`.
    ///
    /// # Errors
    ///
    /// As [`from_settings`](Self::from_settings). Also [`Error::Environment`] if the variable is not set or not UTF-8.
    pub fn from_env() -> Result<Self, Error> {
        Self::of_variable()?.ok_or_else(environment::not_set)
    }

    /// Reads the URL in `UIDRING_URL`, or `url` if the variable is not set.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env) and [`from_url`](Self::from_url).
    pub fn from_env_or(url: &str) -> Result<Self, Error> {
        Self::of_variable()?
            .map_or_else(|| Self::read(url, &format!("{url} by default"), false), Ok)
    }

    /// Returns whether `UIDRING_URL` is set.
    ///
    /// # Errors
    ///
    /// [`Error::Environment`] if `UIDRING_URL` is not UTF-8, or a variable that it replaces is set.
    pub fn is_in_env() -> Result<bool, Error> {
        Ok(environment::url()?.is_some())
    }

    /// Sets an option that the URL does not set.
    ///
    /// # Errors
    ///
    /// As [`from_url`](Self::from_url).
    pub fn set(self, name: &str, value: &str) -> Result<Self, Error> {
        self.set_by(name, value, None)
    }

    /// [`set`](Self::set), but errors call the option `called`, such as `--layout`. The URL may set the same value.
    ///
    /// # Errors
    ///
    /// As [`from_url`](Self::from_url).
    pub fn set_as(self, called: &str, name: &str, value: &str) -> Result<Self, Error> {
        self.set_by(name, value, Some(called))
    }

    /// Removes an option of the URL, so that you can set another value.
    #[must_use]
    pub fn unset(mut self, name: &str) -> Self {
        self.given.remove(&takers(self.kind), name);
        self
    }

    /// Returns the value of an option, if set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.get(name)
    }

    /// Returns whether the URL holds a password.
    pub fn has_password(&self) -> bool {
        self.url.password.is_some()
    }

    /// Returns the layout of uids.
    pub fn layout(&self) -> Layout {
        let given = self.given.text(&rows::LAYOUT).and_then(|text| layout::read(text).ok());
        given.unwrap_or(match self.given.text(&rows::GENERATOR) {
            Some("snowflake" | "leaf-snowflake") => Layout::SNOWFLAKE,
            _ => Layout::UID_GENERATOR,
        })
    }

    /// Returns where the worker id comes from.
    pub fn worker_kind(&self) -> WorkerKind {
        match self.given.text(&rows::WORKER) {
            _ if self.worker.is_some() => WorkerKind::Chosen,
            _ if self.kind.has_own_workers => WorkerKind::Registered,
            Some("lease") => WorkerKind::Leased,
            Some("ordinal") => WorkerKind::Ordinal,
            None if self.layout().workers() < MANY => WorkerKind::Leased,
            _ => WorkerKind::Disposable,
        }
    }

    /// Returns what a start needs from its store.
    ///
    /// # Errors
    ///
    /// [`Error::Environment`] with `worker=ordinal` if the environment names no ordinal, or one that is not a worker id
    /// of the layout.
    pub fn store_use(&self) -> Result<StoreUse, Error> {
        let layout = self.layout();
        Ok(match self.worker_kind() {
            _ if self.generator() == "segment" => StoreUse::Segments,
            WorkerKind::Leased => StoreUse::Lease(layout),
            WorkerKind::Ordinal => {
                StoreUse::Ordinal(worker::ordinal(&self.given, layout)?.1, layout)
            }
            _ => StoreUse::Disposable,
        })
    }

    /// Issues only uids above this one. A worker id of a `worker:` URL has no memory, so pass the greatest uid so far.
    #[must_use]
    pub fn start_after(mut self, uid: Uid) -> Self {
        self.start_after = Some(uid);
        self
    }

    /// Returns the store, for administration. Does not connect.
    ///
    /// # Errors
    ///
    /// Errors of the store's files; [`ServerError::Address`](uidring_store::ServerError::Address) if options contradict
    /// each other, or for a `worker:` URL, which has no store.
    pub fn store(&self) -> Result<Box<dyn AnyStore>, Error> {
        (self.kind.open)(&self.url, &self.given).map_err(|error| self.placed(error))
    }

    /// Builds the generator. Blocks until the store has answered.
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare), [`CachedBuilder::build`], [`ClockedBuilder::build`] and
    /// [`SegmentGenerator`](uidring::SegmentGenerator); the store's error.
    pub fn open(self) -> Result<AnyGenerator, Error> {
        self.prepare()?.open()
    }

    /// Checks all options. Does not connect, and uses up no worker id.
    ///
    /// # Errors
    ///
    /// [`ServerError::Options`](uidring_store::ServerError::Options) if the engine or the generator does not have an
    /// option, or the layout does not have the worker id of `worker:N`;
    /// [`ServerError::Address`](uidring_store::ServerError::Address) as in [`store`](Self::store);
    /// [`Error::Environment`] if the environment names no instance, or no ordinal that fits the layout; errors of the
    /// files that the URL names.
    pub fn prepare(self) -> Result<Prepared, Error> {
        match self.generator() {
            "segment" => self.segment(),
            "cached" => self.cached(),
            "clock" => self.clocked(ClockedUidGenerator::builder()),
            "snowflake" => self.clocked(ClockedUidGenerator::snowflake()),
            _ => self.clocked(ClockedUidGenerator::leaf_snowflake()),
        }
    }

    /// Async [`open`](Self::open). The blocking work runs in its own thread.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open). Also [`Error::Thread`] if no thread can be started.
    pub async fn open_async(self) -> Result<AnyGenerator, Error> {
        in_own_thread(|| self.open()).await
    }

    /// Returns the option `generator` or its default.
    pub(crate) fn generator(&self) -> &str {
        let default = if self.given.text(&rows::TAG).is_some() { "segment" } else { "cached" };
        self.given.text(&rows::GENERATOR).unwrap_or(default)
    }

    fn read(text: &str, place: &str, is_absolute: bool) -> Result<Self, Error> {
        let kind = kind_of(text).map_err(|problem| address(FORM, place, problem))?;
        let wrong = |problem| address(kind.form, place, problem);
        let worker = FixedWorker::of(kind, text).map_err(wrong)?;
        let url = kind.split(text).map_err(wrong)?;
        let given = Given::read(&takers(kind), &url.parameters)
            .map_err(|problem| ServerError::Options { problem, place: place.into() })?;
        if !given.harmless().is_empty() {
            let names = given.harmless().join(", ");
            log!(debug, "these parameters of the URL {place} change nothing: {names}");
        }
        let options =
            Self { kind, worker, url, given, place: place.into(), is_absolute, start_after: None };
        options.check_paths()?;
        Ok(options)
    }

    fn of_variable() -> Result<Option<Self>, Error> {
        let url = environment::url()?;
        url.map(|url| Self::from_settings(&url, &format!("in {VARIABLE}"))).transpose()
    }

    fn set_by(mut self, name: &str, value: &str, called: Option<&str>) -> Result<Self, Error> {
        let added = self.given.add(&takers(self.kind), name, value, called);
        added.map_err(|problem| self.unfit(problem))?;
        self.check_paths()?;
        Ok(self)
    }

    /// Refuses a relative path if paths must be absolute.
    fn check_paths(&self) -> Result<(), Error> {
        if !self.is_absolute {
            return Ok(());
        }
        let is_file = self.kind.is_file && self.worker.is_none();
        let own = is_file.then(|| ("the path".into(), self.url.path.concat()));
        let takers = takers(self.kind);
        let rows = takers.takes.iter().flat_map(|owner| owner.rows);
        let rows = rows.filter(|row| matches!(row.kind, Kind::Path));
        let given = rows.filter_map(|row| {
            Some((format!("the path of `{}`", row.name), self.given.text(row)?.to_owned()))
        });
        let mut paths = own.into_iter().chain(given);
        match paths.find(|(_, path)| !path.is_empty() && !path.starts_with('/')) {
            Some((what, _)) => Err(self.unfit(format!(
                "{what} is relative, and would mean another file in another folder; write an absolute path"
            ))),
            None => Ok(()),
        }
    }

    fn cached(self) -> Result<Prepared, Error> {
        self.refuse_others(&CACHED, &GENERATORS)?;
        let given = &self.given;
        let power = given.number(&rows::BOOST_POWER).and_then(|power| power.try_into().ok());
        CachedUidGenerator::ring_memory(&self.layout(), power.unwrap_or(USUAL_POWER))?;
        let mut builder = self.set_up(CachedUidGenerator::builder())?;
        if let Some(power) = power {
            builder = builder.boost_power(power);
        }
        if let Some(limit) = given.time(&rows::MAX_BORROW) {
            builder = CachedBuilder::max_borrow(builder, limit);
        }
        if let Some(limit) = given.time(&rows::MAX_LAG) {
            builder = builder.max_lag(limit);
        }
        if given.is(&rows::ON_CLOCK_BACK, "new-worker-id") {
            let kind = self.worker_kind();
            if kind != WorkerKind::Disposable {
                return Err(self.unfit(format!(
                    "`on-clock-back=new-worker-id` is for worker=disposable, and not for {}",
                    kind.owner().name
                )));
            }
            builder = builder.on_clock_back(OnClockBack::NewWorkerId);
        }
        let builder = Box::new(builder);
        Ok(match given.is(&rows::ORDER, "per-thread") {
            true => Prepared::PerThread(builder),
            false => Prepared::Cached(builder),
        })
    }

    fn clocked(self, builder: ClockedBuilder) -> Result<Prepared, Error> {
        self.refuse_others(&CLOCKED, &GENERATORS)?;
        Ok(Prepared::Clocked(Box::new(self.set_up(builder)?)))
    }

    fn segment(self) -> Result<Prepared, Error> {
        self.refuse_others(&SEGMENT, &GENERATORS)?;
        self.refuse_workers(&SEGMENT)?;
        let tag = self.given.text(&rows::TAG);
        let tag = tag.ok_or_else(|| self.unfit("generator=segment needs a `tag`"))?;
        check_no_url(tag)?;
        let store = self.store()?;
        Ok(Prepared::Segment(PreparedTag {
            store: store.segment_store()?,
            tag: tag.to_owned(),
            take_policy: self.take_policy(),
            deadline: store.deadline(),
        }))
    }

    fn take_policy(&self) -> Option<TakePolicy> {
        self.given.text(&rows::TAKE).and_then(|text| rows::policy(text).ok())
    }

    /// Sets what all generators with a layout share.
    fn set_up<O>(&self, builder: GeneratorBuilder<O>) -> Result<GeneratorBuilder<O>, Error> {
        let layout = self.layout();
        let mut builder = builder.layout(layout).worker_from(self.worker(layout)?);
        if let Some(name) = self.given.text(&rows::NAMESPACE) {
            builder = builder.namespace(name);
        }
        if let Some(limit) = self.given.time(&rows::MAX_START_WAIT) {
            builder = builder.max_start_wait(limit);
        }
        if let Some(policy) = self.take_policy() {
            builder = builder.take_policy(policy);
        }
        Ok(match self.start_after {
            Some(uid) => builder.start_after(uid),
            None => builder,
        })
    }

    fn worker(&self, layout: Layout) -> Result<Box<dyn WorkerSource + Send>, Error> {
        let kind = self.worker_kind();
        self.refuse_workers(kind.owner())?;
        if let Some(worker) = self.worker {
            worker.check(layout).map_err(|problem| self.unfit(problem))?;
            if self.start_after.is_none() {
                log!(
                    warn,
                    "a worker id of your own choice has no memory: another process with it, and another run within one tick, \
                     after a long borrow or after the clock was set back, repeat uids; set `start-after` to the greatest \
                     uid so far, or use a store"
                );
            }
            return Ok(Box::new(FixedWorkerId(worker.id)));
        }
        worker::source(kind, &*self.store()?, &self.given, layout)
            .map_err(|error| self.placed(error))
    }

    /// Refuses options of other kinds of worker ids, and `start_after` unless the URL is `worker:N`.
    fn refuse_workers(&self, chosen: &Owner) -> Result<(), Error> {
        self.refuse_others(chosen, &rows::WORKERS)?;
        if self.start_after.is_some() && self.worker.is_none() {
            let what = if chosen.name == SEGMENT.name { "a tag" } else { "a store" };
            return Err(self.unfit(format!(
                "--start-after and start_after are for worker:N: {what} knows what was issued"
            )));
        }
        // The engine has this option, but only for disposable worker ids.
        let compares = [&LEASED, &ORDINAL, &SEGMENT].iter().all(|owner| owner.name != chosen.name);
        match self.given.text(&MAX_CLOCK_DIFFERENCE) {
            Some(_) if !compares => Err(self.unfit(format!(
                "`max-clock-difference` is for worker=disposable, and not for {}",
                chosen.name
            ))),
            _ => Ok(()),
        }
    }

    fn refuse_others(&self, chosen: &Owner, owners: &[&Owner]) -> Result<(), Error> {
        self.given.refuse_others(chosen, owners).map_err(|problem| self.unfit(problem))
    }

    /// Returns the error of options that contradict each other, or do not fit their purpose.
    fn unfit(&self, problem: impl Into<String>) -> Error {
        ServerError::Options { problem: problem.into(), place: self.place.clone() }.into()
    }

    /// Adds where a URL was found to an engine's error.
    fn placed(&self, error: Error) -> Error {
        match error.store() {
            Some(ServerError::Address { problem, form, .. }) => {
                address(form, &self.place, problem.clone())
            }
            _ => error,
        }
    }
}

fn address(form: &'static str, place: &str, problem: String) -> Error {
    ServerError::Address { what: "the URL", place: place.into(), form, problem }.into()
}
