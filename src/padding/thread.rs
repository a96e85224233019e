//! The padder's thread, and the handles of the rings that it keeps filled.

use std::hint;
use std::mem;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::core;
use super::options::{PadderIdle, PadderOptions};
use super::padded_ring::PaddedRing;
use super::source::RunSource;
use crate::error::Error;
use crate::ring::{RingBuffer, RingOptions};
use crate::sync::{AtomicBool, Event, ForkGuarded, Life, Ordering, Serving, contained, log};

/// A thread that keeps rings filled: one ring, or all of a process's. Clones are handles to the
/// same thread, which ends when the last handle, and the last ring that it serves, is dropped.
///
/// ```
/// use uidring::CachedUidGenerator;
/// use uidring::padding::{Padder, PadderOptions};
///
/// let padder = Padder::start(PadderOptions::default())?;
/// let builder = |worker_id| CachedUidGenerator::builder().worker_id(worker_id).padder(&padder);
/// let orders = builder(1).build()?;
/// let customers = builder(2).build()?;
/// println!("{} {}", orders.next_uid()?, customers.next_uid()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Padder(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<PadderState>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its handles share.
#[derive(Debug)]
struct PadderState {
    /// Tells a forked child, which has no such thread.
    life: Life,
    /// Rings that the thread does not know of yet; `None` when it is gone.
    arrivals: ForkGuarded<Option<Vec<Arc<PaddedRing>>>>,
    arrived: AtomicBool,
    stopped: AtomicBool,
    /// Where the thread sleeps, and where the takers of all its rings wake it.
    demand: Arc<Event>,
}

