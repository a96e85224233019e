//! Settings of the cached generator.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::CachedUidGenerator;
use super::new_worker::{KeptSource, NewWorker, OnClockBack};
use super::worker_ring::Plan;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, check_millis, check_option};
use crate::future;
use crate::generator::SequenceStart;
use crate::generator::builder::GeneratorBuilder;
use crate::generator::start::{has_room_for_draws, prepare};
use crate::generator::ticks::Bounds;
use crate::layout::Layout;
use crate::padding::{Padder, PadderCore, PadderIdle, PadderOptions};
use crate::policy::PutPolicy;
use crate::ring::{MAX_CAPACITY_BITS, RingOptions};
use crate::sync::{Event, ForkToken, MarkThread, Owner, RingWords, WipeOnForkMemory};
use crate::worker::WorkerChoice;

/// Settings of a [`CachedUidGenerator`]; [`build`](Self::build) checks all of them.
pub type CachedBuilder = GeneratorBuilder<CachedOptions>;

/// Settings that only cached generators have.
#[derive(Debug)]
pub struct CachedOptions {
    boost_power: u32,
    padding_factor: u32,
    padder: Option<Padder>,
    padder_options: PadderOptions,
    schedule: Option<Duration>,
    /// If not set: without limit; ten minutes with a lease.
    max_borrow: Option<Option<Duration>>,
    bounds: Bounds,
    on_clock_back: OnClockBack,
    put_policy: PutPolicy,
    clock: Arc<dyn Clock>,
    is_shared: bool,
}

impl Default for CachedOptions {
    fn default() -> Self {
        Self {
            boost_power: 3,
            padding_factor: 50,
            padder: None,
            padder_options: PadderOptions::default(),
            schedule: None,
            max_borrow: None,
            bounds: Bounds {
                max_borrow: None,
                max_lag: Some(Duration::from_secs(1)),
                refresh: Duration::from_millis(100),
            },
            on_clock_back: OnClockBack::default(),
            put_policy: PutPolicy::default(),
            clock: Arc::new(SystemClock),
            is_shared: false,
        }
    }
}

impl CachedBuilder {
    /// Sets the ring's size to `(max sequence + 1) << boost_power` uids, which is `1 << boost_power` ticks. 1 to 16; 3
    /// if not set.
    #[must_use]
    pub fn boost_power(mut self, power: u32) -> Self {
        self.own.boost_power = power;
        self
    }

    /// Sets the percentage of the ring, 1 to 99, below which the padder is woken; 50 if not set.
    #[must_use]
    pub fn padding_factor(mut self, percent: u32) -> Self {
        self.own.padding_factor = percent;
        self
    }

    /// Sets an interval, 1 ms or more, at which the ring is also padded, however full it is. Off if not set.
    #[must_use]
    pub fn schedule(mut self, interval: Duration) -> Self {
        self.own.schedule = Some(interval);
        self
    }

    /// Sets how far uids may be ahead of the clock; `None` is without limit. If not set, without limit, as in Baidu's
    /// UidGenerator, or 10 minutes with a lease.
    ///
    /// Ticks that begin later are not padded. If the ring is empty then, the take policy decides, and takes fail in the
    /// end with [`TakeError::BorrowLimit`](crate::TakeError::BorrowLimit). As the clock goes on, so do uids. Setting
    /// the clock back does not withdraw uids that are ready.
    #[must_use]
    pub fn max_borrow(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.own.max_borrow = Some(limit.into());
        self
    }

    /// Sets how far uids may be behind the clock when taken; the padder notices up to a [`refresh`](Self::refresh)
    /// late. 1 s if not set; `None` is without limit. Uids of the present tick are never too old, however long a tick
    /// is.
    ///
    /// The padder discards older uids, which are never issued.
    #[must_use]
    pub fn max_lag(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.own.bounds.max_lag = limit.into();
        self
    }

    /// Sets how often the padder reads the clock if there is nothing to pad, 1 ms to 1 h; 100 ms if not set.
    #[must_use]
    pub fn refresh(mut self, interval: Duration) -> Self {
        self.own.bounds.refresh = interval;
        self
    }

    /// Sets what the generator does if the clock goes back by 60 s or more; [`StayAhead`](OnClockBack::StayAhead) if
    /// not set.
    ///
    /// [`NewWorkerId`](OnClockBack::NewWorkerId) needs a [source](Self::worker_from) of disposable worker ids, such as
    /// a `WORKER_NODE` table. A thread, which may be limited to the padder's core, asks it for another id, while takes
    /// continue with the old one. After that, the source is not asked again for 10 s. This pause doubles with each new
    /// worker id, up to an hour.
    ///
    /// Uids then continue at the clock's time, below earlier ones: unique, but not in order. Until you rebuild the
    /// generator, a take walks the rings of all its worker ids, and costs two to three times as much. Changes are
    /// logged, and [`worker_id`](CachedUidGenerator::worker_id) returns the new id. A clock that passes the layout's
    /// end, even briefly, still ends the generator.
    #[must_use]
    pub fn on_clock_back(mut self, what: OnClockBack) -> Self {
        self.own.on_clock_back = what;
        self
    }

