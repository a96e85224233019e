//! The generator on the clock: one atomic word, no thread, no future ticks.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::UidGenerator;
use super::start::start;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, TakeError};
use crate::layout::Layout;
use crate::policy::TakePolicy;
use crate::sync::{Event, Ordering, Pages};
use crate::uid::Uid;

/// Hands out uids of the present tick, each tick's sequence from 0.
///
/// It re-creates Baidu's `DefaultUidGenerator`, without its lock. Each take reads the clock. When
/// the tick's uids are used up, the take policy decides: waiting means waiting for the next tick.
/// When the clock went back, it refuses with [`TakeError::ClockBackwards`] until the clock has
/// caught up.
///
/// ```
/// use uidring::{DefaultUidGenerator, UidGenerator};
///
/// let generator = DefaultUidGenerator::builder().worker_id(7).build()?;
/// assert!(generator.next_uid()? < generator.next_uid()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DefaultUidGenerator {
    /// Their word is the next uid to be issued, without the worker: tick and sequence. The end of
    /// a tick is the beginning of the next one. [`CLOSED`] is no uid.
    pages: Pages,
    /// Where takers wait for the next tick.
    closing: Event,
    clock: Arc<dyn Clock>,
    take_policy: TakePolicy,
    layout: Layout,
    worker_id: u64,
}

/// The word of a closed generator.
const CLOSED: u64 = u64::MAX;

impl DefaultUidGenerator {
    /// A builder with the defaults: layout [`Layout::UID_GENERATOR`], waiting takes.
    pub fn builder() -> DefaultBuilder {
        DefaultBuilder::default()
    }

    /// Claims up to `wanted` uids of the present tick, as tick and sequence in one number.
    #[inline]
    fn claim(&self, wanted: u64) -> Result<Range<u64>, TakeError> {
        let sequence_bits = self.layout.bits().sequence;
        // Relaxed throughout: the word carries no other memory, and its own order is all that
        // uniqueness needs.
        let word = self.pages.word();
        let mut next = word.load(Ordering::Relaxed);
        if self.pages.are_wiped() {
            return Err(TakeError::Forked);
        }
        loop {
            if next == CLOSED {
                return Err(TakeError::Closed);
            }
            // Read after the word, anew for every try: an older time would make a word that
            // another thread has just moved look like a clock that went back.
            let present = self.present_tick()?;
            let floor = present << sequence_bits;
            let end = floor + self.layout.uids_per_tick();
            let first = next.max(floor);
            if first >= end {
                return Err(self.refusal(next, present));
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

    fn present_tick(&self) -> Result<u64, TakeError> {
        self.layout.tick_at(self.clock.now()).map_err(|error| match error {
            Error::LayoutExhausted { .. } => TakeError::TimeExhausted,
            _ => TakeError::ClockBeforeEpoch,
        })
    }

    /// Why nothing of the present tick can be issued when `next` is beyond it.
    #[cold]
    fn refusal(&self, next: u64, present: u64) -> TakeError {
        let sequence_bits = self.layout.bits().sequence;
        if next >> sequence_bits > self.layout.max_tick() {
            return TakeError::TimeExhausted;
        }
        // `next` is beyond the present tick, so it is not 0.
        let last_issued = (next - 1) >> sequence_bits;
        match last_issued.saturating_sub(present) {
            0 => TakeError::Empty,
            ticks => TakeError::ClockBackwards {
                by_millis: ticks.saturating_mul(self.layout.tick().millis().unsigned_abs()),
            },
        }
    }

    #[inline]
    fn uid(&self, position: u64) -> Uid {
        let tick = position >> self.layout.bits().sequence;
        self.layout.pack(tick, self.worker_id, position & self.layout.max_sequence())
    }
}

impl UidGenerator for DefaultUidGenerator {
    #[inline]
    fn try_next_uid(&self) -> Result<Uid, TakeError> {
        self.claim(1).map(|claimed| self.uid(claimed.start))
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
        if left <= Duration::from_millis(1) {
            thread::yield_now();
        } else {
            let nap = left.min(NAP).min(timeout.unwrap_or(NAP));
            let is_closed = || self.pages.word().load(Ordering::Relaxed) == CLOSED;
            self.closing.wait(Some(nap), is_closed);
        }
    }

    fn close(&self) {
        // The word of a forked child stays wiped, and its event is not to be touched.
        if !self.pages.are_wiped() {
            self.pages.word().store(CLOSED, Ordering::Relaxed);
            self.closing.notify();
        }
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

/// Settings of a [`DefaultUidGenerator`]; [`build`](Self::build) checks all of them.
#[derive(Debug)]
pub struct DefaultBuilder {
    layout: Layout,
    worker_id: Option<u64>,
    start_after: Option<Uid>,
    take_policy: TakePolicy,
    clock: Arc<dyn Clock>,
}

impl Default for DefaultBuilder {
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            worker_id: None,
            start_after: None,
            take_policy: TakePolicy::default(),
            clock: Arc::new(SystemClock),
        }
    }
}

impl DefaultBuilder {
    /// How the uids are made up.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// The worker id in all of the uids, which nobody else may use with this layout, ever. It has
    /// to be set.
    #[must_use]
    pub fn worker_id(mut self, worker_id: u64) -> Self {
        self.worker_id = Some(worker_id);
        self
    }

    /// Goes on above this uid, the greatest that was issued before with this worker id and layout.
    /// While the clock stands before it, takes get [`TakeError::ClockBackwards`].
    #[must_use]
    pub fn start_after(mut self, uid: Uid) -> Self {
        self.start_after = Some(uid);
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
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Checks the settings and makes the generator.
    ///
    /// # Errors
    ///
    /// [`Error::NoWorkerId`] and [`Error::WorkerIdOutOfRange`]; [`Error::ClockBeforeEpoch`] and
    /// [`Error::LayoutExhausted`] where the layout cannot express the present time;
    /// [`Error::ForeignStart`] and [`Error::NothingAfter`] for a uid to start after that does not
    /// fit.
    pub fn build(self) -> Result<DefaultUidGenerator, Error> {
        let Self { layout, clock, take_policy, .. } = self;
        let (worker_id, position) = start(&layout, self.worker_id, self.start_after, &*clock)?;
        let next = position.tick << layout.bits().sequence | position.sequence;
        let pages = Pages::new(0).ok_or(Error::OutOfMemory { bytes: 64 })?;
        pages.word().store(next, Ordering::Relaxed);
        let closing = Event::default();
        Ok(DefaultUidGenerator { pages, closing, clock, take_policy, layout, worker_id })
    }
}
