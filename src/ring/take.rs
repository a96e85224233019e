//! The takers' side of the ring.

use std::ops::Range;
use std::time::Duration;

use super::slot::Run;
use super::{Drawn, Limit, RingBuffer};
use crate::error::{TakeError, rarely};
use crate::sync::{HotWords, Ordering, fence};

/// After this many lost races for many numbers at once, a taker falls back to a single take. A single take tries until
/// it has a number.
const ATTEMPTS: u32 = if cfg!(uidring_loom) { 1 } else { 4 };

/// Who to wake when a take leaves the ring low.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    Producer,
    /// The caller wakes the producer, unless the ring is dry.
    Nobody,
}

impl RingBuffer {
    /// Takes the next number, or says at once why there is none. Never waits: in a
    /// [spaced](super::RingOptions::spaced) ring the common case is one atomic addition, in others a
    /// compare-and-swap.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`] when nothing is published now; [`TakeError::Closed`],
    /// [`TakeError::TimeExhausted`] or [`TakeError::LeaseLost`] when nothing ever will be;
    /// [`TakeError::Forked`] in a forked child.
    #[inline]
    pub fn try_take(&self) -> Result<u64, TakeError> {
        // The owner of a shared ring finds its own limit shut, and claims: others may have written to the shared one.
        self.own.hot().draw().or_else(|drawn| rarely(|| self.take_slowly(drawn)))
    }

    /// Sleeps until something may have been published, the ring is closed, or `timeout` is over.
    pub fn wait(&self, timeout: Option<Duration>) {
        self.park(timeout);
        // The caller may take nothing, so pass the wake-up on.
        self.call_next_taker();
    }

    /// [`wait`](Self::wait) for a taker that tries to take afterwards, and then
    /// [wakes the next one](Self::call_next_taker) itself. Returns whether it can stop waiting.
    pub(crate) fn park(&self, timeout: Option<Duration>) -> bool {
        self.published.wait(timeout, || self.is_ready())
    }

    /// Returns whether takers that wait can try again.
    pub(crate) fn is_ready(&self) -> bool {
        self.why_closed().is_some() || self.has_next()
    }

    /// Wakes another taker that waits, if there is something for it.
    pub(crate) fn call_next_taker(&self) {
        if self.has_next() {
            self.published.notify_one();
        }
    }

    /// Continues a take whose draw was not below the limit, with what it drew, if anything.
    pub(crate) fn take_slowly(&self, drawn: Option<Drawn>) -> Result<u64, TakeError> {
        if let Some(drawn) = drawn {
            HotWords::after_draw();
            if let Some(number) = self.resolve_overdraw(drawn)? {
                return Ok(number);
            }
        }
        loop {
            if let Some(numbers) = self.claim(1, Wake::Producer)? {
                return Ok(numbers.start);
            }
        }
    }

    /// Returns a number that was drawn at or past a run's last one, if it is fresh and of a published run. Otherwise
    /// drops it.
    fn resolve_overdraw(&self, drawn: Drawn) -> Result<Option<u64>, TakeError> {
        let number = drawn.number;
        let drop = || {
            self.words().counters.dropped.fetch_add(1, Ordering::Relaxed);
        };
        let mut passed = 0;
        loop {
            let open = self.open_run(passed).inspect_err(|_| drop())?;
            // The limit proves that the last number was published. Its slot may hold a later run.
            let is_last = number == drawn.last;
            if number >= open.end && !is_last {
                self.leave(open, Wake::Producer).inspect_err(|_| drop())?;
                passed = open.index;
                continue;
            }
            // The number may belong to an earlier run, if this taker slept since its draw. Walk back
            // through the slots that still hold it.
            let mut run = Some(open);
            while let Some(Run { index, first, .. }) = run
                && number < first
            {
                run = self.run(index - 1);
            }
            // Check freshness last: a forked child and an ended ring both fail it.
            let run = run.filter(|run| number < run.end);
            if !(is_last || run.is_some()) || !self.hot().is_fresh(number) {
                drop();
                return Ok(None);
            }
            if let Some(run) = run {
                self.drawn_to(run, number + 1, Wake::Producer);
            }
            return Ok(Some(number));
        }
    }

