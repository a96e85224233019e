//! The takers of a ring that processes share.

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(uidring_loom)
))]
mod attach;

use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::counters::Counters;
use crate::error::{Error, FillError, TakeError, rarely};
use crate::layout::{Bits, Decoded, Layout};
use crate::policy::{Pause, Rejections, TakePolicy};
use crate::ring::{Drawn, RingBuffer, RingStats};
use crate::sync::{AtomicU64, EventCount, Ordering, Owner, RingWords, WipeOnForkMemory};
use crate::uid::Uid;
use crate::waiting::{self, Waiting};

/// How often a thread that waits for a stopped owner looks again.
const NAP: Duration = Duration::from_millis(10);

/// How often a task that waits looks again.
const TASK_NAP: Duration = Duration::from_millis(2);

/// Takes uids from a ring that processes share: in the process of its generator and in forked children, and theirs.
///
/// Takes never pad. If nothing is ready, they wake the generator's padder.
#[derive(Debug)]
pub struct SharedRing {
    /// The ring's words, without indirection.
    memory: WipeOnForkMemory<RingWords>,
    ring: RingBuffer,
    layout: Layout,
    worker_id: u64,
    take_policy: TakePolicy,
    owner: Owner,
    /// The mark with which a take need not look at the owner. None if it always does.
    usual_mark: u32,
    /// In milliseconds.
    max_owner_pause: Option<u64>,
    /// Of this process; a child begins with its parent's.
    counters: CachePadded<Counters>,
}

impl SharedRing {
    pub(super) fn new(
        ring: RingBuffer,
        layout: Layout,
        worker_id: u64,
        take_policy: TakePolicy,
        owner: Owner,
    ) -> Self {
        let (memory, counters) = (ring.memory().clone(), CachePadded::default());
        let (usual_mark, max_owner_pause) = (owner.mark, None);
        Self {
            memory,
            ring,
            layout,
            worker_id,
            take_policy,
            owner,
            usual_mark,
            max_owner_pause,
            counters,
        }
    }

    /// Sets what a take does if nothing is ready, instead of what the generator's does.
    #[must_use]
    pub fn take_policy(mut self, policy: TakePolicy) -> Self {
        self.take_policy = policy;
        self
    }

    /// Sets for how long the owner may do nothing before takes fail with [`TakeError::OwnerPaused`]; without limit if not
    /// set. Then the takers of a stopped owner continue until the ring is dry, and their uids fall behind the clock.
    ///
    /// The owner is known to run by its refresh, which comes every 100 ms or as its builder says, and later on a busy
    /// machine: allow for several. Each take then reads a clock, which costs a few nanoseconds.
    #[must_use]
    pub fn max_owner_pause(mut self, limit: impl Into<Option<Duration>>) -> Self {
        let limit = limit.into();
        self.max_owner_pause = limit.map(|limit| limit.as_millis().try_into().unwrap_or(u64::MAX));
        // No thread's mark.
        self.usual_mark = if limit.is_some() { 0 } else { self.owner.mark };
        self
    }

    /// Returns the next uid. If nothing is ready, the take policy decides.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`](crate::UidGenerator::next_uid).
    #[inline]
    pub fn next_uid(&self) -> Result<Uid, TakeError> {
        match self.try_next_uid() {
            Ok(uid) => Ok(uid),
            Err(error) => rarely(|| waiting::follow_policy(self, error, || self.try_next_uid())),
        }
    }

    /// Returns the next uid, or an error at once. Never waits.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::try_next_uid`](crate::UidGenerator::try_next_uid).
    #[inline]
    pub fn try_next_uid(&self) -> Result<Uid, TakeError> {
        let hot = self.memory.hot();
        // Relaxed: the kernel changes it once, at some time.
        if hot.mark.load(Ordering::Relaxed) != self.usual_mark {
            return rarely(|| self.look_and_take());
        }
        match hot.draw() {
            Ok(number) => Ok(Uid::from_layout(number)),
            Err(drawn) => rarely(|| self.take_slowly(drawn)),
        }
    }

    /// Async [`next_uid`](Self::next_uid): pending while that would wait. If a uid is ready, the first poll returns it.
    ///
    /// A task that waits looks again every 2 ms. A poll that takes a uid returns it, so dropping the future loses none.
    /// A future that waited at a fork returns [`TakeError::Forked`] in the child.
    ///
    /// # Errors
    ///
    /// As [`next_uid`](Self::next_uid).
    pub async fn next_uid_async(&self) -> Result<Uid, TakeError> {
        match self.try_next_uid() {
            Ok(uid) => Ok(uid),
            Err(error) => waiting::follow_policy_async(self, error, || self.try_next_uid()).await,
        }
    }

