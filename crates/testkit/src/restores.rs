//! A database that is put back to an earlier state under live holders of all kinds: what they notice, what
//! nobody can, and that the remedy of the docs works.

use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{SegmentError, SegmentStore};
use uidring::{Bits, CachedUidGenerator, Layout, SegmentGenerator, TakeError, Tick, Uid};
use uidring_store::{LeaseOptions, LeaseTable, WorkerTable};

use crate::{docs, namespace, request};

/// A database with the tables of leases and worker ids, and the tag `t` with a step of 10.
pub trait Restorable {
    /// Its table of worker ids.
    fn worker_ids(&self) -> Box<dyn WorkerTable>;
    /// Its table of leases.
    fn leases(&self) -> Box<dyn LeaseTable>;
    /// Its table of tags.
    fn segments(&self) -> Box<dyn SegmentStore>;
    /// Makes a backup.
    fn back_up(&self);
    /// Puts it back.
    fn restore(&self);
    /// Executes a statement.
    fn execute(&self, sql: &str);
    /// Lets the next worker id of `WORKER_NODE` be this one.
    fn set_counter(&self, next: u64);
}

/// Longer than anything here takes, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Few uids a tick, so that a holder comes to the end of its horizon, and renews, within a moment.
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
    fn new(database: &impl Restorable) -> Self {
        let lease = database
            .leases()
            .lease(&request(layout()), &LeaseOptions::default().lasts(LIMIT / 2))
            .expect("free");
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

    /// Takes until it hears that its lease is lost.
    fn end(&mut self) {
        let begin = Instant::now();
        let error = loop {
            assert!(begin.elapsed() < LIMIT, "it goes on");
            match self.take() {
                Err(error) => break error,
                // It renews meanwhile.
                Ok(()) => thread::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(error, TakeError::LeaseLost);
    }

    fn horizon(&self, database: &impl Restorable) -> Option<u64> {
        let rows = database.leases().list().expect("listed");
        let worker_id = self.generator.worker_id();
        rows.iter().find(|row| row.worker_id == worker_id)?.horizon.map(|(tick, _)| tick)
    }
}

/// Holders of leases and the generator of segments end before they go on beside a successor; disposable
/// worker ids come again; and after the remedy nothing does.
pub fn live_holders_notice(database: &impl Restorable) {
    let mut earlier = Holder::new(database);
    let segments = SegmentGenerator::builder(database.segments()).step_factor(1);
    let segments = segments.build().expect("built");
    let mut ids = vec![segments.next_id("t").expect("loaded")];
    earlier.take().expect("held");
    database.back_up();
    let backed_up = earlier.horizon(database).expect("in use");

    let assigned = database.worker_ids().assign(&layout()).expect("assigned");
    let mut later = Holder::new(database);
    later.take().expect("held");
    ids.extend((0..50).map(|_| segments.next_id("t").expect("loaded")));
    let begin = Instant::now();
    while earlier.horizon(database).expect("held") <= backed_up {
        assert!(begin.elapsed() < LIMIT, "it renews");
        earlier.take().expect("held");
    }

    database.restore();
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
    // No holder of a disposable worker id looks at the table again, and the table knows no better.
    assert_eq!(database.worker_ids().assign(&layout()).expect("assigned"), assigned);

    let greatest = [&earlier, &later].map(|holder| holder.uids.last().expect("some"));
    let ticks = greatest.map(|uid| layout().decode(*uid).expect("of this layout").tick);
    let tick = ticks.into_iter().max().expect("two");
    let raise = docs::block("leases.md", "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1, LEASE_END");
    database.execute(&raise.replace("TICK_IN_USE", &tick.to_string()));
    let next = later.generator.worker_id().max(assigned) + 1;
    database.set_counter(next);
    let above = ids.iter().max().expect("some") + 1_000;
    database.execute(&format!("UPDATE leaf_alloc SET max_id = {above} WHERE biz_tag = 't'"));

    assert_eq!(database.worker_ids().assign(&layout()).expect("assigned"), next);
    let mut successor = Holder::new(database);
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
