//! One ring and what it takes to pad it, shared by the padder and the takers that help it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::RunSource;
use crate::clock::Deadline;
use crate::ring::{Producer, RingBuffer};
use crate::sync::{AtomicU64, Mutex, Ordering, lock, try_lock};

/// A ring that is padded.
#[derive(Debug)]
pub(super) struct Served {
    ring: Arc<RingBuffer>,
    paddings: AtomicU64,
    work: Mutex<Work>,
}

/// What only one thread at a time may use.
struct Work {
    /// Gone when the ring is closed or the source has ended.
    producer: Option<Producer>,
    source: Box<dyn RunSource>,
    schedule: Option<Duration>,
    /// When to pad, however full the ring is.
    due: Option<Deadline>,
}

impl Served {
    pub(super) fn new(
        producer: Producer,
        source: impl RunSource,
        schedule: Option<Duration>,
    ) -> Self {
        let ring = Arc::clone(producer.ring());
        let (source, producer) = (Box::new(source), Some(producer));
        let work = Work { producer, source, schedule, due: None };
        Self { ring, paddings: AtomicU64::new(0), work: Mutex::new(work) }
    }

    pub(super) fn ring(&self) -> &Arc<RingBuffer> {
        &self.ring
    }

    pub(super) fn paddings(&self) -> u64 {
        self.paddings.load(Ordering::Relaxed)
    }

    /// Fills the ring if it is below its padding factor, or its time has come. Returns how long it
    /// may be before the next time comes, and `Err` when the ring needs no padder any more.
    pub(super) fn attend(&self) -> Result<Option<Duration>, Closed> {
        let mut work = lock(&self.work);
        let overdue = work.due.is_some_and(|due| due.remaining() == Some(Duration::ZERO));
        if self.ring.wants_runs() || overdue {
            work.pad(|producer, source| producer.publish(source));
            self.paddings.fetch_add(1, Ordering::Relaxed);
            let retry_soon = {
                // The handler runs without the lock, so that it may take, and help, itself.
                drop(work);
                self.ring.full_again()
            };
            work = lock(&self.work);
            work.plan(retry_soon);
        }
        if work.producer.is_none() {
            return Err(Closed);
        }
        Ok(work.due.and_then(Deadline::remaining))
    }

    /// Fills the ring for the first time.
    pub(super) fn begin(&self) {
        let mut work = lock(&self.work);
        work.pad(|producer, source| producer.publish(source));
        work.plan(None);
        self.paddings.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn help(&self) -> bool {
        let Some(mut work) = try_lock(&self.work) else { return false };
        work.pad(|producer, source| producer.publish_batch(source)) > 0
    }
}

/// The ring of a `Served` is closed.
pub(super) struct Closed;

impl Work {
    /// Lets the producer publish runs from the source. A source that ends finishes the ring; one
    /// that panics closes it, which is what its takers then get to know.
    fn pad(
        &mut self,
        publish: impl FnOnce(&mut Producer, &mut dyn FnMut() -> Option<u64>) -> u64,
    ) -> u64 {
        let Some(mut producer) = self.producer.take_if(|producer| !producer.is_closed()) else {
            self.producer = None;
            return 0;
        };
        let source = &mut self.source;
        let mut ended = false;
        let padded = catch_unwind(AssertUnwindSafe(|| {
            source.begin();
            publish(&mut producer, &mut || {
                let run = source.next_run();
                ended = run.is_none();
                run
            })
        }));
        match padded {
            Ok(published) if ended => {
                producer.finish();
                published
            }
            Ok(published) => {
                self.producer = Some(producer);
                published
            }
            Err(_) => {
                tracing::error!("the source of a ring's runs panicked; the ring is closed");
                0
            }
        }
    }

    /// Sets the time of the next padding: soon, or after the schedule, or none.
    fn plan(&mut self, soon: Option<Duration>) {
        self.due = soon.or(self.schedule).map(|time| Deadline::after(Some(time)));
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}
