//! The takers of a ring that processes share.

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(uidring_loom)
))]
mod attach;
mod task_caller;

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use self::task_caller::TaskCaller;
use super::UidGenerator;
use super::block_source::sealed::Blocks;
use super::counters::Counters;
use crate::error::{FillError, TakeError, rarely};
use crate::layout::{Bits, Layout};
use crate::policy::{Pause, Rejections, TakePolicy};
use crate::ring::{Drawn, RingBuffer, RingStats};
use crate::sync::{
    AtomicBool, AtomicU64, EventCount, ForkToken, Ordering, Owner, PushList, RingWords,
    WipeOnForkMemory, fence,
};
use crate::uid::Uid;
use crate::waiting::{self, Waiting};

/// Equal to no mark: marks have 32 bits.
const NO_MARK: u64 = u64::MAX;

/// How long a taker that waits for a stopped owner sleeps before it looks again.
const NAP: Duration = Duration::from_millis(10);

/// How long a task sleeps if no thread can be started to call it.
const UNCALLED_NAP: Duration = Duration::from_millis(2);

/// Takes uids from a generator's ring in any process that shares it: the generator's own, its forked children, and
/// processes that [attach](Self::attach).
///
/// ```
/// # #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))] {
/// use uidring::CachedUidGenerator;
///
/// let generator = CachedUidGenerator::builder().worker_id(7).shared().build()?;
/// let ring = generator.shared_ring().expect("the ring is shared");
/// // From now on, forked children can take, too.
/// println!("{}", ring.next_uid()?);
/// # }
/// # Ok::<(), uidring::Error>(())
/// ```
///
/// Uids are strictly ordered over all processes: if one take returns before another begins, its uid is smaller.
///
/// Takes never pad. If nothing is ready, they wake the padder in the generator's process. Once that process has ended,
/// they return [`TakeError::OwnerEnded`]. The first task that waits at a handle starts a thread, which wakes the handle's
/// tasks in this process until the handle is dropped. A call or future that was under way when its process was forked returns
/// [`TakeError::Forked`] in the child, where later takes succeed.
#[derive(Debug)]
pub struct SharedRing {
    /// The ring's words, without indirection.
    memory: WipeOnForkMemory<RingWords>,
    ring: Arc<RingBuffer>,
    /// The newest one is this process's, unless this process was forked since.
    task_callers: PushList<TaskCaller>,
    layout: Layout,
    worker_id: u64,
    take_policy: TakePolicy,
    owner: Owner,
    /// The mark that lets a take skip the look at the owner, or `NO_MARK` if every take must look.
    usual_mark: AtomicU64,
    /// In milliseconds.
    max_owner_pause: Option<u64>,
    is_closed: AtomicBool,
    /// Counts this process's takes. A forked child starts from its parent's counts.
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
        let (usual_mark, is_closed) = (AtomicU64::new(owner.mark.into()), AtomicBool::new(false));
        Self {
            memory,
            ring: Arc::new(ring),
            task_callers: PushList::new(),
            layout,
            worker_id,
            take_policy,
            owner,
            usual_mark,
            max_owner_pause: None,
            is_closed,
            counters,
        }
    }

    /// Sets what a take does if nothing is ready; the generator's take policy if not set.
    #[must_use]
    pub fn take_policy(mut self, policy: TakePolicy) -> Self {
        self.take_policy = policy;
        self
    }

    /// Sets how long the owner may be inactive before takes fail with [`TakeError::OwnerPaused`]. Without a limit, which
    /// is the default, takes continue after the owner was stopped until the ring is dry, and their uids fall behind the
    /// clock.
    ///
    /// The owner shows that it is active at each [`refresh`](crate::generator::CachedBuilder::refresh), which may be late
    /// on a busy machine, so allow several intervals. With a limit, each take reads a clock and costs about twice as much.
    #[must_use]
    pub fn max_owner_pause(mut self, limit: impl Into<Option<Duration>>) -> Self {
        let limit = limit.into();
        self.max_owner_pause = limit.map(|limit| limit.as_millis().try_into().unwrap_or(u64::MAX));
        if !self.is_closed.load(Ordering::Relaxed) {
            let usual_mark = if limit.is_some() { NO_MARK } else { self.owner.mark.into() };
            self.usual_mark = AtomicU64::new(usual_mark);
        }
        self
    }

    /// Appends `count` increasing uids to `out` without blocking the thread. Whenever nothing is ready, the take policy
    /// applies anew.
    ///
    /// Uids that were appended before an error, or before the future was dropped, are good.
    ///
    /// # Errors
    ///
    /// As [`UidGenerator::next_uid`]. In a process that was forked during the call, [`TakeError::Forked`], and nothing is
    /// appended.
    pub async fn fill_async(&self, out: &mut Vec<Uid>, count: usize) -> Result<(), TakeError> {
        let (process, start) = (ForkToken::current(), out.len());
        let try_fill = |block: &mut [Uid]| match process.is_forked_child() {
            true => Err(TakeError::Forked),
            false => self.try_fill(block),
        };
        let filled = waiting::fill_async(self, out, count, try_fill).await;
        if process.is_forked_child() {
            // What was filled in before is the parent's.
            out.truncate(start);
            return Err(TakeError::Forked);
        }
        filled
    }

    /// Returns the ring's statistics, which count the takes of all processes.
    pub fn stats(&self) -> RingStats {
        self.ring.stats()
    }

    /// Fills in the header of the memory. To be called before another process can get its descriptor.
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
        // Relaxed: whoever passes the descriptor synchronizes.
        facts.iter().for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
    }

    /// Checks the mark and the owner's process. Only the mark tells of an exec, but a peer may have overwritten it.
    fn check_owner(&self) -> Result<(), TakeError> {
        let mark = self.memory.hot().mark.load(Ordering::Relaxed);
        if self.owner.has_ended(mark) { Err(TakeError::OwnerEnded) } else { Ok(()) }
    }

    /// Returns an error if the owner has not refreshed the ring in time.
    fn check_pause(&self) -> Result<(), TakeError> {
        let Some(limit) = self.max_owner_pause else { return Ok(()) };
        match self.ring.since_refresh() {
            pause if pause > limit => {
                Err(TakeError::OwnerPaused { pause: Duration::from_millis(pause).into() })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a take need not look at the owner.
    #[inline]
    fn is_as_usual(&self) -> bool {
        // Relaxed: a take may miss a concurrent change.
        let mark = self.memory.hot().mark.load(Ordering::Relaxed);
        u64::from(mark) == self.usual_mark.load(Ordering::Relaxed)
    }

    /// Returns an error if nothing may be taken.
    #[cold]
    fn look(&self) -> Result<(), TakeError> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(TakeError::Closed);
        }
        if self.memory.hot().mark.load(Ordering::Relaxed) != self.owner.mark {
            self.check_owner()?;
        }
        self.check_pause()
    }

    /// Replaces the error of a take that found nothing if the owner has ended.
    fn unless_ended<T>(&self, taken: Result<T, TakeError>) -> Result<T, TakeError> {
        match taken {
            Ok(taken) => Ok(taken),
            Err(error) => rarely(|| self.check_owner().and(Err(error))),
        }
    }

    #[cold]
    fn look_and_take(&self) -> Result<Uid, TakeError> {
        self.look()?;
        match self.memory.hot().draw() {
            Ok(number) => Ok(Uid::from_layout(number)),
            Err(drawn) => self.take_slowly(drawn),
        }
    }

    fn take_slowly(&self, drawn: Option<Drawn>) -> Result<Uid, TakeError> {
        self.check_owner()?;
        self.ring.take_slowly(drawn).map(Uid::from_layout)
    }

    fn task_caller(&self) -> &TaskCaller {
        let make = || TaskCaller::new(Arc::clone(&self.ring));
        self.task_callers.newest_or(|caller| !caller.is_forked(), make)
    }
}

