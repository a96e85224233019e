//! What a segment generator promises, on tables that are slow, fail, come back, or hold nonsense.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::ManualClock;
use uidring::policy::{TakeDecision, TakePolicy};
use uidring::segment::{
    LoadError, LoadedSegment, MemorySegments, SegmentBuilder, SegmentError, SegmentRequest,
    SegmentStore, SegmentTag,
};
use uidring::{Error, SegmentGenerator, StoreError, StoreErrorKind, Timestamp};
use uidring_testkit::chain;

/// Longer than anything here takes, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(30);

const MINUTE: Duration = Duration::from_secs(60);

/// A table in memory whose connection can be slow, broken or fatal, and which tells what was asked
/// of it.
#[derive(Clone, Default)]
struct Table {
    rows: MemorySegments,
    /// Rows as an operator might have put them into a table by hand, in place of those above.
    by_hand: Arc<Mutex<BTreeMap<String, SegmentTag>>>,
    down: Arc<AtomicBool>,
    fatal: Arc<AtomicBool>,
    slow_millis: Arc<AtomicU64>,
    /// Whoever is in the store stays there for now.
    stuck: Arc<AtomicBool>,
    /// Calls that have begun.
    calls: Arc<AtomicU64>,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    /// How many ids each load has asked for.
    steps: Vec<u64>,
    ranges: BTreeMap<String, Vec<Range<u64>>>,
    /// The greatest number of loads of one tag in one call of the store.
    at_once: usize,
    failures: u64,
}

fn broken() -> Error {
    StoreError::new(StoreErrorKind::Unreachable, "the connection is gone").into()
}

impl Table {
    fn new(tags: &[(&str, u64)]) -> Self {
        let table = Self::default();
        tags.iter().for_each(|(tag, step)| {
            assert!(table.rows.create(SegmentTag::new(*tag).step(step.cast_signed())).expect("ok"))
        });
        table
    }

    fn put_by_hand(&self, tag: &str, max_id: i64, step: i64) {
        let row = SegmentTag::new(tag).max_id(max_id).step(step);
        self.by_hand.lock().expect("whole").insert(tag.into(), row);
    }

    fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    fn steps(&self) -> Vec<u64> {
        self.log.lock().expect("whole").steps.clone()
    }

    fn ranges(&self, tag: &str) -> Vec<Range<u64>> {
        self.log.lock().expect("whole").ranges.get(tag).cloned().unwrap_or_default()
    }

    fn failures(&self) -> u64 {
        self.log.lock().expect("whole").failures
    }

    fn builder(&self) -> SegmentBuilder {
        SegmentGenerator::builder(self.clone())
    }

    fn generator(&self) -> SegmentGenerator {
        self.builder().build().expect("builds")
    }

