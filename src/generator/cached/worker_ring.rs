//! The ring of one worker id. A generator has one, and gets another with each new worker id after its clock went back.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Error, TakeError};
use crate::generator::position::Position;
use crate::generator::register::Registration;
use crate::generator::start::Start;
use crate::generator::ticks::{Bounds, PaddingProgress, TickRuns};
use crate::layout::Layout;
use crate::padding::{Padder, RingHandle};
use crate::ring::{RingBuffer, RingOptions, RingStats, RunStart};
use crate::sync::log;
use crate::uid::Uid;
use crate::worker::{LeaseHandle, WorkerRequest};

/// What the rings of a generator have in common.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    pub(super) options: RingOptions,
    pub(super) schedule: Option<Duration>,
    /// As set in the builder.
    pub(super) max_borrow: Option<Option<Duration>>,
    pub(super) bounds: Bounds,
    pub(super) tick_start: RunStart,
    pub(super) padder: Padder,
    pub(super) clock: Arc<dyn Clock>,
}

impl Plan {
    /// Starts a worker id's ring and its padding. The hook asks for another worker id; it is only for disposable ones.
    pub(super) fn start(
        &self,
        mut start: Start,
        on_clock_back: Option<Box<dyn Fn() + Send>>,
    ) -> Result<(WorkerRing, Option<LeaseHandle>), Error> {
        let Self { layout, options, schedule, tick_start, padder, clock, .. } = self;
        let mut bounds = self.bounds;
        if start.is_leased() && on_clock_back.is_some() {
            return Err(Error::NoNewWorkerId { found: "the source gave a lease" });
        }
        let unset = || start.is_leased().then_some(WorkerRequest::USUAL_MAX_AHEAD);
        bounds.max_borrow = self.max_borrow.unwrap_or_else(unset);
        let (lease, issue_horizon) = start.begin(layout, &**clock)?;
        // Dropped before the lease if the rest fails: once the lease is given back, somebody else may have it.
        let Start { worker_id, mut position, registration, .. } = start;
        if position.sequence == 0 {
            position.sequence = tick_start.first();
        }
        let theirs = Arc::clone(clock);
        let mut source = TickRuns::new(*layout, worker_id, theirs, position, bounds, issue_horizon);
        if let Some(hook) = on_clock_back {
            source.on_clock_back(hook);
        }
        let progress = Arc::clone(source.progress());
        let padding = padder.serve(options.clone(), source, *schedule)?;
        let ring = Arc::clone(padding.ring());
        log!(
            info,
            worker_id,
            layout = %layout.bits(),
            capacity = ring.capacity(),
            last_instant = %layout.last_instant(),
            "generator started"
        );
        // Confirm after everything that runs user code, the log included.
        registration.confirm()?;
        let (layout, max_borrow) = (*layout, bounds.max_borrow);
        let next = OnceLock::new();
        let ring = WorkerRing {
            worker_id,
            layout,
            ring,
            padding,
            registration,
            max_borrow,
            progress,
            next,
        };
        Ok((ring, lease))
    }
}

#[derive(Debug)]
pub(super) struct WorkerRing {
    pub(super) worker_id: u64,
    layout: Layout,
    pub(super) ring: Arc<RingBuffer>,
    pub(super) padding: RingHandle,
    registration: Registration,
    pub(super) max_borrow: Option<Duration>,
    pub(super) progress: Arc<PaddingProgress>,
    /// The ring of the generator's next worker id. Set before this ring ends.
    next: OnceLock<Arc<WorkerRing>>,
}

impl WorkerRing {
    pub(super) fn next(&self) -> Option<&WorkerRing> {
        self.next.get().map(|next| &**next)
    }

    /// Lets the generator continue with `next`. Called at most once.
    pub(super) fn go_on_with(&self, next: Arc<WorkerRing>) {
        let _ = self.next.set(next);
    }

    /// Helps the padder if the ring was dry, and tries once more.
    #[cold]
    pub(super) fn help_and_try<T>(
        &self,
        error: TakeError,
        again: impl FnOnce(&RingBuffer) -> Result<T, TakeError>,
    ) -> Result<T, TakeError> {
        let error = if error == TakeError::Empty && self.padding.help() {
            match again(&self.ring) {
                Err(error) => error,
                done => return done,
            }
        } else if self.ring.is_forked() {
            // Padding reads the clock, which may have forked.
            TakeError::Forked
        } else {
            error
        };
        match self.max_borrow {
            Some(limit)
                if error == TakeError::Empty
                    && self.ring.is_source_paused()
                    && self.progress.is_too_far_ahead() =>
            {
                let lead = self.progress.lead().into();
                Err(TakeError::BorrowLimit { lead, limit: limit.into() })
            }
            _ => Err(error),
        }
    }

    /// Pads a little after many uids were taken at once. Waking the padder is a system call, which takes longer than
    /// the padding.
    ///
    /// Padding reads the clock, which may fork. Then what was taken before is not the child's.
    pub(super) fn keep_up(&self) -> Result<(), TakeError> {
        if self.ring.is_low() {
            self.padding.help();
            if self.ring.is_forked() {
                return Err(TakeError::Forked);
            }
            // It may not have been enough, or another thread was padding.
            self.ring.wake_if_low();
        }
        Ok(())
    }

    /// Ends the ring and frees the worker id in this process. Returns the last uid that counts as issued.
    pub(super) fn end(&self) -> Option<Uid> {
        let last = self.padding.end().and_then(|issued| self.last_below(issued));
        self.registration.release(last);
        last
    }

    pub(super) fn last_below(&self, number: u64) -> Option<Uid> {
        let last = Uid::from_layout(number.checked_sub(1)?);
        match self.layout.decode(last) {
            Ok(fields) if fields.worker_id == self.worker_id => Some(last),
            // The number is the first of a tick.
            _ => {
                let next = self.layout.decode(Uid::from_layout(number)).ok()?;
                let next = Position { tick: next.tick, sequence: next.sequence };
                next.before(&self.layout, self.worker_id)
            }
        }
    }

    /// Returns the sum of the statistics of the rings from `first` to this one.
    pub(super) fn stats_since(&self, first: &Self) -> RingStats {
        let mut stats = self.ring.stats();
        let mut earlier = first;
        while let (false, Some(next)) = (std::ptr::eq(earlier, self), earlier.next()) {
            stats.add_earlier(&earlier.ring.stats());
            earlier = next;
        }
        stats
    }
}
