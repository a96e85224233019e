//! Where a generator starts, and the checks that all of them make before.

use std::mem;
use std::thread;
use std::time::Duration;

use super::forecast::SHORT_LIFE;
use super::position::Position;
use super::register::{self, Registration};
use crate::clock::{Clock, Deadline, read};
use crate::error::Error;
use crate::layout::Layout;
use crate::sync::{Life, log};
use crate::timestamp::Timestamp;
use crate::uid::Uid;
use crate::worker::{
    ActiveLease, IssueHorizon, Lease, LeaseStart, Worker, WorkerChoice, WorkerRequest, source,
};

/// A worker's generator that is about to start.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) worker_id: u64,
    pub(super) position: Position,
    /// The worker id is this generator's in this process.
    pub(super) registration: Registration,
    lease: Option<Lease>,
}

/// What a builder sets of the start.
#[derive(Debug)]
pub(super) struct StartRequest {
    pub(super) layout: Layout,
    pub(super) worker: Option<WorkerChoice>,
    /// How far ahead of the clock it may issue.
    pub(super) max_ahead: Duration,
    pub(super) namespace: String,
    pub(super) after: Option<Uid>,
}

impl StartRequest {
    /// The request of a generator that issues nothing ahead of the clock.
    pub(super) fn new(layout: Layout) -> Self {
        let (max_ahead, namespace) = (Duration::ZERO, String::new());
        Self { layout, worker: None, max_ahead, namespace, after: None }
    }
}

/// Checks a worker's generator that is about to start, registers its worker id in this process, and finds
/// where it starts: at the present tick, or above what was issued before if that is later.
pub(super) fn prepare(request: StartRequest, clock: &dyn Clock) -> Result<Start, Error> {
    let StartRequest { ref layout, worker, max_ahead, namespace, after } = request;
    let choice = worker.ok_or(Error::NoWorkerId)?;
    let after = after.map(|uid| next_after(layout, uid)).transpose()?;
    register::check(&namespace, layout)?;
    let (worker, life) = match choice {
        WorkerChoice::Given(worker) => (worker, None),
        WorkerChoice::From(source) => {
            // Before the clock, which may fork: both processes would get the same worker id.
            let life = Life::new().ok_or(Error::OutOfMemory { bytes: 64 })?;
            // No worker id is spent for a layout that cannot express the present time.
            layout.tick_at(read(clock))?;
            let request = WorkerRequest::new(*layout).with_max_ahead(max_ahead);
            (source::acquire(source, &request, &life)?, Some(life))
        }
    };
    let worker_id = worker.id();
    layout.check_worker_id(worker_id)?;
    let registration = register::register(&namespace, layout, worker_id)?;
    let position = Position { tick: 0, sequence: 0 };
    let (lease, issued) = match worker {
        Worker::Plain(_) => (None, None),
        Worker::Leased(lease) => {
            let issued = lease.after;
            (Some(lease), issued)
        }
    };
    // If anything fails from now on, the registration is dropped before the lease, so that the lease's next
    // holder can register the worker id.
    let mut start = Start { worker_id, position, registration, lease };
    if life.is_some_and(|life| life.is_forked()) {
        // The registration does not notice a fork that came before it.
        mem::forget(start.lease);
        return Err(Error::Forked { what: "worker id" });
    }
    if let Some(lease) = &start.lease
        && lease.layout != *layout
    {
        let [leased, layout] = [lease.layout, *layout].map(|layout| layout.to_string());
        return Err(Error::LeaseLayout { worker_id, leased, layout });
    }
    let now = read(clock);
    start.position.tick = layout.tick_at(now)?;
    let left = layout.remaining_life(now);
    if left < SHORT_LIFE {
        let last_day = layout.last_instant().date();
        log!(
            warn,
            "the layout ends on {last_day}, in {} days: plan a layout with a later epoch or more \
             time bits",
            left.as_secs() / 86_400
        );
    }
    let issued = issued.map(|uid| next_after(layout, uid)).transpose()?;
    let known = start.registration.last().map(|uid| next_after(layout, uid)).transpose()?;
    for (uid, found, next) in [after, issued].into_iter().flatten() {
        if found != worker_id {
            return Err(Error::ForeignStart { uid: uid.get(), found, worker_id });
        }
        start.position = start.position.max(next);
    }
    if let Some((_, _, next)) = known {
        let lead = layout.time_of(next.tick).saturating_since(now);
        if lead >= LONG_LEAD && next > start.position {
            log!(
                warn,
                "the generator starts {lead:?} ahead of the clock, above what an earlier one in this \
                 process has issued"
            );
        }
        start.position = start.position.max(next);
    }
    Ok(start)
}