    /// Sets the core that the padder is pinned to; chosen by the worker id if not set. See docs/benchmarks.md for when
    /// pinning helps and when it hurts.
    #[must_use]
    pub fn padder_core(mut self, core: PadderCore) -> Self {
        self.own.padder_options.core = core;
        self
    }

    /// Sets what the padder does while the ring is full enough; it sleeps if not set.
    #[must_use]
    pub fn padder_idle(mut self, idle: PadderIdle) -> Self {
        self.own.padder_options.idle = idle;
        self
    }

    /// Sets a padder that also serves other generators; if not set, the generator has its own. The shared padder's core
    /// and idling apply, not those set here.
    #[must_use]
    pub fn padder(mut self, padder: &Padder) -> Self {
        self.own.padder = Some(padder.clone());
        self
    }

    /// Sets what the padder does when the ring is full. No uid is lost.
    ///
    /// With [`PutPolicy::Discard`], the default, padding ends until takers have used the ring up to the padding factor.
    /// With [`PutPolicy::Wait`], the padder keeps the ring full run by run, which costs the takers a wake-up each time.
    /// A handler is called whenever the padder's thread has filled the ring, and chooses between the two. `fill` and local
    /// handles may fill the ring themselves, without calling it.
    #[must_use]
    pub fn put_policy(mut self, policy: PutPolicy) -> Self {
        self.own.put_policy = policy;
        self
    }

    /// Sets the wall clock; by default the operating system's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.own.clock = Arc::new(clock);
        self
    }

    /// Puts the ring into memory that other processes can share: forked children, and processes that get its
    /// descriptors. They take from a [`SharedRing`]. This process stays the ring's owner: only its padder fills the ring.
    ///
    /// Only on Linux 5.3 or later, x86-64 and AArch64, without a [`padder`](Self::padder) of your own and without
    /// [`OnClockBack::NewWorkerId`]. Otherwise [`build`](Self::build) returns [`Error::Shared`].
    ///
    /// [`SharedRing`]: crate::SharedRing
    /// [`OnClockBack::NewWorkerId`]: super::OnClockBack::NewWorkerId
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.own.is_shared = true;
        self
    }

    /// Checks the settings, fills the ring and starts the padder.
    ///
    /// # Errors
    ///
    /// - [`Error::NoWorkerId`], [`Error::WorkerIdOutOfRange`], [`Error::OptionOutOfRange`], [`Error::RingTooLarge`],
    ///   [`Error::OutOfMemory`] and [`Error::NoSuchCore`] for impossible settings; [`Error::StartAfter`] for a uid to
    ///   start after that does not fit; [`Error::NamespaceLayout`]; [`Error::NoNewWorkerId`] if
    ///   [`on_clock_back`](Self::on_clock_back) needs another source.
    /// - [`Error::ClockBeforeEpoch`] and [`Error::LayoutExhausted`] if the layout cannot express the present time;
    ///   [`Error::UsedAhead`] if the start would wait too long.
    /// - [`Error::WorkerIdInUse`] and [`Error::WorkerIdOfParent`] if another generator of this process, or of its
    ///   parent, may issue the same uids; [`Error::Forked`] with a padder of a parent process, and in a child that the
    ///   clock or a lease's store forked.
    /// - [`Error::Shared`] if the ring cannot be [`shared`](Self::shared).
    /// - [`Error::Thread`] if a thread cannot be started. With a lease also [`Error::LeaseLayout`] and its store's
    ///   errors; with a source, that source's errors.
    pub fn build(self) -> Result<CachedUidGenerator, Error> {
        let Self { start: mut request, sequence_start, take_policy, own } = self;
        let CachedOptions { padder, padder_options, schedule, max_borrow, bounds, clock, .. } = own;
        let layout = request.layout;
        let options = ring_options(&layout, own.boost_power)?
            .padding_factor(own.padding_factor)
            .put_policy(own.put_policy);
        options.check()?;
        check_millis("refresh (ms)", bounds.refresh, 1..=3_600_000)?;
        if let Some(schedule) = schedule {
            check_millis("schedule (ms)", schedule, 1..=u64::MAX)?;
        }
        let tick_start = sequence_start.of_runs(&layout, layout.bits().sequence)?;
        let options = options.after_gap(tick_start);
        match &padder {
            Some(padder) => padder.check()?,
            None => padder_options.check()?,
        }
        request.max_ahead = max_borrow.map(|limit| limit.unwrap_or(Duration::MAX));
        let kept = match own.on_clock_back {
            OnClockBack::StayAhead => None,
            OnClockBack::NewWorkerId => Some(keep_source(&mut request.worker)?),
        };
        let namespace = request.namespace.clone();
        let (memory, shared) = match own.is_shared {
            true => {
                let (memory, mark) = share(&options, padder.is_some(), kept.is_some())?;
                (Some(memory), Some(Box::new(mark)))
            }
            false => (None, None),
        };
        let start = prepare(request, &*clock)?;
        let demand =
            memory.as_ref().map_or_else(|| Event::own(ForkToken::current()), Event::demand);
        let padder = match padder {
            Some(padder) => padder,
            None => Padder::start_for(padder_options, Some(start.worker_id), demand)?,
        };
        let options = match &memory {
            Some(memory) => options.shared(memory.clone()),
            None => options,
        };
        let theirs = Arc::clone(&clock);
        let plan = Plan {
            layout,
            options,
            schedule,
            max_borrow,
            bounds,
            tick_start,
            padder,
            clock: theirs,
        };
        let (first, lease, new_worker) = match kept {
            None => {
                let (first, lease) = plan.start(start, None)?;
                (Arc::new(first), lease, None)
            }
            Some((source, life)) => {
                let new_worker = Arc::new(NewWorker::new(plan, namespace, source, life));
                let (first, lease) = new_worker.plan().start(start, Some(new_worker.hook()))?;
                let first = Arc::new(first);
                new_worker.begin_with(&first).map_err(|_| Error::Forked { what: "generator" })?;
                (first, lease, Some(new_worker))
            }
        };
        Ok(CachedUidGenerator {
            memory: first.ring.own().clone(),
            first,
            take_policy,
            layout,
            lease,
            clock,
            new_worker,
            shared,
            counters: CachePadded::default(),
        })
    }

    /// Async [`build`](Self::build). The blocking work runs in its own thread.
    ///
    /// If the future is dropped early, the generator is dropped once it is built, which gives back a leased worker id.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build). Also [`Error::Thread`] if no thread can be started, and [`Error::CallPanicked`] if
    /// the clock, or the source or store of the worker id, panics.
    pub async fn build_async(self) -> Result<CachedUidGenerator, Error> {
        future::in_own_thread(|| self.build()).await
    }
}

