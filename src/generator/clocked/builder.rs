//! Settings of the generators on the clock.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::{ClockPolicy, ClockedUidGenerator, SequenceStart};
use crate::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::future;
use crate::generator::start::{Start, StartRequest, has_room_for_draws, prepare};
use crate::layout::Layout;
use crate::policy::TakePolicy;
use crate::sync::{Event, WipeOnForkMemory};
use crate::uid::Uid;
use crate::worker::{Worker, WorkerChoice, WorkerSource};

/// Settings of a [`ClockedUidGenerator`]; [`build`](Self::build) checks all of them.
#[derive(Debug)]
pub struct ClockedBuilder<C = SystemClock> {
    start: StartRequest,
    sequence_start: SequenceStart,
    clock_policy: ClockPolicy,
    take_policy: TakePolicy,
    clock: C,
}

impl ClockedUidGenerator {
    /// Returns a builder that starts from Baidu's `DefaultUidGenerator`, which needs no lock here: 28/22/13 in
    /// seconds, each second's sequence from 0. When the clock went back, it refuses with
    /// [`TakeError::ClockBackwards`](crate::TakeError::ClockBackwards) until the clock has caught up.
    pub fn builder() -> ClockedBuilder {
        ClockedBuilder {
            start: StartRequest::new(Layout::UID_GENERATOR),
            sequence_start: SequenceStart::Zero,
            clock_policy: ClockPolicy::Refuse,
            take_policy: TakePolicy::default(),
            clock: SystemClock,
        }
    }

    /// Returns a builder that starts from Twitter's Snowflake of 2010: 41 bits of milliseconds since
    /// 2010-11-04T01:42:54.657Z, 5 of a datacenter, 5 of a worker, 12 of a sequence that starts at 0 each
    /// millisecond. When the clock went back, it refuses with
    /// [`TakeError::ClockBackwards`](crate::TakeError::ClockBackwards) until the clock has caught up.
    ///
    /// ```
    /// use uidring::ClockedUidGenerator;
    /// use uidring::generator::SnowflakeNode;
    ///
    /// let node = SnowflakeNode { datacenter_id: 3, worker_id: 17 };
    /// let generator = ClockedUidGenerator::snowflake().worker_from(node).build()?;
    /// let uid = generator.next_uid()?;
    /// assert_eq!(generator.parts(uid)?.node, node);
    /// # Ok::<(), uidring::Error>(())
    /// ```
    pub fn snowflake() -> ClockedBuilder {
        Self::builder().layout(Layout::SNOWFLAKE)
    }

    /// Returns a builder that starts from Meituan's Leaf in snowflake mode: 41/10/12 with Twitter's epoch. Each
    /// millisecond's sequence starts at a random number from 0 to 99, so that uids at a low rate spread over
    /// shards. A clock that is behind by 5 ms or less is waited for.
    ///
    /// ```
    /// use uidring::ClockedUidGenerator;
    ///
    /// let generator = ClockedUidGenerator::leaf_snowflake().worker_id(7).build()?;
    /// assert!(generator.decode(generator.next_uid()?)?.sequence < 100);
    /// # Ok::<(), uidring::Error>(())
    /// ```
    pub fn leaf_snowflake() -> ClockedBuilder {
        Self::snowflake()
            .sequence_start(SequenceStart::RandomBelow(100))
            .clock_policy(ClockPolicy::WaitUpTo(Duration::from_millis(5)))
    }
}