impl UidGenerator for SharedRing {
    #[inline]
    fn try_next_uid(&self) -> Result<Uid, TakeError> {
        if !self.is_as_usual() {
            return rarely(|| self.look_and_take());
        }
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
        let process = ForkToken::current();
        let filled = waiting::fill(self, out, |rest| self.try_fill(rest));
        // A handler may have forked. Then what was filled in before is the parent's.
        if process.is_forked_child() { Err(FillError::new(0, TakeError::Forked)) } else { filled }
    }

    fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
        self.look()?;
        let given = self.unless_ended(self.ring.fill_without_wake(out, Uid::from_layout))?;
        self.ring.wake_if_low();
        Ok(given)
    }

    fn wait(&self, timeout: Option<Duration>) {
        // The owner's padder would wait for itself.
        if !self.would_wait_for_itself() {
            self.ring.wait(timeout);
        }
    }

    /// Closes this handle in this process, not the ring.
    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.usual_mark.store(NO_MARK, Ordering::Relaxed);
        // Pairs with the fence in `EventCount`: a task that registers meanwhile sees the handle closed, or is called here.
        fence(Ordering::SeqCst);
        if let Some(caller) = self.task_callers.newest() {
            caller.tasks().notify();
        }
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn worker_id(&self) -> u64 {
        self.worker_id
    }
}

impl Blocks for SharedRing {
    const SURVIVES_FORKS: bool = true;

    fn try_take_block(&self) -> Result<Range<u64>, TakeError> {
        self.look()?;
        self.unless_ended(self.ring.try_take_block())
    }

    #[inline]
    fn is_fresh(&self, number: u64) -> bool {
        self.is_as_usual() & self.memory.hot().is_fresh(number)
    }

    fn is_fresh_now(&self, number: u64) -> bool {
        self.look().is_ok() && self.memory.hot().is_fresh(number)
    }
}

impl Waiting for SharedRing {
    type Error = TakeError;

    fn take_policy(&self) -> &TakePolicy {
        &self.take_policy
    }

    fn pause(&self, rejections: &mut Rejections<'_>, error: TakeError) -> Result<Pause, TakeError> {
        match rejections.next(error)? {
            // `park` returns at once if uids are ready.
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

    fn event(&self) -> &EventCount {
        self.task_caller().tasks()
    }

    fn next_try(&self, left: Option<Duration>) -> Option<Duration> {
        match self.task_caller().call_later() {
            true => left,
            false => Some(left.map_or(UNCALLED_NAP, |left| left.min(UNCALLED_NAP))),
        }
    }

    fn wake_next(&self) {
        self.ring.call_next_taker();
    }

    /// A forked child takes from the ring as its parent does.
    fn is_forked(&self) -> bool {
        false
    }

    fn count(&self, waited: bool, error: Option<&TakeError>) {
        self.counters.count(waited, error);
    }
}
