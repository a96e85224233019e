//! The generator on the ring: a take is one atomic addition.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::UidGenerator;
use super::start::start;
use super::ticks::{Bounds, Front, TickRuns};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, TakeError};
use crate::layout::Layout;
use crate::padding::{Padder, PadderCore, PadderIdle, PadderOptions, Padding};
use crate::policy::{PutPolicy, TakePolicy};
use crate::ring::{Freshness, MAX_CAPACITY_BITS, RingBuffer, RingOptions, RingStats, Ticket};
use crate::sync::{AtomicU64, Ordering};
use crate::uid::Uid;

/// Hands out uids from a ring that a thread of its own, the padder, keeps filled.
///
/// It re-creates Baidu's `CachedUidGenerator`. A take does not look at the clock, but for the rare
/// one that finds the ring dry and pads a little itself. The padder walks one tick after another:
/// faster callers than the layout has uids per second *borrow* ticks of the future, without end or
/// up to [`max_borrow`](CachedBuilder::max_borrow). What stands in the ring for longer than
/// [`max_lag`](CachedBuilder::max_lag) is discarded.
///
/// ```
/// use uidring::{CachedUidGenerator, UidGenerator};
///
/// let generator = CachedUidGenerator::builder().worker_id(7).build()?;
/// let first = generator.next_uid()?;
/// let second = generator.next_uid()?;
/// assert!(first < second);
/// assert_eq!(generator.decode(first)?.worker_id, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Two generators that live at the same time must have different worker ids; and one that is built
/// again with a worker id that was in use before must start above what was issued then: see
/// [`start_after`](CachedBuilder::start_after).
#[derive(Debug)]
pub struct CachedUidGenerator {
    // The ring first: it is what a take needs.
    ring: Arc<RingBuffer>,
    /// The ring's, close at hand for takers that count for themselves.
    freshness: Freshness,
    take_policy: TakePolicy,
    layout: Layout,
    worker_id: u64,
    padding: Padding,
    max_borrow: Option<Duration>,
    clock: Arc<dyn Clock>,
    front: Arc<Front>,
    counters: CachePadded<Counters>,
}

/// Counted where a taker has found nothing.
#[derive(Debug, Default)]
struct Counters {
    waits: AtomicU64,
    rejects: AtomicU64,
}

impl CachedUidGenerator {
    /// A builder with the defaults: layout [`Layout::UID_GENERATOR`], boost power 3, padding
    /// factor 50, no schedule, unbounded borrowing, a lag of at most a second, the padder on the
    /// last core, waiting takes.
    pub fn builder() -> CachedBuilder {
        CachedBuilder::default()
    }

    /// Tries once more after an error, if that was for want of runs and this thread could make
    /// some.
    #[cold]
    fn help_and_try<T>(
        &self,
        error: TakeError,
        again: impl FnOnce(&RingBuffer) -> Result<T, TakeError>,
    ) -> Result<T, TakeError> {
        let error = if error == TakeError::Empty && self.padding.help() {
            match again(&self.ring) {
                Err(error) => error,
                done => return done,
            }
        } else {
            error
        };
        match self.max_borrow {
            Some(limit) if error == TakeError::Empty && self.ring.is_held() => {
                Err(TakeError::BorrowLimit {
                    lead_millis: self.front.lead_millis(),
                    limit_millis: u32::try_from(limit.as_millis()).unwrap_or(u32::MAX),
                })
            }
            _ => Err(error),
        }
    }

    /// What is left of the present run.
    pub(super) fn try_lease(&self) -> Result<Range<u64>, TakeError> {
        let lease = match self.ring.lease_quietly() {
            Err(error) => self.help_and_try(error, RingBuffer::lease_quietly),
            done => done,
        }?;
        self.keep_up();
        Ok(lease)
    }

    /// How old a uid may be that was leased.
    #[inline]
    pub(super) fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// After many uids were taken at once. Who takes so fast is served soonest by padding a little
    /// itself: waking the padder costs a system call, which takes longer than the padding.
    fn keep_up(&self) {
        if self.ring.is_low() {
            self.padding.help();
            // A little may not have been enough, or somebody else was at it.
            self.ring.announce_if_low();
        }
    }

    #[cold]
    fn help_and_take(&self, error: TakeError) -> Result<Uid, TakeError> {
        self.help_and_try(error, RingBuffer::try_take).map(Uid::from_layout)
    }

