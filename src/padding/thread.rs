//! The padder's thread, and the handles of the rings that it keeps filled.

use std::hint;
use std::mem;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::options::{PadderIdle, PadderOptions};
use super::padded_ring::PaddedRing;
use super::pinning;
use super::source::RunSource;
use crate::clock::Deadline;
use crate::error::{Error, check_millis};
use crate::ring::{RingBuffer, RingOptions};
use crate::sync::{
    AtomicBool, Event, ForkGuarded, ForkToken, NoBlockScope, Ordering, contained, log, start_thread,
};

/// A thread that keeps rings filled: one ring, or all of a process's. Clones are handles to the
/// same thread, which ends when the last handle, and the last ring that it fills, is dropped.
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
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Padder(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    state: Arc<PadderState>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its handles share.
#[derive(Debug)]
struct PadderState {
    /// A forked child has no such thread.
    fork_token: ForkToken,
    /// Rings that the thread has not seen yet; `None` when it has ended.
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
    /// [`Error::NoSuchCore`] for a core that this process may not use, [`Error::Thread`] if the
    /// operating system cannot start a thread. If pinning to a core that exists fails, that is logged, and the
    /// padder runs unpinned.
    pub fn start(options: PadderOptions) -> Result<Self, Error> {
        Self::start_for(options, None, Event::own(ForkToken::current()))
    }

    /// Starts the thread for one generator, whose worker id may choose the core. Takers wake it by `demand`.
    pub(crate) fn start_for(
        options: PadderOptions,
        worker_id: Option<u64>,
        demand: Event,
    ) -> Result<Self, Error> {
        let core = pinning::find(options.core, worker_id)?;
        let state = Arc::new(PadderState::new(demand));
        let theirs = Arc::clone(&state);
        let work = move || {
            pinning::pin(core);
            Rings::of(&theirs).pad(options.idle);
        };
        let thread = start_thread("uidring-padder", work)
            .map_err(|error| Error::thread("padder thread", error))?;
        Ok(Self(Arc::new(Handle { state, thread: Some(thread) })))
    }

    /// Returns a padder without a thread: only takers and [`RingHandle::service`] pad its rings.
    #[cfg(any(test, feature = "simulation"))]
    #[doc(hidden)]
    pub fn by_hand() -> Self {
        Self(Arc::new(Handle {
            state: Arc::new(PadderState::new(Event::own(ForkToken::current()))),
            thread: None,
        }))
    }

    /// Returns an error in a forked child, where the padder has no thread.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.0.state.fork_token.is_forked_child() {
            return Err(Error::Forked { what: "padder" });
        }
        Ok(())
    }

    /// For tests, outside semantic versioning. Makes a ring, fills it, and keeps it filled: it is padded whenever
    /// it is below its padding factor and, with a `schedule`, at least that often. A sleeping padder that predicts
    /// the next padding within 50 ms wakes by itself when three quarters of the padding factor are left. Takers
    /// still wake it at half.
    ///
    /// When the ring is full, its put policy decides: with [`Discard`], padding stops until the ring is
    /// below the padding factor again; with [`Wait`], the ring is kept full, run by run; after a handler's
    /// retry, the ring is padded again within a millisecond. The source is not asked while there is no room.
    ///
    /// A source that ends finishes the ring: takers get what is left and then
    /// [`TakeError::TimeExhausted`](crate::TakeError::TimeExhausted). One that panics closes it.
    ///
    /// [`Discard`]: crate::policy::PutPolicy::Discard
    /// [`Wait`]: crate::policy::PutPolicy::Wait
    ///
    /// # Errors
    ///
    /// Those of [`RingBuffer::new`]; [`Error::OptionOutOfRange`] for a schedule below 1 ms; [`Error::Forked`] in a
    /// forked child of the process that started the padder, even if the source forked it.
    #[doc(hidden)]
    pub fn serve(
        &self,
        options: RingOptions,
        source: impl RunSource,
        schedule: Option<Duration>,
    ) -> Result<RingHandle, Error> {
        self.check()?;
        if let Some(schedule) = schedule {
            check_millis("schedule (ms)", schedule, 1..=u64::MAX)?;
        }
        let state = &self.0.state;
        let (producer, _) = RingBuffer::new(options.demand(Arc::clone(&state.demand)))?;
        let padded = Arc::new(PaddedRing::new(producer, source, schedule));
        padded.begin();
        let forked = |_| Error::Forked { what: "padder" };
        let theirs = Arc::clone(&padded);
        let known = state.arrivals.lock().map_err(forked)?.as_mut().map(|all| all.push(theirs));
        if known.is_none() {
            padded.close();
        }
        // Relaxed: the event's fences order it, the lock guards the list.
        state.arrived.store(true, Ordering::Relaxed);
        state.demand.notify();
        Ok(RingHandle { padded, _padder: self.clone() })
    }
}

