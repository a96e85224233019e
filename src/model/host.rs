//! A host with clocks of its own, and the owner of a worker id that runs on it.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::holding::Holding;
use crate::clock::monotonic::ManualMonotonic;
use crate::clock::{Clock, ManualClock};
use crate::error::{Error, TakeError};
use crate::generator::clocked::SnowflakeGenerator;
use crate::generator::local::LocalGenerator;
use crate::generator::{CachedUidGenerator, ClockPolicy, ELSEWHERE, SequenceStart, UidGenerator};
use crate::layout::Layout;
use crate::padding::Padder;
use crate::policy::TakePolicy;
use crate::timestamp::Timestamp;
use crate::uid::Uid;
use crate::worker::{Lease, RenewalState};

/// A host, whose clocks may be wrong.
pub struct Host {
    /// Its wall clock.
    pub wall: ManualClock,
    /// What the wall clock's milliseconds leave, in nanoseconds.
    rest: u64,
    /// Its monotonic clock.
    pub time: ManualMonotonic,
    /// Of the monotonic clock, in thousandths of the true rate.
    rate: u64,
    /// Nothing runs until then.
    pub paused_until: u64,
    /// The monotonic clock stands still meanwhile, and it may be the wall clock too.
    pub suspended: Option<Suspended>,
    pub(super) state: State,
}

/// How a host is suspended.
#[derive(Clone, Copy)]
pub struct Suspended {
    /// The wall clock stands still, too.
    pub with_wall: bool,
}

pub(super) enum State {
    Idle,
    /// The store was asked for a lease.
    Acquiring(u64),
    /// The generator is being built.
    Starting(u64),
    Running(Box<Owner>),
}

impl Host {
    /// A host at this time, whose monotonic clock goes at this rate in thousandths.
    pub fn new(now: Timestamp, rate: u64) -> Self {
        Self {
            wall: ManualClock::new(now),
            rest: 0,
            time: ManualMonotonic::new(),
            rate,
            paused_until: 0,
            suspended: None,
            state: State::Idle,
        }
    }

    /// True time goes on from `now`.
    pub fn pass(&mut self, now: u64, nanos: u64) {
        if now >= self.paused_until {
            self.suspended = None;
        }
        if self.suspended.is_none() {
            self.time.advance(nanos * self.rate / 1_000);
        }
        if self.suspended.is_none_or(|suspended| !suspended.with_wall) {
            self.rest += nanos;
            self.wall.advance(Duration::from_millis(self.rest / 1_000_000));
            self.rest %= 1_000_000;
        }
    }

    /// Sets the wall clock by so many milliseconds.
    pub fn step_wall(&self, millis: i64) {
        let now = self.wall.now().as_millis() + millis;
        self.wall.set(Timestamp::from_millis(now));
    }

    pub(super) fn owner(&mut self) -> Option<&mut Owner> {
        match &mut self.state {
            State::Running(owner) => Some(owner),
            _ => None,
        }
    }

    /// The one that the store's answers to this session are for.
    pub(super) fn owner_of(&mut self, session: u64) -> Option<&mut Owner> {
        self.owner().filter(|owner| owner.session == session)
    }
}

/// A generator with a lease, and what is known of it.
pub(super) struct Owner {
    pub(super) session: u64,
    pub(super) holding: Holding,
    pub(super) renewals: RenewalState,
    /// A message to the store is not answered yet.
    pub(super) is_waiting: bool,
    pub(super) is_closed: bool,
    /// The padder has looked since the lease was over.
    pub(super) is_shut: bool,
    pub(super) generator: Generator,
    /// The last uid that was taken from the generator, and the greatest of all.
    pub(super) last: Option<Uid>,
    /// The last one of the local taker.
    pub(super) last_local: Option<Uid>,
}

/// A generator with a lease, of one kind or the other, with random options.
pub enum Generator {
    /// With a ring, and a local taker beside.
    Cached {
        /// The generator.
        generator: Arc<CachedUidGenerator>,
        /// The taker.
        local: LocalGenerator<Arc<CachedUidGenerator>>,
    },
    /// On the clock.
    Clocked(SnowflakeGenerator<ManualClock>),
}

impl Generator {
    /// Builds one.
    ///
    /// # Errors
    ///
    /// As its builder's.
    pub fn build(
        rng: &mut Rng,
        layout: Layout,
        lease: Lease,
        wall: ManualClock,
    ) -> Result<Self, Error> {
        if rng.bool() {
            let mut builder = CachedUidGenerator::builder()
                .layout(layout)
                .worker(lease)
                .namespace(ELSEWHERE)
                .boost_power(rng.u32(0..5))
                .padding_factor(rng.u32(1..100))
                .take_policy(TakePolicy::Reject)
                .clock(wall)
                .padder(&Padder::by_hand());
            if rng.bool() {
                builder = builder.max_borrow(Duration::from_millis(rng.u64(0..60_000)));
            }
            if rng.bool() {
                builder = builder.max_lag(None);
            }
            let generator = Arc::new(builder.build()?);
            let local = LocalGenerator::new(Arc::clone(&generator));
            return Ok(Self::Cached { generator, local });
        }
        let sequence_start = match rng.u8(0..4) {
            0 => SequenceStart::Zero,
            1 => SequenceStart::RandomBelow(layout.uids_per_tick()),
            2 => SequenceStart::Spread,
            _ => SequenceStart::Continue { modulo: layout.uids_per_tick() },
        };
        let clock_policy = match rng.u8(0..3) {
            0 => ClockPolicy::Refuse,
            1 => ClockPolicy::StandStill(Duration::from_hours(1)),
            _ => ClockPolicy::StandStill(Duration::from_secs(2)),
        };
        let builder = SnowflakeGenerator::builder()
            .layout(layout)
            .worker(lease)
            .namespace(ELSEWHERE)
            .sequence_start(sequence_start)
            .clock_policy(clock_policy)
            .take_policy(TakePolicy::Reject)
            .clock(wall);
        builder.build().map(Self::Clocked)
    }

    /// A uid, if one is ready.
    ///
    /// # Errors
    ///
    /// As the generator's.
    pub fn try_next_uid(&self) -> Result<Uid, TakeError> {
        match self {
            Self::Cached { generator, .. } => generator.try_next_uid(),
            Self::Clocked(generator) => generator.try_next_uid(),
        }
    }

    /// Several.
    ///
    /// # Errors
    ///
    /// As the generator's.
    pub fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
        match self {
            Self::Cached { generator, .. } => generator.try_fill(out),
            Self::Clocked(generator) => generator.try_fill(out),
        }
    }

    /// By the local taker, if there is one.
    pub fn take_locally(&mut self) -> Option<Result<Uid, TakeError>> {
        match self {
            Self::Cached { local, .. } => Some(local.next_uid()),
            Self::Clocked(_) => None,
        }
    }

    /// Closes it.
    pub fn close(&self) {
        match self {
            Self::Cached { generator, .. } => generator.close(),
            Self::Clocked(generator) => generator.close(),
        }
    }

    /// The padder looks, if there is one.
    pub fn service(&self) -> bool {
        match self {
            Self::Cached { generator, .. } => {
                generator.service();
                true
            }
            Self::Clocked(_) => false,
        }
    }
}