    /// Goes on after a first try under the take policy, and with the ticket of that try, so that
    /// who waits loses no uid.
    #[cold]
    fn take_by_policy(&self, mut kept: Option<Ticket>) -> Result<Uid, TakeError> {
        let mut number = 0;
        let mut attempt = || {
            number = match self.ring.try_take_keeping(&mut kept) {
                Err(error) => self.help_and_try(error, |ring| ring.try_take_keeping(&mut kept))?,
                Ok(number) => number,
            };
            Ok(())
        };
        let done = match attempt() {
            Err(error) => self.follow_policy(error, &mut attempt),
            done => done,
        };
        if let Some(ticket) = kept {
            self.ring.abandon(ticket);
        }
        done.map(|()| Uid::from_layout(number))
    }

    /// Does what the padder does at a refresh, in this thread.
    #[cfg(test)]
    pub(super) fn attend(&self) {
        self.padding.attend();
    }

    /// A look at the generator. It reads the clock.
    pub fn stats(&self) -> CachedStats {
        let ring = self.ring.stats();
        let now = self.clock.now();
        let next = match self.ring.peek() {
            Some(number) => self.layout.tick_of(number),
            None => self.front.tick(),
        };
        let next = self.layout.time_of(next);
        CachedStats {
            worker_id: self.worker_id,
            taken: ring.taken(),
            waits: self.counters.waits.load(Ordering::Relaxed),
            rejects: self.counters.rejects.load(Ordering::Relaxed),
            paddings: self.padding.paddings(),
            lead: next.saturating_since(now),
            lag: now.saturating_since(next),
            remaining_life: self.front.life(),
            ring,
        }
    }

    /// How long the layout's time field will last: to its last instant, or shorter where takers
    /// borrow, at the rate of the last ten seconds or so. As of the padder's last look at the
    /// clock.
    pub fn remaining_life(&self) -> Duration {
        self.front.life()
    }
}

impl UidGenerator for CachedUidGenerator {
    #[inline]
    fn try_next_uid(&self) -> Result<Uid, TakeError> {
        match self.ring.try_take() {
            Ok(number) => Ok(Uid::from_layout(number)),
            Err(error) => self.help_and_take(error),
        }
    }

    #[inline]
    fn next_uid(&self) -> Result<Uid, TakeError> {
        match self.ring.try_draw() {
            Ok(number) => Ok(Uid::from_layout(number)),
            Err(ticket) => self.take_by_policy(ticket),
        }
    }

    fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
        let given = match self.ring.fill_quietly(out, Uid::from_layout) {
            Err(error) => self.help_and_try(error, |ring| ring.fill_quietly(out, Uid::from_layout)),
            done => done,
        }?;
        self.keep_up();
        Ok(given)
    }

    fn wait(&self, timeout: Option<Duration>) {
        self.ring.wait(timeout);
    }

    fn close(&self) {
        self.padding.close();
    }

    #[cold]
    fn follow_policy(
        &self,
        error: TakeError,
        again: &mut dyn FnMut() -> Result<(), TakeError>,
    ) -> Result<(), TakeError> {
        let mut waited = false;
        let done = self.take_policy.after_empty(error, again, |timeout| {
            waited = true;
            self.wait(timeout);
        });
        // Relaxed: counters.
        self.counters.waits.fetch_add(waited.into(), Ordering::Relaxed);
        let rejected = done.is_err_and(|e| e.may_pass() || e == TakeError::DeadlineExceeded);
        self.counters.rejects.fetch_add(rejected.into(), Ordering::Relaxed);
        done
    }

    fn take_policy(&self) -> &TakePolicy {
        &self.take_policy
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn worker_id(&self) -> u64 {
        self.worker_id
    }
}

/// A look at a [`CachedUidGenerator`]. The parts are read one after another while takers go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedStats {
    /// The worker id in all uids.
    pub worker_id: u64,
    /// The ring: what is ready, and what was lost.
    pub ring: RingStats,
    /// Uids taken, those of leased runs included.
    pub taken: u64,
    /// Takes and fills that had to sleep until something was ready.
    pub waits: u64,
    /// Takes and fills that the take policy gave up.
    pub rejects: u64,
    /// How often the padder has filled the ring, the first time included.
    pub paddings: u64,
    /// How far the next uid's timestamp is ahead of the clock.
    pub lead: Duration,
    /// How far the next uid's timestamp is behind the clock; up to a tick is the present one's.
    pub lag: Duration,
    /// See [`CachedUidGenerator::remaining_life`].
    pub remaining_life: Duration,
}

