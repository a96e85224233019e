//! The clock-driven generators: one atomic word, no thread, no future ticks.

mod builder;
mod rules;
mod snowflake;
mod stats;
#[cfg(test)]
mod tests;

pub use self::builder::{ClockedBuilder, ClockedOptions};
pub use self::rules::{ClockPolicy, SequenceStart};
pub use self::snowflake::{SnowflakeNode, SnowflakeParts};
pub use self::stats::ClockedStats;

use std::hint;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::UidGenerator;
use super::counters::Counters;
use super::position::Position;
use super::register::Registration;
use crate::clock::{Clock, Deadline, SystemClock, read};
use crate::error::{FillError, TakeError, rarely};
use crate::layout::Layout;
use crate::policy::{Pause, Rejections, TakePolicy};
use crate::ring::{Drawn, IsRandom, Limit, RunStart};
use crate::sync::{EventCount, HotWords, NoBlockScope, WipeOnForkMemory};
use crate::uid::Uid;
use crate::waiting::{self, Waiting};
use crate::worker::{IssueHorizon, LeaseHandle};

/// Baidu's name for a clock-driven generator: a [`ClockedUidGenerator`], whose
/// [`builder`](ClockedUidGenerator::builder) starts from that system's settings.
pub type DefaultUidGenerator<C = SystemClock> = ClockedUidGenerator<C>;

/// Hands out uids of the present tick. Each take reads the clock. When the tick's uids are used up, the take policy
/// decides; waiting means waiting for the next tick.
///
/// It recreates three systems, which differ only in their builders' defaults: Baidu's `DefaultUidGenerator`
/// ([`builder`](Self::builder)), Twitter's Snowflake ([`snowflake`](Self::snowflake)) and Leaf in snowflake mode
/// ([`leaf_snowflake`](Self::leaf_snowflake)).
///
/// ```
/// use uidring::ClockedUidGenerator;
///
/// let generator = ClockedUidGenerator::snowflake().worker_id(7).build()?;
/// assert!(generator.next_uid()? < generator.next_uid()?);
/// # Ok::<(), uidring::Error>(())
/// ```
///
/// Generators that live at the same time need different worker ids. One that reuses a worker id must start above what
/// was issued. Within one process [both are checked](ClockedBuilder::namespace); otherwise see
/// [`start_after`](ClockedBuilder::start_after).
#[derive(Debug)]
pub struct ClockedUidGenerator<C = SystemClock> {
    /// The next uid. A number between a tick's last uid and the next tick means that the tick is used up. From
    /// [`CLOSED`] on, the generator is closed. The limit's run is the uids of a tick.
    memory: WipeOnForkMemory<HotWords>,
    /// Whether takers may draw from an open tick by addition.
    by_addition: bool,
    clock: C,
    layout: Layout,
    /// This and the next spare computing them from the layout.
    tick_shift: u32,
    uids_per_tick: u64,
    worker_part: u64,
    tick_start: RunStart,
    /// The start position's number, without the worker id. While the word is here, nothing has been issued.
    origin: u64,
    clock_policy: ClockPolicy,
    worker_id: u64,
    /// How far uids may be issued. Checked at the start of each tick.
    issue_horizon: IssueHorizon,
    registration: Registration,
    lease: Option<LeaseHandle>,
    take_policy: TakePolicy,
    /// Where takers sleep until the next tick. Only a close notifies it.
    closing: EventCount,
    counters: CachePadded<Counters>,
}

/// The next number of a closed generator, above those of all open ones.
const CLOSED: u64 = 3 << 62;

/// After this many lost races, a claim falls back to a single draw.
const ATTEMPTS: u32 = if cfg!(uidring_loom) { 1 } else { 4 };

/// The longest sleep of a taker; the clock may be set meanwhile.
const NAP: Duration = Duration::from_millis(10);

/// The longest sleep while the clock is a little behind.
const CLOCK_NAP: Duration = Duration::from_millis(1);

/// After a lost race, pauses for one or a few tenths of a microsecond, so that the winner keeps the word's cache line for
/// some takes.
fn give_way() {
    const PAUSES: u32 = 8;
    for _ in 0..PAUSES {
        hint::spin_loop();
    }
}

