//! The generators on the clock: one atomic word, no thread, no future ticks.

mod builder;
mod rules;
mod snowflake;

pub use self::builder::ClockedBuilder;
pub use self::rules::{
    BaiduRules, ClockPolicy, ClockRules, LeafRules, SequenceStart, TwitterRules,
};
pub use self::snowflake::{SnowflakeNode, SnowflakeParts};

use std::marker::PhantomData;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use super::UidGenerator;
use super::start::Position;
use crate::clock::{Clock, Deadline, SystemClock};
use crate::error::TakeError;
use crate::layout::Layout;
use crate::policy::TakePolicy;
use crate::sync::{Event, Ordering, Pages};
use crate::uid::Uid;
use crate::worker::{Grant, Tenure};

/// Hands out uids of the present tick. Each take reads the clock; when the tick's uids are used up,
/// the take policy decides: waiting means waiting for the next tick.
///
/// Three systems are re-created by it, which differ in [rules](ClockRules) alone:
/// [`DefaultUidGenerator`], [`SnowflakeGenerator`] and [`LeafSnowflakeGenerator`].
///
/// Two generators that live at the same time must have different worker ids; and one that is built
/// again with a worker id that was in use before must start above what was issued then: see
/// [`start_after`](ClockedBuilder::start_after).
#[derive(Debug)]
pub struct ClockedUidGenerator<R, C = SystemClock> {
    /// Their word is the next uid to be issued, without the worker: tick and sequence. The end of
    /// a tick is the beginning of the next one. From [`CLOSED`] on there are no uids.
    pages: Pages,
    clock: C,
    layout: Layout,
    /// Of the layout, which would have to work them out.
    sequence_bits: u32,
    max_sequence: u64,
    /// So many of a tick's uids, after the first one, are taken by an addition: see
    /// [`open_places`].
    open_places: u64,
    worker_bits: u32,
    /// The worker id in its place.
    worker_part: u64,
    sequence_start: SequenceStart,
    clock_policy: ClockPolicy,
    worker_id: u64,
    /// How far uids may be issued: asked at the beginning of each tick.
    grant: Grant,
    tenure: Option<Tenure>,
    take_policy: TakePolicy,
    /// Where takers wait for the next tick.
    closing: Event,
    rules: PhantomData<fn() -> R>,
}

/// Baidu's `DefaultUidGenerator`, without its lock: 28/22/13 in seconds, each second's sequence from
/// 0. When the clock went back, it refuses with [`TakeError::ClockBackwards`] until the clock has
/// caught up.
///
/// ```
/// use uidring::{DefaultUidGenerator, UidGenerator};
///
/// let generator = DefaultUidGenerator::builder().worker_id(7).build()?;
/// assert!(generator.next_uid()? < generator.next_uid()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type DefaultUidGenerator<C = SystemClock> = ClockedUidGenerator<BaiduRules, C>;

/// Twitter's Snowflake of 2010: 41 bits of milliseconds since 2010-11-04T01:42:54.657Z, 5 of a
/// datacenter, 5 of a worker, 12 of a sequence that starts at 0 each millisecond. When the clock went
/// back, it refuses with [`TakeError::ClockBackwards`] until the clock has caught up.
///
/// ```
/// use uidring::{SnowflakeGenerator, SnowflakeNode, UidGenerator};
///
/// let node = SnowflakeNode::new(3, 17)?;
/// let generator = SnowflakeGenerator::builder().node(node).build()?;
/// let uid = generator.next_uid()?;
/// assert_eq!(generator.parts(uid)?.node, node);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SnowflakeGenerator<C = SystemClock> = ClockedUidGenerator<TwitterRules, C>;

/// Meituan's Leaf in snowflake mode: 41/10/12 with Twitter's epoch. Each millisecond's sequence
/// starts at a random number from 0 to 99, so that uids at a low rate spread over shards. A clock that
/// is behind by 5 ms or less is waited for.
///
/// ```
/// use uidring::{LeafSnowflakeGenerator, UidGenerator};
///
/// let generator = LeafSnowflakeGenerator::builder().worker_id(7).build()?;
/// assert!(generator.decode(generator.next_uid()?)?.sequence < 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type LeafSnowflakeGenerator<C = SystemClock> = ClockedUidGenerator<LeafRules, C>;

/// The word of a closed generator, or a little more: takers may be about to add to it. No position
/// is so large, since the worker has a bit at least.
const CLOSED: u64 = 1 << 63;

