//! The padder: the thread that fills a ring, and sleeps when there is nothing to do.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use core_affinity::CoreId;

use crate::error::Error;
use crate::ring::{Producer, RingBuffer};
use crate::sync::{AtomicU64, Ordering};

/// Where runs come from.
pub trait RunSource: Send + 'static {
    /// Called before each padding: the time to look at a clock, which is too dear for every run.
    fn begin(&mut self) {}

    /// The first number of the next run, or `None` when there will never be another one.
    fn next_run(&mut self) -> Option<u64>;
}

impl<F: FnMut() -> Option<u64> + Send + 'static> RunSource for F {
    fn next_run(&mut self) -> Option<u64> {
        self()
    }
}

/// The core on which the padder runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PadderCore {
    /// The last core that this process may use, if it may use more than one.
    #[default]
    Last,
    /// This core, by its number in the operating system.
    Id(usize),
    /// Wherever the operating system likes.
    Unpinned,
}

/// How a padder runs.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct PadderOptions {
    /// The core on which it runs.
    pub core: PadderCore,
    /// Pads this often, however full the ring is; not at all if unset.
    pub schedule: Option<Duration>,
}

/// A running padder. Dropping it closes its ring, stops the thread and waits for it to end.
#[derive(Debug)]
pub struct Padder {
    ring: Arc<RingBuffer>,
    paddings: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Padder {
    /// Fills the ring, then starts the thread that keeps it filled.
    ///
    /// A source that ends finishes the ring: takers get what is left and then
    /// [`TakeError::TimeExhausted`](crate::TakeError::TimeExhausted). One that panics closes it.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchCore`] for a core that this process may not use, [`Error::PadderThread`]
    /// where the operating system starts no thread. That a core which exists refuses the thread
    /// is no error: it is logged, and the padder runs unpinned.
    pub fn start(
        producer: Producer,
        source: impl RunSource,
        options: PadderOptions,
    ) -> Result<Self, Error> {
        let core = find_core(options.core)?;
        let ring = Arc::clone(producer.ring());
        let paddings = Arc::new(AtomicU64::new(0));
        let mut work = Work { producer, source, ended: false, paddings: Arc::clone(&paddings) };
        work.pad();
        let thread = thread::Builder::new()
            .name("uidring-padder".into())
            .spawn(move || {
                pin(core);
                work.run(options.schedule);
            })
            .map_err(Error::PadderThread)?;
        Ok(Self { ring, paddings, thread: Some(thread) })
    }

    /// How often the padder has filled the ring, the first time included.
    pub fn paddings(&self) -> u64 {
        self.paddings.load(Ordering::Relaxed)
    }
}

impl Drop for Padder {
    fn drop(&mut self) {
        self.ring.close();
        let Some(thread) = self.thread.take() else { return };
        // A put handler that held the last reference drops us in the padder's own thread, which
        // cannot wait for itself; it ends by itself, for the ring is closed.
        if thread.thread().id() != thread::current().id() {
            // A panic of the source was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// What the padder's thread owns.
struct Work<S> {
    producer: Producer,
    source: S,
    ended: bool,
    paddings: Arc<AtomicU64>,
}

impl<S: RunSource> Work<S> {
    fn pad(&mut self) {
        self.source.begin();
        let (source, ended) = (&mut self.source, &mut self.ended);
        self.producer.publish(|| {
            let run = source.next_run();
            *ended = run.is_none();
            run
        });
        self.paddings.fetch_add(1, Ordering::Relaxed);
    }

    fn run(mut self, schedule: Option<Duration>) {
        while !self.ended && !self.producer.is_closed() {
            if !self.producer.wait_for_room() {
                self.producer.wait_for_demand(schedule);
            }
            self.pad();
        }
        if self.ended {
            self.producer.finish();
        }
    }
}

/// The core to pin to, if any.
fn find_core(wanted: PadderCore) -> Result<Option<CoreId>, Error> {
    // None where the platform does not tell; then only `Id` is an error.
    let cores = || core_affinity::get_core_ids().unwrap_or_default();
    match wanted {
        PadderCore::Unpinned => Ok(None),
        PadderCore::Last => Ok(match cores().as_slice() {
            [_, .., last] => Some(*last),
            _ => None,
        }),
        PadderCore::Id(id) => {
            let cores = cores();
            match cores.iter().find(|core| core.id == id) {
                Some(core) => Ok(Some(*core)),
                None => Err(Error::NoSuchCore {
                    core: id,
                    available: cores.iter().map(|core| core.id).collect(),
                }),
            }
        }
    }
}

fn pin(core: Option<CoreId>) {
    let Some(core) = core else { return };
    if !core_affinity::set_for_current(core) {
        tracing::warn!(core = core.id, "the padder could not be pinned; it runs unpinned");
    }
}
