//! One ring and what it takes to pad it, shared by the padder and the takers that help it.

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::RunSource;
use super::work::{End, Notes, Work};
use crate::clock::Deadline;
use crate::ring::{Producer, RingBuffer};
use crate::sync::{AtomicBool, AtomicU64, ForkGuarded, Forked, Ordering, Serving};

/// A ring that is padded.
///
/// Padding calls a caller's code, so no lock is held meanwhile: a thread that pads takes the work away
/// and brings it back. Nobody waits for it to come back: takers try again, a padder that found it gone
/// is called when it is there, and who closes the ring does so beside it.
#[derive(Debug)]
pub(super) struct Served {
    ring: Arc<RingBuffer>,
    paddings: AtomicU64,
    /// A helper has changed the time at which the padder should come, or has brought the work back.
    called: AtomicBool,
    /// The padder has come while the work was away. Written under the lock of `place`.
    came: AtomicBool,
    /// The source has ended, and what is left in the ring still has to be kept fresh.
    is_draining: AtomicBool,
    place: ForkGuarded<Place>,
    schedule: Option<Duration>,
}

#[cfg(all(test, uidring_loom))]
#[path = "models.rs"]
mod models;

/// Where the work lies, and what must be known of it while it is away.
struct Place {
    work: Option<Box<Work>>,
    /// When to pad, however full the ring is.
    due: Option<Deadline>,
    /// When to ask the source again what is fresh.
    refresh_due: Option<Deadline>,
    /// How long the source has no run to give.
    held_for: Option<Duration>,
}

/// So many batches of runs are put in a turn: more than the usual ring holds. Then other rings of the
/// same padder have their turns, be this one's takers as fast as the padder or not.
const BATCHES: u64 = 16;

/// The ring of a `Served` needs no padder any more.
pub(super) struct Closed;

impl Served {
    pub(super) fn new(
        producer: Producer,
        source: impl RunSource,
        schedule: Option<Duration>,
    ) -> Self {
        let ring = Arc::clone(producer.ring());
        let life = ring.life();
        let place = Place {
            work: Some(Box::new(Work::new(producer, source))),
            due: None,
            refresh_due: None,
            held_for: None,
        };
        Self {
            ring,
            paddings: AtomicU64::new(0),
            called: AtomicBool::new(false),
            came: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            place: ForkGuarded::new(life, place),
            schedule,
        }
    }

    pub(super) fn ring(&self) -> &Arc<RingBuffer> {
        &self.ring
    }

    pub(super) fn paddings(&self) -> u64 {
        self.paddings.load(Ordering::Relaxed)
    }

    /// Whether the padder should attend to this ring before its time comes.
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
    pub(super) fn attend(&self) -> Result<Option<Duration>, Closed> {
        self.called.store(false, Ordering::Relaxed);
        let ring = &*self.ring;
        let done = self.at_work(true, |work, due| {
            if work.refresh_due.is_none_or(is_over) {
                work.refresh(ring);
            }
            let mut padded = None;
            if self.wants_runs() || due.is_some_and(is_over) {
                work.note_drying(ring);
                padded = Some(work.pad(ring, BATCHES).end);
                self.paddings.fetch_add(1, Ordering::Relaxed);
            }
            (padded, work.is_over(ring, &self.is_draining))
        });
        let Some(((padded, is_over), notes)) = done.map_err(|Forked| Closed)? else {
            return Ok(None);
        };
        notes.tell();
        if is_over || ring.is_forked() {
            return Err(Closed);
        }
        match padded {
            None => {}
            Some(End::Open) => self.plan(Some(Duration::ZERO)),
            // The handler may take, and help, itself.
            Some(End::Done) => self.plan(ring.full_again()),
        }
        self.next_time()
    }

    /// Fills the ring for the first time.
    pub(super) fn begin(&self) {
        let runs = self.ring.capacity() / self.ring.run_length();
        let done = self.at_work(false, |work, _| work.pad(&self.ring, runs + 1));
        let Ok(Some((_, notes))) = done else { return };
        self.paddings.fetch_add(1, Ordering::Relaxed);
        self.plan(None);
        notes.tell();
    }

    pub(super) fn help(&self) -> bool {
        // The source has nothing yet, and the padder goes on when it has.
        if self.ring.is_held() {
            return false;
        }
        if self.ring.why_gone().is_some() {
            return true;
        }
        let done = self.at_work(false, |work, _| {
            let published = work.pad(&self.ring, 1).published;
            (published, work.held_for.is_some())
        });
        let Ok(Some(((published, is_held), notes))) = done else { return false };
        if is_held {
            // The padder has to know when to go on.
            self.plan(None);
            self.called.store(true, Ordering::Relaxed);
            self.ring.call_producer();
        }
        notes.tell();
        // The end of the source is news to the taker, too.
        published > 0 || self.ring.why_gone().is_some()
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
        let mut place = self.place.lock().expect("no child");
        place.work.as_mut().expect("nobody else is at it").refresh_due = None;
        place.due = place.held_for.map(|_| Deadline::after(Some(Duration::ZERO)));
    }

    /// Sets the time of the next padding: as soon as the handler, the source or the schedule
    /// wants.
    fn plan(&self, soon: Option<Duration>) {
        let Ok(mut place) = self.place.lock() else { return };
        let times = [soon, place.held_for, self.schedule];
        place.due = times.into_iter().flatten().min().map(|time| Deadline::after(Some(time)));
    }

    fn next_time(&self) -> Result<Option<Duration>, Closed> {
        let place = self.place.lock().map_err(|Forked| Closed)?;
        let times = [place.due, place.refresh_due];
        Ok(times.into_iter().flatten().filter_map(Deadline::remaining).min())
    }

    /// Takes the work away, does the job and brings it back; `None` where another thread has it, which
    /// then calls the padder, if that is who came.
    fn at_work<R>(
        &self,
        is_padder: bool,
        job: impl FnOnce(&mut Work, Option<Deadline>) -> R,
    ) -> Result<Option<(R, Notes)>, Forked> {
        let (mut work, due) = {
            let mut place = self.place.lock()?;
            let work = place.work.take();
            if is_padder {
                self.came.store(work.is_none(), Ordering::Relaxed);
            }
            let Some(work) = work else { return Ok(None) };
            (work, place.due)
        };
        let serving = Serving::begin();
        // What may panic is caught further in; whatever else does, the work comes back.
        let done = catch_unwind(AssertUnwindSafe(|| job(&mut work, due)));
        let notes = work.notes();
        self.bring_back(work)?;
        drop(serving);
        done.map_or_else(|panic| resume_unwind(panic), |done| Ok(Some((done, notes))))
    }

    fn bring_back(&self, work: Box<Work>) -> Result<(), Forked> {
        let mut place = match self.place.lock() {
            Ok(place) => place,
            Err(Forked) => {
                // Whatever its end would do is the parent's to do.
                mem::forget(work);
                return Err(Forked);
            }
        };
        (place.refresh_due, place.held_for) = (work.refresh_due, work.held_for);
        place.work = Some(work);
        let came = self.came.load(Ordering::Relaxed);
        if came {
            self.came.store(false, Ordering::Relaxed);
            self.called.store(true, Ordering::Relaxed);
        }
        drop(place);
        if came {
            self.ring.call_producer();
        }
        Ok(())
    }
}

fn is_over(deadline: Deadline) -> bool {
    deadline.remaining() == Some(Duration::ZERO)
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("is_away", &self.work.is_none()).finish_non_exhaustive()
    }
}
