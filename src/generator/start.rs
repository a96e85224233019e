//! Where a generator starts, and the checks before.

use std::mem;
use std::thread;
use std::time::Duration;

use super::forecast::SHORT_LIFE;
use super::position::Position;
use super::register::{self, Registration};
use crate::clock::{Clock, Deadline, read};
use crate::error::Error;
use crate::layout::Layout;
use crate::sync::{ForkToken, log, starts_are_interrupted};
use crate::timestamp::Timestamp;
use crate::uid::Uid;
use crate::worker::{
    IssueHorizon, Lease, LeaseHandle, LeaseStart, LeaseTerms, Worker, WorkerChoice, WorkerRequest,
    source,
};

#[derive(Debug)]
pub(super) struct Start {
    pub(super) worker_id: u64,
    pub(super) position: Position,
    /// Keeps the worker id for this generator in this process.
    pub(super) registration: Registration,
    // Dropped after the registration, so that the lease's next holder can register the worker id.
    lease: Option<Lease>,
    max_ahead: Duration,
    /// How long to wait for the clock, and to retry the first renewal of the lease.
    patience: Duration,
    /// Who may have issued the uids before the position, for errors and the log.
    why: &'static str,
    now: Timestamp,
    /// Whether the log has said how far ahead of the clock the position is.
    is_logged: bool,
}

/// A builder's settings for the start.
#[derive(Debug)]
pub(super) struct StartRequest {
    pub(super) layout: Layout,
    pub(super) worker: Option<WorkerChoice>,
    /// How far ahead of the clock uids may be issued. `None` is without limit or, with a lease,
    /// [`WorkerRequest::USUAL_MAX_AHEAD`].
    pub(super) max_ahead: Option<Duration>,
    /// How long the start may wait for the clock. `None` is [`LeaseTerms::start_wait`].
    pub(super) max_start_wait: Option<Duration>,
    pub(super) namespace: String,
    pub(super) after: Option<Uid>,
}

impl StartRequest {
    /// The request of a generator that issues nothing ahead of the clock.
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            worker: None,
            max_ahead: Some(Duration::ZERO),
            max_start_wait: None,
            namespace: String::new(),
            after: None,
        }
    }
}

