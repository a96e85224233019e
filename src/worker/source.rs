//! The sources of worker ids.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::{LeaseTerms, Worker};
use crate::error::Error;
use crate::future;
use crate::layout::Layout;
use crate::sync::{ForkToken, assert_no_lock_held};

/// Hands out the worker id of a generator that is about to start.
///
/// A builder asks it once, after checking all settings, so that wrong settings cost no worker id. The build can still
/// fail later: another generator of this process may have the worker id, `start_after` or the lease may not fit, or a
/// thread or memory may be unavailable.
///
/// A source may panic, which unwinds through the builder. If it forks, the child gets [`Error::Forked`].
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
/// # Ok::<(), uidring::Error>(())
/// ```
pub trait WorkerSource {
    /// Acquires a worker id that nobody else uses with the request's layout. May block; the source documents for how
    /// long.
    ///
    /// # Errors
    ///
    /// [`Error::WorkerIdOutOfRange`] if the id does not fit the layout, and the source's own errors. No id stands for a
    /// failure.
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error>;

    /// Returns whether every request gets the same worker id. Such a source cannot replace it if the clock is set back.
    fn is_fixed(&self) -> bool {
        false
    }

    /// Async [`acquire`](Self::acquire). It runs in its own thread.
    ///
    /// If the future is dropped early, the worker is dropped once acquired, which gives back a lease. The builders'
    /// `build_async` includes this call.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). Also [`Error::Thread`] if no thread can be started, and [`Error::CallPanicked`]
    /// if the source panics.
    fn acquire_async(
        self,
        request: WorkerRequest,
    ) -> impl Future<Output = Result<Worker, Error>> + Send
    where
        Self: Sized + Send + 'static,
    {
        future::in_own_thread(move || self.acquire(&request))
    }
}

impl<S: WorkerSource + ?Sized> WorkerSource for &S {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        (**self).acquire(request)
    }

    fn is_fixed(&self) -> bool {
        (**self).is_fixed()
    }
}

impl<S: WorkerSource + ?Sized> WorkerSource for Box<S> {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        (**self).acquire(request)
    }

    fn is_fixed(&self) -> bool {
        (**self).is_fixed()
    }
}

impl<S: WorkerSource + ?Sized> WorkerSource for Arc<S> {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        (**self).acquire(request)
    }

    fn is_fixed(&self) -> bool {
        (**self).is_fixed()
    }
}

/// What a generator needs from its worker id. Builders fill it in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerRequest {
    /// The layout of the uids.
    pub layout: Layout,
    /// How far ahead of the clock the generator may issue with a leased worker id. Zero for a clock-driven generator.
    pub max_ahead: Duration,
    /// How long the start may wait for the clock to pass what earlier holders issued. `None` is
    /// [`LeaseTerms::start_wait`].
    pub max_start_wait: Option<Duration>,
}

impl WorkerRequest {
    /// How far ahead of the clock a cached generator may issue with a leased worker id if `max_borrow` is not set. The next
    /// holder has to start above that.
    pub const USUAL_MAX_AHEAD: Duration = Duration::from_secs(600);

    /// Returns the request of a generator with this layout that issues nothing ahead of the clock.
    pub fn new(layout: Layout) -> Self {
        Self { layout, max_ahead: Duration::ZERO, max_start_wait: None }
    }

    /// Sets [`max_ahead`](Self::max_ahead).
    #[must_use]
    pub fn with_max_ahead(mut self, limit: Duration) -> Self {
        self.max_ahead = limit;
        self
    }

    /// Sets [`max_start_wait`](Self::max_start_wait).
    #[must_use]
    pub fn with_max_start_wait(mut self, limit: Duration) -> Self {
        self.max_start_wait = Some(limit);
        self
    }

    /// Returns how far ahead of the clock a worker id may have been used, so that the generator can still start with it
    /// under a lease with these terms.
    pub fn max_used_ahead(&self, terms: &LeaseTerms) -> Duration {
        let wait = self.max_start_wait.unwrap_or_else(|| terms.start_wait(&self.layout));
        self.max_ahead.saturating_add(wait)
    }
}

impl From<Layout> for WorkerRequest {
    fn from(layout: Layout) -> Self {
        Self::new(layout)
    }
}

/// Always the same worker id. You must ensure that nobody else has it, and that a new generator starts
/// [above](crate::generator::CachedBuilder::start_after) what was issued before.
#[derive(Clone, Copy, Debug)]
pub struct FixedWorkerId(pub u64);

impl WorkerSource for FixedWorkerId {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        request.layout.check_worker_id(self.0)?;
        Ok(self.0.into())
    }

    fn is_fixed(&self) -> bool {
        true
    }
}

fn check(life: ForkToken) -> Result<(), Error> {
    if life.is_forked_child() { Err(Error::Forked { what: "worker id" }) } else { Ok(()) }
}

/// What a builder was given: a worker, or a source.
pub(crate) enum WorkerChoice {
    Given(Worker),
    From(Box<dyn WorkerSource + Send>),
}

/// Asks a source, which is user code and may fork. In a child, the source and what it returns are the parent's, and are
/// left alone. `life` must be older than any other user code, such as a clock.
pub(crate) fn acquire(
    source: Box<dyn WorkerSource + Send>,
    request: &WorkerRequest,
    life: ForkToken,
) -> Result<Worker, Error> {
    check(life)?;
    assert_no_lock_held();
    let worker = source.acquire(request);
    if let Err(error) = check(life) {
        mem::forget((worker, source));
        return Err(error);
    }
    // Dropping it runs user code, too.
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