/// Settings of a [`CachedUidGenerator`]; [`build`](Self::build) checks all of them.
#[derive(Debug)]
pub struct CachedBuilder {
    layout: Layout,
    worker_id: Option<u64>,
    start_after: Option<Uid>,
    boost_power: u32,
    padding_factor: u32,
    padder: Option<Padder>,
    padder_options: PadderOptions,
    schedule: Option<Duration>,
    bounds: Bounds,
    take_policy: TakePolicy,
    put_policy: PutPolicy,
    clock: Arc<dyn Clock>,
}

impl Default for CachedBuilder {
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            worker_id: None,
            start_after: None,
            boost_power: 3,
            padding_factor: 50,
            padder: None,
            padder_options: PadderOptions::default(),
            schedule: None,
            bounds: Bounds {
                max_borrow: None,
                max_lag: Some(Duration::from_secs(1)),
                refresh: Duration::from_millis(100),
            },
            take_policy: TakePolicy::default(),
            put_policy: PutPolicy::default(),
            clock: Arc::new(SystemClock),
        }
    }
}

impl CachedBuilder {
    /// How the uids are made up.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// The worker id in all of the uids, which nobody else may use with this layout, ever. It has
    /// to be set. A [`WorkerIdAssigner`](crate::WorkerIdAssigner) hands out fresh ones.
    #[must_use]
    pub fn worker_id(mut self, worker_id: u64) -> Self {
        self.worker_id = Some(worker_id);
        self
    }

    /// Goes on above this uid, the greatest that was issued before with this worker id and layout,
    /// whatever the clock says.
    ///
    /// A worker id that is set by hand has no memory: without this, a second start within one tick
    /// of the first, after the clock was set back, or after the first had borrowed ticks of the
    /// future, would repeat uids.
    #[must_use]
    pub fn start_after(mut self, uid: Uid) -> Self {
        self.start_after = Some(uid);
        self
    }

    /// The ring's size: `(max sequence + 1) << boost_power` uids, for 0 to 16; 3 if not set.
    #[must_use]
    pub fn boost_power(mut self, power: u32) -> Self {
        self.boost_power = power;
        self
    }

    /// The percentage of the ring, 1 to 99, below which the padder is woken; 50 if not set.
    #[must_use]
    pub fn padding_factor(mut self, percent: u32) -> Self {
        self.padding_factor = percent;
        self
    }

    /// Pads this often too, however full the ring is; not if not set.
    #[must_use]
    pub fn schedule(mut self, interval: Duration) -> Self {
        self.schedule = Some(interval);
        self
    }

    /// How far uids may be ahead of the clock; without end, as in Baidu's UidGenerator, if not set,
    /// or `None`.
    ///
    /// No tick that begins later than this is padded. Callers that have used up what there is then
    /// get what the take policy says, and in the end [`TakeError::BorrowLimit`]; as the clock goes
    /// on, so do uids. A clock that is set back does not take back what stands ready.
    #[must_use]
    pub fn max_borrow(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.bounds.max_borrow = limit.into();
        self
    }

    /// How far uids may be behind the clock when they are taken, a [`refresh`](Self::refresh) not
    /// counted; 1 s if not set, without end if `None`. Uids of the present tick are never too old,
    /// however long a tick is.
    ///
    /// What is older is discarded by the padder, and never issued.
    #[must_use]
    pub fn max_lag(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.bounds.max_lag = limit.into();
        self
    }

    /// How often the padder looks at the clock when there is nothing to pad, 1 ms to 1 h; 100 ms if
    /// not set.
    #[must_use]
    pub fn refresh(mut self, interval: Duration) -> Self {
        self.bounds.refresh = interval;
        self
    }

    /// The core that the padder is pinned to; the last one if not set. docs/benchmarks.md says
    /// when pinning helps and when it harms.
    #[must_use]
    pub fn padder_core(mut self, core: PadderCore) -> Self {
        self.padder_options.core = core;
        self
    }

    /// What the padder does when the ring is full enough; it sleeps if not set.
    #[must_use]
    pub fn padder_idle(mut self, idle: PadderIdle) -> Self {
        self.padder_options.idle = idle;
        self
    }

    /// A padder that serves other generators too; one of its own if not set. Its own core and
    /// idling then count, not those set here.
    #[must_use]
    pub fn padder(mut self, padder: &Padder) -> Self {
        self.padder = Some(padder.clone());
        self
    }

    /// What a take does when nothing is ready; it waits if not set.
    #[must_use]
    pub fn take_policy(mut self, policy: TakePolicy) -> Self {
        self.take_policy = policy;
        self
    }

