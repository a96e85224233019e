//! One ring and what it takes to pad it, shared by the padder and the takers that help it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::{Issued, NextRun, RunSource};
use crate::clock::{Deadline, Seldom};
use crate::ring::{CloseReason, Producer, RingBuffer};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock, try_lock};

/// A ring that is padded.
#[derive(Debug)]
pub(super) struct Served {
    ring: Arc<RingBuffer>,
    paddings: AtomicU64,
    /// The source has ended, and what is left in the ring still has to be kept fresh.
    draining: AtomicBool,
    /// A helper has changed the time at which the padder should come.
    called: AtomicBool,
    work: Mutex<Work>,
}

/// What only one thread at a time may use.
struct Work {
    /// Gone when the ring is closed, or the source has ended and nothing is left.
    producer: Option<Producer>,
    source: Box<dyn RunSource>,
    schedule: Option<Duration>,
    /// When to pad, however full the ring is.
    due: Option<Deadline>,
    /// When to ask the source again what is fresh.
    refresh_due: Option<Deadline>,
    /// How long the source has no run to give.
    held_for: Option<Duration>,
    /// The first number of the last run that was put.
    last_run: Option<u64>,
    /// What was taken, once the ring is at its end.
    issued: Option<Issued>,
    events: Events,
}

/// What is told now and then.
#[derive(Default)]
struct Events {
    abandoned: u64,
    dried: Seldom,
    held: Seldom,
    stale: Seldom,
}

