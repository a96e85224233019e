//! The takers of a ring that processes share.

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(uidring_loom)
))]
mod attach;

use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::counters::Counters;
use crate::error::{Error, FillError, TakeError, rarely};
use crate::layout::{Decoded, Layout};
use crate::policy::{Pause, Rejections, TakePolicy};
use crate::ring::{Drawn, RingBuffer, RingStats};
use crate::sync::{EventCount, Ordering, Owner, RingWords, WipeOnForkMemory};
use crate::uid::Uid;
use crate::waiting::{self, Waiting};

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
        Self { memory, ring, layout, worker_id, take_policy, owner, counters }
    }

    /// Sets what a take does if nothing is ready, instead of what the generator's does.
    #[must_use]
    pub fn take_policy(mut self, policy: TakePolicy) -> Self {
        self.take_policy = policy;
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
        if hot.mark.load(Ordering::Relaxed) != self.owner.mark {
            return rarely(|| self.take_slowly(None));
        }
        match hot.draw() {
            Ok(number) => Ok(Uid::from_layout(number)),
            Err(drawn) => rarely(|| self.take_slowly(drawn)),
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

    /// Asks the kernel, whatever the mark says: a peer may have overwritten it.
    fn check_owner(&self) -> Result<(), TakeError> {
        if self.owner.has_ended() { Err(TakeError::OwnerEnded) } else { Ok(()) }
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
        rejections.next(error)
    }

    fn park(&self, timeout: Option<Duration>) {
        self.ring.park(timeout);
    }

    fn event(&self) -> &EventCount {
        self.ring.published()
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
