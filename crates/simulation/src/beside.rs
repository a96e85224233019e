//! A real store beside the model's. It gets the same requests, and its answers and rows must be equal.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use uidring::worker::{Lease, LeaseBackend, RenewError};
use uidring::{Error, Layout, Timestamp, Uid};

use super::holding::{Fenced, Holding};

/// The leases of one history, for which a store is opened.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The layout of the leases.
    pub layout: Layout,
    /// The worker ids to hand out, lowest first: the last ones of the layout.
    pub worker_ids: RangeInclusive<u64>,
    /// The length of a lease.
    pub lasts: Duration,
    /// How much earlier its owner counts it as over.
    pub margin: Duration,
    /// Whether clocks stay within the margin.
    pub is_calm: bool,
}

/// A store of leases that runs beside the model's. Each history has a new, empty one.
///
/// If anything unexpected happens, it panics or returns an error; both end the history.
pub trait StoreUnderTest: Send + 'static {
    /// Sets the store's clock, forwards or backwards. It stands still in between.
    fn set_time(&mut self, now: Timestamp);

    /// Leases the lowest worker id that is free or expired, or else a new one. Returns `None` if all are held.
    ///
    /// # Errors
    ///
    /// The store's error.
    fn acquire(&mut self) -> Result<Option<Lease>, Error>;

    /// Ends a lease, even if it is held.
    ///
    /// # Errors
    ///
    /// The store's error.
    fn fence(&mut self, worker_id: u64) -> Result<(), Error>;

    /// Frees a worker id if its lease has expired. Returns `false` otherwise.
    ///
    /// # Errors
    ///
    /// The store's error.
    fn free(&mut self, worker_id: u64) -> Result<bool, Error>;

    /// Returns all rows, by worker id.
    ///
    /// # Errors
    ///
    /// The store's error.
    fn rows(&mut self) -> Result<Vec<StoredLease>, Error>;
}

/// A row of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredLease {
    /// The worker id.
    pub worker_id: u64,
    /// The fencing token.
    pub token: u64,
    /// When the lease ends, by the store's clock; `None` if it was given back.
    pub ends: Option<Timestamp>,
    /// The last tick and sequence number that may have been issued.
    pub horizon: Option<(u64, u64)>,
}

pub(super) type Open<'a> = dyn Fn(&Setting) -> Box<dyn StoreUnderTest> + Sync + 'a;

pub(super) struct Beside {
    setting: Setting,
    store: Box<dyn StoreUnderTest>,
    /// By worker id and token. Those of crashed owners may still have messages under way.
    backends: HashMap<(u64, u64), Box<dyn LeaseBackend>>,
}

impl Beside {
    pub(super) fn new(setting: &Setting, store: Box<dyn StoreUnderTest>) -> Self {
        Self { setting: setting.clone(), store, backends: HashMap::new() }
    }

    pub(super) fn acquire(&mut self, now: Timestamp, model: Option<Holding>) {
        self.store.set_time(now);
        let lease = self.store.acquire().unwrap_or_else(|error| unexpected("acquire", &error));
        let found = lease.as_ref().map(|lease| (lease.worker_id(), lease.after()));
        let expected = model.map(|holding| (holding.worker_id, holding.before));
        assert_eq!(found, expected, "an acquire at {now}: the store's answer, and the model's");
        if let (Some(lease), Some(holding)) = (lease, model) {
            let Setting { layout, lasts, .. } = self.setting;
            let found_lasts = lease.terms().lasts;
            let (found_layout, backend) = lease.into_parts();
            assert_eq!((found_layout, found_lasts), (layout, Some(lasts)), "of a lease");
            self.backends.insert((holding.worker_id, holding.token), backend);
        }
    }

    pub(super) fn renew(
        &mut self,
        now: Timestamp,
        holding: Holding,
        horizon: u64,
        model: Result<(), Fenced>,
    ) {
        self.store.set_time(now);
        let is_lost = match self.backend(holding).renew(horizon) {
            Ok(()) => false,
            Err(RenewError::Lost(_)) => true,
            Err(RenewError::Failed(error)) => unexpected("renew", &error),
            Err(other) => panic!("{other}"),
        };
        let what = || format!("a renewal of {holding:?} to {horizon} at {now}");
        assert_eq!(is_lost, model.is_err(), "{}: lost in the store, and in the model", what());
    }

    pub(super) fn release(
        &mut self,
        holding: Holding,
        last: Option<Uid>,
        model: Result<(), Fenced>,
    ) {
        let is_lost = match self.backend(holding).release(last) {
            Ok(()) => false,
            Err(Error::LeaseLost { .. }) => true,
            Err(error) => unexpected("release", &error),
        };
        let what = || format!("a release of {holding:?} with {last:?}");
        assert_eq!(is_lost, model.is_err(), "{}: lost in the store, and in the model", what());
    }

    pub(super) fn fence(&mut self, now: Timestamp, worker_id: u64) {
        self.store.set_time(now);
        self.store.fence(worker_id).unwrap_or_else(|error| unexpected("fence", &error));
    }

    pub(super) fn free(&mut self, now: Timestamp, worker_id: u64, model: bool) {
        self.store.set_time(now);
        let is_free = self.store.free(worker_id).unwrap_or_else(|error| unexpected("free", &error));
        assert_eq!(is_free, model, "{worker_id} freed at {now}: by the store, and by the model");
    }

    pub(super) fn compare(&mut self, model: &[StoredLease]) {
        let rows = self.store.rows().unwrap_or_else(|error| unexpected("read", &error));
        assert_eq!(rows, model, "the store's rows, and the model's");
    }

    fn backend(&mut self, holding: Holding) -> &mut dyn LeaseBackend {
        let key = (holding.worker_id, holding.token);
        self.backends.get_mut(&key).expect("leased from the store too").as_mut()
    }
}

fn unexpected(action: &str, error: &Error) -> ! {
    panic!("the store could not {action}, which the model does: {error}")
}