    /// What an UPDATE and a SELECT on a row that was put by hand come to.
    fn load_by_hand(&self, request: &SegmentRequest) -> Option<Result<LoadedSegment, LoadError>> {
        let mut rows = self.by_hand.lock().expect("whole");
        let row = rows.get_mut(&request.tag)?;
        let (max_id, tag) = (row.max_id, request.tag.clone());
        let step = i64::try_from(request.step).expect("fits").max(row.step);
        Some(match (max_id.checked_add(step), row.step) {
            (_, ..=0) => {
                Err(LoadError::InvalidRow { tag, problem: "its step is not positive".into() })
            }
            (None, _) => Err(LoadError::UsedUp { tag, max_id, step: step.unsigned_abs() }),
            (Some(end), table_step) => {
                row.max_id = end;
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
        Ok(rows)
    }

    fn load(
        &mut self,
        wanted: &[SegmentRequest],
        loaded: &mut dyn FnMut(usize, Result<LoadedSegment, LoadError>),
    ) {
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

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "{what}");
        thread::yield_now();
    }
}

/// Ids that were given out: distinct, inside of what was loaded, and all of it but what is left.
fn assert_accounted(generator: &SegmentGenerator, table: &Table, tag: &str, mut ids: Vec<u64>) {
    // The thread may still load what was asked for before: a look at the generator counts if the
    // table was the same before and after it, and all that it gave is there.
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
    // Gaps only at the end: one table, one generator, so that all ranges are neighbours.
    if stats.lapped == 0 {
        assert!(ids.iter().copied().eq(1..=count), "{tag}: a gap");
    }
}

#[test]
fn every_id_of_every_tag_is_given_out_once() {
    let tags = [("one", 1), ("three", 3), ("ten", 10), ("many", 777), ("more", 10_000)];
    let table = Table::new(&tags);
    let generator = table.builder().max_step(2_000).build().expect("builds");
    const SHARE: usize = 6_000;
    let lists: Vec<Vec<Vec<u64>>> = thread::scope(|scope| {
        let takers: Vec<_> = (0..8)
            .map(|taker| {
                let generator = &generator;
                scope.spawn(move || {
                    let handles = tags.map(|(tag, _)| generator.tag(tag).expect("there"));
                    let mut lists = vec![Vec::new(); tags.len()];
                    let mut batch = [0; 37];
                    for round in 0..SHARE {
                        let place = (round * 7 + taker) % tags.len();
                        let (handle, list) = (&handles[place], &mut lists[place]);
                        match round % 16 {
                            0 => {
                                handle.fill(&mut batch).expect("waits");
                                list.extend(batch);
                            }
                            1..4 => list.push(generator.next_id(handle.name()).expect("waits")),
                            _ => list.push(handle.next_id().expect("waits")),
                        }
                    }
                    for list in &lists {
                        assert!(list.is_sorted_by(|a, b| a < b), "increasing in each thread");
                    }
                    lists
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().expect("no panic")).collect()
    });
    for (place, (tag, _)) in tags.iter().enumerate() {
        let ids = lists.iter().flat_map(|lists| lists[place].iter().copied()).collect();
        assert_accounted(&generator, &table, tag, ids);
    }
    assert_eq!(table.log.lock().expect("whole").at_once, 1, "one load of a tag at a time");
}

/// Between threads that know of each other: who begins later gets more.
#[test]
fn ids_increase_from_taker_to_taker() {
    let table = Table::new(&[("orders", 5)]);
    let generator = table.builder().max_step(5).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    let last = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    let before = last.load(Ordering::Acquire);
                    let id = orders.next_id().expect("waits");
                    assert!(before < id, "{id} after {before}");
                    last.fetch_max(id, Ordering::AcqRel);
                }
            });
        }
    });
}

#[test]
fn a_segment_is_prefetched_at_the_mark_and_not_before() {
    let table = Table::new(&[("orders", 1_000)]);
    let generator = table.builder().prefetch(30).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    assert_eq!(table.steps().len(), 0, "nothing is loaded before it is needed");
    for id in 1..=300 {
        assert_eq!(orders.next_id().expect("waits"), id);
    }
    thread::sleep(Duration::from_millis(30));
    assert_eq!(table.steps().len(), 1);
    assert_eq!(orders.stats().expect("there").segments, 1);
    orders.next_id().expect("in memory");
    wait_until("the second one comes", || orders.stats().expect("there").segments == 2);
    // Nobody takes: no third one.
    thread::sleep(Duration::from_millis(30));
    let stats = orders.stats().expect("there");
    assert_eq!((stats.loads, stats.left, stats.position), (2, 1_699, Some(302)));
    let mut rest = vec![0; 1_699];
    assert_eq!(orders.try_fill(&mut rest[..1_000]).expect("in memory"), 1_000);
    assert!(rest[..1_000].iter().copied().eq(302..1_302), "across the end of a segment");
}

/// What docs/segments.md says that a restart wastes.
#[test]
fn by_default_a_tag_has_two_segments_and_four_at_the_most() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.builder().max_step(10).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    orders.next_id().expect("waits");
    assert_eq!(orders.stats().expect("there").depth, 2);
    for round in 0..8 {
        table.set_stuck(true);
        wait_until("it runs dry", || orders.try_next_id().is_err());
        table.set_stuck(false);
        orders.next_id().expect("waits");
        let stats = orders.stats().expect("there");
        assert!(stats.dried > round && stats.left <= 40, "{stats:?}");
    }
    assert_eq!(orders.stats().expect("there").depth, 4);
}