/// A take looks at the word and then adds to it. So that a word never comes to be beyond the end of
/// its tick, where it would look as if the clock had gone back, there must be room for every taker
/// that may be between the two; the last places of a tick are therefore claimed by comparing and
/// swapping. More takers than that at once, all of them stopped there by the operating system, would
/// cost a refusal that passes with the tick, and never a repeat.
fn open_places(layout: &Layout) -> u64 {
    // Models have two takers.
    const TAKERS: u64 = if cfg!(uidring_loom) { 2 } else { 64 };
    let uids = layout.uids_per_tick();
    uids.saturating_sub(TAKERS.max(uids / 4))
}

impl<R: ClockRules> ClockedUidGenerator<R> {
    /// A builder with the defaults: the layout, sequence start and clock policy of the rules,
    /// waiting takes.
    pub fn builder() -> ClockedBuilder<R> {
        ClockedBuilder::new()
    }
}

impl<R, C: Clock> ClockedUidGenerator<R, C> {
    #[inline(never)]
    fn take_slowly(&self) -> Result<Uid, TakeError> {
        self.claim(1).map(|claimed| self.uid(claimed.start))
    }

    /// Claims up to `wanted` uids of the present tick, as tick and sequence in one number.
    #[inline]
    fn claim(&self, wanted: u64) -> Result<Range<u64>, TakeError> {
        let sequence_bits = self.sequence_bits;
        // Relaxed throughout: the word carries no other memory, and its own order is all that
        // uniqueness needs.
        let word = self.pages.word();
        let mut next = word.load(Ordering::Relaxed);
        if self.pages.are_wiped() {
            return Err(TakeError::Forked);
        }
        loop {
            // Read after the word, anew for every try: an older time would make a word that
            // another thread has just moved look like a clock that went back.
            let now = self.clock.now();
            let Some(present) = self.layout.try_tick_at(now) else {
                return Err(self.out_of_time(now));
            };
            let floor = present << sequence_bits;
            let mut end = floor + self.layout.uids_per_tick();
            let first = if next > floor { next } else { floor + self.first_sequence(next) };
            if first >= end {
                end = self.standing_still(next, present)?;
            }
            // Whoever is in the middle of a tick was granted that tick.
            let tick = first >> sequence_bits;
            if next >> sequence_bits != tick || next & self.max_sequence == 0 {
                self.grant.check(tick)?;
            }
            let claimed = first..first + wanted.min(end - first);
            match word.compare_exchange_weak(
                next,
                claimed.end,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(claimed),
                Err(current) => next = current,
            }
        }
    }

    /// Where the sequence of a new tick starts.
    #[inline]
    fn first_sequence(&self, next: u64) -> u64 {
        match self.sequence_start {
            SequenceStart::Zero => 0,
            SequenceStart::RandomBelow(limit) => fastrand::u64(..limit),
            SequenceStart::Continue { modulo } => (next & self.max_sequence) % modulo,
        }
    }

    /// When `next` is beyond the present tick: the end of the tick that it is in, if the policy is to
    /// stand still in it; else why nothing can be issued.
    #[cold]
    fn standing_still(&self, next: u64, present: u64) -> Result<u64, TakeError> {
        let sequence_bits = self.sequence_bits;
        let next_tick = next >> sequence_bits;
        if next >= CLOSED {
            return Err(TakeError::Closed);
        }
        if next_tick > self.layout.max_tick() {
            return Err(TakeError::TimeExhausted);
        }
        // `next` is beyond the present tick, so it is not 0.
        let last_issued = (next - 1) >> sequence_bits;
        let by_millis = last_issued
            .saturating_sub(present)
            .saturating_mul(self.layout.tick().millis().unsigned_abs());
        match self.clock_policy {
            _ if by_millis == 0 => Err(TakeError::Empty),
            ClockPolicy::StandStill(limit) if Duration::from_millis(by_millis) <= limit => {
                if next_tick == last_issued {
                    Ok((last_issued + 1) << sequence_bits)
                } else {
                    Err(TakeError::Empty)
                }
            }
            _ => Err(TakeError::ClockBackwards { by_millis }),
        }
    }

    #[cold]
    fn out_of_time(&self, now: crate::timestamp::Timestamp) -> TakeError {
        if self.pages.word().load(Ordering::Relaxed) >= CLOSED {
            TakeError::Closed
        } else if now < self.layout.epoch() {
            TakeError::ClockBeforeEpoch
        } else {
            TakeError::TimeExhausted
        }
    }

    #[inline]
    fn uid(&self, position: u64) -> Uid {
        let sequence = position & self.max_sequence;
        Uid::from_layout((position - sequence) << self.worker_bits | self.worker_part | sequence)
    }

