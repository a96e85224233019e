//! One ring and what it takes to pad it, shared by the padder and the takers that help it.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::pad_state::{Note, PadState, is_over};
use super::source::RunSource;
use crate::clock::Deadline;
use crate::ring::{Producer, RingBuffer};
use crate::sync::{AtomicBool, AtomicU64, ForkGuarded, Forked, Ordering, Serving};

/// A ring that is padded.
///
/// Padding calls a caller's code, so no lock is held meanwhile: a thread that pads takes the work away
/// and brings it back. Nobody waits for it to come back: takers try again, a padder that found it gone
/// is called when it is there, and who closes the ring does so beside it.
#[derive(Debug)]
pub(super) struct PaddedRing {
    ring: Arc<RingBuffer>,
    paddings: AtomicU64,
    /// A helper has changed the time at which the padder should come, or has brought the work back.
    called: AtomicBool,
    /// The padder has come while the work was away. Written under the lock of `work`.
    came: AtomicBool,
    /// The source has ended, and what is left in the ring still has to be kept fresh.
    is_draining: AtomicBool,
    /// `None` while it is away.
    work: ForkGuarded<Option<Box<PadState>>>,
    /// When to pad because the put policy's handler wants that.
    retry: ForkGuarded<Option<Deadline>>,
}

#[cfg(all(test, uidring_loom))]
#[path = "models.rs"]
mod models;

/// So many runs are put in a turn: more than the usual ring holds. Then other rings of the same padder
/// have their turns, be this one's takers as fast as the padder or not.
const TURN: u64 = 1024;

/// So many runs are put by a taker that helps.
const HELP: u64 = 64;

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
        let work = Box::new(PadState::new(producer, source, schedule));
        Self {
            work: ForkGuarded::new(ring.life(), Some(work)),
            retry: ForkGuarded::new(ring.life(), None),
            ring,
            paddings: AtomicU64::new(0),
            called: AtomicBool::new(false),
            came: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
        }
    }

    pub(super) fn ring(&self) -> &Arc<RingBuffer> {
        &self.ring
    }

    pub(super) fn paddings(&self) -> u64 {
        self.paddings.load(Ordering::Relaxed)
    }

    /// Whether the padder should service to this ring before its time comes.
    pub(super) fn wants_attention(&self) -> bool {
        // Relaxed: the padder looks here between the fences of its event.
        let work_is_away = self.came.load(Ordering::Relaxed);
        self.called.load(Ordering::Relaxed) || (self.wants_runs() && !work_is_away)
    }

    fn wants_runs(&self) -> bool {
        self.ring.wants_runs() && !self.is_draining.load(Ordering::Relaxed)
    }

    /// Discards stale runs if a refresh is due, then pads the ring if it is low or its time has come.
    /// Returns how long it may be before the next time comes, and `Err` when the ring needs no
    /// padder any more.
    pub(super) fn service(&self) -> Result<Option<Duration>, Closed> {
        self.called.store(false, Ordering::Relaxed);
        let ring = &*self.ring;
        let mut retry = *self.retry.lock()?;
        let done = self.with_state(true, |work| {
            work.refresh_if_due(ring);
            let mut is_full = false;
            if self.wants_runs() || work.is_due() || retry.is_some_and(is_over) {
                work.note_drying(ring);
                is_full = work.pad(ring, TURN) < TURN;
                work.plan((!is_full).then_some(Duration::ZERO));
                self.paddings.fetch_add(1, Ordering::Relaxed);
            }
            if work.is_over(ring, &self.is_draining) {
                return Err(Closed);
            }
            Ok((is_full, work.next_time()))
        });
        let Some(done) = done? else { return Ok(None) };
        let (is_full, next_time) = done?;
        if is_full && ring.why_gone().is_none() {
            // With the work back: a handler may be slow, and takers help meanwhile.
            retry = ring.full_again().map(|time| Deadline::after(Some(time)));
            *self.retry.lock()? = retry;
        }
        Ok(next_time.into_iter().chain(retry.and_then(Deadline::remaining)).min())
    }

    /// Fills the ring for the first time.
    pub(super) fn begin(&self) {
        let _ = self.with_state(false, |work| {
            work.pad(&self.ring, u64::MAX);
            work.plan(None);
            self.paddings.fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(super) fn help(&self) -> bool {
        // The source has nothing yet, and the padder goes on when it has.
        if self.ring.is_held() {
            return false;
        }
        if self.ring.why_gone().is_some() {
            return true;
        }
        let done = self.with_state(false, |work| {
            let published = work.pad(&self.ring, HELP);
            if self.ring.is_held() {
                // The padder has to know when to go on.
                work.plan(None);
                self.call_padder();
            }
            published
        });
        let Ok(Some(published)) = done else { return false };
        // The end of the source is news to the taker, too.
        published > 0 || self.ring.why_gone().is_some()
    }

    fn call_padder(&self) {
        self.called.store(true, Ordering::Relaxed);
        self.ring.call_producer();
    }

    /// Closes the ring, and throws away what is in it; says what was taken before. It waits for
    /// nobody: what a thread that pads still puts is thrown away.
    pub(super) fn close(&self) -> Option<u64> {
        self.ring.close();
        self.ring.end()
    }

    /// Has the next attendance refresh, whatever the time.
    #[cfg(any(test, feature = "simulation"))]
    pub(super) fn hurry(&self) {
        let mut work = self.work.lock().expect("no child");
        work.as_mut().expect("nobody else is at it").hurry();
    }

    /// Takes the work away, does the job, brings the work back and tells what came of it; `None` where
    /// another thread has it, which then calls the padder, if that is who came. A job does not panic,
    /// for sources that do are caught; if it did, the work would go, and its ring close.
    fn with_state<R>(
        &self,
        is_padder: bool,
        job: impl FnOnce(&mut PadState) -> R,
    ) -> Result<Option<R>, Forked> {
        let mut work = {
            let mut place = self.work.lock()?;
            let work = place.take();
            if is_padder {
                self.came.store(work.is_none(), Ordering::Relaxed);
            }
            let Some(work) = work else { return Ok(None) };
            work
        };
        let serving = Serving::begin();
        let done = job(&mut work);
        let notes = work.notes();
        let came = match self.work.lock() {
            Ok(mut place) => {
                *place = Some(work);
                self.came.swap(false, Ordering::Relaxed)
            }
            Err(forked) => {
                // Whatever its end would do is the parent's to do.
                mem::forget(work);
                return Err(forked);
            }
        };
        if came {
            self.call_padder();
        }
        drop(serving);
        notes.into_iter().for_each(Note::tell);
        Ok(Some(done))
    }
}