/// Returns memory for a ring that processes share, and who marks it.
fn share(
    options: &RingOptions,
    has_padder: bool,
    has_new_workers: bool,
) -> Result<(WipeOnForkMemory<RingWords>, (MarkThread, Owner)), Error> {
    let refused = |problem| Error::Shared { problem };
    if has_padder {
        return Err(refused("it has a padder of its own: leave out `padder`".into()));
    }
    if has_new_workers {
        return Err(refused("it keeps its worker id: leave on_clock_back at StayAhead".into()));
    }
    let memory = WipeOnForkMemory::shared(options.runs() as usize);
    let shared = memory.and_then(|memory| Ok((MarkThread::start(&memory)?, memory)));
    match shared {
        Ok((mark, memory)) => Ok((memory, mark)),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Wraps a source so that it can be asked again.
fn keep_source(worker: &mut Option<WorkerChoice>) -> Result<(Arc<KeptSource>, ForkToken), Error> {
    match worker.take() {
        Some(WorkerChoice::From(source)) => {
            let life = ForkToken::current();
            if source.is_fixed() {
                return Err(Error::NoNewWorkerId { found: "this one has a single worker id" });
            }
            let kept = Arc::new(KeptSource::new(source, life));
            *worker = Some(WorkerChoice::From(Box::new(Arc::clone(&kept))));
            Ok((kept, life))
        }
        Some(WorkerChoice::Given(_)) => Err(Error::NoNewWorkerId { found: "one worker was given" }),
        None => Err(Error::NoWorkerId),
    }
}

impl CachedUidGenerator {
    /// Returns a builder with the defaults: layout [`Layout::UID_GENERATOR`], boost power 3, padding factor 50, no
    /// schedule, unlimited borrowing, a lag of at most a second, sequences that continue after a gap, the padder on a
    /// core chosen by the worker id, and takes that wait.
    pub fn builder() -> CachedBuilder {
        GeneratorBuilder::new(Layout::default(), SequenceStart::Spread, CachedOptions::default())
    }

    /// Returns the memory in bytes of the ring's slots for a layout and a boost power.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] and [`Error::RingTooLarge`] as in [`CachedBuilder::build`].
    pub fn ring_memory(layout: &Layout, boost_power: u32) -> Result<u64, Error> {
        ring_options(layout, boost_power).map(|options| options.memory())
    }
}

fn ring_options(layout: &Layout, boost_power: u32) -> Result<RingOptions, Error> {
    check_option("boost_power", boost_power, 1..=16)?;
    let bits = layout.bits();
    let run_bits = u32::from(bits.sequence);
    let capacity_bits = run_bits + boost_power;
    if capacity_bits > MAX_CAPACITY_BITS {
        let memory = 64_u128 << boost_power;
        let (sequence_bits, max_bits) = (bits.sequence, MAX_CAPACITY_BITS);
        return Err(Error::RingTooLarge { sequence_bits, boost_power, memory, max_bits });
    }
    let options = RingOptions::new(capacity_bits).run_bits(run_bits);
    Ok(if has_room_for_draws(layout) { options.spaced() } else { options })
}