    /// Draws up to `wanted` numbers of the open run at once, and opens the next one first if that is
    /// used up. Returns `None` after too many lost races. Draws only numbers that it knows to be
    /// published.
    pub(super) fn claim(&self, wanted: u64, wake: Wake) -> Result<Option<Range<u64>>, TakeError> {
        let (mut attempts, mut passed) = (ATTEMPTS, 0);
        loop {
            let open = self.open_run(passed)?;
            let next = self.hot().next();
            if next >= open.end {
                self.leave(open, wake)?;
                passed = open.index;
                continue;
            }
            let end = next + wanted.min(open.end - next);
            let is_claimed = match self.is_owner_of_shared {
                true => self.claim_as_owner(open, next, end)?,
                false => self.hot().claim(next, end),
            };
            if is_claimed {
                self.drawn_to(open, end, wake);
                return Ok(Some(next..end));
            }
            attempts -= 1;
            if attempts == 0 {
                return Ok(None);
            }
        }
    }

    /// To be called after the numbers of `run` below `next` were drawn. If those are all, opens the next run. Otherwise
    /// makes sure that the limit is set.
    fn drawn_to(&self, run: Run, next: u64, wake: Wake) {
        if next < run.end {
            // Whoever opened the run may not have moved the limit yet.
            if self.options.spaced {
                self.hot().reach_limit(Limit::open(run.end));
            }
            return;
        }
        if !self.open_successor(run) {
            // Stop takers from drawing past the end.
            self.hot().raise_limit(Limit::used_up(run.end));
        }
        self.wake_as_asked(wake);
    }

    /// Leaves `open`, which is used up, for the run after it. If there is none, the error says why.
    fn leave(&self, open: Run, wake: Wake) -> Result<(), TakeError> {
        // Read this before the tail: once the ring is closed, its tail moves at most for a run that
        // the producer was already publishing.
        let why = self.why_closed();
        if self.open_successor(open) {
            self.wake_as_asked(wake);
            return Ok(());
        }
        self.hot().raise_limit(Limit::used_up(open.end));
        if self.words().counters.last_dry.fetch_max(open.index, Ordering::Relaxed) < open.index {
            self.words().counters.dried.fetch_add(1, Ordering::Relaxed);
        }
        self.wake_if_low();
        Err(why.unwrap_or(TakeError::Empty))
    }

    fn wake_as_asked(&self, wake: Wake) {
        if wake == Wake::Producer {
            self.wake_if_low();
        }
    }

    /// Whether a take would find a number. True in a forked child, which must not wait.
    pub(crate) fn has_next(&self) -> bool {
        // Without a last run, its slot already holds a later one, which was published meanwhile.
        self.last_run().is_none_or(|run| self.hot().next() < run.end)
    }

    /// Wakes the producer if the ring is low. Called after each change of the open run, and
    /// whenever the ring is found dry.
    // Not inlined: it runs only once per run.
    #[inline(never)]
    pub(crate) fn wake_if_low(&self) {
        // Pairs with the fence in `EventCount::wait`: either the producer that is about to sleep
        // sees what the caller drew or opened, or the caller sees what the producer published
        // before, and whether its source is paused. Without it, a taker could read those before its
        // draw becomes visible, and both would leave the work to the other.
        fence(Ordering::SeqCst);
        if self.is_low() && !self.is_source_paused() {
            self.call_producer();
        }
    }

    /// Whether the ring has less left than the padding factor asks for, or than half of that if the
    /// producer comes by itself.
    pub(crate) fn is_low(&self) -> bool {
        let cursor = self.hot().open_index();
        // Relaxed: see the fence in `wake_if_low`.
        let has_forecast = self.own.words().forecast.load(Ordering::Relaxed) != 0;
        let threshold = self.threshold >> u32::from(has_forecast);
        // Relaxed: a stale tail is a smaller one. At worst, a taker wakes the producer early.
        let buffered = self.own.words().tail.load(Ordering::Relaxed).saturating_sub(cursor);
        buffered <= threshold
    }

    /// Whether the producer's source has nothing yet.
    pub(crate) fn is_source_paused(&self) -> bool {
        // Relaxed: see the fence in `wake_if_low`.
        self.own.words().paused.load(Ordering::Relaxed) != 0
    }
}