impl Served {
    pub(super) fn new(
        producer: Producer,
        source: impl RunSource,
        schedule: Option<Duration>,
    ) -> Self {
        let ring = Arc::clone(producer.ring());
        let work = Work {
            producer: Some(producer),
            source: Box::new(source),
            schedule,
            due: None,
            refresh_due: None,
            held_for: None,
            last_run: None,
            issued: None,
            events: Events::default(),
        };
        Self {
            ring,
            paddings: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            called: AtomicBool::new(false),
            work: Mutex::new(work),
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
        self.called.load(Ordering::Relaxed) || self.wants_runs()
    }

    fn wants_runs(&self) -> bool {
        self.ring.wants_runs() && !self.draining.load(Ordering::Relaxed)
    }

    /// Has the ring rid of what is stale, if it is time, and fills it if it is below its padding
    /// factor, or its time has come. Returns how long it may be before the next time comes, and
    /// `Err` when the ring needs no padder any more.
    pub(super) fn attend(&self) -> Result<Option<Duration>, Closed> {
        let mut work = lock(&self.work);
        self.called.store(false, Ordering::Relaxed);
        if work.refresh_due.is_none_or(is_over) {
            work.refresh(&self.ring);
        }
        if self.wants_runs() || work.due.is_some_and(is_over) {
            work.tell_of_drying(&self.ring);
            work.pad(&self.ring, |producer, source| producer.publish(source));
            self.paddings.fetch_add(1, Ordering::Relaxed);
            let retry_soon = {
                // The handler runs without the lock, so that it may take, and help, itself.
                drop(work);
                self.ring.full_again()
            };
            work = lock(&self.work);
            work.plan(retry_soon);
        }
        if self.is_over(&work) {
            work.producer = None;
            return Err(Closed);
        }
        Ok(work.next_time())
    }

    /// Fills the ring for the first time.
    pub(super) fn begin(&self) {
        let mut work = lock(&self.work);
        work.pad(&self.ring, |producer, source| producer.publish(source));
        work.plan(None);
        self.paddings.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn help(&self) -> bool {
        // The source has nothing yet, and the padder goes on when it has.
        if self.ring.is_held() {
            return false;
        }
        let Some(mut work) = try_lock(&self.work) else { return false };
        let published = work.pad(&self.ring, |producer, source| producer.publish_batch(source));
        if work.held_for.is_some() {
            // The padder has to know when to go on.
            work.plan(None);
            self.called.store(true, Ordering::Relaxed);
            drop(work);
            self.ring.call_producer();
        }
        // The end of the source is news to the taker, too.
        published > 0 || self.ring.why_gone().is_some()
    }

    /// Closes the ring, and throws away what is in it; says what was taken before.
    pub(super) fn close(&self) -> Option<Issued> {
        // A child has nobody to tell, and the locks may be held for ever.
        if self.ring.is_forked() {
            return None;
        }
        // First, so that a padding under way ends, and nobody waits for us.
        self.ring.close();
        let mut work = lock(&self.work);
        work.end(&self.ring);
        work.issued
    }

    /// Has the next attendance refresh, whatever the time.
    #[cfg(any(test, feature = "simulation"))]
    pub(super) fn hurry(&self) {
        let mut work = lock(&self.work);
        work.refresh_due = None;
        work.due = work.held_for.map(|_| Deadline::after(Some(Duration::ZERO)));
    }

    fn is_over(&self, work: &Work) -> bool {
        let Some(producer) = &work.producer else { return true };
        if !producer.is_closed() {
            return false;
        }
        // What a finished ring still holds grows old all the same, if its source knows about age.
        let draining =
            producer.is_finished() && work.refresh_due.is_some() && self.ring.stats().available > 0;
        self.draining.store(draining, Ordering::Relaxed);
        !draining
    }
}

/// The ring of a `Served` needs no padder any more.
pub(super) struct Closed;

fn is_over(deadline: Deadline) -> bool {
    deadline.remaining() == Some(Duration::ZERO)
}

impl Work {
    /// Lets the producer publish runs from the source. A source that ends finishes the ring; one
    /// that panics closes it, which is what its takers then get to know.
    fn pad(
        &mut self,
        ring: &RingBuffer,
        publish: impl FnOnce(&mut Producer, &mut dyn FnMut() -> Option<u64>) -> u64,
    ) -> u64 {
        self.held_for = None;
        let source = &mut self.source;
        let Some(producer) = self.producer.as_mut().filter(|producer| !producer.is_closed()) else {
            return 0;
        };
        let (mut ended, mut held_for) = (false, None);
        let last_run = &mut self.last_run;
        let padded = catch_unwind(AssertUnwindSafe(|| {
            source.begin()?;
            Some(publish(producer, &mut || match source.next_run() {
                NextRun::Run(first) => {
                    *last_run = Some(first);
                    Some(first)
                }
                NextRun::NotYet(wait) => {
                    held_for = Some(wait);
                    None
                }
                NextRun::End => {
                    ended = true;
                    None
                }
            }))
        }));
        let published = match padded {
            Ok(Some(published)) => published,
            Ok(None) => {
                self.lost(ring);
                return 0;
            }
            Err(_) => {
                self.panicked(ring);
                return 0;
            }
        };
        if ended {
            producer.finish();
        }
        ring.hold(held_for.is_some());
        self.held_for = held_for;
        let waited_for = held_for.is_some() && ring.stats().available == 0;
        if waited_for && self.events.held.is_time() {
            tracing::warn!(
                "padding waits: the limit of borrowing is reached, or a lease to be renewed"
            );
        }
        published
    }

    /// Throws away what has become stale.
    fn refresh(&mut self, ring: &RingBuffer) {
        self.refresh_due = None;
        let (Some(interval), Some(producer)) = (self.source.refresh(), &mut self.producer) else {
            return;
        };
        self.refresh_due = Some(Deadline::after(Some(interval)));
        let source = &mut self.source;
        let oldest = match catch_unwind(AssertUnwindSafe(|| source.begin())) {
            Ok(Some(oldest)) => oldest,
            Ok(None) => return self.lost(ring),
            Err(_) => return self.panicked(ring),
        };
        ring.freshness().set_oldest(oldest);
        let discarded = producer.discard_below(oldest);
        if discarded > 0 && self.events.stale.is_time() {
            tracing::debug!(discarded, "stale uids discarded");
        }
    }

    fn lost(&mut self, ring: &RingBuffer) {
        tracing::error!("nothing of a ring may be issued any more; the ring is closed");
        ring.close_for(CloseReason::LeaseLost);
        self.end(ring);
    }

    fn panicked(&mut self, ring: &RingBuffer) {
        tracing::error!("the source of a ring's runs panicked; the ring is closed");
        self.end(ring);
    }

    /// Nothing of the ring is issued any more: nobody would see to it that it is not stale.
    fn end(&mut self, ring: &RingBuffer) {
        self.producer = None;
        // Now that nobody publishes: also what a producer left that was gone before.
        let rest = ring.discard_rest();
        ring.freshness().set_oldest(u64::MAX);
        if self.issued.is_none() {
            let last = self.last_run.map(|first| Issued::UpTo(first + ring.run_length() - 1));
            self.issued = rest.map(Issued::Below).or(last);
        }
    }

    fn tell_of_drying(&mut self, ring: &RingBuffer) {
        let abandoned = ring.stats().abandoned;
        if abandoned > self.events.abandoned && self.events.dried.is_time() {
            tracing::debug!(abandoned, "takers found the ring dry");
        }
        self.events.abandoned = abandoned;
    }

    /// Sets the time of the next padding: as soon as the handler, the source or the schedule
    /// wants.
    fn plan(&mut self, soon: Option<Duration>) {
        let times = [soon, self.held_for, self.schedule];
        self.due = times.into_iter().flatten().min().map(|time| Deadline::after(Some(time)));
    }

    fn next_time(&self) -> Option<Duration> {
        let times = [self.due, self.refresh_due];
        times.into_iter().flatten().filter_map(Deadline::remaining).min()
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}
