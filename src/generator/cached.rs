//! The generator on the ring: a take is one atomic addition.

mod builder;

pub use self::builder::CachedBuilder;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::UidGenerator;
use super::counters::Counters;
use super::position::Position;
use super::register::Registration;
use super::ticks::PaddingProgress;
use crate::clock::{Clock, read};
use crate::error::{TakeError, rarely};
use crate::future;
use crate::layout::Layout;
use crate::padding::RingHandle;
use crate::policy::TakePolicy;
use crate::ring::{Age, RingBuffer, RingState, RingStats};
use crate::sync::{Drawn, Serving};
use crate::uid::Uid;
use crate::worker::{ActiveLease, LeaseStats};

/// Hands out uids from a ring that a thread of its own, the padder, keeps filled.
///
/// It re-creates Baidu's `CachedUidGenerator`. A take reads the clock only when it helps to pad: when it
/// finds the ring dry, or when a fill leaves the ring low. The padder walks one tick after another: callers
/// that take faster than the layout has uids per second *borrow* ticks of the future, without limit or up to
/// [`max_borrow`](CachedBuilder::max_borrow). Uids that are older than
/// [`max_lag`](CachedBuilder::max_lag) are discarded.
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
/// Two generators that live at the same time must have different worker ids, and one that is built with a
/// worker id that was in use before must start above what was issued then. Within one process
/// [both are checked](CachedBuilder::namespace); otherwise see
/// [`start_after`](CachedBuilder::start_after).
#[derive(Debug)]
pub struct CachedUidGenerator {
    /// The ring's, without the indirection: all that a take needs.
    state: RingState,
    ring: Arc<RingBuffer>,
    take_policy: TakePolicy,
    layout: Layout,
    worker_id: u64,
    padding: RingHandle,
    registration: Registration,
    lease: Option<ActiveLease>,
    max_borrow: Option<Duration>,
    clock: Arc<dyn Clock>,
    progress: Arc<PaddingProgress>,
    counters: CachePadded<Counters>,
}

impl CachedUidGenerator {
    /// Helps the padder if the ring was dry, and tries once more.
    #[cold]
    fn help_and_try<T>(
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
                    && self.ring.is_held()
                    && self.progress.is_too_far_ahead() =>
            {
                Err(TakeError::BorrowLimit {
                    lead: self.progress.lead().into(),
                    limit: limit.into(),
                })
            }
            _ => Err(error),
        }
    }

    /// Takes up to 255 consecutive uids of one tick.
    pub(super) fn try_take_block(&self) -> Result<Range<u64>, TakeError> {
        let block = match self.ring.take_block_quietly() {
            Err(error) => self.help_and_try(error, RingBuffer::take_block_quietly),
            done => done,
        }?;
        self.keep_up()?;
        Ok(block)
    }

    /// Returns whether a uid of a block of this age may still be handed out.
    #[inline]
    pub(super) fn is_fresh(&self, age: Age) -> bool {
        self.state.is_fresh(age)
    }

    /// Pads a little after many uids were taken at once: waking the padder costs a system call, which takes
    /// longer than the padding.
    ///
    /// Padding reads the clock, which may fork: what was taken before is not the child's.
    fn keep_up(&self) -> Result<(), TakeError> {
        if self.ring.is_low() {
            self.padding.help();
            if self.ring.is_forked() {
                return Err(TakeError::Forked);
            }
            // It may not have been enough, or another thread was padding.
            self.ring.announce();
        }
        Ok(())
    }

    /// Goes on after the fast path, with the number that it drew, if any.
    fn take_slowly(&self, drawn: Option<Drawn>) -> Result<Uid, TakeError> {
        let number = match self.ring.take_slowly(drawn) {
            Err(error) => self.help_and_try(error, RingBuffer::try_take),
            done => done,
        };
        number.map(Uid::from_layout)
    }

    /// [`follow_policy`](UidGenerator::follow_policy) for a task.
    #[cold]
    pub(super) async fn follow_policy_async<T>(
        &self,
        error: TakeError,
        again: impl FnMut() -> Result<T, TakeError>,
    ) -> Result<T, TakeError> {
        if Serving::is_here() {
            return Err(error);
        }
        let mut rejections = self.take_policy.rejections();
        let mut waited = false;
        let next = |error| rejections.next(error);
        // The padder publishes when the time has come.
        let sleep = |left| {
            waited = true;
            left
        };
        let done = future::retry(self.ring.published(), error, next, again, sleep).await;
        // It may have been called while it was not asleep, too.
        if done.is_ok() {
            self.ring.call_next_taker();
        }
        self.count(waited, done)
    }

    /// Counts a take that found nothing at first.
    fn count<T>(&self, waited: bool, done: Result<T, TakeError>) -> Result<T, TakeError> {
        // A handler may have forked.
        if self.ring.is_forked() {
            return Err(TakeError::Forked);
        }
        self.counters.count(waited, done.as_ref().err());
        done
    }

    /// Ends the generator, and returns the lease that is to be given back.
    pub(super) fn end(&self) -> Option<(&ActiveLease, Option<Uid>)> {
        let last = self.padding.end().and_then(|issued| self.last_below(issued));
        // Before the lease is released, with which another generator may start.
        self.registration.release(last);
        self.lease.as_ref().map(|lease| (lease, last))
    }

    /// Does what the padder does at a refresh, in this thread.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn service(&self) {
        self.padding.service();
    }

    /// Looks at the ring: its next number, the end of its last run, and, once it has ended, the last uid that
    /// counts as issued.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn look(&self) -> (RingStats, Option<u64>, u64, Option<Option<Uid>>) {
        let is_ended = self.state.oldest() == u64::MAX;
        let last = is_ended.then(|| self.ring.end().and_then(|issued| self.last_below(issued)));
        (self.ring.stats(), self.ring.peek(), self.ring.last_end(), last)
    }

    /// Returns how far ahead of the clock uids may be, if there is a limit.
    pub fn max_borrow(&self) -> Option<Duration> {
        self.max_borrow
    }

    /// Returns statistics. This reads the clock.
    pub fn stats(&self) -> CachedStats {
        let ring = self.ring.stats();
        let now = read(&*self.clock);
        let next = match self.ring.peek() {
            Some(number) => self.layout.tick_of(number),
            None => self.progress.tick(),
        };
        let next = self.layout.time_of(next);
        CachedStats {
            worker_id: self.worker_id,
            taken: ring.taken,
            waits: self.counters.waits(),
            rejects: self.counters.rejects(),
            paddings: self.padding.paddings(),
            lead: next.saturating_since(now),
            lag: now.saturating_since(next),
            clock_behind: self.progress.clock_behind(),
            remaining_life: self.progress.life(),
            lease: self.lease.as_ref().and_then(|lease| lease.stats(&self.layout, now)),
            ring,
        }
    }

    /// Returns the last uid below this number.
    fn last_below(&self, number: u64) -> Option<Uid> {
        let last = Uid::from_layout(number.checked_sub(1)?);
        match self.layout.decode(last) {
            Ok(fields) if fields.worker_id == self.worker_id => Some(last),
            // The number is a tick's first one.
            _ => {
                let next = self.layout.decode(Uid::from_layout(number)).ok()?;
                let next = Position { tick: next.tick, sequence: next.sequence };
                next.before(&self.layout, self.worker_id)
            }
        }
    }

    /// Returns how long the layout's time field will last: to its last instant, or less where takers
    /// borrow, at the rate of about the last ten seconds. As of the padder's last reading of the clock.
    pub fn remaining_life(&self) -> Duration {
        self.progress.life()
    }
}