    /// What the padder does when it has filled the ring. No uid is lost, whatever it is: the run
    /// that found no room is put later.
    ///
    /// [`PutPolicy::Discard`], the default, ends the padding until takers have used the ring up to
    /// the padding factor. With [`PutPolicy::Wait`] the padder keeps the ring full, run by run,
    /// which costs the takers a wake-up each time. A handler hears of every full ring, in the
    /// padder's thread, and decides between the two.
    #[must_use]
    pub fn put_policy(mut self, policy: PutPolicy) -> Self {
        self.put_policy = policy;
        self
    }

    /// The wall clock; the operating system's if not set.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Checks the settings, fills the ring and starts the padder.
    ///
    /// # Errors
    ///
    /// [`Error::NoWorkerId`], [`Error::WorkerIdOutOfRange`], [`Error::OptionOutOfRange`],
    /// [`Error::RingTooLarge`], [`Error::OutOfMemory`] and [`Error::NoSuchCore`] for settings that
    /// are not possible; [`Error::ClockBeforeEpoch`] and [`Error::LayoutExhausted`] where the
    /// layout cannot express the present time; [`Error::ForeignStart`] and
    /// [`Error::NothingAfter`] for a uid to start after that does not fit;
    /// [`Error::PadderThread`].
    pub fn build(self) -> Result<CachedUidGenerator, Error> {
        let Self { layout, clock, .. } = self;
        let options = ring_options(&layout, self.boost_power)?
            .padding_factor(self.padding_factor)
            .put_policy(self.put_policy);
        check_refresh(self.bounds.refresh)?;
        let (worker_id, position) = start(&layout, self.worker_id, self.start_after, &*clock)?;
        let padder = match self.padder {
            Some(padder) => padder,
            None => Padder::start(self.padder_options)?,
        };
        let bounds = self.bounds;
        let theirs = Arc::clone(&clock);
        let length = options.run_length();
        let source = TickRuns::new(layout, worker_id, theirs, length, position, bounds);
        let front = Arc::clone(source.front());
        let padding = padder.serve(options, source, self.schedule)?;
        let ring = Arc::clone(padding.ring());
        tracing::info!(
            worker_id,
            layout = %layout.bits(),
            capacity = ring.capacity(),
            last_instant = %layout.last_instant(),
            "generator started"
        );
        Ok(CachedUidGenerator {
            freshness: ring.freshness().clone(),
            ring,
            take_policy: self.take_policy,
            layout,
            worker_id,
            padding,
            max_borrow: bounds.max_borrow,
            clock,
            front,
            counters: CachePadded::default(),
        })
    }
}

fn check_refresh(refresh: Duration) -> Result<(), Error> {
    let value = u64::try_from(refresh.as_millis()).unwrap_or(u64::MAX);
    let (option, min, max) = ("refresh (ms)", 1, 3_600_000);
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(Error::OptionOutOfRange { option, value, min, max })
    }
}

impl CachedUidGenerator {
    /// The memory of the ring's slots, in bytes, that a layout and a boost power ask for.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] and [`Error::RingTooLarge`] as in [`CachedBuilder::build`].
    pub fn ring_memory(layout: &Layout, boost_power: u32) -> Result<u64, Error> {
        ring_options(layout, boost_power).map(|options| options.memory())
    }
}

/// Runs of up to 256 uids; docs/ring-buffer.md says why. A run is never longer than a tick has uids,
/// nor so long that a ring would have fewer than eight.
const RUN_BITS: u32 = 8;
const MIN_RUN_COUNT_BITS: u32 = 3;

fn ring_options(layout: &Layout, boost_power: u32) -> Result<RingOptions, Error> {
    if boost_power > 16 {
        let value = boost_power.into();
        return Err(Error::OptionOutOfRange { option: "boost_power", value, min: 0, max: 16 });
    }
    let sequence_bits = layout.bits().sequence;
    let capacity_bits = u32::from(sequence_bits) + boost_power;
    let run_bits =
        RUN_BITS.min(sequence_bits.into()).min(capacity_bits.saturating_sub(MIN_RUN_COUNT_BITS));
    if capacity_bits > MAX_CAPACITY_BITS {
        let memory = 64_u128 << (capacity_bits - run_bits);
        let max_bits = MAX_CAPACITY_BITS;
        return Err(Error::RingTooLarge { sequence_bits, boost_power, memory, max_bits });
    }
    Ok(RingOptions::new(capacity_bits, run_bits))
}