/// Returns a uid that was issued, its worker id, and the position after it.
fn next_after(layout: &Layout, uid: Uid) -> Result<(Uid, u64, Position), Error> {
    let found = layout.decode(uid)?.worker_id;
    let next = Position::after(layout, uid)?;
    if next.tick > layout.max_tick() {
        return Err(Error::NothingAfter { uid: uid.get(), ended: layout.last_instant() });
    }
    Ok((uid, found, next))
}

/// A start this far ahead of the clock, above an earlier generator's uids, is logged as a warning.
const LONG_LEAD: Duration = Duration::from_secs(60);

impl Start {
    pub(super) fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// Starts the lease, if there is one. If earlier holders were ahead of the clock by more than
    /// `max_ahead`, waits for the clock as long as the lease says, then refuses.
    pub(super) fn start_lease(
        &mut self,
        layout: &Layout,
        clock: &dyn Clock,
        max_ahead: Duration,
    ) -> Result<(Option<ActiveLease>, IssueHorizon), Error> {
        let Some(lease) = self.lease.take() else { return Ok((None, IssueHorizon::default())) };
        let now = self.wait_for_clock(layout, clock, max_ahead, lease.terms.max_start_wait);
        // In a child that the clock forked, the lease is the parent's, and must not be released.
        if let Err(error) = self.registration.check() {
            mem::forget(lease);
            return Err(error);
        }
        let present = match now.and_then(|now| layout.tick_at(now)) {
            Ok(present) => present,
            Err(error) => {
                // It is dropped after the registration.
                self.lease = Some(lease);
                return Err(error);
            }
        };
        self.position = self.position.max(Position { tick: present, sequence: 0 });
        let max_ahead = max_ahead.as_millis() / u128::from(layout.tick().millis().unsigned_abs());
        let lease_start = LeaseStart {
            present,
            first: self.position.tick,
            max_ahead: u64::try_from(max_ahead).unwrap_or(u64::MAX),
        };
        let (active, issue_horizon) = ActiveLease::start(lease, lease_start)?;
        self.registration.leased(&issue_horizon);
        Ok((Some(active), issue_horizon))
    }

    fn wait_for_clock(
        &self,
        layout: &Layout,
        clock: &dyn Clock,
        limit: Duration,
        max_wait: Duration,
    ) -> Result<Timestamp, Error> {
        const NAP: Duration = Duration::from_millis(10);
        /// Shorter waits are not logged.
        const SHORT: Duration = Duration::from_secs(1);
        let mut is_logged = false;
        let deadline = Deadline::after(Some(max_wait));
        let until = layout.time_of(self.position.tick);
        loop {
            let now = read(clock);
            let left = deadline.remaining().unwrap_or_default();
            let early = until.saturating_since(now).saturating_sub(limit);
            if early.is_zero() {
                return Ok(now);
            }
            if early > left {
                let worker_id = self.worker_id;
                return Err(Error::UsedAhead { worker_id, until, now, limit: limit + max_wait });
            }
            if !is_logged && early > SHORT {
                is_logged = true;
                log!(
                    warn,
                    "worker id {} may have been used up to {until}; the start waits {early:?} for the \
                     clock, which says {now}, to pass it",
                    self.worker_id
                );
            }
            thread::sleep(early.min(NAP));
        }
    }
}

/// Returns whether takers may draw by addition. Between a worker's ticks are the uids of all other workers,
/// at least as many as its own. Each taker in flight may draw one of those; there are fewer takers than
/// that.
pub(super) fn has_room_for_draws(layout: &Layout) -> bool {
    // In the models two takers are many.
    const MIN_STRIDE_BITS: u8 = if cfg!(uidring_loom) { 3 } else { 16 };
    let bits = layout.bits();
    bits.worker + bits.sequence >= MIN_STRIDE_BITS
}