    /// Waits for a clock that is a little behind; how that ended.
    fn wait_for_clock(
        &self,
        by_millis: u64,
        again: &mut dyn FnMut() -> Result<(), TakeError>,
    ) -> Result<(), TakeError> {
        let deadline = Deadline::after(Some(Duration::from_millis(by_millis.saturating_mul(2))));
        loop {
            let left = deadline.remaining().unwrap_or_default();
            self.nap(left.min(Duration::from_millis(1)));
            match again() {
                Err(TakeError::ClockBackwards { .. }) if !left.is_zero() => {}
                done => return done,
            }
        }
    }

    /// Sleeps, unless the generator is closed.
    fn nap(&self, time: Duration) {
        let is_closed = || self.pages.word().load(Ordering::Relaxed) >= CLOSED;
        self.closing.wait(Some(time), is_closed);
    }
}

impl<R, C> ClockedUidGenerator<R, C> {
    fn end(&self) {
        // The word of a forked child stays wiped, and its event is not to be touched.
        if self.pages.are_wiped() {
            return;
        }
        let next = self.pages.word().swap(CLOSED, Ordering::Relaxed);
        self.closing.notify();
        if let Some(tenure) = self.tenure.as_ref().filter(|_| next < CLOSED) {
            // What was drawn beyond the last tick was given to nobody.
            let next = next.min((self.layout.max_tick() + 1) << self.sequence_bits);
            let (tick, sequence) = (next >> self.sequence_bits, next & self.max_sequence);
            tenure.end(Position { tick, sequence }.before(&self.layout, self.worker_id));
        }
    }
}

/// Gives a leased worker id back.
impl<R, C> Drop for ClockedUidGenerator<R, C> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<R: ClockRules, C: Clock> UidGenerator for ClockedUidGenerator<R, C> {
    #[inline]
    fn try_next_uid(&self) -> Result<Uid, TakeError> {
        // The common case, well within the present tick, is an addition that waits for nothing:
        // the looks before and after it are predicted, and the next take's addition may begin as
        // soon as this one has ended. Neither a closed nor a wiped word has such a place.
        // Relaxed as in `claim`.
        let word = self.pages.word();
        let next = word.load(Ordering::Relaxed);
        let present = self.layout.tick_unchecked(self.clock.now());
        let is_within = (next & self.max_sequence).wrapping_sub(1) < self.open_places;
        if next >> self.sequence_bits == present && is_within {
            let drawn = word.fetch_add(1, Ordering::Relaxed);
            // Others may have gone on to another tick since the look. What was drawn there is given
            // to nobody.
            if drawn >> self.sequence_bits == present && self.grant.covers(present) {
                return Ok(self.uid(drawn));
            }
        }
        self.take_slowly()
    }

    fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
        if out.is_empty() {
            return Ok(0);
        }
        let claimed = self.claim(out.len() as u64)?;
        let count = (claimed.end - claimed.start) as usize;
        for (place, position) in out.iter_mut().zip(claimed) {
            *place = self.uid(position);
        }
        Ok(count)
    }

    /// Sleeps until the next tick, in naps: the clock may be set meanwhile.
    fn wait(&self, timeout: Option<Duration>) {
        const NAP: Duration = Duration::from_millis(10);
        if self.pages.are_wiped() {
            return;
        }
        let now = self.clock.now();
        let next_tick = self.layout.tick_at(now).map(|tick| self.layout.time_of(tick + 1));
        let left = next_tick.map_or(NAP, |next| next.saturating_since(now));
        // The operating system's sleep is too coarse for what is left of a millisecond.
        if self.grant.is_pending() {
            self.nap(Duration::from_millis(1).min(timeout.unwrap_or(NAP)));
        } else if left <= Duration::from_millis(1) {
            thread::yield_now();
        } else {
            self.nap(left.min(NAP).min(timeout.unwrap_or(NAP)));
        }
    }

    fn close(&self) {
        self.end();
    }

    #[cold]
    fn follow_policy(
        &self,
        error: TakeError,
        again: &mut dyn FnMut() -> Result<(), TakeError>,
    ) -> Result<(), TakeError> {
        let error = match (error, self.clock_policy) {
            (TakeError::ClockBackwards { by_millis }, ClockPolicy::WaitUpTo(limit))
                if Duration::from_millis(by_millis) <= limit =>
            {
                match self.wait_for_clock(by_millis, again) {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                }
            }
            _ => error,
        };
        self.take_policy.after_empty(error, again, |timeout| self.wait(timeout))
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