/// Checks the request, registers the worker id in this process, and finds the position above all uids issued before.
/// Refuses a position that the clock would take too long to reach.
pub(super) fn prepare(request: StartRequest, clock: &dyn Clock) -> Result<Start, Error> {
    let StartRequest { layout, worker, max_ahead, max_start_wait, namespace, after } = request;
    let layout = &layout;
    let choice = worker.ok_or(Error::NoWorkerId)?;
    let after = after.map(|uid| next_after(layout, uid)).transpose()?;
    register::check(&namespace, layout)?;
    let (worker, life) = match choice {
        WorkerChoice::Given(worker) => (worker, None),
        WorkerChoice::From(source) => {
            // Create the mark before reading the clock: a clock may fork, and parent and child would get the same
            // worker id.
            let life = ForkToken::current();
            // Do not spend a worker id on a layout that cannot express the present time.
            layout.tick_at(read(clock))?;
            let mut request = WorkerRequest::new(*layout);
            request.max_ahead = max_ahead.unwrap_or(WorkerRequest::USUAL_MAX_AHEAD);
            request.max_start_wait = max_start_wait;
            (source::acquire(source, &request, life)?, Some(life))
        }
    };
    let worker_id = worker.id();
    layout.check_worker_id(worker_id)?;
    let lease = match worker {
        Worker::Plain(_) => None,
        Worker::Leased(lease) => Some(lease),
    };
    let registration = register_with(lease.is_some(), &namespace, layout, worker_id)?;
    let max_ahead = max_ahead.unwrap_or(if lease.is_some() {
        WorkerRequest::USUAL_MAX_AHEAD
    } else {
        Duration::MAX
    });
    let terms = lease.as_ref().map_or_else(LeaseTerms::default, Lease::terms);
    let patience = max_start_wait.unwrap_or_else(|| terms.start_wait(layout));
    let position = Position { tick: 0, sequence: 0 };
    let mut start = Start {
        worker_id,
        position,
        registration,
        lease,
        max_ahead,
        patience,
        why: "",
        now: Timestamp::from_millis(0),
        is_logged: false,
    };
    if life.is_some_and(|life| life.is_forked_child()) {
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
    layout.tick_at(now)?;
    start.now = now;
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
    let leased = start.lease.as_ref().and_then(|lease| lease.after);
    let leased = leased.map(|uid| next_after(layout, uid)).transpose()?;
    let known = start.registration.last().map(|uid| next_after(layout, uid)).transpose()?;
    for (before, by) in [
        (after, "whoever issued the uid of `start_after`"),
        (leased, "earlier holders of its lease"),
        (known, "an earlier generator of this process"),
    ] {
        let Some((uid, found, next)) = before else { continue };
        if found != worker_id {
            let problem = format!("it is of worker {found}, this generator is worker {worker_id}");
            return Err(Error::StartAfter { uid: uid.get(), problem });
        }
        if next > start.position {
            (start.position, start.why) = (next, by);
        }
    }
    start.time_until_start(layout, Some(start.patience))?;
    Ok(start)
}

/// Registers the worker id in this process. Retries for a moment with a lease, which a store gives to one holder at a
/// time: another generator with this worker id has just failed to start, or is about to learn that it lost the lease.
fn register_with(
    is_leased: bool,
    namespace: &str,
    layout: &Layout,
    worker_id: u64,
) -> Result<Registration, Error> {
    const PATIENCE: Duration = Duration::from_secs(2);
    const NAP: Duration = Duration::from_millis(1);
    let deadline = Deadline::after(Some(if is_leased { PATIENCE } else { Duration::ZERO }));
    loop {
        match register::register(namespace, layout, worker_id) {
            Err(Error::WorkerIdInUse { .. }) if !deadline.is_over() => thread::sleep(NAP),
            done => return done,
        }
    }
}

/// Returns an issued uid, its worker id and the position after it.
fn next_after(layout: &Layout, uid: Uid) -> Result<(Uid, u64, Position), Error> {
    let found = layout.decode(uid)?.worker_id;
    let next = Position::after(layout, uid)?;
    if next.tick > layout.max_tick() {
        let ended = layout.last_instant();
        let problem =
            format!("nothing is left to issue, the layout ends on {} ({ended})", ended.date());
        return Err(Error::StartAfter { uid: uid.get(), problem });
    }
    Ok((uid, found, next))
}

impl Start {
    pub(super) fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// Waits until the clock is near enough to the position, and moves the position to the present tick if that is
    /// later. Then starts the lease, if there is one.
    pub(super) fn begin(
        &mut self,
        layout: &Layout,
        clock: &dyn Clock,
    ) -> Result<(Option<LeaseHandle>, IssueHorizon), Error> {
        if let Err(error) = self.wait_for_clock(layout, clock) {
            // Do this before giving the lease back: as soon as that is done, another generator may start with it.
            self.registration.release(None);
            // The wait may have renewed the lease. The store treats a renewed lease as used, and does not free it on its
            // own.
            if let Some(lease) = self.lease.take() {
                let _ = lease.release();
            }
            return Err(error);
        }
        let present = layout.tick_at(self.now)?;
        self.position = self.position.max(Position { tick: present, sequence: 0 });
        let Some(lease) = self.lease.take() else { return Ok((None, IssueHorizon::default())) };
        let tick = u128::from(layout.tick().millis().unsigned_abs());
        let lease_start = LeaseStart {
            present,
            first: self.position.tick,
            max_ahead: u64::try_from(self.max_ahead.as_millis() / tick).unwrap_or(u64::MAX),
        };
        let (active, issue_horizon) = LeaseHandle::start(lease, lease_start, self.patience)?;
        self.registration.leased(&issue_horizon);
        Ok((Some(active), issue_horizon))
    }

    /// Waits until the clock is near enough to the position, for at most the start's patience. Meanwhile it updates `now`,
    /// and renews the lease whenever that is due. If a renewal fails for good, the lease is gone.
    fn wait_for_clock(&mut self, layout: &Layout, clock: &dyn Clock) -> Result<(), Error> {
        let deadline = Deadline::after(Some(self.patience));
        let renewal = |lease: &Option<Lease>| {
            Deadline::after(lease.as_ref().map(|lease| lease.terms.renew_every))
        };
        let mut due = renewal(&self.lease);
        while let Some(nap) = self.time_until_start(layout, deadline.remaining())? {
            if starts_are_interrupted() {
                return Err(Error::Interrupted);
            }
            // The wait may outlast the lease. The horizon covers only what may have been issued by now.
            if let Some(lease) = self.lease.take_if(|_| due.is_over()) {
                let after = lease.after.map(|uid| layout.decode(uid)).transpose()?;
                let horizon = after.map_or(0, |uid| uid.tick).max(layout.tick_at(self.now)?);
                self.lease = Some(lease.kept(horizon)?);
                due = renewal(&self.lease);
            }
            thread::sleep(nap);
            self.now = read(clock);
        }
        Ok(())
    }

    /// Returns how long to sleep before reading the clock again, or `None` once the generator may start. Logs once if
    /// the start is far ahead. Fails if the wait would be longer than `left`.
    fn time_until_start(
        &mut self,
        layout: &Layout,
        left: Option<Duration>,
    ) -> Result<Option<Duration>, Error> {
        const NAP: Duration = Duration::from_millis(10);
        const SHORT: Duration = Duration::from_secs(1);
        /// A start that is ahead by less, within its limit, is not logged.
        const LONG_LEAD: Duration = Duration::from_secs(60);
        // If the clock forked, the child must not release the parent's lease.
        if let Err(error) = self.registration.check() {
            mem::forget(self.lease.take());
            return Err(error);
        }
        let &mut Self { worker_id, position, now, why, is_logged, .. } = self;
        let until = layout.time_of(position.tick);
        let lead = until.saturating_since(now);
        // Sequence 0 means that the tick before is used up. Start at once all the same: takes wait for the new tick.
        let next_tick = match position.sequence {
            0 => Duration::from_millis(layout.tick().millis().unsigned_abs()),
            _ => Duration::ZERO,
        };
        let max_lead = self.max_ahead.max(next_tick);
        let early = lead.saturating_sub(max_lead);
        if early.is_zero() {
            if !is_logged && lead >= LONG_LEAD {
                self.is_logged = true;
                log!(
                    warn,
                    "worker id {worker_id} may have been used up to {until} by {why}: the generator starts \
                     {lead:?} ahead of the clock, which says {now}"
                );
            }
            return Ok(None);
        }
        // `None` waits forever.
        if left.is_some_and(|left| early > left) {
            let limit = max_lead.saturating_add(self.patience);
            return Err(Error::UsedAhead { worker_id, until, why, now, limit });
        }
        if !is_logged && early > SHORT {
            self.is_logged = true;
            let end = now.saturating_add(early);
            log!(
                warn,
                "worker id {worker_id} may have been used up to {until} by {why}, {lead:?} ahead of the clock, \
                     which says {now}: the start waits {early:?}, until {end}"
            );
        }
        Ok(Some(early.min(NAP)))
    }
}

/// Returns whether takers may draw by addition. Draws beyond a tick's end land on the uids of other workers, which are
/// at least as many as the worker's own. Each taker in flight may overdraw by one, and there are fewer takers than
/// that.
pub(super) fn has_room_for_draws(layout: &Layout) -> bool {
    // In the models, two takers are many.
    const MIN_STRIDE_BITS: u8 = if cfg!(uidring_loom) { 3 } else { 16 };
    let bits = layout.bits();
    bits.worker + bits.sequence >= MIN_STRIDE_BITS
}
