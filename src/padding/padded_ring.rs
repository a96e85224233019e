//! One ring that is padded, by the padder and by takers that help it.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::options::PadderIdle;
use super::pad_state::{Note, PadState};
use super::source::RunSource;
use crate::clock::Deadline;
use crate::ring::{Producer, RingBuffer};
use crate::sync::{AtomicU8, AtomicU64, ForkGuarded, ForkToken, Forked, NoBlockScope, Ordering};

/// A ring that is padded.
///
/// Padding calls a caller's code, so no lock is held meanwhile: a thread that pads takes the state out and
/// puts it back. Nobody blocks meanwhile: takers try again, a close does not need the state, and a padder that finds it
/// taken is called once it is back. But until then, nobody else can pad or refresh the ring.
#[derive(Debug)]
pub(super) struct PaddedRing {
    ring: Arc<RingBuffer>,
    paddings: AtomicU64,
    /// `None` while a thread pads.
    state: ForkGuarded<Option<Box<PadState>>>,
    /// When the padder services the ring. Changed only by a thread that has `state`, takes it out or puts it back, and by
    /// the padder that finds it taken.
    ///
    /// | value | who pads | the padder comes | what follows |
    /// |---|---|---|---|
    /// | `ON_DEMAND` | nobody, or a helper | when the ring wants runs, or at its time | it takes the state; or finds it taken: `CALL_OWED` |
    /// | `CALL_OWED` | a helper | not before it is called | the helper puts the state back: `CALLED` |
    /// | `CALLED` | nobody, or another helper | at once | as in `ON_DEMAND` |
    /// | `DRAINING` | nobody: the source has ended | at its time, to discard stale runs | the ring needs no padder any more |
    padder: AtomicU8,
    /// When to pad again because the put policy's handler asked for that.
    retry: ForkGuarded<Option<Deadline>>,
}

#[cfg(all(test, uidring_loom))]
#[path = "models.rs"]
mod models;

const ON_DEMAND: u8 = 0;
const CALL_OWED: u8 = 1;
const CALLED: u8 = 2;
const DRAINING: u8 = 3;

/// Who takes the state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Padder,
    Helper,
}

/// The most runs that one service puts: more than the usual ring holds. After these, the padder continues
/// with its other rings, even if this one's takers are as fast as the padder.
const SERVICE_RUNS: u64 = 1024;

/// The most runs that a helping taker puts.
const HELP_RUNS: u64 = 64;

/// The ring of a `PaddedRing` needs no padder any more.
pub(super) struct Closed;

impl From<Forked> for Closed {
    fn from(Forked: Forked) -> Self {
        Self
    }
}

impl PaddedRing {
    pub(super) fn new(
        producer: Producer,
        source: impl RunSource,
        schedule: Option<Duration>,
    ) -> Self {
        let ring = Arc::clone(producer.ring());
        let state = Box::new(PadState::new(producer, source, schedule));
        let fork_token = ForkToken::current();
        Self {
            state: ForkGuarded::new(fork_token, Some(state)),
            retry: ForkGuarded::new(fork_token, None),
            ring,
            paddings: AtomicU64::new(0),
            padder: AtomicU8::new(ON_DEMAND),
        }
    }

    pub(super) fn ring(&self) -> &Arc<RingBuffer> {
        &self.ring
    }

    pub(super) fn paddings(&self) -> u64 {
        self.paddings.load(Ordering::Relaxed)
    }

    /// Returns whether the padder should service this ring before its time comes.
    pub(super) fn wants_service(&self) -> bool {
        // Relaxed: `call_producer` follows each change to `CALLED`. By the SeqCst fences of the padder's
        // event, either this load sees the change, or the call wakes the padder.
        match self.padder.load(Ordering::Relaxed) {
            ON_DEMAND => self.ring.wants_runs(),
            waits_for => waits_for == CALLED,
        }
    }

    /// Discards stale runs if a refresh is due, then pads the ring if it is low or its time has come.
    /// Returns the time until the next service, and `Err` when the ring needs no padder any more.
    pub(super) fn service(&self, idle: PadderIdle) -> Result<Option<Duration>, Closed> {
        let ring = &*self.ring;
        let mut retry = *self.retry.lock()?;
        let done = self.with_state(By::Padder, |state| {
            state.refresh_if_due(ring);
            state.clear_past_forecast(ring);
            let mut is_full = false;
            if self.wants_service() || state.is_due() || retry.is_some_and(Deadline::is_over) {
                retry = None;
                state.note_drying(ring);
                let has_more = state.pad(ring, SERVICE_RUNS) == SERVICE_RUNS;
                state.plan(has_more.then_some(Duration::ZERO));
                if !has_more && idle == PadderIdle::Sleep {
                    state.make_forecast(ring);
                }
                // A source that is paused or has ended leaves the ring less than full.
                is_full = !has_more && !ring.is_source_paused() && !state.is_draining(ring);
                self.paddings.fetch_add(1, Ordering::Relaxed);
            }
            if state.is_over(ring) {
                return Err(Closed);
            }
            if state.is_draining(ring) {
                self.padder.store(DRAINING, Ordering::Relaxed);
            }
            Ok((is_full, state.next_time()))
        });
        let Some(done) = done? else { return Ok(None) };
        let (is_full, next_time) = done?;
        if is_full && ring.why_closed().is_none() {
            // Only with the state back: the handler may be slow, and takers can help meanwhile.
            retry = ring.retry_when_full().map(|time| Deadline::after(Some(time)));
        }
        *self.retry.lock()? = retry;
        Ok(next_time.into_iter().chain(retry.and_then(Deadline::remaining)).min())
    }

