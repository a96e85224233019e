//! A store under test, and the operations that the properties need.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use uidring::segment::SegmentStore;
use uidring::worker::Lease;
use uidring::{
    Bits, CachedUidGenerator, Error, Layout, StoreErrorKind, TakeError, Tick, Uid, Worker,
    WorkerSource,
};

use super::store::{Place, Row, Server, Site, Store, Terms};
use crate::{chain, namespace, request};

/// Longer than any test takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);

/// How long to wait for an expected event.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The limit of an operation.
const DEADLINE: Duration = Duration::from_secs(30);

/// Long enough for a busy machine to renew, short enough for a start to wait for the end.
const HELD: Duration = Duration::from_secs(20);

/// Short, but a busy machine still renews it in time.
pub const SHORT: Duration = Duration::from_secs(8);

pub struct Setting {
    store: &'static dyn Store,
    site: Box<dyn Site>,
    layout: Layout,
}

impl Setting {
    /// Starts a store with at most three leases, maybe on a shared server.
    pub fn shared(store: &'static dyn Store) -> Self {
        Self { store, site: store.share(), layout: layout(2) }
    }

    pub fn alone(store: &'static dyn Store) -> Self {
        Self { store, site: store.start(), layout: layout(2) }
    }

    /// Sets the number of bits for the worker id.
    pub fn worker_bits(self, bits: u8) -> Self {
        Self { layout: layout(bits), ..self }
    }

    pub fn site(&self) -> &dyn Site {
        &*self.site
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    pub fn place(&self) -> Place {
        place(self.site.address(0))
    }

    /// Starts once, and returns the worker id.
    pub fn assign(&self, layout: Layout) -> Result<u64, Error> {
        assign(self.store, &self.place(), layout)
    }

    /// Leases a worker id for longer than any test. Waits for one that another start is about to give back.
    pub fn lease(&self) -> Result<Lease, Error> {
        self.lease_for(LONG, LIMIT)
    }

    pub fn lease_for(&self, lasts: Duration, wait_for: Duration) -> Result<Lease, Error> {
        self.lease_at(&self.place(), lasts, wait_for)
    }

    /// Leases a worker id for another layout, without waiting.
    pub fn lease_of(&self, layout: Layout) -> Result<Lease, Error> {
        let terms = Terms { lasts: LONG, wait_for: Duration::ZERO };
        self.store.lease(&self.place(), &request(layout), &terms)
    }

    pub fn lease_at(
        &self,
        place: &Place,
        lasts: Duration,
        wait_for: Duration,
    ) -> Result<Lease, Error> {
        self.store.lease(place, &request(self.layout), &Terms { lasts, wait_for })
    }

    /// Holds all free worker ids, of which there must be one.
    #[track_caller]
    pub fn hold_all(&self) -> Vec<CachedUidGenerator> {
        let hold = || self.lease_for(HELD, Duration::ZERO).map(|lease| self.generator(lease));
        let mut all = vec![hold().expect("free")];
        let error = loop {
            match hold() {
                Ok(generator) => all.push(generator),
                Err(error) => break error,
            }
            assert!(all.len() as u64 <= self.layout.workers(), "more than the layout has");
        };
        assert_none_free(&error);
        let ids: BTreeSet<_> = all.iter().map(CachedUidGenerator::worker_id).collect();
        assert_eq!(ids.len(), all.len(), "a worker id is held twice: {all:?}");
        all
    }

    pub fn segments_at(&self, address: String) -> Result<Box<dyn SegmentStore>, Error> {
        self.store.segments(&place(address))
    }

    pub fn server(&self) -> &dyn Server {
        self.site.server().expect("a server of its own")
    }

    /// Builds a generator with the lease, as the first of a process.
    #[track_caller]
    pub fn generator(&self, lease: Lease) -> CachedUidGenerator {
        self.try_generator(lease).unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    pub fn try_generator(&self, lease: Lease) -> Result<CachedUidGenerator, Error> {
        let builder = CachedUidGenerator::builder().layout(self.layout).worker(lease);
        builder.namespace(namespace::fresh()).build()
    }

    pub fn tick(&self, uid: Uid) -> u64 {
        self.layout.decode(uid).expect("of the layout").tick
    }

    #[track_caller]
    pub fn row(&self, worker_id: u64) -> Row {
        self.site.rows().row(worker_id).expect("a row")
    }
}

/// Returns a layout with this many worker bits. Each test has a new store, so it can choose another layout.
pub fn layout(worker: u8) -> Layout {
    let bits = Bits { time: 41, worker, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// Returns the place of a start on another host.
pub fn place(address: String) -> Place {
    static STARTS: AtomicUsize = AtomicUsize::new(0);
    let slot = STARTS.fetch_add(1, Ordering::Relaxed);
    let unique = format!("{}-{slot}", std::process::id());
    Place { address, slot, unique, deadline: DEADLINE }
}

pub fn assign(store: &dyn Store, place: &Place, layout: Layout) -> Result<u64, Error> {
    match store.worker_ids(place)?.acquire(&request(layout))? {
        Worker::Plain(id) => Ok(id),
        // If all starts of the store have leases, it stays held.
        Worker::Leased(lease) => Ok(lease.worker_id()),
        other => panic!("{other:?} is neither"),
    }
}

/// Asserts that the error says: others hold all worker ids.
#[track_caller]
pub fn assert_none_free(error: &Error) {
    let (is_typed, kind) = (is_none_free(error), kind(error));
    assert!(is_typed, "{kind:?} is not Held or Exhausted: {}", chain(error));
}

pub fn is_none_free(error: &Error) -> bool {
    matches!(kind(error), Some(StoreErrorKind::Held | StoreErrorKind::Exhausted))
}

/// Asserts that the error says: the layout has no new worker ids.
#[track_caller]
pub fn assert_used_up(error: &Error) {
    let is_typed = matches!(error, Error::WorkerIdOutOfRange { .. })
        || kind(error) == Some(StoreErrorKind::Exhausted);
    assert!(is_typed, "neither Exhausted nor out of range: {}", chain(error));
}

pub fn kind(error: &Error) -> Option<StoreErrorKind> {
    match error {
        Error::Store(error) => Some(error.kind()),
        _ => None,
    }
}

/// Takes uids until the generator refuses, which must happen soon. Returns the last uid and the error.
#[track_caller]
pub fn take_to_the_end(generator: &CachedUidGenerator) -> (Option<Uid>, TakeError) {
    let (begin, mut last) = (Instant::now(), None);
    loop {
        match generator.next_uid() {
            Ok(uid) => {
                assert!(last < Some(uid), "{uid} after {last:?}");
                last = Some(uid);
            }
            Err(error) => return (last, error),
        }
        assert!(begin.elapsed() < LIMIT, "it still issues");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < LIMIT, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}