/// A ring that a padder keeps filled. Dropping it closes the ring; the padder continues if it has other
/// rings or handles.
#[derive(Debug)]
pub struct RingHandle {
    padded: Arc<PaddedRing>,
    // Keeps the padder's thread alive.
    _padder: Padder,
}

impl RingHandle {
    /// Returns the ring.
    pub fn ring(&self) -> &Arc<RingBuffer> {
        self.padded.ring()
    }

    /// Returns how often the padder has padded the ring, the first time included.
    pub fn paddings(&self) -> u64 {
        self.padded.paddings()
    }

    /// Puts a few runs into the ring in the caller's own thread, unless the padder or another helper is
    /// padding it. Returns whether there may be something to take.
    ///
    /// So a taker that finds the ring dry need not wait until the operating system lets the padder run,
    /// which on a busy machine takes thousands of times longer than the padding itself.
    #[cold]
    pub fn help(&self) -> bool {
        self.padded.help()
    }

    /// Closes the ring and discards what is in it: takers that wait are released, and every take from now
    /// on gets [`TakeError::Closed`](crate::TakeError::Closed). A second close changes nothing.
    pub fn close(&self) {
        self.end();
    }

    /// [`close`](Self::close) that returns a number above all that were taken, or `None` if nothing was ever
    /// put into the ring, and in a forked child.
    pub(crate) fn end(&self) -> Option<u64> {
        self.padded.close()
    }

    /// Does what the padder would do at its next refresh, at once and in this thread.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn service(&self) {
        self.padded.hurry();
        let _ = self.padded.service(PadderIdle::BusyPoll);
    }
}

impl Drop for RingHandle {
    fn drop(&mut self) {
        self.padded.close();
    }
}

impl PadderState {
    fn new(demand: Event) -> Self {
        let fork_token = ForkToken::current();
        Self {
            arrivals: ForkGuarded::new(fork_token, Some(Vec::new())),
            arrived: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            demand: Arc::new(demand),
            fork_token,
        }
    }
}

/// The rings that the thread pads.
struct Rings<'a> {
    state: &'a PadderState,
    /// With the time of the next service, unless a taker wants it earlier.
    known: Vec<(Arc<PaddedRing>, Option<Deadline>)>,
    _scope: NoBlockScope,
}

impl<'a> Rings<'a> {
    fn of(state: &'a PadderState) -> Self {
        Self { state, known: Vec::new(), _scope: NoBlockScope::begin() }
    }

    fn pad(&mut self, idle: PadderIdle) {
        let Self { state, known, .. } = self;
        let mut spins = Spins::default();
        while !state.stopped.load(Ordering::Relaxed) && !state.fork_token.is_forked_child() {
            if state.arrived.swap(false, Ordering::Relaxed)
                && let Ok(mut arrivals) = state.arrivals.lock()
            {
                let now = Some(Deadline::after(Some(Duration::ZERO)));
                known.extend(arrivals.iter_mut().flat_map(mem::take).map(|ring| (ring, now)));
            }
            // Only the rings that need it, because a padder may have hundreds.
            let over = known.extract_if(.., |(ring, due)| {
                if !ring.wants_service() && !due.is_some_and(Deadline::is_over) {
                    return false;
                }
                let Ok(time) = ring.service(idle) else { return true };
                *due = time.map(|time| Deadline::after(Some(time)));
                false
            });
            for (ring, _) in over {
                // This may drop the source, which is a caller's code.
                contained(|| drop(ring));
            }
            let pause = known.iter().filter_map(|(_, due)| due.and_then(Deadline::remaining)).min();
            match idle {
                // A ring needs service at once: it may have room left, or its time has come.
                _ if pause == Some(Duration::ZERO) => {}
                // Do not poll too often: each read of a cursor takes its cache line from the takers.
                PadderIdle::BusyPoll => (0..64).for_each(|_| hint::spin_loop()),
                PadderIdle::Sleep => {
                    let is_wanted = || {
                        state.stopped.load(Ordering::Relaxed)
                            || state.arrived.load(Ordering::Relaxed)
                            || known.iter().any(|(ring, _)| ring.wants_service())
                    };
                    if !state.demand.is_shared() || !spins.spin_until(is_wanted) {
                        state.demand.wait(pause, is_wanted);
                    }
                }
            }
        }
    }
}

