//! A restore of an earlier database under live holders of all kinds: what they notice, what they cannot, and that the
//! documented remedy works.

use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::SegmentError;
use uidring::{Bits, CachedUidGenerator, Layout, SegmentGenerator, TakeError, Tick, Uid};
use uidring_store::{LeaseOptions, LeaseTable, WorkerTable};

use super::{LIMIT, TestedEngine, store, with_tags};
use crate::database::Databases;
use crate::{docs, namespace, request};

/// Few uids a tick, so that a holder soon reaches its horizon and renews.
fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 8, sequence: 4 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// A generator with a lease, and its uids.
struct Holder {
    generator: CachedUidGenerator,
    uids: Vec<Uid>,
}

impl Holder {
    fn new(leases: &impl LeaseTable) -> Self {
        let options = LeaseOptions::default().lasts(LIMIT / 2);
        let lease = leases.lease(&request(layout()), &options).expect("free");
        let builder = CachedUidGenerator::builder().layout(layout());
        let generator = builder.worker(lease).namespace(namespace::fresh()).build();
        Self { generator: generator.expect("built"), uids: Vec::new() }
    }

    fn take(&mut self) -> Result<(), TakeError> {
        for _ in 0..1_000 {
            self.uids.push(self.generator.next_uid()?);
        }
        Ok(())
    }

    /// Takes until the lease is lost.
    fn end(&mut self) {
        let begin = Instant::now();
        let error = loop {
            assert!(begin.elapsed() < LIMIT, "it goes on");
            match self.take() {
                Err(error) => break error,
                // Give it time to renew.
                Ok(()) => thread::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(error, TakeError::LeaseLost);
    }

    fn horizon(&self, leases: &impl LeaseTable) -> Option<u64> {
        let rows = leases.list().expect("listed");
        let worker_id = self.generator.worker_id();
        rows.iter().find(|row| row.worker_id == worker_id)?.horizon.map(|(tick, _)| tick)
    }
}

/// Holders of leases and the segment generator end before they go on beside a successor. Disposable worker ids repeat.
/// After the remedy nothing repeats.
pub fn a_backup_that_is_restored_ends_live_holders<T: TestedEngine>() {
    let database = with_tags::<T>(&T::Kind::shared(), &["t"]);
    let store = store::<T>(&database);
    let (nodes, leases) = (store.worker_nodes(), store.leases());
    leases.create().expect("made");
    let mut earlier = Holder::new(&leases);
    let segments = SegmentGenerator::builder(store.segments()).step_factor(1);
    let segments = segments.build().expect("built");
    let mut ids = vec![segments.next_id("t").expect("loaded")];
    earlier.take().expect("held");
    T::back_up(&database);
    let backed_up = earlier.horizon(&leases).expect("in use");

    let assigned = nodes.assign(&layout()).expect("assigned");
    let mut later = Holder::new(&leases);
    later.take().expect("held");
    ids.extend((0..50).map(|_| segments.next_id("t").expect("loaded")));
    let begin = Instant::now();
    while earlier.horizon(&leases).expect("held") <= backed_up {
        assert!(begin.elapsed() < LIMIT, "it renews");
        earlier.take().expect("held");
    }

    T::restore(&database);
    earlier.end();
    later.end();
    segments.refresh().expect("read");
    let begin = Instant::now();
    let error = loop {
        assert!(begin.elapsed() < LIMIT, "it goes on");
        match segments.next_id("t") {
            Ok(id) => ids.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SegmentError::InvalidRow(_)), "{error}");
    assert!(error.to_string().contains("went back"), "{error}");
    // Holders of disposable worker ids never read the table again, and the table has lost their rows.
    assert_eq!(nodes.assign(&layout()).expect("assigned"), assigned);

    let greatest = [&earlier, &later].map(|holder| holder.uids.last().expect("some"));
    let ticks = greatest.map(|uid| layout().decode(*uid).expect("of this layout").tick);
    let tick = ticks.into_iter().max().expect("two");
    let raise = docs::block("leases.md", "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1, LEASE_END");
    database.execute(&raise.replace("TICK_IN_USE", &tick.to_string()));
    let next = later.generator.worker_id().max(assigned) + 1;
    database.execute(&T::set_counter(next));
    let above = ids.iter().max().expect("some") + 1_000;
    database.execute(&format!("UPDATE leaf_alloc SET max_id = {above} WHERE biz_tag = 't'"));

    assert_eq!(nodes.assign(&layout()).expect("assigned"), next);
    let mut successor = Holder::new(&leases);
    successor.take().expect("held");
    assert_eq!(successor.generator.worker_id(), earlier.generator.worker_id(), "the row is free");
    let uids = [earlier.uids, later.uids, successor.uids].concat();
    check_unique(uids, "uid");
    segments.refresh().expect("read");
    ids.extend((0..50).map(|_| segments.next_id("t").expect("raised")));
    check_unique(ids, "id");
}

fn check_unique<T: Ord>(mut all: Vec<T>, what: &str) {
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "{} times a {what} came again", count - all.len());
}