#[test]
fn takers_who_run_dry_deepen_the_chain() {
    let table = Table::new(&[("orders", 10)]);
    let builder = table.builder().max_step(10).depth(2).max_depth(5);
    let generator = builder.build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    assert_eq!(orders.stats().expect("there").depth, 2);
    orders.next_id().expect("waits");
    assert_eq!(orders.stats().expect("there").dried, 0, "a first load is no drying");
    table.slow_millis.store(2, Ordering::Relaxed);
    let start = Instant::now();
    while orders.stats().expect("there").depth < 5 {
        orders.next_id().expect("waits");
        assert!(start.elapsed() < LIMIT, "{:?}", orders.stats());
    }
    for _ in 0..100 {
        orders.next_id().expect("waits");
    }
    let stats = orders.stats().expect("there");
    assert_eq!(stats.depth, 5, "no further");
    assert!(stats.dried >= 3, "{stats:?}");
    table.slow_millis.store(0, Ordering::Relaxed);
    orders.next_id().expect("waits");
    orders.next_id().expect("waits");
    orders.next_id().expect("waits");
    wait_until("all five are there", || {
        let stats = orders.stats().expect("there");
        assert!(stats.segments <= 5 && stats.left <= 50, "{stats:?}");
        // One more take crosses the mark of whichever segment is the current one.
        stats.segments == 5 || orders.next_id().is_err()
    });
}

/// Uses up segment after segment, the clock going on by so many minutes during each, and returns the
/// steps of the loads that came of it.
fn steps_by_clock(table: &Table, builder: SegmentBuilder, minutes: &[u32]) -> Vec<u64> {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    // Who has to wait for a load, as on a busy machine, does not get more of them in advance.
    let generator = builder.max_depth(1).clock(clock.clone()).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    // Almost to the end of a segment, so that the next one is loaded.
    let near_the_end = |segment: usize| {
        let last = table.ranges("orders")[segment].end - 10;
        while orders.next_id().expect("waits") < last {}
        wait_until("the next one", || table.ranges("orders").len() == segment + 2);
    };
    assert_eq!(orders.next_id().expect("waits"), 1);
    for (segment, minutes) in minutes.iter().enumerate() {
        near_the_end(segment);
        clock.advance(MINUTE.saturating_mul(*minutes));
        // The first one of the next segment finds this one used up.
        let end = table.ranges("orders")[segment].end;
        while orders.next_id().expect("in memory") < end {}
    }
    near_the_end(minutes.len());
    table.steps()
}

#[test]
fn the_step_follows_the_time_that_segments_last() {
    let table = Table::new(&[("orders", 100)]);
    let minutes = [1, 14, 15, 29, 30, 200, 200, 0];
    let steps = steps_by_clock(&table, table.builder(), &minutes);
    assert_eq!(steps, [100, 100, 200, 400, 400, 400, 200, 100, 100, 200]);
}

#[test]
fn the_step_has_a_cap_and_other_settings() {
    let table = Table::new(&[("orders", 400_000)]);
    let steps = steps_by_clock(&table, table.builder(), &[0, 0, 0]);
    assert_eq!(steps, [400_000, 400_000, 800_000, 1_000_000, 1_000_000]);

    let table = Table::new(&[("orders", 100)]);
    let builder = table.builder().segment_duration(2 * MINUTE).step_factor(10).max_step(5_000);
    let steps = steps_by_clock(&table, builder, &[1, 1, 3, 5, 5]);
    assert_eq!(steps, [100, 100, 1_000, 5_000, 5_000, 500, 100]);

    let table = Table::new(&[("orders", 1_500_000)]);
    let steps = steps_by_clock(&table, table.builder(), &[0, 0]);
    assert_eq!(steps, [1_500_000; 4], "a table that asks for more than the cap gets it");
}

#[test]
fn a_step_that_is_changed_in_the_table_takes_effect() {
    let table = Table::new(&[("orders", 100)]);
    let clock = ManualClock::new(Timestamp::from_millis(0));
    let generator = table.builder().max_depth(1).clock(clock.clone()).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    let take_to = |last: u64, loads: usize| {
        while orders.next_id().expect("waits") < last {}
        wait_until("a load", || table.steps().len() == loads);
    };
    take_to(50, 2);
    take_to(150, 3);
    assert_eq!(table.steps(), [100, 100, 200], "it has grown");
    table.rows.set_step("orders", 30).expect("positive");
    generator.refresh().expect("up");
    assert_eq!(orders.stats().expect("there").table_step, 30);
    // Neither longer nor shorter by the rule.
    clock.advance(20 * MINUTE);
    take_to(300, 4);
    assert_eq!(table.steps()[3], 30, "shorter at once");
    table.rows.set_step("orders", 5_000).expect("positive");
    clock.advance(20 * MINUTE);
    // What is loaded says it, without a refresh.
    take_to(420, 5);
    assert_eq!(table.ranges("orders")[4], 431..5_431);
    let stats = orders.stats().expect("there");
    assert_eq!((stats.table_step, stats.step), (5_000, 5_000));
}

