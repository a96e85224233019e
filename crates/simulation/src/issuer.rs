//! A generator with a lease, and checks of what it issues.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use uidring::clock::ManualClock;
use uidring::generator::{ClockPolicy, SequenceStart};
use uidring::padding::Padder;
use uidring::policy::TakePolicy;
use uidring::simulation::{ELSEWHERE, RenewalMachine};
use uidring::worker::Lease;
use uidring::{
    CachedUidGenerator, ClockedUidGenerator, Error, Layout, LocalGenerator, TakeError, Uid,
    UidGenerator,
};

use super::check::Property;
use super::trace::{LeaseSeen, RingSeen, Take};

/// A generator with a lease, and what was taken from it.
pub struct Issuer {
    worker_id: u64,
    /// The greatest uid that earlier holders may have issued.
    before: Option<Uid>,
    /// The state of the lease.
    pub renewals: RenewalMachine,
    generator: Generator,
    is_closed: bool,
    /// The padder has looked since the lease ended.
    is_shut: bool,
    /// The greatest uid taken, and the local taker's last.
    last: Option<Uid>,
    last_local: Option<Uid>,
}

/// What all generators of a history issued.
pub struct Issued {
    layout: Layout,
    only: Option<Property>,
    issued: HashSet<Uid>,
    /// How many uids were issued.
    pub uids: u64,
    /// Of these, uids that were ready when the lease ended.
    pub uids_after_loss: u64,
    /// Takes that got `LeaseLost`.
    pub lost: u64,
    /// The takes, if someone follows the history.
    takes: Option<Vec<Take>>,
}

impl Issued {
    /// Creates the state of a history. Checks only `only`, if given.
    pub fn new(layout: Layout, only: Option<Property>) -> Self {
        let issued = HashSet::new();
        Self { layout, only, issued, uids: 0, uids_after_loss: 0, lost: 0, takes: None }
    }

    /// Also records all takes, for a follower.
    pub fn followed(mut self) -> Self {
        self.takes = Some(Vec::new());
        self
    }

    /// Returns the takes since the last call, if they are recorded.
    pub fn taken(&mut self) -> Vec<Take> {
        self.takes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Panics if the property does not hold and is to be checked.
    pub fn check(&self, property: Property, holds: bool, what: impl FnOnce() -> String) {
        if self.only.is_none_or(|only| only == property) {
            property.check(holds, what);
        }
    }
}

impl Issuer {
    /// Wraps a generator that starts above `before`.
    pub fn new(
        worker_id: u64,
        before: Option<Uid>,
        renewals: RenewalMachine,
        generator: Generator,
    ) -> Self {
        let (is_closed, is_shut, last, last_local) = (false, false, None, None);
        Self { worker_id, before, renewals, generator, is_closed, is_shut, last, last_local }
    }

    /// Closes the generator.
    pub fn close(&mut self) {
        self.generator.close();
        self.is_closed = true;
    }

    /// Runs the padder, if there is one.
    pub fn service(&mut self) {
        let is_live = self.renewals.is_live();
        self.is_shut |= self.generator.service() && !is_live;
    }

    /// Returns whether it may issue, as far as it knows.
    pub fn is_live(&self) -> bool {
        !self.is_closed && self.renewals.is_live()
    }

    /// Takes one by one, locally or not, or fills. Checks that each uid is new, in order, above `before` and covered.
    pub fn take(&mut self, rng: &mut Rng, issued: &mut Issued, is_covered: impl Fn(Uid) -> bool) {
        let count = rng.usize(1..60);
        if rng.u8(0..4) == 0 {
            let mut uids = vec![Uid::default(); count];
            let is_live = self.renewals.is_live();
            match self.generator.try_fill(&mut uids) {
                Ok(given) => {
                    self.note_batch(issued, &uids[..given]);
                    for &uid in &uids[..given] {
                        self.accept(issued, uid, is_covered(uid), is_live, false);
                    }
                }
                Err(error) => {
                    self.note(issued, Err(error), false);
                    self.accept_error(issued, error);
                }
            }
            return;
        }
        let locally = rng.u8(0..3) == 0;
        for _ in 0..count {
            let is_live = self.renewals.is_live();
            let local = if locally { self.generator.take_locally() } else { None };
            let is_local = local.is_some();
            let taken = local.unwrap_or_else(|| self.generator.try_next_uid());
            self.note(issued, taken, is_local);
            match taken {
                Ok(uid) => self.accept(issued, uid, is_covered(uid), is_live, is_local),
                Err(error) => return self.accept_error(issued, error),
            }
        }
    }

    fn note(&self, issued: &mut Issued, uid: Result<Uid, TakeError>, is_local: bool) {
        if let Some(takes) = &mut issued.takes {
            let block_end = if is_local { self.generator.block_end() } else { None };
            takes.push(Take { uid, block_end, after: Some(self.seen()) });
        }
    }

    fn note_batch(&self, issued: &mut Issued, uids: &[Uid]) {
        let Some(takes) = &mut issued.takes else { return };
        let take = |&uid| Take { uid: Ok(uid), block_end: None, after: None };
        takes.extend(uids.iter().map(take));
        if let Some(last) = takes.last_mut() {
            last.after = Some(self.seen());
        }
    }

