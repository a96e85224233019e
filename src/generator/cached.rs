//! The cached generator: a take is one atomic addition.

mod builder;
mod new_worker;
mod worker_ring;

pub use self::builder::{CachedBuilder, CachedOptions};
pub use self::new_worker::OnClockBack;

use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use self::new_worker::NewWorker;
use self::worker_ring::WorkerRing;
use super::SharedRing;
use super::UidGenerator;
use super::block_source::sealed::Blocks;
use super::counters::Counters;
use crate::clock::{Clock, read};
use crate::error::{FillError, TakeError, rarely};
use crate::layout::Layout;
use crate::policy::{Pause, Rejections, TakePolicy};
use crate::ring::{Drawn, RingBuffer, RingStats};
use crate::sync::{EventCount, MarkThread, NoBlockScope, Owner, RingWords, WipeOnForkMemory};
use crate::uid::Uid;
use crate::waiting::{self, Waiting};
use crate::worker::{LeaseHandle, LeaseStats};

/// Hands out uids from a ring that a background thread, the padder, keeps full.
///
/// It recreates Baidu's `CachedUidGenerator`. The padder walks tick by tick. If you take faster than the layout has
/// uids per second, it *borrows* future ticks, without limit or up to [`max_borrow`](CachedBuilder::max_borrow). Uids
/// older than [`max_lag`](CachedBuilder::max_lag) are discarded. A take reads the clock only when it helps to pad: if
/// it finds the ring dry, or if a fill or block leaves the ring low.
///
/// ```
/// use uidring::CachedUidGenerator;
///
/// let generator = CachedUidGenerator::builder().worker_id(7).build()?;
/// let first = generator.next_uid()?;
/// let second = generator.next_uid()?;
/// assert!(first < second);
/// assert_eq!(generator.decode(first)?.worker_id, 7);
/// # Ok::<(), uidring::Error>(())
/// ```
///
/// Generators that live at the same time need different worker ids. One that reuses a worker id must start above what
/// was issued. Within one process [both are checked](CachedBuilder::namespace); otherwise see
/// [`start_after`](CachedBuilder::start_after).
#[derive(Debug)]
pub struct CachedUidGenerator {
    /// The first ring's words, without indirection: all that a take needs. After a new worker id, that ring has ended,
    /// and takes continue on the slow path.
    memory: WipeOnForkMemory<RingWords>,
    first: Arc<WorkerRing>,
    take_policy: TakePolicy,
    layout: Layout,
    lease: Option<LeaseHandle>,
    clock: Arc<dyn Clock>,
    new_worker: Option<Arc<NewWorker>>,
    /// Of a ring that processes share.
    shared: Option<Box<(MarkThread, Owner)>>,
    counters: CachePadded<Counters>,
}

impl CachedUidGenerator {
    #[inline]
    fn current(&self) -> &WorkerRing {
        let mut ring = &*self.first;
        while let Some(next) = ring.next() {
            ring = next;
        }
        ring
    }

    /// Returns the rings of all its worker ids. All but the last have ended, or are about to.
    fn rings(&self) -> impl Iterator<Item = &WorkerRing> {
        iter::successors(Some(&*self.first), |ring| ring.next())
    }

    /// Takes from the current ring, or from the next one if that has ended for a new worker id. Also returns the ring.
    #[inline]
    fn take<T>(
        &self,
        mut take: impl FnMut(&RingBuffer) -> Result<T, TakeError>,
    ) -> Result<(T, &WorkerRing), TakeError> {
        let ring = self.current();
        match take(&ring.ring) {
            Ok(taken) => Ok((taken, ring)),
            Err(error) => self.help_and_try(ring, error, take),
        }
    }

