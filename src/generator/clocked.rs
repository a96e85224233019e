//! The generators on the clock: one atomic word, no thread, no future ticks.

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
use crate::sync::{EventCount, NoBlockScope, WipeOnForkMemory};
use crate::uid::Uid;
use crate::waiting::{self, Waiting};
use crate::worker::{IssueHorizon, LeaseHandle};

/// Baidu's name of a generator on the clock: [`ClockedUidGenerator`], whose [`builder`](ClockedUidGenerator::builder)
/// starts from the settings of that system.
pub type DefaultUidGenerator<C = SystemClock> = ClockedUidGenerator<C>;

/// Hands out uids of the present tick. Each take reads the clock; when the tick's uids are used up,
/// the take policy decides: waiting means waiting for the next tick.
///
/// It re-creates three systems, which differ only in what their builders start from: Baidu's
/// `DefaultUidGenerator` ([`builder`](Self::builder)), Twitter's Snowflake ([`snowflake`](Self::snowflake)) and
/// Leaf in snowflake mode ([`leaf_snowflake`](Self::leaf_snowflake)).
///
/// ```
/// use uidring::ClockedUidGenerator;
///
/// let generator = ClockedUidGenerator::snowflake().worker_id(7).build()?;
/// assert!(generator.next_uid()? < generator.next_uid()?);
/// # Ok::<(), uidring::Error>(())
/// ```
///
/// Two generators that live at the same time must have different worker ids, and one that is built with a
/// worker id that was in use before must start above what was issued then. Within one process
/// [both are checked](ClockedBuilder::namespace); otherwise see
/// [`start_after`](ClockedBuilder::start_after).
#[derive(Debug)]
pub struct ClockedUidGenerator<C = SystemClock> {
    /// The next uid to be issued. What is above the last uid of a tick, up to the next tick, is no
    /// uid of this worker: the tick is used up. From [`CLOSED`] on, the generator is closed. The
    /// limit's run is the uids of a tick.
    memory: WipeOnForkMemory,
    /// Whether a tick is opened for draws by addition.
    by_addition: bool,
    clock: C,
    layout: Layout,
    /// These two are of the layout, which would have to compute them.
    tick_shift: u32,
    uids_per_tick: u64,
    /// The worker id, shifted to its bits.
    worker_part: u64,
    /// Where the sequence of a new tick starts.
    tick_start: RunStart,
    /// The first uid, without the worker: nothing has been issued yet.
    origin: u64,
    clock_policy: ClockPolicy,
    worker_id: u64,
    /// How far uids may be issued: checked at the start of each tick.
    issue_horizon: IssueHorizon,
    registration: Registration,
    lease: Option<LeaseHandle>,
    take_policy: TakePolicy,
    /// Where takers wait for the next tick.
    closing: EventCount,
    counters: CachePadded<Counters>,
}

/// The next number of a closed generator: above all numbers of open ones.
const CLOSED: u64 = 3 << 62;

/// After so many lost races for a claim, a single draw brings the taker forward.
const ATTEMPTS: u32 = if cfg!(uidring_loom) { 1 } else { 4 };

/// The longest sleep of a taker: the clock may be set meanwhile.
const NAP: Duration = Duration::from_millis(10);

/// The longest sleep where the clock is a little behind.
const CLOCK_NAP: Duration = Duration::from_millis(1);

/// Pauses a taker that has lost a race for a tenth of a microsecond or a few, so that the winner keeps the
/// word's cache line for some takes, instead of both taking it from each other for every one.
fn give_way() {
    const PAUSES: u32 = 8;
    for _ in 0..PAUSES {
        hint::spin_loop();
    }
}

