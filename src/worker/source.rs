//! Where the worker ids of generators come from.

use std::env;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::Worker;
use crate::error::Error;
use crate::layout::Layout;
use crate::sync::{Life, unlocked};

/// Hands out the worker id of a generator that is about to start.
///
/// A builder asks it once, when all that it was given has been checked, so that nothing is spent for a
/// generator that cannot start. What may still fail then is the system: a thread or memory that is not to
/// be had.
///
/// A source may panic, which unwinds through the builder, and may fork: the child gets
/// [`Error::Forked`].
///
/// ```
/// use uidring::{CachedUidGenerator, Layout};
/// use uidring::worker::FixedWorkerId;
///
/// let generator = CachedUidGenerator::builder()
///     .layout(Layout::SNOWFLAKE)
///     .worker_from(FixedWorkerId(1_023))
///     .build()?;
/// println!("{}", generator.next_uid()?);
///
/// let too_large = CachedUidGenerator::builder().layout(Layout::SNOWFLAKE);
/// assert!(too_large.worker_from(FixedWorkerId(1_024)).build().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait WorkerSource {
    /// Acquires a worker id that nobody else uses with the layout of the request.
    ///
    /// It may block, for as long as the source says.
    ///
    /// # Errors
    ///
    /// [`Error::WorkerIdOutOfRange`] where the id does not fit the layout, and the source's own
    /// errors. There is no id that stands for a failure.
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error>;
}

impl<S: WorkerSource + ?Sized> WorkerSource for &S {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        (**self).acquire(request)
    }
}

impl<S: WorkerSource + ?Sized> WorkerSource for Box<S> {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        (**self).acquire(request)
    }
}

impl<S: WorkerSource + ?Sized> WorkerSource for Arc<S> {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        (**self).acquire(request)
    }
}

/// What a generator needs of its worker id. Builders fill it in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerRequest {
    /// The layout of the uids.
    pub layout: Layout,
    /// How far ahead of the clock the generator issues if the worker id is leased, so that it can go on
    /// above what earlier holders have issued up to that. Zero for one on the clock.
    pub max_ahead: Duration,
}

impl WorkerRequest {
    /// A worker id for a generator with this layout that issues nothing ahead of the clock.
    pub fn new(layout: Layout) -> Self {
        Self { layout, max_ahead: Duration::ZERO }
    }

    /// Sets [`max_ahead`](Self::max_ahead).
    #[must_use]
    pub fn with_max_ahead(mut self, limit: Duration) -> Self {
        self.max_ahead = limit;
        self
    }
}

impl From<Layout> for WorkerRequest {
    fn from(layout: Layout) -> Self {
        Self::new(layout)
    }
}

/// The same worker id every time; it is up to the caller that nobody else has it, and that a new
/// start is [above](crate::generator::CachedBuilder::start_after) what was issued before.
#[derive(Clone, Copy, Debug)]
pub struct FixedWorkerId(pub u64);

impl WorkerSource for FixedWorkerId {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        request.layout.check_worker_id(self.0)?;
        Ok(self.0.into())
    }
}

/// The worker id in the environment variable `UIDRING_WORKER_ID`; otherwise like
/// [`FixedWorkerId`].
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvWorkerId;

impl EnvWorkerId {
    /// The variable's name.
    pub const VARIABLE: &'static str = "UIDRING_WORKER_ID";

    /// Whether the variable is there at all.
    pub fn is_set() -> bool {
        env::var_os(Self::VARIABLE).is_some()
    }
}

impl WorkerSource for EnvWorkerId {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        let wrong = |problem| Error::WorkerIdVariable { variable: Self::VARIABLE, problem };
        let Some(value) = env::var_os(Self::VARIABLE) else {
            return Err(wrong("is not set".into()));
        };
        let value = value.to_string_lossy();
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        let worker_id = value.parse().ok().filter(|_| digits);
        let worker_id = worker_id.ok_or_else(|| {
            // One with a password, it may be.
            let is_url = value.contains("://");
            wrong(if is_url { "holds a URL".into() } else { format!("holds `{value}`") })
        })?;
        FixedWorkerId(worker_id).acquire(request)
    }
}

fn check(life: &Life) -> Result<(), Error> {
    if life.is_forked() { Err(Error::Forked { what: "worker id" }) } else { Ok(()) }
}

/// What a builder was given: a worker, or a source to ask for one.
pub(crate) enum WorkerChoice {
    Given(Worker),
    From(Box<dyn WorkerSource + Send>),
}

/// Asks a source, which is the caller's code and may fork: what it gives a child is the parent's as well,
/// and so is the source; both are left alone. `life` is older than whatever ran before, such as a clock.
pub(crate) fn acquire(
    source: Box<dyn WorkerSource + Send>,
    request: &WorkerRequest,
    life: &Life,
) -> Result<Worker, Error> {
    check(life)?;
    unlocked();
    let worker = source.acquire(request);
    if let Err(error) = check(life) {
        mem::forget((worker, source));
        return Err(error);
    }
    // That is the caller's code as well.
    drop(source);
    if let Err(error) = check(life) {
        mem::forget(worker);
        return Err(error);
    }
    worker
}

impl fmt::Debug for WorkerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(worker) => worker.fmt(f),
            Self::From(_) => f.write_str("a source"),
        }
    }
}
