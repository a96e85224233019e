//! A host with its own clocks, and the owner of a worker id that runs on it.

use std::time::Duration;

use uidring::Timestamp;
use uidring::clock::{Clock, ManualClock};
use uidring::simulation::ManualMonotonic;

use super::holding::Holding;
use super::issuer::Issuer;

/// A host. Its clocks may be wrong.
pub struct Host {
    /// Its wall clock.
    pub wall: ManualClock,
    /// Nanoseconds that the wall clock, in milliseconds, has not counted yet.
    rest: u64,
    /// Its monotonic clock.
    pub time: ManualMonotonic,
    /// The monotonic clock's rate, in thousandths of the true rate.
    rate: u64,
    /// Nothing runs until then.
    pub paused_until: u64,
    /// During the pause the monotonic clock stands still, and perhaps the wall clock.
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
    /// It has asked the store for a lease.
    Acquiring(u64),
    /// The generator is being built.
    Starting(u64),
    Running(Box<Owner>),
}

impl Host {
    /// Creates a host at this time. Its monotonic clock runs at this rate, in thousandths.
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

    /// Advances the clocks by true time from `now`. Returns what the monotonic clock counts.
    pub fn pass(&mut self, now: u64, nanos: u64) -> u64 {
        if now >= self.paused_until {
            self.suspended = None;
        }
        let counted = if self.suspended.is_none() { nanos * self.rate / 1_000 } else { 0 };
        self.time.advance(counted);
        if self.suspended.is_none_or(|suspended| !suspended.with_wall) {
            self.rest += nanos;
            self.wall.advance(Duration::from_millis(self.rest / 1_000_000));
            self.rest %= 1_000_000;
        }
        counted
    }

    /// Steps the wall clock by milliseconds.
    pub fn step_wall(&self, millis: i64) {
        let now = self.wall.now().as_millis() + millis;
        self.wall.set(Timestamp::from_millis(now));
    }

    pub(super) fn session(&self) -> Option<u64> {
        match &self.state {
            State::Idle => None,
            State::Acquiring(session) | State::Starting(session) => Some(*session),
            State::Running(owner) => Some(owner.session),
        }
    }

    pub(super) fn is_starting(&self, session: u64) -> bool {
        matches!(self.state, State::Starting(other) if other == session)
    }

    pub(super) fn owner(&mut self) -> Option<&mut Owner> {
        match &mut self.state {
            State::Running(owner) => Some(owner),
            _ => None,
        }
    }

    /// The owner, if the store's answers to this session are for it.
    pub(super) fn owner_of(&mut self, session: u64) -> Option<&mut Owner> {
        self.owner().filter(|owner| owner.session == session)
    }
}

pub(super) struct Owner {
    pub(super) session: u64,
    pub(super) holding: Holding,
    /// It waits for the store's answer.
    pub(super) is_waiting: bool,
    pub(super) issuer: Issuer,
}
