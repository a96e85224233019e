//! Gets a new worker id for a generator whose clock went back.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::worker_ring::{Plan, WorkerRing};
use crate::clock::Deadline;
use crate::error::{Chain, Error};
use crate::generator::start::{StartRequest, prepare};
use crate::generator::step_back::BOUND;
use crate::sync::{ForkGuarded, ForkToken, Forked, NoBlockScope, contained, log};
use crate::worker::{Worker, WorkerChoice, WorkerRequest, WorkerSource};

/// What a generator does if its clock goes back by 60 s or more, for example at the end of a glitch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnClockBack {
    /// Keeps the worker id. Uids stay in order, and ahead of the clock until it has caught up.
    #[default]
    StayAhead,
    /// Asks the source for another worker id and continues with it at the clock's time. Uids stay unique, but may be
    /// below earlier ones.
    NewWorkerId,
}

/// Gets a new worker id when the clock has gone back. It has its own thread, because the source may block.
pub(super) struct NewWorker {
    plan: Plan,
    namespace: String,
    source: Arc<KeptSource>,
    state: ForkGuarded<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The ring that the generator takes from. `None` before it is built and after it is closed.
    current: Option<Arc<WorkerRing>>,
    is_asking: bool,
    /// The source is not asked again before this.
    pause: Option<Deadline>,
    /// How many worker ids it has given after the first.
    moves: u32,
}

/// The shortest time between two requests to the source.
const PAUSE: Duration =
    if cfg!(test) { Duration::from_millis(10) } else { Duration::from_secs(10) };

const LONGEST_PAUSE: Duration = if cfg!(test) { PAUSE } else { Duration::from_secs(3_600) };

/// Doubles with each new worker id. A clock that goes back and forth must neither use up the worker ids, nor make so
/// many rings that takes get slow.
fn pause_after(moves: u32, longest: Duration) -> Duration {
    PAUSE.saturating_mul(2_u32.saturating_pow(moves)).min(longest)
}

impl NewWorker {
    pub(super) fn new(
        plan: Plan,
        namespace: String,
        source: Arc<KeptSource>,
        life: ForkToken,
    ) -> Self {
        Self { plan, namespace, source, state: ForkGuarded::new(life, State::default()) }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns what the padder calls when the clock has gone back. Does nothing once the generator is gone.
    pub(super) fn hook(self: &Arc<Self>) -> Box<dyn Fn() + Send> {
        let this = Arc::downgrade(self);
        Box::new(move || {
            if let Some(this) = this.upgrade() {
                this.ask();
            }
        })
    }

    pub(super) fn begin_with(&self, ring: &Arc<WorkerRing>) -> Result<(), Forked> {
        self.state.lock()?.current = Some(Arc::clone(ring));
        Ok(())
    }

    /// Called when the generator closes. No ring is added after this returns.
    pub(super) fn stop(&self) {
        let current = self.state.lock().map(|mut state| state.current.take());
        drop(current);
    }

    /// Asks for a worker id, unless a request is running or was made shortly before.
    fn ask(self: &Arc<Self>) {
        {
            let Ok(mut state) = self.state.lock() else { return };
            let Some(current) = &state.current else { return };
            // A thread may still be padding a ring that has ended meanwhile.
            let is_behind = current.progress.clock_behind() >= BOUND;
            let is_early = state.pause.is_some_and(|pause| !pause.is_over());
            if state.is_asking || !is_behind || is_early {
                return;
            }
            state.is_asking = true;
            state.pause = Some(Deadline::after(Some(pause_after(state.moves, LONGEST_PAUSE))));
        }
        let this = Arc::clone(self);
        let thread = thread::Builder::new().name("uidring-worker".into());
        if let Err(error) = thread.spawn(move || this.go_on_with_next()) {
            self.finish(Err(Error::thread("thread that asks for a worker id", error)));
        }
    }

    fn go_on_with_next(self: Arc<Self>) {
        // Takers may wait for the new ring. A source that takes from the generator would wait for itself.
        let scope = NoBlockScope::begin();
        let next = contained(|| self.start_next()).unwrap_or(Err(Error::CallPanicked));
        if self.state.is_forked() {
            // The source may have forked. In the child, the worker id and the ring are the parent's.
            return mem::forget((next, self));
        }
        drop(scope);
        self.finish(next);
        contained(|| drop(self));
    }

    fn start_next(self: &Arc<Self>) -> Result<Arc<WorkerRing>, Error> {
        let mut request = StartRequest::new(self.plan.layout);
        request.worker = Some(WorkerChoice::From(Box::new(Arc::clone(&self.source))));
        request.namespace.clone_from(&self.namespace);
        // A worker id that was used ahead of the clock does not help.
        request.max_start_wait = Some(Duration::ZERO);
        let start = prepare(request, &*self.plan.clock)?;
        let (ring, _) = self.plan.start(start, Some(self.hook()))?;
        Ok(Arc::new(ring))
    }

    fn finish(&self, next: Result<Arc<WorkerRing>, Error>) {
        let next = match next {
            Ok(next) => next,
            Err(error) => {
                if let Ok(mut state) = self.state.lock() {
                    state.is_asking = false;
                }
                return log!(
                    warn,
                    "no new worker id after the clock went back: {}; uids stay ahead of the clock, and it is tried \
                     again",
                    Chain(&error)
                );
            }
        };
        let worker_id = next.worker_id;
        let Ok(mut state) = self.state.lock() else { return mem::forget(next) };
        state.is_asking = false;
        // If the generator was closed meanwhile, nobody takes from the new ring.
        let Some(current) = &mut state.current else {
            drop(state);
            return drop(next);
        };
        let left = mem::replace(current, Arc::clone(&next));
        state.moves = state.moves.saturating_add(1);
        // Link the new ring before ending the old one: a taker that finds the old one ended must find the next. Link it
        // under the lock, so that a close finds it, too.
        left.go_on_with(next);
        drop(state);
        left.end();
        log!(
            warn,
            "after the clock went back, uids go on at its time with worker id {worker_id}; worker id {} is not used \
             any more",
            left.worker_id
        );
    }
}

impl fmt::Debug for NewWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewWorker").field("plan", &self.plan).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(uidring_loom)))]
#[path = "new_worker_tests.rs"]
mod tests;

/// A source that can be asked repeatedly, by one thread at a time.
pub(super) struct KeptSource(ForkGuarded<Option<Box<dyn WorkerSource + Send>>>);

impl KeptSource {
    pub(super) fn new(source: Box<dyn WorkerSource + Send>, life: ForkToken) -> Self {
        Self(ForkGuarded::new(life, Some(source)))
    }
}

/// The source is user code, so it is taken out meanwhile and no lock is held.
impl WorkerSource for KeptSource {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        let forked = |Forked| Error::Forked { what: "worker id" };
        let source = self.0.lock().map_err(forked)?.take().ok_or(Error::NoWorkerId)?;
        let worker = contained(|| source.acquire(request)).unwrap_or(Err(Error::CallPanicked));
        match self.0.lock() {
            Ok(mut kept) => *kept = Some(source),
            Err(error) => {
                mem::forget((source, worker));
                return Err(forked(error));
            }
        }
        worker
    }
}