    /// Fills all of `out` with increasing uids. Whenever nothing is ready, the take policy applies anew.
    ///
    /// # Errors
    ///
    /// [`FillError`] has the number of uids written before the error. Those are good.
    pub fn fill(&self, out: &mut [Uid]) -> Result<(), FillError> {
        waiting::fill(self, out, |rest| self.try_fill(rest))
    }

    /// Writes as many uids as are ready to the front of `out`, in increasing order, and returns how many. Never waits.
    ///
    /// # Errors
    ///
    /// As [`try_next_uid`](Self::try_next_uid), if not even one was ready.
    pub fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
        self.check_owner()?;
        self.check_pause()?;
        let given = self.ring.fill_without_wake(out, Uid::from_layout)?;
        self.ring.wake_if_low();
        Ok(given)
    }

    /// Returns the fields of a uid of this ring's layout.
    ///
    /// # Errors
    ///
    /// [`Error::UidOutOfLayout`] for a uid that cannot be of this layout.
    pub fn decode(&self, uid: Uid) -> Result<Decoded, Error> {
        self.layout.decode(uid)
    }

    /// Returns the layout of the uids.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the worker id of the uids.
    pub fn worker_id(&self) -> u64 {
        self.worker_id
    }

    /// Returns the ring's statistics, which count the takes of all processes.
    pub fn stats(&self) -> RingStats {
        self.ring.stats()
    }

    /// Completes the header of the memory, before another process can get its descriptor.
    pub(super) fn describe(&self) {
        let Some(header) = self.memory.header() else { return };
        let (options, threshold) = self.ring.shape();
        let (spaced, run_bits) = options.spacing();
        let Bits { time, worker, sequence } = self.layout.bits();
        let facts: [(&AtomicU64, u64); 10] = [
            (&header.run_bits, run_bits.into()),
            (&header.spaced, spaced.into()),
            (&header.threshold, threshold),
            (&header.epoch, self.layout.epoch().as_millis().cast_unsigned()),
            (&header.tick, self.layout.tick().millis().cast_unsigned()),
            (&header.time_bits, time.into()),
            (&header.worker_bits, worker.into()),
            (&header.sequence_bits, sequence.into()),
            (&header.worker_id, self.worker_id),
            (&header.mark, self.owner.mark.into()),
        ];
        facts.iter().for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
    }

    /// Asks the kernel, whatever the mark says: a peer may have overwritten it.
    fn check_owner(&self) -> Result<(), TakeError> {
        if self.owner.has_ended() { Err(TakeError::OwnerEnded) } else { Ok(()) }
    }

    /// Says whether the owner has refreshed the ring in time.
    fn check_pause(&self) -> Result<(), TakeError> {
        let Some(limit) = self.max_owner_pause else { return Ok(()) };
        match self.ring.owners_pause() {
            pause if pause > limit => {
                Err(TakeError::OwnerPaused { pause: Duration::from_millis(pause).into() })
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn look_and_take(&self) -> Result<Uid, TakeError> {
        let hot = self.memory.hot();
        if hot.mark.load(Ordering::Relaxed) != self.owner.mark {
            self.check_owner()?;
        }
        self.check_pause()?;
        match hot.draw() {
            Ok(number) => Ok(Uid::from_layout(number)),
            Err(drawn) => self.take_slowly(drawn),
        }
    }

    fn take_slowly(&self, drawn: Option<Drawn>) -> Result<Uid, TakeError> {
        self.check_owner()?;
        self.ring.take_slowly(drawn).map(Uid::from_layout)
    }
}

impl Waiting for SharedRing {
    type Error = TakeError;

    fn take_policy(&self) -> &TakePolicy {
        &self.take_policy
    }

    fn pause(&self, rejections: &mut Rejections<'_>, error: TakeError) -> Result<Pause, TakeError> {
        match rejections.next(error)? {
            // There may be uids, so that it would not sleep.
            Pause::Sleep(left) if matches!(error, TakeError::OwnerPaused { .. }) => {
                Ok(Pause::Nap(left.map_or(NAP, |left| left.min(NAP))))
            }
            pause => Ok(pause),
        }
    }

    fn nap(&self, time: Duration) {
        thread::sleep(time);
    }

    fn park(&self, timeout: Option<Duration>) {
        self.ring.park(timeout);
    }

    /// No process can wake another one's tasks.
    fn event(&self) -> &EventCount {
        #[cfg(not(uidring_loom))]
        return EventCount::never();
        // The model checker has no statics.
        #[cfg(uidring_loom)]
        self.ring.published()
    }

    fn next_try(&self, left: Option<Duration>) -> Option<Duration> {
        Some(left.map_or(TASK_NAP, |left| left.min(TASK_NAP)))
    }

    fn wake_next(&self) {
        self.ring.call_next_taker();
    }

    /// A child takes from it as its parent does.
    fn is_forked(&self) -> bool {
        false
    }

    fn count(&self, waited: bool, error: Option<&TakeError>) {
        self.counters.count(waited, error);
    }
}
