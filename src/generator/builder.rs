//! Settings common to all generators with a layout.

use std::time::Duration;

use super::clocked::SequenceStart;
use super::start::StartRequest;
use crate::layout::Layout;
use crate::policy::TakePolicy;
use crate::uid::Uid;
use crate::worker::{Worker, WorkerChoice, WorkerSource};

/// Settings of a [`CachedUidGenerator`](crate::CachedUidGenerator) or
/// [`ClockedUidGenerator`](crate::ClockedUidGenerator); `build` checks all of them. `O` holds the settings of one kind.
#[derive(Debug)]
pub struct GeneratorBuilder<O> {
    pub(super) start: StartRequest,
    pub(super) sequence_start: SequenceStart,
    pub(super) take_policy: TakePolicy,
    pub(super) own: O,
}

impl<O> GeneratorBuilder<O> {
    pub(super) fn new(layout: Layout, sequence_start: SequenceStart, own: O) -> Self {
        let (start, take_policy) = (StartRequest::new(layout), TakePolicy::default());
        Self { start, sequence_start, take_policy, own }
    }

    /// Sets the layout of the uids.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.start.layout = layout;
        self
    }

    /// Sets the worker id of all uids. Nobody else may ever use it with this layout. You must set it, or a source of
    /// worker ids with [`worker_from`](Self::worker_from); of several, the last one set counts.
    #[must_use]
    pub fn worker_id(self, worker_id: u64) -> Self {
        self.worker(worker_id)
    }

    /// Sets the worker: an id, as [`worker_id`](Self::worker_id) does, or a [`Lease`](crate::worker::Lease).
    ///
    /// With a lease, the generator starts above what earlier holders may have issued:
    ///
    /// - A cached generator may be ahead of the clock by [`max_borrow`](crate::generator::CachedBuilder::max_borrow),
    ///   10 minutes if not set. Takes fail with [`TakeError::LeaseLost`](crate::TakeError::LeaseLost) once the padder
    ///   sees that the lease is lost.
    /// - A clock-driven generator waits in `build` until the clock has passed what earlier holders may have issued, for
    ///   at most [`max_start_wait`](Self::max_start_wait). If the lease is lost, takes fail with the same error from
    ///   the next tick on.
    #[must_use]
    pub fn worker(mut self, worker: impl Into<Worker>) -> Self {
        self.start.worker = Some(WorkerChoice::Given(worker.into()));
        self
    }

    /// Sets the source of the worker id, such as a table. `build` asks it after all other checks, and blocks meanwhile.
    /// A lease works as in [`worker`](Self::worker).
    #[must_use]
    pub fn worker_from(mut self, source: impl WorkerSource + Send + 'static) -> Self {
        self.start.worker = Some(WorkerChoice::From(Box::new(source)));
        self
    }

    /// Sets the namespace: the set of uids that must differ from each other. If not set, or empty, all generators of
    /// the layout share one.
    ///
    /// In one process, no two live generators of a namespace and layout have the same worker id. The second fails with
    /// [`Error::WorkerIdInUse`](crate::Error::WorkerIdInUse). A later one starts above what earlier ones issued,
    /// whatever the clock says. A named namespace keeps the layout of the first generator built in it; another layout
    /// fails with [`Error::NamespaceLayout`](crate::Error::NamespaceLayout). Give generators whose uids are never
    /// compared, such as those of two tables, a namespace each. See docs/in-process.md.
    #[must_use]
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.start.namespace = name.into();
        self
    }

    /// Starts above this uid, the greatest that was issued with this worker id and layout, whatever the clock says. A
    /// clock-driven generator waits in `build` until the clock has reached it, for at most
    /// [`max_start_wait`](Self::max_start_wait).
    ///
    /// A worker id set by hand has no memory. Without this setting, a second start repeats uids if it comes within a
    /// tick of the first, after the clock was set back, or after the first borrowed future ticks.
    #[must_use]
    pub fn start_after(mut self, uid: Uid) -> Self {
        self.start.after = Some(uid);
        self
    }

    /// Sets how long `build` may wait for the clock. It waits if a cached generator would start ahead of the clock by
    /// more than [`max_borrow`](crate::generator::CachedBuilder::max_borrow), or a clock-driven one at all, because
    /// they start above uids issued earlier: by holders of the lease, by a generator of this process, or up to
    /// [`start_after`](Self::start_after). If the wait would be longer, the build fails at once with
    /// [`Error::UsedAhead`](crate::Error::UsedAhead). The first renewal of a lease is retried for as long.
    ///
    /// The default is 30 s, or with a lease what a killed holder has reserved if that is more
    /// ([`LeaseTerms::start_wait`]). So a service that restarts after a crash waits instead of failing repeatedly.
    ///
    /// [`LeaseTerms::start_wait`]: crate::worker::LeaseTerms::start_wait
    #[must_use]
    pub fn max_start_wait(mut self, limit: Duration) -> Self {
        self.start.max_start_wait = Some(limit);
        self
    }

    /// Sets where the sequence starts: in each new tick of a clock-driven generator; with a ring, in the first tick and
    /// in a tick before which uids were discarded. Uids below the start are skipped. In all other ticks of a ring it
    /// starts at 0.
    ///
    /// A ring's default is [`SequenceStart::Spread`]. It spreads the low bits evenly at low rates, too, where each tick
    /// gives only a few uids; with [`SequenceStart::Zero`] these would all have the same low bits. See docs/inside-time.md.
    #[must_use]
    pub fn sequence_start(mut self, start: SequenceStart) -> Self {
        self.sequence_start = start;
        self
    }

    /// Sets what a take does if nothing is ready, or the tick's uids are used up. It waits if not set.
    #[must_use]
    pub fn take_policy(mut self, policy: TakePolicy) -> Self {
        self.take_policy = policy;
        self
    }
}