#[test]
fn a_slow_store_makes_takers_wait_and_nothing_else() {
    let table = Table::new(&[("orders", 50)]);
    let generator = table.builder().max_step(50).build().expect("builds");
    table.slow_millis.store(40, Ordering::Relaxed);
    let mut ids: Vec<u64> = thread::scope(|scope| {
        let takers = [(); 4].map(|()| {
            let generator = &generator;
            scope.spawn(move || {
                let ids = (0..100).map(|_| generator.next_id("orders").expect("waits"));
                ids.collect::<Vec<_>>()
            })
        });
        takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect()
    });
    let stats = generator.stats("orders").expect("there");
    assert!(stats.waits > 0 && stats.rejects == 0, "{stats:?}");
    ids.sort_unstable();
    assert_accounted(&generator, &table, "orders", ids);
}

#[test]
fn the_policy_decides_when_nothing_is_in_memory() {
    let table = Table::new(&[("orders", 10)]);
    let policy = TakePolicy::WaitFor(Duration::from_millis(20));
    let generator = table.builder().take_policy(policy).build().expect("builds");
    table.set_stuck(true);
    let error = generator.next_id("orders").expect_err("slow");
    assert!(matches!(error, SegmentError::DeadlineExceeded), "{error}");
    let error = generator.fill("orders", &mut [0; 3]).expect_err("slow");
    assert!(matches!(error.error, SegmentError::DeadlineExceeded) && error.filled == 0);
    table.set_stuck(false);
    wait_until("it comes in the end", || generator.try_next_id("orders").is_ok());
    assert_eq!(generator.stats("orders").expect("there").rejects, 2);

    let table = Table::new(&[("orders", 10)]);
    let reject = table.builder().take_policy(TakePolicy::Reject).build().expect("builds");
    table.set_stuck(true);
    assert!(matches!(reject.next_id("orders"), Err(SegmentError::Empty)));
    table.set_stuck(false);
    wait_until("it was asked for all the same", || reject.next_id("orders").is_ok());

    let thrice = TakePolicy::handler(|take| match take.attempts {
        ..3 => TakeDecision::Retry,
        _ => TakeDecision::GiveUp,
    });
    let table = Table::new(&[("orders", 10)]);
    let handled = table.builder().take_policy(thrice).build().expect("builds");
    table.set_stuck(true);
    assert!(matches!(handled.next_id("orders"), Err(SegmentError::Empty)));
    table.set_stuck(false);
}

#[test]
fn a_store_that_is_down_gives_its_cause_at_the_deadline_and_comes_back() {
    let table = Table::new(&[("orders", 10)]);
    let policy = TakePolicy::WaitFor(Duration::from_millis(60));
    let generator = table.builder().take_policy(policy).max_step(10).build().expect("builds");
    let mut ids: Vec<u64> = (0..5).map(|_| generator.next_id("orders").expect("waits")).collect();
    wait_until("prefetched", || generator.stats("orders").expect("there").segments == 2);
    table.set_down(true);
    // What is in memory is served.
    ids.extend((0..15).map(|_| generator.next_id("orders").expect("in memory")));
    wait_until("tried again and again", || table.failures() > 1);
    let start = Instant::now();
    let error = generator.next_id("orders").expect_err("down");
    assert!(matches!(error, SegmentError::StoreDown(_)), "{error:?}");
    assert!(chain(&error).contains("the connection is gone"), "{error}");
    assert!(start.elapsed() >= Duration::from_millis(60), "{:?}", start.elapsed());
    let stats = generator.stats("orders").expect("there");
    assert!(stats.load_failures > 1, "tried again and again: {stats:?}");
    let error = generator.refresh().expect_err("down");
    assert!(matches!(error, SegmentError::StoreDown(_)), "{error:?}");
    table.set_down(false);
    // The pause between tries is a second at most, and longer than the deadline by now.
    let start = Instant::now();
    ids.push(loop {
        match generator.next_id("orders") {
            Ok(id) => break id,
            Err(error) => assert!(start.elapsed() < LIMIT, "it comes back by itself: {error}"),
        }
    });
    ids.extend((0..50).map(|_| generator.next_id("orders").expect("up again")));
    assert_accounted(&generator, &table, "orders", ids);
}