impl<C: Clock> ClockedUidGenerator<C> {
    /// The common case, in the middle of an open tick: one addition. Inlined into its callers, whose other paths are
    /// one call each.
    #[inline]
    fn take_at_once(&self) -> Result<Uid, Option<Drawn>> {
        // Read the clock before the limit: it may fork, and the child must find the limit zeroed. A time outside the
        // layout gives a number that is no tick's or, very rarely, the open tick's; then the uid is one of the open
        // tick.
        let tick = self.layout.tick_unchecked(read(&self.clock));
        let floor = tick << self.tick_shift | self.worker_part;
        let limit = Limit::open_unchecked(floor.wrapping_add(self.uids_per_tick));
        self.memory.hot().draw_from(limit).map(Uid::from_layout)
    }

    fn take_slowly(&self, drawn: Option<Drawn>) -> Result<Uid, TakeError> {
        let number = match drawn.and_then(|drawn| self.resolve_overdraw(drawn)) {
            Some(number) => number,
            None => self.claim(1)?.start,
        };
        Ok(Uid::from_layout(number))
    }

    fn take_by_policy(&self, drawn: Option<Drawn>) -> Result<Uid, TakeError> {
        self.take_slowly(drawn)
            .or_else(|error| waiting::follow_policy(self, error, || self.try_next_uid()))
    }

    /// Returns an overdrawn number if it is a uid of a tick that was granted: the last uid of the tick that the draw
    /// saw, or one of a tick opened since. Any other number lies beyond a tick's last uid, or in a tick whose opener
    /// has not yet moved the limit. It is dropped.
    fn resolve_overdraw(&self, Drawn { number, last }: Drawn) -> Option<u64> {
        if self.memory.is_wiped() {
            return None;
        }
        // End the tick before any user code runs, which may panic or see another tick. Otherwise others would keep
        // drawing beyond the end.
        self.memory.hot().reach_limit(Limit::used_up(last + 1));
        let limit = self.memory.hot().limit();
        let open_tick = limit.end().wrapping_sub(1) >> self.tick_shift;
        let offset = number.wrapping_sub(self.worker_part) & ((1 << self.tick_shift) - 1);
        let is_of_open_tick = limit < Limit::CLOSED
            && number >> self.tick_shift == open_tick
            && offset < self.uids_per_tick;
        (number == last || is_of_open_tick).then_some(number)
    }

    /// Draws a uid of the present tick by addition, if that tick is open.
    fn draw(&self) -> Option<u64> {
        match self.take_at_once() {
            Ok(uid) => Some(uid.get()),
            Err(drawn) => drawn.and_then(|drawn| self.resolve_overdraw(drawn)),
        }
    }

    fn claim(&self, wanted: u64) -> Result<Range<u64>, TakeError> {
        let mut found = self.memory.hot().next();
        let mut lost_races = 0;
        loop {
            if found >= CLOSED {
                return Err(self.why_closed());
            }
            // Read the clock after the word, again for each try: an older time would make a word that another thread
            // has just moved look like a clock that went back.
            let now = read(&self.clock);
            // The clock is user code, and may fork.
            if self.memory.is_wiped() {
                return Err(self.why_closed());
            }
            let Some(present) = self.layout.try_tick_at(now) else {
                return Err(self.out_of_time(now));
            };
            if lost_races > 0 {
                // If the clock itself takes from this generator, each reading moves the word. Continue from the moved
                // word, which is no sign of a clock that went back.
                let moved = self.memory.hot().next();
                if moved.wrapping_sub(self.worker_part) >> self.tick_shift <= present {
                    found = moved;
                }
            }
            // Compute without the worker id, which lies between tick and sequence.
            let next = found - self.worker_part;
            let floor = present << self.tick_shift;
            let mut end = floor + self.uids_per_tick;
            let first = if next > floor { next } else { floor + self.first_sequence(next) };
            if first >= end {
                // Stop others from drawing beyond the end.
                self.memory.hot().reach_limit(Limit::used_up(end + self.worker_part));
                end = self.standing_still(next, present)?;
            }
            let end = end + self.worker_part;
            // An open tick has been granted already.
            if self.memory.hot().limit().end() < Limit::used_up(end).end() {
                self.issue_horizon.check(first >> self.tick_shift)?;
            }
            let first = first + self.worker_part;
            let claimed = first..end.min(first + wanted);
            if self.memory.hot().claim(found, claimed.end) {
                // Only after the word has moved into the tick.
                let is_open = self.by_addition && claimed.end < end;
                let limit = if is_open { Limit::open } else { Limit::used_up };
                self.memory.hot().reach_limit(limit(end));
                return Ok(claimed);
            }
            give_way();
            lost_races += 1;
            // Takers by addition win every race, so take one as they do.
            if lost_races % ATTEMPTS == 0
                && let Some(number) = self.draw()
            {
                return Ok(number..number + 1);
            }
            found = self.memory.hot().next();
        }
    }

