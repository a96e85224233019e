//! What it takes to pad a ring, for the one thread that is just at it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::{NextRun, RunSource};
use crate::clock::{Deadline, Seldom};
use crate::ring::{CloseReason, Producer, PutError, RingBuffer};
use crate::sync::{AtomicBool, Ordering, log, unlocked};

/// The producer of a ring and its source, and what is known of them.
///
/// The source is a caller's code, and may do anything. After each call of it this looks whether the
/// process was forked in it, and whether the ring was closed.
pub(super) struct Work {
    /// Gone when the ring is closed, or the source has ended and nothing is left.
    producer: Option<Producer>,
    source: Box<dyn RunSource>,
    /// When to ask the source again what is fresh.
    pub(super) refresh_due: Option<Deadline>,
    /// How long the source has no run to give.
    pub(super) held_for: Option<Duration>,
    seldom: SeldomTold,
    notes: Notes,
}

/// What came of a padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Padded {
    /// How many runs were put.
    pub(super) published: u64,
    pub(super) end: End,
}

/// How a padding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The ring is full, or the source has nothing to give.
    Done,
    /// There may be room for more.
    Open,
}

impl Padded {
    const NOTHING: Self = Self { published: 0, end: End::Done };
}

/// What is told now and then.
#[derive(Default)]
struct SeldomTold {
    dryings: u64,
    dried: Seldom,
    held: Seldom,
    stale: Seldom,
}

/// What is to be told when the work is done, for a subscriber may do anything, too.
#[derive(Debug, Default)]
pub(super) struct Notes {
    held: bool,
    lost: bool,
    panicked: bool,
    misplaced: Option<PutError>,
    stale: u64,
    dried: u64,
}

impl Work {
    pub(super) fn new(producer: Producer, source: impl RunSource) -> Self {
        Self {
            producer: Some(producer),
            source: Box::new(source),
            refresh_due: None,
            held_for: None,
            seldom: SeldomTold::default(),
            notes: Notes::default(),
        }
    }

    /// Lets the producer publish runs from the source, so many batches at most. A source that ends
    /// finishes the ring; one that panics closes it, which is what its takers then get to know.
    pub(super) fn pad(&mut self, ring: &RingBuffer, batches: u64) -> Padded {
        self.held_for = None;
        let source = &mut self.source;
        let Some(producer) = self.producer.as_mut().filter(|producer| !producer.is_closed()) else {
            return Padded::NOTHING;
        };
        let (mut ended, mut held_for) = (false, None);
        let (mut published, mut end) = (0, End::Open);
        // One that ends nowhere is empty, and refused.
        let run = |first: u64, length| Some(first..first.checked_add(length).unwrap_or(first));
        unlocked();
        let padded = catch_unwind(AssertUnwindSafe(|| {
            source.begin()?;
            for _ in 0..batches {
                let batch = producer.publish_batch(|| match source.next_run() {
                    // What comes out of it in a forked child is the parent's, and a wiped slot must
                    // stay so. Of a ring that was closed in it, it is told already what was issued.
                    _ if ring.why_gone().is_some() => None,
                    NextRun::Run(first) => run(first, ring.run_length()),
                    NextRun::Part { first, length } => run(first, length),
                    NextRun::NotYet(wait) => {
                        held_for = Some(wait);
                        None
                    }
                    NextRun::End => {
                        ended = true;
                        None
                    }
                });
                let batch = match batch {
                    Ok(batch) => batch,
                    Err(error) => return Some(Err(error)),
                };
                published += batch;
                if batch == 0 || ended || held_for.is_some() {
                    end = End::Done;
                    break;
                }
            }
            Some(Ok(()))
        }));
        if ring.is_forked() {
            return Padded::NOTHING;
        }
        match padded {
            Ok(Some(Ok(()))) => {}
            Ok(Some(Err(error))) => {
                self.notes.misplaced = Some(error);
                self.end(ring);
                return Padded::NOTHING;
            }
            Ok(None) => {
                self.lost(ring);
                return Padded::NOTHING;
            }
            Err(_) => {
                self.panicked(ring);
                return Padded::NOTHING;
            }
        }
        if ended {
            producer.finish();
        }
        ring.hold(held_for.is_some());
        self.held_for = held_for;
        let waited_for = held_for.is_some() && !ring.has_next();
        self.notes.held |= waited_for && self.seldom.held.is_time();
        Padded { published, end }
    }