#[test]
fn who_waits_without_end_waits_out_a_store_that_is_down() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.generator();
    table.set_down(true);
    thread::scope(|scope| {
        let taker = scope.spawn(|| generator.next_id("orders"));
        wait_until("it is tried", || table.failures() > 3);
        assert!(!taker.is_finished());
        table.set_down(false);
        assert_eq!(taker.join().expect("no panic").expect("up again"), 1);
    });
    // One failing tag after another: the pauses keep the store from being stormed.
    assert!(table.failures() < 100, "{}", table.failures());
}

#[test]
fn a_dead_store_is_told_at_construction() {
    let table = Table::new(&[("orders", 10)]);
    table.set_down(true);
    let error = table.builder().build().expect_err("down");
    assert!(matches!(error, Error::Store(_)), "{error}");
}

#[test]
fn tags_come_and_go_and_come_back() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.builder().refresh(Duration::from_millis(20)).build().expect("builds");
    let orders = generator.tag("orders").expect("there");
    assert_eq!(orders.next_id().expect("waits"), 1);
    let unknown = generator.next_id("customers").expect_err("not there");
    assert!(matches!(unknown, SegmentError::UnknownTag(_)), "{unknown}");
    assert!(unknown.to_string().contains("`customers`"), "{unknown}");
    table.rows.create(SegmentTag::new("customers").step(10).max_id(500)).expect("positive");
    wait_until("it is found by itself", || generator.next_id("customers").is_ok());

    assert!(table.rows.remove("orders"));
    wait_until("it is missed by itself", || generator.tags().expect("the parent").len() == 1);
    for error in [orders.next_id(), generator.next_id("orders")].map(|id| id.expect_err("gone")) {
        assert!(matches!(error, SegmentError::RemovedTag(_)), "{error}");
        assert!(error.to_string().contains("`orders`"), "{error}");
    }
    assert!(matches!(generator.tag("orders"), Err(SegmentError::RemovedTag(_))));
    let stats = orders.stats().expect("known");
    assert_eq!((stats.left, stats.discarded), (0, stats.reserved - 1), "{stats:?}");

    table.rows.create(SegmentTag::new("orders").step(10).max_id(1_000)).expect("positive");
    wait_until("it is back", || orders.try_next_id().is_ok());
    assert_eq!(generator.next_id("orders").expect("in memory"), 1_001);
}

/// A load may be the first to learn that a tag is gone.
#[test]
fn a_tag_that_is_gone_when_it_is_loaded_is_removed_at_once() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.generator();
    table.rows.remove("orders");
    let error = generator.next_id("orders").expect_err("gone");
    assert!(matches!(error, SegmentError::RemovedTag(_)), "{error}");
    table.rows.create(SegmentTag::new("orders").step(10).max_id(7)).expect("positive");
    assert!(matches!(generator.next_id("orders"), Err(SegmentError::RemovedTag(_))));
    generator.refresh().expect("up");
    assert_eq!(generator.next_id("orders").expect("back"), 7);
}

#[test]
fn who_waits_for_a_tag_hears_that_it_is_gone() {
    let table = Table::new(&[("orders", 10)]);
    let generator = Arc::new(table.generator());
    table.set_stuck(true);
    let calls = table.calls.load(Ordering::Relaxed);
    let taker = thread::spawn({
        let generator = Arc::clone(&generator);
        move || generator.next_id("orders")
    });
    wait_until("it is loaded", || table.calls.load(Ordering::Relaxed) > calls);
    // Most of the time it sleeps by then.
    thread::sleep(Duration::from_millis(20));
    table.rows.remove("orders");
    table.set_stuck(false);
    wait_until("it hears", || taker.is_finished());
    let error = taker.join().expect("no panic").expect_err("gone");
    assert!(matches!(error, SegmentError::RemovedTag(_)), "{error}");
}

