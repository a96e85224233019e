//! Settings that all generators with a layout share.

use std::time::Duration;

use super::clocked::SequenceStart;
use super::start::StartRequest;
use crate::layout::Layout;
use crate::policy::TakePolicy;
use crate::uid::Uid;
use crate::worker::{Worker, WorkerChoice, WorkerSource};

/// Settings of a [`CachedUidGenerator`](crate::CachedUidGenerator) or
/// [`ClockedUidGenerator`](crate::ClockedUidGenerator); `build` checks all of them. `O` has those of its kind.
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

    /// Sets how the uids are made up.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.start.layout = layout;
        self
    }

    /// Sets the worker id in all of the uids, which nobody else may use with this layout, ever. It has
    /// to be set, or [`worker_from`](Self::worker_from) a source that hands out worker ids.
    #[must_use]
    pub fn worker_id(self, worker_id: u64) -> Self {
        self.worker(worker_id)
    }

    /// Sets the worker: an id as for [`worker_id`](Self::worker_id), or a [`Lease`](crate::worker::Lease).
    ///
    /// With a lease the generator goes on above what earlier holders may have issued. A cached generator may be
    /// ahead of the clock by [`max_borrow`](crate::generator::CachedBuilder::max_borrow) then, 10 minutes if not set, and every take gets
    /// [`TakeError::LeaseLost`](crate::TakeError::LeaseLost) once the padder has seen that the lease is lost. A
    /// generator on the clock waits in `build` until the clock has passed what earlier holders may have issued,
    /// for at most [`max_start_wait`](Self::max_start_wait), and takes get that error once a new tick has come
    /// and the lease is lost.
    #[must_use]
    pub fn worker(mut self, worker: impl Into<Worker>) -> Self {
        self.start.worker = Some(WorkerChoice::Given(worker.into()));
        self
    }

    /// Sets the source of the worker id, such as a table. `build` asks it when everything else has been checked,
    /// and blocks meanwhile.
    ///
    /// From a lease the generator goes on as [`worker`](Self::worker) says.
    #[must_use]
    pub fn worker_from(mut self, source: impl WorkerSource + Send + 'static) -> Self {
        self.start.worker = Some(WorkerChoice::From(Box::new(source)));
        self
    }

    /// Sets the namespace of the uids: those that must differ from each other. If not set, or empty, it is one
    /// that all generators of the layout share.
    ///
    /// In one process no two live generators of a namespace and layout have the same worker id: the second
    /// one is refused with [`Error::WorkerIdInUse`](crate::Error::WorkerIdInUse), and a later one starts above what
    /// earlier ones have issued, whatever the clock says. A namespace with a name has one layout, that of the first
    /// generator that was built in it; another one is refused with
    /// [`Error::NamespaceLayout`](crate::Error::NamespaceLayout). Give generators whose uids are never compared,
    /// such as those of two tables, a namespace each; docs/worker-ids.md says more.
    #[must_use]
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.start.namespace = name.into();
        self
    }

    /// Goes on above this uid, the greatest that was issued before with this worker id and layout, whatever the
    /// clock says. On the clock, `build` waits until the clock has reached it, for at most
    /// [`max_start_wait`](Self::max_start_wait).
    ///
    /// A worker id that is set by hand has no memory: without this, a second start within one tick of the first,
    /// after the clock was set back, or after the first had borrowed ticks of the future, would repeat uids.
    #[must_use]
    pub fn start_after(mut self, uid: Uid) -> Self {
        self.start.after = Some(uid);
        self
    }

    /// Sets how long `build` waits for the clock where the generator would start further ahead of it than it may
    /// be, which is [`max_borrow`](crate::generator::CachedBuilder::max_borrow), or not at all on the clock: above what earlier holders of a
    /// lease, an earlier generator of this process, or whoever issued the uid of
    /// [`start_after`](Self::start_after) may have issued. A start that would take longer fails at once with
    /// [`Error::UsedAhead`](crate::Error::UsedAhead). The first renewal of a lease is tried again for as long.
    ///
    /// If not set, it is 30 s, or with a lease what a holder that was killed has reserved if that is more
    /// ([`LeaseTerms::start_wait`]): so a service that is started again after a crash waits, and does not
    /// fail again and again.
    ///
    /// [`LeaseTerms::start_wait`]: crate::worker::LeaseTerms::start_wait
    #[must_use]
    pub fn max_start_wait(mut self, limit: Duration) -> Self {
        self.start.max_start_wait = Some(limit);
        self
    }

    /// Sets where the sequence starts: on the clock, in each new tick; with a ring, in the first tick, and in a
    /// tick before which uids were discarded. Uids of that tick below it are passed over. In all other ticks of a
    /// ring the sequence starts at 0.
    ///
    /// With a ring, [`SequenceStart::Spread`] if not set, so that the low bits of uids are even at low rates, too,
    /// where each tick gives only a few; [`SequenceStart::Zero`] would give each of them the same low bits.
    /// docs/inside-time.md has the figures.
    #[must_use]
    pub fn sequence_start(mut self, start: SequenceStart) -> Self {
        self.sequence_start = start;
        self
    }

    /// Sets what a take does when nothing is ready, on the clock when the tick's uids are used up; it waits if not
    /// set.
    #[must_use]
    pub fn take_policy(mut self, policy: TakePolicy) -> Self {
        self.take_policy = policy;
        self
    }
}
