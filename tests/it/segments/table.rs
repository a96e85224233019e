//! The store of these tests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{
    LoadError, Loaded, LoadedSegment, MemorySegments, SegmentBuilder, SegmentRequest, SegmentStore,
    SegmentTag,
};
use uidring::{Error, SegmentGenerator, StoreError, StoreErrorKind};

/// More than a busy machine needs.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// A table in memory whose connection can be slow, broken or fatal. It records its calls.
#[derive(Clone, Default)]
pub(super) struct Table {
    pub(super) rows: MemorySegments,
    /// Rows that an operator put by hand; they replace those above.
    pub(super) by_hand: Arc<Mutex<BTreeMap<String, SegmentTag>>>,
    /// What readings see instead of a row, as on a replica.
    pub(super) shown: Arc<Mutex<Option<SegmentTag>>>,
    down: Arc<AtomicBool>,
    pub(super) fatal: Arc<AtomicBool>,
    pub(super) slow_millis: Arc<AtomicU64>,
    /// Whether calls of the store are held up.
    stuck: Arc<AtomicBool>,
    /// Calls that have begun. A load of several tags counts as several.
    pub(super) calls: Arc<AtomicU64>,
    /// Calls of `load`.
    pub(super) loads: Arc<AtomicU64>,
    pub(super) log: Arc<Mutex<Log>>,
}

#[derive(Default)]
pub(super) struct Log {
    /// The number of ids that each load requested.
    steps: Vec<u64>,
    ranges: BTreeMap<String, Vec<Range<u64>>>,
    /// The greatest number of loads of one tag in one call.
    pub(super) at_once: usize,
    failures: u64,
}

fn broken() -> Error {
    StoreError::new(StoreErrorKind::Unreachable, "the connection is gone").into()
}

impl Table {
    pub(super) fn new(tags: &[(&str, u64)]) -> Self {
        let table = Self::default();
        tags.iter().for_each(|(tag, step)| {
            assert!(table.rows.create(SegmentTag::new(*tag).step(step.cast_signed())).expect("ok"))
        });
        table
    }

    pub(super) fn put_by_hand(&self, tag: &str, max_id: i64, step: i64) {
        let row = SegmentTag::new(tag).max_id(max_id).step(step);
        self.by_hand.lock().expect("whole").insert(tag.into(), row);
    }

    pub(super) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    pub(super) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    pub(super) fn steps(&self) -> Vec<u64> {
        self.log.lock().expect("whole").steps.clone()
    }

    pub(super) fn ranges(&self, tag: &str) -> Vec<Range<u64>> {
        self.log.lock().expect("whole").ranges.get(tag).cloned().unwrap_or_default()
    }

    pub(super) fn failures(&self) -> u64 {
        self.log.lock().expect("whole").failures
    }

    pub(super) fn builder(&self) -> SegmentBuilder {
        SegmentGenerator::builder(self.clone())
    }

    pub(super) fn generator(&self) -> SegmentGenerator {
        self.builder().build().expect("builds")
    }

    /// What an UPDATE and a SELECT on a hand-made row result in.
    fn load_by_hand(&self, request: &SegmentRequest) -> Option<Result<LoadedSegment, LoadError>> {
        let mut rows = self.by_hand.lock().expect("whole");
        let row = rows.get_mut(&request.tag)?;
        let tag = request.tag.clone();
        let (max_id, table_step) = (row.max_id.expect("a number"), row.step.expect("a number"));
        let step = i64::try_from(request.step).expect("fits").max(table_step);
        Some(match (max_id, table_step) {
            (_, ..=0) => {
                Err(LoadError::InvalidRow { tag, problem: "its step is not positive".into() })
            }
            (i64::MAX, _) => Err(LoadError::UsedUp { tag, max_id }),
            _ => {
                let end = max_id.saturating_add(step);
                row.max_id = Ok(end);
                Ok(LoadedSegment {
                    start: max_id.unsigned_abs(),
                    end: end.unsigned_abs(),
                    table_step: table_step.unsigned_abs(),
                })
            }
        })
    }

    fn work(&self) -> Result<(), Error> {
        assert!(!self.fatal.load(Ordering::Relaxed), "a fault of the store's");
        self.calls.fetch_add(1, Ordering::Relaxed);
        while self.stuck.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(self.slow_millis.load(Ordering::Relaxed)));
        if self.down.load(Ordering::Relaxed) {
            self.log.lock().expect("whole").failures += 1;
            return Err(broken());
        }
        Ok(())
    }
}

impl SegmentStore for Table {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.work()?;
        let mut rows = self.rows.tags()?;
        rows.extend(self.by_hand.lock().expect("whole").values().cloned());
        if let Some(shown) = &*self.shown.lock().expect("whole") {
            rows.retain(|row| row.tag != shown.tag);
            rows.push(shown.clone());
        }
        Ok(rows)
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        self.loads.fetch_add(1, Ordering::Relaxed);
        for (place, request) in wanted.iter().enumerate() {
            if let Err(error) = self.work() {
                loaded(place, Err(error.into()));
                continue;
            }
            let mut answer = self.load_by_hand(request);
            if answer.is_none() {
                self.rows.load(std::slice::from_ref(request), &mut |_, result| {
                    answer = Some(result);
                });
            }
            let answer = answer.expect("a table answers");
            if let Ok(segment) = &answer {
                let mut log = self.log.lock().expect("whole");
                log.steps.push(request.step);
                let same = wanted.iter().filter(|other| other.tag == request.tag).count();
                log.at_once = log.at_once.max(same);
                let ranges = log.ranges.entry(request.tag.clone()).or_default();
                ranges.push(segment.start..segment.end);
            }
            loaded(place, answer);
        }
    }
}

pub(super) fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "{what}");
        thread::yield_now();
    }
}

/// Checks that the ids are distinct, within what was loaded, and all of it except what is left.
pub(super) fn assert_accounted(
    generator: &SegmentGenerator,
    table: &Table,
    tag: &str,
    mut ids: Vec<u64>,
) {
    // The thread may still finish earlier loads. So accept the stats only if the table is the same before and after,
    // and they include all that it gave.
    let sum = |ranges: &[Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
    let start = Instant::now();
    let (stats, ranges) = loop {
        let ranges = table.ranges(tag);
        let stats = generator.stats(tag).expect("there");
        if stats.reserved == sum(&ranges) && table.ranges(tag) == ranges {
            break (stats, ranges);
        }
        assert!(start.elapsed() < LIMIT, "all is loaded: {stats:?}");
        thread::yield_now();
    };
    let count = ids.len() as u64;
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len() as u64, count, "{tag}: an id came twice");
    let loaded = sum(&ranges);
    assert!(ids.iter().all(|id| ranges.iter().any(|range| range.contains(id))), "{tag}");
    assert_eq!(count + stats.left + stats.lapped, loaded, "{tag}: nothing is lost: {stats:?}");
    assert_eq!(stats.taken, count, "{tag}: {stats:?}");
    // Gaps only at the end: with one table and one generator, all ranges are neighbours.
    if stats.lapped == 0 {
        assert!(ids.iter().copied().eq(1..=count), "{tag}: a gap");
    }
}