impl UidGenerator for CachedUidGenerator {
    #[inline]
    fn try_next_uid(&self) -> Result<Uid, TakeError> {
        match self.state.numbers.draw() {
            Ok(number) => Ok(Uid::from_layout(number)),
            Err(drawn) => rarely(|| self.take_slowly(drawn)),
        }
    }

    fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
        let given = match self.ring.fill_quietly(out, Uid::from_layout) {
            Err(error) => self.help_and_try(error, |ring| ring.fill_quietly(out, Uid::from_layout)),
            done => done,
        }?;
        if given > 0 {
            self.keep_up()?;
        }
        Ok(given)
    }

    fn wait(&self, timeout: Option<Duration>) {
        // A thread that takers wait for would wait for itself.
        if !Serving::is_here() {
            self.ring.wait(timeout);
        }
    }

    fn close(&self) {
        if let Some((lease, last)) = self.end() {
            lease.end(last);
        }
    }

    #[cold]
    fn follow_policy(
        &self,
        error: TakeError,
        again: &mut dyn FnMut() -> Result<(), TakeError>,
    ) -> Result<(), TakeError> {
        // This thread pads, perhaps this ring, and would wait for itself.
        if Serving::is_here() {
            return Err(error);
        }
        let mut waited = false;
        let done = self.take_policy.after_empty(error, again, |timeout| {
            waited = true;
            self.ring.park(timeout);
        });
        if waited && done.is_ok() {
            self.ring.call_next_taker();
        }
        self.count(waited, done)
    }

    fn take_policy(&self) -> &TakePolicy {
        &self.take_policy
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn worker_id(&self) -> u64 {
        self.worker_id
    }
}

/// Closes it, which releases a leased worker id.
impl Drop for CachedUidGenerator {
    fn drop(&mut self) {
        self.close();
    }
}

/// Statistics of a [`CachedUidGenerator`]. The fields are read one after another while takers go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct CachedStats {
    /// The worker id in all uids.
    pub worker_id: u64,
    /// The ring: what is ready, and what was lost.
    pub ring: RingStats,
    /// Uids taken, all of each block included.
    pub taken: u64,
    /// Takes and fills that had to sleep until something was ready.
    pub waits: u64,
    /// Takes and fills that the take policy gave up.
    pub rejects: u64,
    /// How often the padder has filled the ring, the first time included.
    pub paddings: u64,
    /// How far the next uid's timestamp is ahead of the clock.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "lead_millis", with = "crate::serde_forms::millis")
    )]
    pub lead: Duration,
    /// How far the next uid's timestamp is behind the clock. Within the present tick this is less than a tick.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "lag_millis", with = "crate::serde_forms::millis")
    )]
    pub lag: Duration,
    /// How far the clock is behind the latest time that it has said, as of the padder's last reading. Uids stay
    /// ahead of it by about as much until it has caught up.
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
    /// The lease, if the worker id is held by one.
    pub lease: Option<LeaseStats>,
}