/// A tag that is created again lower than before, or a row that was set back, would repeat ids.
#[test]
fn a_row_that_went_back_is_refused() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.generator();
    for id in 1..=3 {
        assert_eq!(generator.next_id("orders").expect("waits"), id);
    }
    wait_until("prefetched", || generator.stats("orders").expect("there").reserved == 20);
    table.rows.remove("orders");
    generator.refresh().expect("up");
    table.rows.create(SegmentTag::new("orders").step(10).max_id(11)).expect("positive");
    generator.refresh().expect("up");
    let error = generator.next_id("orders").expect_err("11 to 20 were reserved");
    assert!(matches!(error, SegmentError::InvalidRow(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("went back to 11") && text.contains("up to 21"), "{text}");
    // That range is lost, but the next one is above all.
    generator.refresh().expect("up");
    assert_eq!(generator.next_id("orders").expect("above"), 21);
}

#[test]
fn rows_that_cannot_be_served_are_refused_until_they_are_set_right() {
    let table = Table::new(&[]);
    for (tag, max_id, step) in
        [("zero", 1, 0), ("minus", 1, -5), ("below", -3, 10), ("start", 0, 1)]
    {
        table.put_by_hand(tag, max_id, step);
    }
    let generator = table.generator();
    for tag in ["zero", "minus", "below", "start"] {
        let error = generator.next_id(tag).expect_err("refused");
        assert!(matches!(error, SegmentError::InvalidRow(_)), "{error}");
        assert!(error.to_string().contains(&format!("`{tag}`")), "{error}");
    }
    assert_eq!(table.steps(), [0; 0], "nothing was reserved");
    table.put_by_hand("zero", 1, 2);
    generator.refresh().expect("up");
    assert_eq!(generator.next_id("zero").expect("set right"), 1);
    // In use, and set wrong: what is in memory is served, and then there is an end.
    wait_until("prefetched", || generator.stats("zero").expect("there").left == 3);
    table.put_by_hand("zero", 5, 0);
    generator.refresh().expect("up");
    assert_eq!((0..3).map(|_| generator.next_id("zero").expect("left")).sum::<u64>(), 2 + 3 + 4);
    let error = generator.next_id("zero").expect_err("refused");
    assert!(matches!(error, SegmentError::InvalidRow(_)), "{error}");
}

#[test]
fn the_last_ids_of_a_bigint_are_given_out_and_none_wraps() {
    let table = Table::new(&[]);
    table.put_by_hand("orders", i64::MAX - 25, 10);
    let generator = table.generator();
    let orders = generator.tag("orders").expect("there");
    // The step has grown to 20 by then; the table's own still fits.
    let ids: Vec<u64> = (0..20).map(|_| orders.next_id().expect("there")).collect();
    let first = i64::MAX.unsigned_abs() - 25;
    assert!(ids.iter().copied().eq(first..first + 20), "{ids:?}");
    for _ in 0..3 {
        let error = orders.next_id().expect_err("5 are left, 10 are asked for");
        assert!(matches!(error, SegmentError::UsedUp(_)), "{error}");
        assert!(error.to_string().contains("2^63 - 1"), "{error}");
    }
    // The last few, for who makes the step shorter.
    table.put_by_hand("orders", i64::MAX - 5, 5);
    generator.refresh().expect("up");
    let mut batch = [0; 9];
    let error = orders.fill(&mut batch).expect_err("5 are left");
    assert!(matches!(error.error, SegmentError::UsedUp(_)) && error.filled == 5, "{error}");
    assert_eq!(batch[4], i64::MAX.unsigned_abs() - 1);
}

/// A step as long as the numbers go.
#[test]
fn one_segment_may_hold_all_numbers() {
    let table = Table::new(&[]);
    table.put_by_hand("orders", 1, i64::MAX - 1);
    let generator = table.generator();
    let mut batch = [0; 1_000];
    generator.fill("orders", &mut batch).expect("plenty");
    assert!(batch.iter().copied().eq(1..=1_000));
    table.by_hand.lock().expect("whole").clear();
    generator.refresh().expect("up");
    assert!(matches!(generator.next_id("orders"), Err(SegmentError::RemovedTag(_))));
    let stats = generator.stats("orders").expect("known");
    assert_eq!(stats.discarded, i64::MAX.unsigned_abs() - 1 - 1_000);
}

#[test]
fn steps_and_starts_that_are_not_positive_are_refused() {
    let table = MemorySegments::new();
    let refused =
        |result: Result<bool, Error>| matches!(result, Err(Error::OptionOutOfRange { .. }));
    assert!(refused(table.create(SegmentTag::new("orders").step(0))));
    assert!(refused(table.create(SegmentTag::new("orders").step(1).max_id(0))));
    assert!(refused(table.create(SegmentTag::new("orders").step(i64::MIN))));
    assert!(table.create(SegmentTag::new("orders").step(10).max_id(5)).expect("possible"));
    assert!(
        !table.create(SegmentTag::new("orders").step(20).max_id(9)).expect("possible"),
        "it is there"
    );
    assert!(refused(table.set_step("orders", 0)));
    let generator = SegmentGenerator::builder(table).build().expect("builds");
    assert_eq!(generator.next_id("orders").expect("waits"), 5);
}

#[test]
fn settings_that_are_not_possible_are_refused() {
    let refused = |set: fn(SegmentBuilder) -> SegmentBuilder| {
        let built = set(Table::new(&[]).builder()).build();
        matches!(built, Err(Error::OptionOutOfRange { .. }))
    };
    assert!(refused(|builder| builder.prefetch(0)));
    assert!(refused(|builder| builder.prefetch(100)));
    assert!(refused(|builder| builder.depth(0)));
    assert!(refused(|builder| builder.max_depth(65)));
    assert!(refused(|builder| builder.step_factor(0)));
    assert!(refused(|builder| builder.max_step(0)));
    assert!(refused(|builder| builder.segment_duration(Duration::ZERO)));
    assert!(refused(|builder| builder.refresh(Duration::ZERO)));
    assert!(refused(|builder| builder.retry(Duration::ZERO, Duration::ZERO)));
    assert!(!refused(|builder| builder.depth(64).prefetch(99).step_factor(1)));
}

#[test]
fn close_releases_who_waits() {
    for _ in 0..10 {
        let table = Table::new(&[("orders", 10)]);
        let generator = table.generator();
        table.set_down(true);
        let handle = generator.tag("orders").expect("there");
        thread::scope(|scope| {
            let takers = [(); 3].map(|()| scope.spawn(|| handle.next_id()));
            let reader = scope.spawn(|| handle.fill(&mut [0; 3]));
            wait_until("they wait", || table.failures() > 2);
            generator.close();
            wait_until("released", || takers.iter().all(|taker| taker.is_finished()));
            for taker in takers {
                let error = taker.join().expect("no panic").expect_err("closed");
                assert!(matches!(error, SegmentError::Closed), "{error}");
            }
            assert!(reader.join().expect("no panic").is_err());
        });
        generator.close();
        assert!(matches!(generator.next_id("orders"), Err(SegmentError::Closed)));
        assert!(matches!(generator.next_id("no such"), Err(SegmentError::Closed)));
        assert!(matches!(generator.refresh(), Err(SegmentError::Closed)));
        assert!(matches!(generator.tag("orders"), Err(SegmentError::Closed)));
        drop(generator);
        assert!(matches!(handle.next_id(), Err(SegmentError::Closed)), "handles outlive it");
    }
}

#[test]
fn after_close_nothing_in_memory_is_given_out() {
    let table = Table::new(&[("orders", 1_000)]);
    let generator = table.generator();
    let orders = generator.tag("orders").expect("there");
    orders.fill(&mut [0; 500]).expect("waits");
    generator.close();
    assert!(matches!(orders.try_next_id(), Err(SegmentError::Closed)));
    assert!(matches!(orders.try_fill(&mut [0; 5]), Err(SegmentError::Closed)));
    let stats = orders.stats().expect("known");
    assert_eq!((stats.left, stats.discarded, stats.taken), (0, stats.reserved - 500, 500));
}

/// Dropped while the store is being asked: the takers go at once, the thread when it can.
#[test]
fn a_generator_that_is_dropped_takes_its_thread_and_store_along() {
    let table = Table::new(&[("orders", 10)]);
    let generator = table.generator();
    generator.next_id("orders").expect("waits");
    let rows = Arc::clone(&table.by_hand);
    drop((table, generator));
    assert_eq!(Arc::strong_count(&rows), 1, "the store is gone with the generator");

    let table = Table::new(&[("orders", 10)]);
    let generator = table.generator();
    let calls = table.calls.load(Ordering::Relaxed);
    table.set_stuck(true);
    assert!(generator.try_next_id("orders").is_err());
    wait_until("it is being asked", || table.calls.load(Ordering::Relaxed) > calls);
    let dropper = thread::spawn(move || drop(generator));
    wait_until("nobody waits for the store", || dropper.is_finished());
    table.set_stuck(false);
    dropper.join().expect("no panic");
}

#[test]
fn a_store_that_panics_closes_the_generator() {
    for at_load in [true, false] {
        let table = Table::new(&[("orders", 10)]);
        let refresh = if at_load { 60_000 } else { 10 };
        let builder = table.builder().refresh(Duration::from_millis(refresh));
        let generator = builder.build().expect("builds");
        let orders = generator.tag("orders").expect("there");
        table.fatal.store(true, Ordering::Relaxed);
        let error = orders.next_id().expect_err("the store has panicked");
        assert!(matches!(error, SegmentError::Closed), "{error}");
        assert!(matches!(generator.refresh(), Err(SegmentError::Closed)));
    }
}

/// A store that holds its own generator: the last reference goes in the generator's own thread.
#[test]
fn the_last_reference_may_go_in_its_own_thread() {
    struct Owner(Table, Arc<Mutex<Option<SegmentGenerator>>>);
    impl SegmentStore for Owner {
        fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
            self.0.tags()
        }
        fn load(
            &mut self,
            wanted: &[SegmentRequest],
            loaded: &mut dyn FnMut(usize, Result<LoadedSegment, LoadError>),
        ) {
            drop(self.1.lock().map(|mut place| place.take()));
            self.0.load(wanted, loaded);
        }
    }
    let place: Arc<Mutex<Option<SegmentGenerator>>> = Arc::default();
    let table = Table::new(&[("orders", 10)]);
    let store = Owner(table, Arc::clone(&place));
    let generator = SegmentGenerator::builder(store).build().expect("builds");
    let handle = generator.tag("orders").expect("there");
    *place.lock().expect("whole") = Some(generator);
    assert!(matches!(handle.next_id(), Err(SegmentError::Closed)));
}