impl Padder {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchCore`] for a core that this process may not use, [`Error::PadderThread`]
    /// where the operating system starts no thread. That a core which exists refuses the thread
    /// is no error: it is logged, and the padder runs unpinned.
    pub fn start(options: PadderOptions) -> Result<Self, Error> {
        Self::start_for(options, None)
    }

    /// Starts the thread for the generator of a worker.
    pub(crate) fn start_for(options: PadderOptions, worker_id: Option<u64>) -> Result<Self, Error> {
        let core = core::find(options.core, worker_id)?;
        let life = Life::new().ok_or(Error::OutOfMemory { bytes: 64 })?;
        let shared = Arc::new(PadderState::new(life));
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("uidring-padder".into())
            .spawn(move || {
                core::pin(core);
                Rings::of(&theirs).pad(options.idle);
            })
            .map_err(Error::PadderThread)?;
        Ok(Self(Arc::new(Handle { shared, thread: Some(thread) })))
    }

    /// A padder without a thread: nothing happens but what its takers, and [`Padding::service`], do.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn by_hand() -> Self {
        let life = Life::new().expect("memory");
        Self(Arc::new(Handle { shared: Arc::new(PadderState::new(life)), thread: None }))
    }

    /// Whether it can serve: in a forked child it has no thread.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.0.shared.life.is_forked() {
            return Err(Error::Forked { what: "padder" });
        }
        Ok(())
    }

    /// Makes a ring, fills it, and keeps it filled: whenever less is left in it than its padding
    /// factor asks for and, with a `schedule`, as often as that.
    ///
    /// When the ring is full, its put policy says how to go on: [`Discard`] stops until the ring
    /// is below the padding factor again, and the run that found no room comes then; [`Wait`]
    /// keeps the ring full, run by run; a handler that wants to retry gets the ring padded again
    /// within a millisecond.
    ///
    /// A source that ends finishes the ring: takers get what is left and then
    /// [`TakeError::TimeExhausted`](crate::TakeError::TimeExhausted). One that panics closes it.
    ///
    /// [`Discard`]: crate::policy::PutPolicy::Discard
    /// [`Wait`]: crate::policy::PutPolicy::Wait
    ///
    /// # Errors
    ///
    /// Those of [`RingBuffer::new`]; [`Error::Forked`] in a forked child of the process that started the
    /// padder, also if the source forked it.
    pub fn serve(
        &self,
        options: RingOptions,
        source: impl RunSource,
        schedule: Option<Duration>,
    ) -> Result<Padding, Error> {
        self.check()?;
        let shared = &self.0.shared;
        let (producer, _) = RingBuffer::new(options.demand(Arc::clone(&shared.demand)))?;
        let served = Arc::new(PaddedRing::new(producer, source, schedule));
        served.begin();
        let forked = |_| Error::Forked { what: "padder" };
        let theirs = Arc::clone(&served);
        let known = shared.arrivals.lock().map_err(forked)?.as_mut().map(|all| all.push(theirs));
        if known.is_none() {
            served.close();
        }
        // Relaxed: the event's fences order it, the lock guards the list.
        shared.arrived.store(true, Ordering::Relaxed);
        shared.demand.notify();
        Ok(Padding { served, _padder: self.clone() })
    }
}

/// A ring that a padder keeps filled. Dropping it closes the ring; the padder goes on if others
/// need it.
#[derive(Debug)]
pub struct Padding {
    served: Arc<PaddedRing>,
    // Keeps the padder's thread alive.
    _padder: Padder,
}

impl Padding {
    /// The ring.
    pub fn ring(&self) -> &Arc<RingBuffer> {
        self.served.ring()
    }

    /// How often the ring has been padded by the padder, the first filling included.
    pub fn paddings(&self) -> u64 {
        self.served.paddings()
    }

    /// Puts a few runs into the ring in the caller's own thread, unless the padder, or another
    /// helper, is just at it; returns whether there may be something to take now.
    ///
    /// A taker that finds the ring dry need not wait until the operating system lets the padder
    /// run, which on a busy machine takes thousands of times longer than the runs themselves.
    #[cold]
    pub fn help(&self) -> bool {
        self.served.help()
    }

    /// Closes the ring and throws away what is in it: takers that wait are released, and every
    /// take from now on gets [`TakeError::Closed`](crate::TakeError::Closed). A second close
    /// changes nothing.
    pub fn close(&self) {
        self.end();
    }

    /// [`close`](Self::close); returns a number below which all lie that were taken before, `None`
    /// if nothing was ever put into the ring.
    pub(crate) fn end(&self) -> Option<u64> {
        self.served.close()
    }

    /// What the padder does at its next refresh, at once and in this thread.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn service(&self) {
        self.served.hurry();
        let _ = self.served.service();
    }
}

impl Drop for Padding {
    fn drop(&mut self) {
        self.served.close();
    }
}

impl PadderState {
    fn new(life: Life) -> Self {
        Self {
            arrivals: ForkGuarded::new(life.clone(), Some(Vec::new())),
            arrived: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            demand: Arc::new(Event::new(life.clone())),
            life,
        }
    }
}

/// The rings that the thread knows of.
struct Rings<'a> {
    shared: &'a PadderState,
    known: Vec<Arc<PaddedRing>>,
    _serving: Serving,
}

impl<'a> Rings<'a> {
    fn of(shared: &'a PadderState) -> Self {
        Self { shared, known: Vec::new(), _serving: Serving::begin() }
    }

    fn pad(&mut self, idle: PadderIdle) {
        let Self { shared, known, .. } = self;
        while !shared.stopped.load(Ordering::Relaxed) && !shared.life.is_forked() {
            if shared.arrived.swap(false, Ordering::Relaxed)
                && let Ok(mut arrivals) = shared.arrivals.lock()
            {
                known.extend(arrivals.iter_mut().flat_map(mem::take));
            }
            let mut pause: Option<Duration> = None;
            let over = known.extract_if(.., |ring| match ring.service() {
                Ok(due) => {
                    pause = pause.into_iter().chain(due).min();
                    false
                }
                Err(_) => true,
            });
            for ring in over {
                // The source may go with it, whose end is a caller's code.
                contained(|| drop(ring));
            }
            match idle {
                // A turn of a ring was over before it was full.
                _ if pause == Some(Duration::ZERO) => {}
                // Each look at a cursor takes its cache line from the takers: not too often, then.
                PadderIdle::BusyPoll => (0..64).for_each(|_| hint::spin_loop()),
                PadderIdle::Sleep => {
                    shared.demand.wait(pause, || {
                        shared.stopped.load(Ordering::Relaxed)
                            || shared.arrived.load(Ordering::Relaxed)
                            || known.iter().any(|ring| ring.wants_attention())
                    });
                }
            }
        }
    }
}

/// What of a caller's can panic is caught where it is called. Should the thread end for another reason
/// while there are rings, these would never be filled again, which their takers should know.
impl Drop for Rings<'_> {
    fn drop(&mut self) {
        let Ok(arrivals) = self.shared.arrivals.lock().map(|mut arrivals| arrivals.take()) else {
            // A child that is made of this thread. Its rings' ends are the parent's to bring about.
            mem::forget(mem::take(&mut self.known));
            return;
        };
        self.known.extend(arrivals.into_iter().flatten());
        for ring in &self.known {
            let _ = ring.close();
        }
        if thread::panicking() {
            log!(error, "the padder panicked; the rings that it served are closed");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A forked child has no such thread to wait for; and whoever held a lock at the fork holds
        // it for ever.
        if self.shared.life.is_forked() {
            mem::forget(self.thread.take());
            return;
        }
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.shared.demand.notify();
        let Some(thread) = self.thread.take() else { return };
        // A put handler that held the last reference drops us in the padder's own thread, which
        // cannot wait for itself; it ends by itself.
        if thread.thread().id() != thread::current().id() {
            // It does not panic: sources and handlers that do are caught.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::error::TakeError;

    /// By a fault of the library itself: no caller's code brings that about.
    #[test]
    fn a_padder_that_dies_closes_all_rings_now_and_later() {
        let padder = Padder::by_hand();
        let serve = || padder.serve(RingOptions::new(2, 1), || Some(0), None).expect("builds");
        let before = serve();
        let shared = &padder.0.shared;
        let died = catch_unwind(AssertUnwindSafe(|| {
            let _rings = Rings::of(shared);
            panic!("a fault");
        }));
        assert!(died.is_err());
        assert_eq!(before.ring().try_take(), Err(TakeError::Closed));
        assert_eq!(serve().ring().try_take(), Err(TakeError::Closed));
    }
}
