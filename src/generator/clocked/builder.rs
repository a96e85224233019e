//! Settings of the clock-driven generators.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::{ClockPolicy, ClockedUidGenerator, SequenceStart};
use crate::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::future;
use crate::generator::builder::GeneratorBuilder;
use crate::generator::start::{Start, has_room_for_draws, prepare};
use crate::layout::Layout;
use crate::sync::{EventCount, ForkToken, WipeOnForkMemory};

/// Settings of a [`ClockedUidGenerator`]; [`build`](Self::build) checks all of them.
pub type ClockedBuilder<C = SystemClock> = GeneratorBuilder<ClockedOptions<C>>;

/// Settings that only clock-driven generators have.
#[derive(Debug)]
pub struct ClockedOptions<C = SystemClock> {
    clock_policy: ClockPolicy,
    clock: C,
}

impl ClockedUidGenerator {
    /// Returns a builder with the defaults of Baidu's `DefaultUidGenerator`, but without its lock: layout 28/22/13 in
    /// seconds, sequences from 0. After the clock went back, takes fail with
    /// [`TakeError::ClockBackwards`](crate::TakeError::ClockBackwards) until it has caught up.
    pub fn builder() -> ClockedBuilder {
        let own = ClockedOptions { clock_policy: ClockPolicy::Refuse, clock: SystemClock };
        GeneratorBuilder::new(Layout::UID_GENERATOR, SequenceStart::Zero, own)
    }

    /// Returns a builder with the defaults of Twitter's Snowflake of 2010: 41 bits of milliseconds since
    /// 2010-11-04T01:42:54.657Z, 5 bits of datacenter, 5 of worker, and 12 of sequence, from 0. After the clock went
    /// back, takes fail with [`TakeError::ClockBackwards`](crate::TakeError::ClockBackwards) until it has caught up.
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

    /// Returns a builder with the defaults of Meituan's Leaf in snowflake mode: layout 41/10/12 with Twitter's epoch.
    /// Each millisecond's sequence starts at a random number from 0 to 99, so that uids at a low rate spread over
    /// shards. Takes wait for a clock that is behind by at most 5 ms.
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
    /// Sets what a take does if the clock is behind the last uid.
    #[must_use]
    pub fn clock_policy(mut self, policy: ClockPolicy) -> Self {
        self.own.clock_policy = policy;
        self
    }

    /// Sets the wall clock; by default the operating system's.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> ClockedBuilder<D> {
        let own = ClockedOptions { clock_policy: self.own.clock_policy, clock };
        let Self { start, sequence_start, take_policy, .. } = self;
        GeneratorBuilder { start, sequence_start, take_policy, own }
    }
}

impl<C: Clock> ClockedBuilder<C> {
    /// Checks the settings and builds the generator.
    ///
    /// # Errors
    ///
    /// - [`Error::NoWorkerId`], [`Error::WorkerIdOutOfRange`], [`Error::OptionOutOfRange`] for a sequence start above
    ///   what a tick has, [`Error::StartAfter`] for a uid to start after that does not fit, [`Error::NamespaceLayout`],
    ///   [`Error::OutOfMemory`].
    /// - [`Error::ClockBeforeEpoch`] and [`Error::LayoutExhausted`] if the layout cannot express the present time;
    ///   [`Error::UsedAhead`] if the start would wait too long.
    /// - [`Error::WorkerIdInUse`] and [`Error::WorkerIdOfParent`] if another generator of this process, or of its
    ///   parent, may issue the same uids; [`Error::Forked`] in a child that the clock or a lease's store forked.
    /// - With a lease also [`Error::LeaseLayout`], [`Error::Thread`] and its store's errors; with a source, that
    ///   source's errors.
    pub fn build(self) -> Result<ClockedUidGenerator<C>, Error> {
        let (ClockedOptions { clock_policy, clock }, layout) = (self.own, self.start.layout);
        let tick_shift = layout.bits().worker + layout.bits().sequence;
        let tick_start = self.sequence_start.of_runs(&layout, tick_shift)?;
        let mut start = prepare(self.start, &clock)?;
        let (lease, issue_horizon) = start.begin(&layout, &clock)?;
        // Dropped before the lease if the rest fails: once the lease is given back, somebody else may have it.
        let Start { worker_id, position, registration, .. } = start;
        let next = layout.pack(position.tick, worker_id, position.sequence).get();
        let closing = EventCount::new(ForkToken::current());
        let memory = WipeOnForkMemory::new(0).ok_or(Error::OutOfMemory { bytes: 64 })?;
        memory.hot().start_at(next);
        // Confirm after creating the memory, which detects any later fork.
        registration.confirm()?;
        Ok(ClockedUidGenerator {
            memory,
            by_addition: has_room_for_draws(&layout),
            clock,
            layout,
            tick_shift: tick_shift.into(),
            uids_per_tick: layout.uids_per_tick(),
            worker_part: worker_id << layout.bits().sequence,
            tick_start,
            origin: layout.pack(position.tick, 0, position.sequence).get(),
            clock_policy,
            worker_id,
            issue_horizon,
            registration,
            lease,
            take_policy: self.take_policy,
            closing,
            counters: CachePadded::default(),
        })
    }

    /// Async [`build`](Self::build). The blocking work runs in its own thread.
    ///
    /// If the future is dropped early, the generator is dropped once it is built, which gives back a leased worker id.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build). Also [`Error::Thread`] if no thread can be started, and [`Error::CallPanicked`] if
    /// the clock, or the source or store of the worker id, panics.
    pub async fn build_async(self) -> Result<ClockedUidGenerator<C>, Error>
    where
        C: 'static,
    {
        future::in_own_thread(|| self.build()).await
    }
}