    /// Fills the ring for the first time.
    pub(super) fn begin(&self) {
        let _ = self.with_state(By::Helper, |state| {
            state.pad(&self.ring, u64::MAX);
            state.plan(None);
            self.paddings.fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(super) fn help(&self) -> bool {
        // The source has nothing yet. The padder continues once it has.
        if self.ring.is_source_paused() {
            return false;
        }
        if self.ring.why_closed().is_some() {
            return true;
        }
        let done = self.with_state(By::Helper, |state| {
            let published = state.pad(&self.ring, HELP_RUNS);
            if self.ring.is_source_paused() {
                // Call the padder, so that it learns when to continue.
                state.plan(None);
                self.padder.store(CALL_OWED, Ordering::Relaxed);
            }
            published
        });
        let Ok(Some(published)) = done else { return false };
        // If the source has ended, the taker must try again to learn of it.
        published > 0 || self.ring.why_closed().is_some()
    }

    /// Closes the ring, discards what is in it, and returns a number above all that were taken before. Waits for
    /// nobody: what a padding thread still puts is discarded.
    pub(super) fn close(&self) -> Option<u64> {
        self.ring.close();
        self.ring.end()
    }

    /// Makes the next service refresh, whatever the time.
    #[cfg(any(test, feature = "simulation"))]
    pub(super) fn hurry(&self) {
        let mut state = self.state.lock().expect("no child");
        state.as_mut().expect("nobody else is at it").hurry();
    }

    /// Takes the state out, does the job, puts the state back, calls the padder if that is owed, and writes
    /// the notes to the log. Returns `None` if another thread has the state. A job does not panic, because
    /// panics of sources are caught. If one did, the state would be dropped, and the ring closed.
    fn with_state<R>(
        &self,
        by: By,
        job: impl FnOnce(&mut PadState) -> R,
    ) -> Result<Option<R>, Forked> {
        let mut slot = self.state.lock()?;
        let state = slot.take();
        if by == By::Padder {
            match (&state, self.padder.load(Ordering::Relaxed)) {
                (None, _) => self.padder.store(CALL_OWED, Ordering::Relaxed),
                (Some(_), DRAINING) => {}
                (Some(_), _) => self.padder.store(ON_DEMAND, Ordering::Relaxed),
            }
        }
        drop(slot);
        let Some(mut state) = state else { return Ok(None) };
        let scope = NoBlockScope::begin();
        let done = job(&mut state);
        let notes = state.notes();
        let mut slot = match self.state.lock() {
            Ok(slot) => slot,
            Err(forked) => {
                // Only the parent may drop it.
                mem::forget(state);
                return Err(forked);
            }
        };
        *slot = Some(state);
        let call_owed = self.padder.load(Ordering::Relaxed) == CALL_OWED;
        if call_owed {
            self.padder.store(CALLED, Ordering::Relaxed);
        }
        drop(slot);
        if call_owed {
            self.ring.call_producer();
        }
        drop(scope);
        notes.into_iter().for_each(Note::log);
        Ok(Some(done))
    }
}

#[cfg(all(test, not(uidring_loom)))]
mod tests {
    use std::thread;

    use super::*;
    use crate::ring::RingOptions;

    /// Eight runs of one number, low at four.
    fn padded() -> PaddedRing {
        let (producer, _) = RingBuffer::new(RingOptions::new(3).run_bits(0)).expect("possible");
        let mut next = 0;
        let source = move || {
            next += 1;
            Some(next)
        };
        let padded = PaddedRing::new(producer, source, None);
        padded.begin();
        padded
    }

    fn take(padded: &PaddedRing, count: usize) {
        for _ in 0..count {
            padded.ring().try_take().expect("there");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes very long, and its time is not the real one")]
    fn a_padding_is_foreseen_by_the_pace_of_the_takers() {
        // Try again if this thread was suspended for longer than the padder predicts.
        let (padded, time) = (0..100)
            .find_map(|_| {
                let padded = padded();
                take(&padded, 5);
                thread::sleep(Duration::from_millis(1));
                let time = padded.service(PadderIdle::Sleep).ok()??;
                Some((padded, time))
            })
            .expect("a forecast");
        assert!(time < Duration::from_millis(50), "{time:?}");
        // Takers that keep the pace need not wake the padder; faster ones do.
        take(&padded, 5);
        assert!(!padded.wants_service());
        take(&padded, 1);
        assert!(padded.wants_service());
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes very long, and its time is not the real one")]
    fn a_foreseen_padding_that_is_not_needed_is_left_to_the_takers() {
        let padded = loop {
            let padded = padded();
            take(&padded, 5);
            thread::sleep(Duration::from_millis(1));
            if let Ok(Some(time)) = padded.service(PadderIdle::Sleep) {
                thread::sleep(time);
                break padded;
            }
        };
        let paddings = padded.paddings();
        assert!(matches!(padded.service(PadderIdle::Sleep), Ok(None)));
        assert_eq!(padded.paddings(), paddings);
        take(&padded, 3);
        assert!(!padded.wants_service());
        take(&padded, 1);
        assert!(padded.wants_service());
    }

    #[test]
    fn a_padder_that_polls_foresees_nothing() {
        let padded = padded();
        take(&padded, 5);
        thread::sleep(Duration::from_millis(1));
        assert!(matches!(padded.service(PadderIdle::BusyPoll), Ok(None)));
    }
}