impl<C> ClockedBuilder<C> {
    /// How the uids are made up.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.start.layout = layout;
        self
    }

    /// The worker id in all of the uids, which nobody else may use with this layout, ever. It has
    /// to be set.
    #[must_use]
    pub fn worker_id(self, worker_id: u64) -> Self {
        self.worker(worker_id)
    }

    /// The worker: an id as for [`worker_id`](Self::worker_id), or a [`Lease`](crate::worker::Lease).
    ///
    /// With a lease [`build`](Self::build) waits until the clock has passed what earlier holders may
    /// have issued, for at most [`max_start_wait`](Self::max_start_wait); and takes get
    /// [`TakeError::LeaseLost`](crate::TakeError::LeaseLost) once a new tick has come and the lease
    /// is lost.
    #[must_use]
    pub fn worker(mut self, worker: impl Into<Worker>) -> Self {
        self.start.worker = Some(WorkerChoice::Given(worker.into()));
        self
    }

    /// The source of the worker id, such as a table. [`build`](Self::build) asks it when everything
    /// else has been checked, and blocks meanwhile.
    ///
    /// From a lease the generator goes on as [`worker`](Self::worker) says.
    #[must_use]
    pub fn worker_from(mut self, source: impl WorkerSource + Send + 'static) -> Self {
        self.start.worker = Some(WorkerChoice::From(Box::new(source)));
        self
    }

    /// The namespace of the uids: those that must differ from each other. If not set, or empty, it is one
    /// that all generators of the layout share.
    ///
    /// In one process no two live generators of a namespace and layout have the same worker id: the second
    /// one is refused with [`Error::WorkerIdInUse`], and a later one starts above what earlier ones have
    /// issued, whatever the clock says. A namespace with a name has one layout, that of the first generator
    /// that was built in it; another one is refused with [`Error::NamespaceLayout`]. Give generators whose
    /// uids are never compared, such as those of two tables, a namespace each; docs/worker-ids.md says more.
    #[must_use]
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.start.namespace = name.into();
        self
    }

    /// Goes on above this uid, the greatest that was issued before with this worker id and layout.
    /// [`build`](Self::build) waits until the clock has reached it, for at most
    /// [`max_start_wait`](Self::max_start_wait).
    #[must_use]
    pub fn start_after(mut self, uid: Uid) -> Self {
        self.start.after = Some(uid);
        self
    }

    /// Sets how long [`build`](Self::build) waits for the clock where the generator would start further ahead of
    /// it than it may be, which is not at all: above what earlier holders of a lease, an earlier generator of
    /// this process, or whoever issued the uid of [`start_after`](Self::start_after) may have issued. A start
    /// that would take longer fails at once with [`Error::UsedAhead`]. The first renewal of a lease is tried
    /// again for as long.
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

    /// Where a new tick's sequence starts.
    #[must_use]
    pub fn sequence_start(mut self, start: SequenceStart) -> Self {
        self.sequence_start = start;
        self
    }

    /// What a take gets when the clock stands behind the last uid issued.
    #[must_use]
    pub fn clock_policy(mut self, policy: ClockPolicy) -> Self {
        self.clock_policy = policy;
        self
    }

    /// What a take does when the tick's uids are used up; it waits if not set.
    #[must_use]
    pub fn take_policy(mut self, policy: TakePolicy) -> Self {
        self.take_policy = policy;
        self
    }

    /// The wall clock; the operating system's if not set.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> ClockedBuilder<D> {
        ClockedBuilder {
            start: self.start,
            sequence_start: self.sequence_start,
            clock_policy: self.clock_policy,
            take_policy: self.take_policy,
            clock,
        }
    }
}

impl<C: Clock> ClockedBuilder<C> {
    /// Checks the settings and makes the generator.
    ///
    /// # Errors
    ///
    /// [`Error::NoWorkerId`] and [`Error::WorkerIdOutOfRange`]; [`Error::ClockBeforeEpoch`] and
    /// [`Error::LayoutExhausted`] where the layout cannot express the present time;
    /// [`Error::ForeignStart`] and [`Error::NothingAfter`] for a uid to start after that does not
    /// fit; [`Error::WorkerIdInUse`] and [`Error::WorkerIdOfParent`] where another generator of this
    /// process, or of its parent, may issue the same uids; [`Error::NamespaceLayout`]; [`Error::Forked`] in a child that the clock
    /// or a lease's store forked; [`Error::OptionOutOfRange`] for a sequence start above what a tick
    /// has; [`Error::OutOfMemory`]; [`Error::UsedAhead`]. With a lease also [`Error::LeaseLayout`],
    /// [`Error::LeaseThread`], and what its store says; with a source what that says.
    pub fn build(self) -> Result<ClockedUidGenerator<C>, Error> {
        let (clock, layout) = (self.clock, self.start.layout);
        let limit = self.sequence_start.check(&layout)?;
        let mut start = prepare(self.start, &clock)?;
        let (lease, issue_horizon) = start.begin(&layout, &clock)?;
        // Dropped before the lease if the rest fails: once the lease is given back, somebody else may
        // have it.
        let Start { worker_id, position, registration, .. } = start;
        let next = layout.pack(position.tick, worker_id, position.sequence).get();
        let memory = WipeOnForkMemory::new(0).ok_or(Error::OutOfMemory { bytes: 64 })?;
        memory.hot().start_at(next);
        // After the memory, which tells of any later fork.
        registration.confirm()?;
        let closing = Event::new(memory.life());
        Ok(ClockedUidGenerator {
            memory,
            by_addition: has_room_for_draws(&layout),
            clock,
            layout,
            tick_shift: u32::from(layout.bits().worker) + u32::from(layout.bits().sequence),
            uids_per_tick: layout.uids_per_tick(),
            worker_part: worker_id << layout.bits().sequence,
            sequence_start: self.sequence_start,
            start_limit: limit,
            origin: layout.pack(position.tick, 0, position.sequence).get(),
            clock_policy: self.clock_policy,
            worker_id,
            issue_horizon,
            registration,
            lease,
            take_policy: self.take_policy,
            closing,
            counters: CachePadded::default(),
        })
    }

    /// [`build`](Self::build) for a task: what blocks runs in a thread of its own.
    ///
    /// If the future is dropped before it is done, the generator is dropped once it is built, which gives a
    /// leased worker id back.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build); [`Error::CallThread`] if the operating system starts no thread, and
    /// [`Error::CallPanicked`] where the clock, or the source or store of the worker id, panics.
    pub async fn build_async(self) -> Result<ClockedUidGenerator<C>, Error>
    where
        C: 'static,
    {
        future::in_own_thread(|| self.build()).await
    }
}