    #[cold]
    fn why_closed(&self) -> TakeError {
        if self.memory.is_wiped() { TakeError::Forked } else { TakeError::Closed }
    }

    #[inline]
    fn first_sequence(&self, next: u64) -> u64 {
        let Self { tick_start, origin, .. } = self;
        if next == *origin && tick_start.is_random != IsRandom::Never {
            tick_start.first()
        } else {
            tick_start.after(next)
        }
    }

    /// Handles a `next` beyond the present tick. Returns the end of its tick if the policy is to stand still there,
    /// otherwise why nothing can be issued.
    #[cold]
    fn standing_still(&self, next: u64, present: u64) -> Result<u64, TakeError> {
        // `next` is beyond the start of the present tick, so it is not 0.
        let last_issued = (next - 1) >> self.tick_shift;
        let end = (last_issued << self.tick_shift) + self.uids_per_tick;
        // Draws by addition may have passed the end.
        let max_tick = self.layout.max_tick();
        if last_issued > max_tick || last_issued == max_tick && next >= end {
            return Err(TakeError::TimeExhausted);
        }
        let by_millis = last_issued
            .saturating_sub(present)
            .saturating_mul(self.layout.tick().millis().unsigned_abs());
        match self.clock_policy {
            _ if by_millis == 0 => Err(TakeError::Empty),
            ClockPolicy::StandStill(limit) if Duration::from_millis(by_millis) <= limit => {
                if next < end { Ok(end) } else { Err(TakeError::Empty) }
            }
            _ => Err(TakeError::ClockBackwards { by_millis }),
        }
    }

    #[cold]
    fn out_of_time(&self, now: crate::timestamp::Timestamp) -> TakeError {
        if now < self.layout.epoch() {
            TakeError::ClockBeforeEpoch
        } else {
            TakeError::TimeExhausted
        }
    }

    /// Returns the time until the next tick, or a nap if the layout has none. If the clock is behind the tick of the latest
    /// uids, returns the time until that tick if it is longer, but at most a nap: the clock may be corrected meanwhile.
    /// `None` in a forked child.
    fn until_next_tick(&self) -> Option<Duration> {
        if self.memory.is_wiped() {
            return None;
        }
        let now = read(&self.clock);
        if self.memory.is_wiped() {
            return None;
        }
        let next_tick = self.layout.tick_at(now).map(|tick| self.layout.time_of(tick + 1));
        let next = next_tick.map_or(NAP, |next| next.saturating_since(now));
        let latest = self.memory.hot().next().saturating_sub(self.worker_part) >> self.tick_shift;
        let behind = self.layout.time_of(latest).saturating_since(now);
        Some(next.max(behind.min(NAP)))
    }
}

impl<C> ClockedUidGenerator<C> {
    /// Closes the generator and returns the lease to give back.
    pub(super) fn end(&self) -> Option<(&LeaseHandle, Option<Uid>)> {
        // In a forked child the numbers stay wiped, and the event must not be used.
        if self.memory.is_wiped() {
            return None;
        }
        let found = self.memory.hot().raise(CLOSED);
        self.memory.hot().raise_limit(Limit::CLOSED);
        self.closing.notify();
        // A task's waker may have forked.
        if found >= CLOSED || self.memory.is_wiped() {
            return None;
        }
        let next = found - self.worker_part;
        // Numbers drawn beyond the end of a tick, or of the last tick, are no uids.
        let tick = (next >> self.tick_shift).min(self.layout.max_tick());
        let sequence = (next - (tick << self.tick_shift)).min(self.uids_per_tick);
        let last = Position { tick, sequence }.before(&self.layout, self.worker_id);
        // Before the lease is released: then another generator may start with it.
        self.registration.release(last);
        self.lease.as_ref().map(|lease| (lease, last))
    }