    /// Throws away what has become stale.
    pub(super) fn refresh(&mut self, ring: &RingBuffer) {
        self.refresh_due = None;
        let Self { producer: Some(producer), source, .. } = self else { return };
        // A source of a ring that was ended is not asked.
        if ring.freshness().is_expired() {
            return;
        }
        unlocked();
        let asked = catch_unwind(AssertUnwindSafe(|| {
            source.refresh().map(|interval| (interval, source.begin()))
        }));
        // A child would take itself for fresh.
        if ring.is_forked() {
            return;
        }
        let (interval, oldest) = match asked {
            Ok(None) => return,
            Ok(Some((interval, Some(oldest)))) => (interval, oldest),
            Ok(Some((_, None))) => return self.lost(ring),
            Err(_) => return self.panicked(ring),
        };
        self.refresh_due = Some(Deadline::after(Some(interval)));
        ring.freshness().set_oldest(oldest);
        let discarded = producer.discard_below(oldest);
        if discarded > 0 && self.seldom.stale.is_time() {
            self.notes.stale = discarded;
        }
    }

    fn lost(&mut self, ring: &RingBuffer) {
        self.notes.lost = true;
        ring.close_for(CloseReason::LeaseLost);
        self.end(ring);
    }

    fn panicked(&mut self, ring: &RingBuffer) {
        self.notes.panicked = true;
        self.end(ring);
    }

    /// Nothing of the ring is issued any more: nobody would see to it that it is not stale.
    fn end(&mut self, ring: &RingBuffer) {
        self.producer = None;
        ring.end();
    }

    /// Whether the ring needs no padder any more. `is_draining` is set to whether what is left still has
    /// to be kept fresh.
    pub(super) fn is_over(&mut self, ring: &RingBuffer, is_draining: &AtomicBool) -> bool {
        let Some(producer) = &self.producer else { return true };
        if !producer.is_closed() {
            return false;
        }
        // What a finished ring still holds, and what takers have leased of it, grows old all the
        // same, if its source knows about age.
        let fresh = ring.freshness().oldest() < ring.last_end();
        let draining = producer.is_finished() && self.refresh_due.is_some() && fresh;
        is_draining.store(draining, Ordering::Relaxed);
        if !draining {
            self.producer = None;
        }
        !draining
    }

    pub(super) fn note_drying(&mut self, ring: &RingBuffer) {
        let dryings = ring.stats().dried;
        if dryings > self.seldom.dryings && self.seldom.dried.is_time() {
            self.notes.dried = dryings;
        }
        self.seldom.dryings = dryings;
    }

    /// What is to be told, once.
    pub(super) fn notes(&mut self) -> Notes {
        std::mem::take(&mut self.notes)
    }
}

impl Notes {
    /// To be called when others can do the work again.
    pub(super) fn tell(self) {
        let Self { held, lost, panicked, misplaced, stale, dried } = self;
        if lost {
            log!(error, "nothing of a ring may be issued any more; the ring is closed");
        }
        if panicked {
            log!(error, "the source of a ring's runs panicked; the ring is closed");
        }
        if let Some(error) = misplaced {
            log!(error, %error, "a ring is closed, for its source is at fault");
        }
        if held {
            log!(
                warn,
                "padding waits: the limit of borrowing is reached, or a lease to be renewed"
            );
        }
        if stale > 0 {
            log!(debug, discarded = stale, "stale uids discarded");
        }
        if dried > 0 {
            log!(debug, dryings = dried, "takers found the ring dry");
        }
    }
}