/// The longest time that a padder spins: about what a sleep and a wake-up cost.
const MAX_SPIN: Duration = Duration::from_micros(20);

/// Lets the padder of a shared ring spin before it sleeps, so that fast takers need no system call to wake it. After a spin
/// that finds no demand, the padder does not spin before the next sleeps: 1 after the first such spin, then 3, up to 63.
#[derive(Default)]
struct Spins {
    /// How many sleeps came without a spin after the last spin; 0 if that found demand.
    skipped: u32,
    /// How many more do.
    left: u32,
}

impl Spins {
    /// Returns whether the padder is wanted.
    fn spin_until(&mut self, is_wanted: impl Fn() -> bool) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        let end = Deadline::after(Some(MAX_SPIN));
        while !is_wanted() {
            if end.is_over() {
                self.skipped = (2 * self.skipped + 1).min(63);
                self.left = self.skipped;
                return false;
            }
            (0..64).for_each(|_| hint::spin_loop());
        }
        self.skipped = 0;
        true
    }
}

/// Closes the rings when the thread ends, because nobody would fill them. Panics of a caller's code do not end
/// it: they are caught where that code is called.
impl Drop for Rings<'_> {
    fn drop(&mut self) {
        let Ok(arrivals) = self.state.arrivals.lock().map(|mut arrivals| arrivals.take()) else {
            // This is a child that was forked in this thread. Only the parent may close the rings.
            mem::forget(mem::take(&mut self.known));
            return;
        };
        self.known.extend(arrivals.into_iter().flatten().map(|ring| (ring, None)));
        for (ring, _) in &self.known {
            let _ = ring.close();
        }
        if thread::panicking() {
            log!(error, "the padder panicked; its rings are closed");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A forked child has no such thread, and a lock that was held at the fork stays held.
        if self.state.fork_token.is_forked_child() {
            mem::forget(self.thread.take());
            return;
        }
        self.state.stopped.store(true, Ordering::Relaxed);
        self.state.demand.notify();
        let Some(thread) = self.thread.take() else { return };
        // Do not join in a thread that pads, where a clock, source or handler may drop this. This padder's own
        // thread would wait for itself, and this padder may be waiting for another one's. The thread ends by
        // itself.
        if !NoBlockScope::is_here() {
            // It does not panic: panics of sources and handlers are caught.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::error::TakeError;

    /// Only a fault of the library itself can end the padder so: no caller's code can.
    #[test]
    fn a_padder_that_dies_closes_all_rings_now_and_later() {
        let padder = Padder::by_hand();
        let serve =
            || padder.serve(RingOptions::new(2).run_bits(1), || Some(0), None).expect("builds");
        let before = serve();
        let state = &padder.0.state;
        let died = catch_unwind(AssertUnwindSafe(|| {
            let _rings = Rings::of(state);
            panic!("a fault");
        }));
        assert!(died.is_err());
        assert_eq!(before.ring().try_take(), Err(TakeError::Closed));
        assert_eq!(serve().ring().try_take(), Err(TakeError::Closed));
    }

    #[test]
    fn spins_that_find_no_demand_become_rare() {
        let mut spins = Spins::default();
        let mut spun = |is_wanted| {
            let asked = Cell::new(false);
            let found = spins.spin_until(|| {
                asked.set(true);
                is_wanted
            });
            assert!(!found || is_wanted);
            asked.get()
        };
        let sleeps: Vec<_> = (0..200).filter(|_| spun(false)).collect();
        assert_eq!(sleeps, [0, 2, 6, 14, 30, 62, 126, 190]);
        // The next spin finds demand, and so do others at once.
        assert!((0..100).map(|_| spun(true)).is_sorted());
        assert!(spun(true));
    }
}