    fn end_and_wait(&self) {
        if let Some((lease, last)) = self.end() {
            lease.end(last);
        }
    }
}

/// Closes the generator, which releases a leased worker id.
impl<C> Drop for ClockedUidGenerator<C> {
    fn drop(&mut self) {
        self.end_and_wait();
    }
}

impl<C: Clock> UidGenerator for ClockedUidGenerator<C> {
    #[inline]
    fn try_next_uid(&self) -> Result<Uid, TakeError> {
        match self.take_at_once() {
            Ok(uid) => Ok(uid),
            Err(drawn) => rarely(|| self.take_slowly(drawn)),
        }
    }

    #[inline]
    fn next_uid(&self) -> Result<Uid, TakeError> {
        match self.take_at_once() {
            Ok(uid) => Ok(uid),
            Err(drawn) => rarely(|| self.take_by_policy(drawn)),
        }
    }

    fn fill(&self, out: &mut [Uid]) -> Result<(), FillError> {
        waiting::fill(self, out, |rest| self.try_fill(rest))
    }

    fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
        if out.is_empty() {
            return Ok(0);
        }
        let claimed = self.claim(out.len() as u64)?;
        let count = (claimed.end - claimed.start) as usize;
        for (target, uid) in out.iter_mut().zip(claimed) {
            *target = Uid::from_layout(uid);
        }
        Ok(count)
    }

    fn wait(&self, timeout: Option<Duration>) {
        if !self.would_wait_for_itself() {
            self.park(timeout);
        }
    }

    fn close(&self) {
        self.end_and_wait();
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn worker_id(&self) -> u64 {
        self.worker_id
    }
}

impl<C: Clock> Waiting for ClockedUidGenerator<C> {
    type Error = TakeError;

    fn take_policy(&self) -> &TakePolicy {
        &self.take_policy
    }

    /// Waits for a clock that is a little behind if the clock policy says so, whatever the take policy.
    fn pause(&self, rejections: &mut Rejections<'_>, error: TakeError) -> Result<Pause, TakeError> {
        if let (TakeError::ClockBackwards { by_millis }, ClockPolicy::WaitUpTo(limit)) =
            (error, self.clock_policy)
        {
            let is_near = Duration::from_millis(by_millis) <= limit;
            let deadline = rejections.clock_deadline.or_else(|| {
                let wait = Duration::from_millis(by_millis.saturating_mul(2));
                is_near.then(|| Deadline::after(Some(wait)))
            });
            rejections.clock_deadline = deadline;
            if deadline.is_some_and(|deadline| !deadline.is_over()) {
                return Ok(Pause::Nap(CLOCK_NAP));
            }
        }
        rejections.next(error)
    }

    fn park(&self, timeout: Option<Duration>) {
        let Some(left) = self.until_next_tick() else { return };
        if self.issue_horizon.is_pending() {
            // This waits for the lease's renewal, of which nothing notifies this event.
            self.nap(Duration::from_millis(1).min(timeout.unwrap_or(NAP)));
        } else if left <= Duration::from_millis(1) {
            // The system's sleep is too coarse for the rest of a millisecond.
            thread::yield_now();
        } else {
            self.nap(left.min(NAP).min(timeout.unwrap_or(NAP)));
        }
    }

    /// Sleeps until the time is over or the generator is closed.
    fn nap(&self, time: Duration) {
        let is_closed = || self.memory.hot().next() >= CLOSED;
        self.closing.wait(Some(time), is_closed);
    }

    fn event(&self) -> &EventCount {
        &self.closing
    }

    /// At the next tick. If that is nearer than the clock's millisecond resolution, in 250 µs.
    fn next_try(&self, left: Option<Duration>) -> Option<Duration> {
        let next_try = self.until_next_tick().map(|left| match left {
            _ if self.issue_horizon.is_pending() => NAP,
            left if left <= Duration::from_millis(1) => Duration::from_micros(250),
            left => left,
        });
        [left, next_try].into_iter().flatten().min()
    }

    /// Only the lease's thread waits for itself here.
    fn would_wait_for_itself(&self) -> bool {
        self.issue_horizon.is_pending() && NoBlockScope::is_here()
    }

    fn is_forked(&self) -> bool {
        self.memory.is_wiped()
    }

    fn count(&self, waited: bool, error: Option<&TakeError>) {
        self.counters.count(waited, error);
    }
}