/// A store may answer what it was not asked, twice, or not at all.
#[test]
fn a_store_that_answers_wrongly_harms_nobody() {
    struct Confused(MemorySegments, u64);
    impl SegmentStore for Confused {
        fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
            self.0.tags()
        }
        fn load(
            &mut self,
            wanted: &[SegmentRequest],
            loaded: &mut dyn FnMut(usize, Result<LoadedSegment, LoadError>),
        ) {
            self.1 += 1;
            if self.1.is_multiple_of(2) {
                let segment = |start, end| LoadedSegment { start, end, table_step: 1 };
                for bad in [segment(9, 9), segment(9, 3), segment(0, 5), segment(1, u64::MAX)] {
                    loaded(wanted.len() + 3, Ok(bad));
                }
                self.0.load(wanted, loaded);
                self.0.load(wanted, loaded);
            }
        }
    }
    let table = MemorySegments::new();
    table.create(SegmentTag::new("orders").step(5)).expect("positive");
    let retry = Duration::from_millis(1);
    let builder = SegmentGenerator::builder(Confused(table, 0)).retry(retry, retry).max_step(5);
    let generator = builder.build().expect("builds");
    let ids: Vec<u64> = (0..50).map(|_| generator.next_id("orders").expect("waits")).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[test]
fn ten_thousand_tags_share_one_thread() {
    let table = MemorySegments::new();
    let names: Vec<String> = (0..10_000).map(|number| format!("tag-{number}")).collect();
    for (name, start) in names.iter().zip(1..) {
        table.create(SegmentTag::new(name).step(100).max_id(start * 1_000)).expect("positive");
    }
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    let generator = SegmentGenerator::builder(table).build().expect("builds");
    for round in 0..3 {
        for (name, start) in names.iter().zip(1..) {
            assert_eq!(generator.next_id(name).expect("waits"), start * 1_000 + round);
        }
    }
    // Other tests of this program have theirs.
    assert!(threads() < before + 100, "{before} threads before, {} with it", threads());
    assert_eq!(generator.tags().expect("the parent").len(), 10_000);
}