    /// Returns the lease as its owner sees it.
    pub fn seen(&self) -> LeaseSeen {
        let (horizon, is_lost, time_left) = self.renewals.seen();
        LeaseSeen { horizon, is_lost, time_left, ring: self.generator.ring() }
    }

    fn accept(
        &mut self,
        issued: &mut Issued,
        uid: Uid,
        is_covered: bool,
        is_live: bool,
        is_local: bool,
    ) {
        let (before, worker_id) = (self.before, self.worker_id);
        // The generator's own uids are above all earlier ones, a local taker's above its own.
        let last = if is_local { self.last_local } else { self.last };
        let is_next = last < Some(uid);
        issued.check(Property::Order, is_next, || {
            format!("{uid} after {last:?}{}", if is_local { ", locally" } else { "" })
        });
        let layout = issued.layout;
        let found = layout.decode(uid).expect("of the layout");
        assert_eq!(found.worker_id, worker_id);
        let name = || format!("{}/{worker_id}/{}", found.tick, found.sequence);
        let is_new = issued.issued.insert(uid);
        issued.check(Property::Once, is_new, || format!("{} came twice", name()));
        issued.check(Property::Covered, is_covered, || format!("{} above the horizon", name()));
        let is_above = before < Some(uid);
        issued.check(Property::Above, is_above, || format!("{} not above {before:?}", name()));
        issued.check(Property::Ended, !self.is_closed && !self.is_shut, name);
        if let (false, Generator::Clocked(_)) = (is_live, &self.generator) {
            let tick = |uid| layout.decode(uid).expect("of the layout").tick;
            let is_granted = self.last.or(before).map(tick) == Some(found.tick);
            issued.check(Property::Ended, is_granted, || format!("{} is new", name()));
        }
        issued.uids += 1;
        issued.uids_after_loss += u64::from(!is_live);
        if is_local {
            self.last_local = Some(uid);
        }
        self.last = self.last.max(Some(uid));
    }

    fn accept_error(&self, issued: &mut Issued, error: TakeError) {
        let is_expected = match error {
            TakeError::Empty | TakeError::BorrowLimit { .. } | TakeError::ClockBackwards { .. } => {
                !self.is_closed && !self.is_shut
            }
            TakeError::LeaseLost => {
                issued.lost += 1;
                !self.renewals.is_live()
            }
            TakeError::Closed => self.is_closed,
            _ => false,
        };
        issued.check(Property::Ended, is_expected, || format!("unexpected: {error:?}"));
    }
}

/// A generator with a lease, of either kind, with random options.
pub enum Generator {
    /// Has a ring, and a local taker beside.
    Cached {
        /// The generator.
        generator: Arc<CachedUidGenerator>,
        /// The local taker.
        local: LocalGenerator<Arc<CachedUidGenerator>>,
    },
    /// Issues on the clock.
    Clocked(Box<ClockedUidGenerator<ManualClock>>),
}

impl Generator {
    /// Builds a generator.
    ///
    /// # Errors
    ///
    /// Those of its builder.
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
                // The wait would be real. Starts are retried instead.
                .max_start_wait(Duration::ZERO)
                .boost_power(rng.u32(1..5))
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
            1 => ClockPolicy::StandStill(Duration::from_secs(3_600)),
            _ => ClockPolicy::StandStill(Duration::from_secs(2)),
        };
        let builder = ClockedUidGenerator::snowflake()
            .layout(layout)
            .worker(lease)
            .namespace(ELSEWHERE)
            .max_start_wait(Duration::ZERO)
            .sequence_start(sequence_start)
            .clock_policy(clock_policy)
            .take_policy(TakePolicy::Reject)
            .clock(wall);
        Ok(Self::Clocked(Box::new(builder.build()?)))
    }

    fn try_next_uid(&self) -> Result<Uid, TakeError> {
        match self {
            Self::Cached { generator, .. } => generator.try_next_uid(),
            Self::Clocked(generator) => generator.try_next_uid(),
        }
    }

    fn try_fill(&self, out: &mut [Uid]) -> Result<usize, TakeError> {
        match self {
            Self::Cached { generator, .. } => generator.try_fill(out),
            Self::Clocked(generator) => generator.try_fill(out),
        }
    }

    fn take_locally(&mut self) -> Option<Result<Uid, TakeError>> {
        match self {
            Self::Cached { local, .. } => Some(local.next_uid()),
            Self::Clocked(_) => None,
        }
    }

    fn block_end(&self) -> Option<u64> {
        match self {
            Self::Cached { local, .. } => Some(local.block_end()),
            Self::Clocked(_) => None,
        }
    }

    fn ring(&self) -> Option<RingSeen> {
        match self {
            Self::Cached { generator, .. } => {
                let (stats, next, end, last) = generator.look();
                let (runs, available) = (stats.runs, stats.available);
                Some(RingSeen { runs, end, next, available, last })
            }
            Self::Clocked(_) => None,
        }
    }

    fn close(&self) {
        match self {
            Self::Cached { generator, .. } => generator.close(),
            Self::Clocked(generator) => generator.close(),
        }
    }

    /// Runs the padder. Returns whether there is one.
    fn service(&self) -> bool {
        match self {
            Self::Cached { generator, .. } => {
                generator.service();
                true
            }
            Self::Clocked(_) => false,
        }
    }
}