    /// Continues after an error: helps the padder, or takes from the next ring.
    #[cold]
    fn help_and_try<'a, T>(
        &'a self,
        mut ring: &'a WorkerRing,
        mut error: TakeError,
        mut take: impl FnMut(&RingBuffer) -> Result<T, TakeError>,
    ) -> Result<(T, &'a WorkerRing), TakeError> {
        loop {
            match ring.help_and_try(error, &mut take) {
                Ok(taken) => return Ok((taken, ring)),
                Err(found) if found == TakeError::Forked => return Err(found),
                Err(found) => ring = ring.next().ok_or(found)?,
            }
            match take(&ring.ring) {
                Ok(taken) => return Ok((taken, ring)),
                Err(found) => error = found,
            }
        }
    }

    /// Continues after the fast path, with the number that it drew from the first ring, if any.
    fn take_slowly(&self, drawn: Option<Drawn>) -> Result<Uid, TakeError> {
        let first = &*self.first;
        let (ring, taken) = match drawn {
            None if first.next().is_some() => {
                let ring = self.current();
                (ring, ring.ring.try_take())
            }
            _ => (first, first.ring.take_slowly(drawn)),
        };
        match taken {
            Ok(number) => Ok(Uid::from_layout(number)),
            Err(error) => {
                let (number, _) = self.help_and_try(ring, error, RingBuffer::try_take)?;
                Ok(Uid::from_layout(number))
            }
        }
    }

    /// Returns a handle that forked children can take from, too; `None` if the ring is not
    /// [shared](CachedBuilder::shared).
    pub fn shared_ring(&self) -> Option<SharedRing> {
        let (owner, WorkerRing { worker_id, ring, .. }) = (&self.shared.as_ref()?.1, &*self.first);
        let (ring, take_policy) = (ring.for_all_processes(), self.take_policy.clone());
        let ring = SharedRing::new(ring, self.layout, *worker_id, take_policy, owner.clone());
        ring.describe();
        Some(ring)
    }

    /// Closes the generator and returns the lease to give back.
    pub(super) fn end(&self) -> Option<(&LeaseHandle, Option<Uid>)> {
        if let Some(new_worker) = &self.new_worker {
            new_worker.stop();
        }
        // End the rings before the lease is released: from then on, another generator may start with it. A leased
        // generator has only one ring.
        let last = self.rings().fold(None, |_, ring| ring.end());
        self.lease.as_ref().map(|lease| (lease, last))
    }

    /// Does a refresh of the padder in this thread.
    #[cfg(any(test, feature = "simulation"))]
    #[doc(hidden)]
    pub fn service(&self) {
        self.current().padding.service();
    }

    /// Returns the ring's statistics, its next number, the end of its last run, and once it has ended, the last uid
    /// that counts as issued.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn look(&self) -> (RingStats, Option<u64>, u64, Option<Option<Uid>>) {
        let ring = self.current();
        let is_ended = ring.ring.is_ended();
        let last = is_ended.then(|| ring.ring.end().and_then(|issued| ring.last_below(issued)));
        (ring.ring.stats(), ring.ring.peek(), ring.ring.last_end(), last)
    }

    /// Returns how far uids may be ahead of the clock; `None` is without limit.
    pub fn max_borrow(&self) -> Option<Duration> {
        self.first.max_borrow
    }

    /// Returns statistics. Reads the clock.
    pub fn stats(&self) -> CachedStats {
        let WorkerRing { worker_id, ring, progress, .. } = self.current();
        let now = read(&*self.clock);
        let next = match ring.peek() {
            Some(number) => self.layout.tick_of(number),
            None => progress.tick(),
        };
        let ring = self.current().stats_since(&self.first);
        let next = self.layout.time_of(next);
        CachedStats {
            worker_id: *worker_id,
            taken: ring.taken,
            waits: self.counters.waits(),
            rejects: self.counters.rejects(),
            paddings: self.rings().map(|ring| ring.padding.paddings()).sum(),
            lead: next.saturating_since(now),
            lag: now.saturating_since(next),
            clock_behind: progress.clock_behind(),
            remaining_life: progress.life(),
            lease: self.lease.as_ref().and_then(|lease| lease.stats(&self.layout, now)),
            ring,
        }
    }

    /// Returns how long the layout's time field lasts: until its last instant, or less if takers borrow, at the rate of
    /// about the last ten seconds. As of the padder's last reading of the clock.
    pub fn remaining_life(&self) -> Duration {
        self.current().progress.life()
    }
}

impl UidGenerator for CachedUidGenerator {
    #[inline]
    fn try_next_uid(&self) -> Result<Uid, TakeError> {
        match self.memory.hot().draw() {
            Ok(number) => Ok(Uid::from_layout(number)),
            Err(drawn) => rarely(|| self.take_slowly(drawn)),
        }
    }