impl<C: Clock> ClockedUidGenerator<C> {
    /// The common case, in the middle of the present tick, which the limit says is open: one addition.
    /// It is inlined into its callers, whose other ways are one call each.
    #[inline]
    fn take_at_once(&self) -> Result<Uid, Option<Drawn>> {
        // The clock before the limit: it may fork, and a child finds the limit shut. A time before the
        // epoch, or beyond the end, has a number that is no tick's, or that of the open one by the
        // rarest of chances: the uid would be of that tick all the same.
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

    /// A number that was drawn and is not below the limit, if it is a uid of a tick that was granted:
    /// the last one of the tick that was open, or one of a tick that was opened meanwhile. Others are
    /// above the last one of a tick, or of one whose opener has not come to saying so; those are left
    /// out.
    fn resolve_overdraw(&self, Drawn { number, last }: Drawn) -> Option<u64> {
        if self.memory.is_forked_child() {
            return None;
        }
        // Before any of the caller's code runs, which may panic, or see another tick: nobody else is to
        // draw behind the end, or the word would run on for as long as somebody tries.
        self.memory.hot().reach_limit(Limit::used_up(last + 1));
        let limit = self.memory.hot().limit();
        let open_tick = limit.end().wrapping_sub(1) >> self.tick_shift;
        let offset = number.wrapping_sub(self.worker_part) & ((1 << self.tick_shift) - 1);
        let is_of_open_tick = limit < Limit::CLOSED
            && number >> self.tick_shift == open_tick
            && offset < self.uids_per_tick;
        (number == last || is_of_open_tick).then_some(number)
    }

    /// A uid of the present tick by addition, if that is open.
    fn draw(&self) -> Option<u64> {
        match self.take_at_once() {
            Ok(uid) => Some(uid.get()),
            Err(drawn) => drawn.and_then(|drawn| self.resolve_overdraw(drawn)),
        }
    }

    /// Claims up to `wanted` uids of the present tick.
    fn claim(&self, wanted: u64) -> Result<Range<u64>, TakeError> {
        let mut found = self.memory.hot().next();
        let mut lost_races = 0;
        loop {
            if found >= CLOSED {
                return Err(self.why_closed());
            }
            // Read after the word, anew for every try: an older time would make a word that
            // another thread has just moved look like a clock that went back.
            let now = read(&self.clock);
            // After the clock, which is the caller's code, and may fork.
            if self.memory.is_forked_child() {
                return Err(self.why_closed());
            }
            let Some(present) = self.layout.try_tick_at(now) else {
                return Err(self.out_of_time(now));
            };
            if lost_races > 0 {
                // A clock that takes uids of this generator itself moves the word whenever it is
                // read. What it has done so is not ahead of it.
                let moved = self.memory.hot().next();
                if moved.wrapping_sub(self.worker_part) >> self.tick_shift <= present {
                    found = moved;
                }
            }
            // Reckoned without the worker, which lies between the tick and the sequence.
            let next = found - self.worker_part;
            let floor = present << self.tick_shift;
            let mut end = floor + self.uids_per_tick;
            let first = if next > floor { next } else { floor + self.first_sequence(next) };
            if first >= end {
                // Nobody need draw behind the end.
                self.memory.hot().reach_limit(Limit::used_up(end + self.worker_part));
                end = self.standing_still(next, present)?;
            }
            let end = end + self.worker_part;
            // A tick that was opened was granted.
            if self.memory.hot().limit().end() < Limit::used_up(end).end() {
                self.issue_horizon.check(first >> self.tick_shift)?;
            }
            let first = first + self.worker_part;
            let claimed = first..end.min(first + wanted);
            if self.memory.hot().claim(found, claimed.end) {
                // After the word was moved into the tick.
                let is_open = self.by_addition && claimed.end < end;
                let limit = if is_open { Limit::open } else { Limit::used_up };
                self.memory.hot().reach_limit(limit(end));
                return Ok(claimed);
            }
            give_way();
            lost_races += 1;
            // Takers by addition win every race: so it takes one as they do.
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
        if self.memory.is_forked_child() { TakeError::Forked } else { TakeError::Closed }
    }

    /// Returns where the sequence of a new tick starts.
    #[inline]
    fn first_sequence(&self, next: u64) -> u64 {
        let Self { tick_start, origin, .. } = self;
        if next == *origin && tick_start.is_random != IsRandom::Never {
            tick_start.first()
        } else {
            tick_start.after(next)
        }
    }

    /// If `next` is beyond the present tick, returns the end of its tick, if the policy is to stand still in
    /// it; else why nothing can be issued.
    #[cold]
    fn standing_still(&self, next: u64, present: u64) -> Result<u64, TakeError> {
        // `next` is beyond the start of the present tick, so it is not 0.
        let last_issued = (next - 1) >> self.tick_shift;
        let end = (last_issued << self.tick_shift) + self.uids_per_tick;
        // Draws by addition may have gone beyond the end.
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

    /// The time until the next tick, or a nap where there is none; `None` in a forked child.
    fn until_next_tick(&self) -> Option<Duration> {
        if self.memory.is_forked_child() {
            return None;
        }
        let now = read(&self.clock);
        // The clock may have forked.
        if self.memory.is_forked_child() {
            return None;
        }
        let next_tick = self.layout.tick_at(now).map(|tick| self.layout.time_of(tick + 1));
        Some(next_tick.map_or(NAP, |next| next.saturating_since(now)))
    }
}

impl<C> ClockedUidGenerator<C> {
    /// Ends the generator, and returns the lease that is to be given back.
    pub(super) fn end(&self) -> Option<(&LeaseHandle, Option<Uid>)> {
        // In a forked child the numbers stay wiped, and the event must not be used.
        if self.memory.is_forked_child() {
            return None;
        }
        let found = self.memory.hot().raise(CLOSED);
        self.memory.hot().set_limit(Limit::CLOSED);
        self.closing.notify();
        // A task's waker may have forked.
        if found >= CLOSED || self.memory.is_forked_child() {
            return None;
        }
        let next = found - self.worker_part;
        // What was drawn behind the end of a tick, or of the last one, is no uid.
        let tick = (next >> self.tick_shift).min(self.layout.max_tick());
        let sequence = (next - (tick << self.tick_shift)).min(self.uids_per_tick);
        let last = Position { tick, sequence }.before(&self.layout, self.worker_id);
        // Before the lease is released, with which another generator may start.
        self.registration.release(last);
        self.lease.as_ref().map(|lease| (lease, last))
    }

    fn end_and_wait(&self) {
        if let Some((lease, last)) = self.end() {
            lease.end(last);
        }
    }
}

/// Closes it, which releases a leased worker id.
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

    /// A clock that is a little behind is waited for if the clock policy says so, whatever the take policy.
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

    /// Sleeps until the next tick, in naps.
    fn park(&self, timeout: Option<Duration>) {
        let Some(left) = self.until_next_tick() else { return };
        // The operating system's sleep is too coarse for what is left of a millisecond.
        if self.issue_horizon.is_pending() {
            self.nap(Duration::from_millis(1).min(timeout.unwrap_or(NAP)));
        } else if left <= Duration::from_millis(1) {
            thread::yield_now();
        } else {
            self.nap(left.min(NAP).min(timeout.unwrap_or(NAP)));
        }
    }

    /// Sleeps, unless the generator is closed.
    fn nap(&self, time: Duration) {
        let is_closed = || self.memory.hot().next() >= CLOSED;
        self.closing.wait(Some(time), is_closed);
    }

    fn event(&self) -> &EventCount {
        &self.closing
    }

    /// At the next tick, unless that is nearer than the clock, which has milliseconds, can tell.
    fn next_try(&self, left: Option<Duration>) -> Option<Duration> {
        let next_try = self.until_next_tick().map(|left| match left {
            _ if self.issue_horizon.is_pending() => NAP,
            left if left <= Duration::from_millis(1) => Duration::from_micros(250),
            left => left,
        });
        [left, next_try].into_iter().flatten().min()
    }

    /// Only the lease's thread would.
    fn would_wait_for_itself(&self) -> bool {
        self.issue_horizon.is_pending() && NoBlockScope::is_here()
    }

    fn is_forked(&self) -> bool {
        self.memory.is_forked_child()
    }

    fn count(&self, waited: bool, error: Option<&TakeError>) {
        self.counters.count(waited, error);
    }
}