    #[inline]
    fn next_uid(&self) -> Result<Uid, TakeError> {
        match self.try_next_uid() {
            Ok(uid) => Ok(uid),
            Err(error) => rarely(|| waiting::follow_policy(self, error, || self.try_next_uid())),
        }
    }

    fn fill(&self, out: &mut [Uid]) -> Result<(), FillError> {
        waiting::fill(self, out, |rest| self.try_fill(rest))
    }

    fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
        let (given, ring) = self.take(|ring| ring.fill_without_wake(out, Uid::from_layout))?;
        if given > 0 {
            ring.keep_up()?;
        }
        Ok(given)
    }

    fn wait(&self, timeout: Option<Duration>) {
        // A thread that takers wait for would wait for itself.
        if !NoBlockScope::is_here() {
            self.current().ring.wait(timeout);
        }
    }

    fn close(&self) {
        if let Some((lease, last)) = self.end() {
            lease.end(last);
        }
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn worker_id(&self) -> u64 {
        self.current().worker_id
    }
}

/// Nothing of a block is fresh in a forked child, or after a close.
impl Blocks for CachedUidGenerator {
    const SURVIVES_FORKS: bool = false;

    fn try_take_block(&self) -> Result<Range<u64>, TakeError> {
        let (block, ring) = self.take(RingBuffer::take_block_without_wake)?;
        ring.keep_up()?;
        Ok(block)
    }

    /// Always false after a new worker id.
    #[inline]
    fn is_fresh(&self, number: u64) -> bool {
        self.memory.hot().is_fresh(number)
    }

    /// In the current ring. A block of an earlier worker id is of a later time than this ring, so it counts as fresh until
    /// the generator is closed. That is correct: it was issued to its holder.
    fn is_fresh_now(&self, number: u64) -> bool {
        self.current().ring.is_fresh(number)
    }
}

impl Waiting for CachedUidGenerator {
    type Error = TakeError;

    fn take_policy(&self) -> &TakePolicy {
        &self.take_policy
    }

    fn pause(&self, rejections: &mut Rejections<'_>, error: TakeError) -> Result<Pause, TakeError> {
        rejections.next(error)
    }

    fn park(&self, timeout: Option<Duration>) {
        self.current().ring.park(timeout);
    }

    /// The padder publishes when the time has come.
    fn event(&self) -> &EventCount {
        self.current().ring.published()
    }

    fn wake_next(&self) {
        self.current().ring.call_next_taker();
    }

    fn is_forked(&self) -> bool {
        self.first.ring.is_forked()
    }

    fn count(&self, waited: bool, error: Option<&TakeError>) {
        self.counters.count(waited, error);
    }
}

/// Closes the generator, which releases a leased worker id.
impl Drop for CachedUidGenerator {
    fn drop(&mut self) {
        self.close();
    }
}

/// Statistics of a [`CachedUidGenerator`]. The fields are read one after another, while takes go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct CachedStats {
    /// The worker id of new uids.
    pub worker_id: u64,
    /// The ring: what is ready, and what was lost.
    pub ring: RingStats,
    /// Uids taken, including all of each block.
    pub taken: u64,
    /// Takes and fills that had to sleep.
    pub waits: u64,
    /// Takes and fills that the take policy gave up.
    pub rejects: u64,
    /// How often the padder filled the ring, including the first time.
    pub paddings: u64,
    /// How far the next uid's timestamp is ahead of the clock.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "lead_millis", with = "crate::serde_forms::millis")
    )]
    pub lead: Duration,
    /// How far the next uid's timestamp is behind the clock. Less than a tick within the present tick.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "lag_millis", with = "crate::serde_forms::millis")
    )]
    pub lag: Duration,
    /// How far the clock is behind the latest time it has shown, as of the padder's last reading. Uids stay ahead by
    /// about as much until the clock has caught up.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "clock_behind_millis", with = "crate::serde_forms::millis")
    )]
    pub clock_behind: Duration,
    /// See [`CachedUidGenerator::remaining_life`].
    #[cfg_attr(
        feature = "serde",
        serde(rename = "remaining_life_millis", with = "crate::serde_forms::millis")
    )]
    pub remaining_life: Duration,
    /// The lease, if the worker id is leased.
    pub lease: Option<LeaseStats>,
}
