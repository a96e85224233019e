//! The contract of segments.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use uidring::segment::{LoadError, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag};
use uidring::{Error, SegmentGenerator, StoreErrorKind};

use super::setting::{LIMIT, Setting};
use super::store::Store;
use crate::chain;

/// The usual tag, and the first id beyond every tag's.
const TAG: &str = "orders";
const END: u64 = i64::MAX.unsigned_abs();

pub fn loads_follow_each_other(store: &'static dyn Store) {
    let setting = tagged(store, 10);
    let (mut one, mut other) = (open(&setting), open(&setting));
    assert_eq!(range(&mut one, TAG, 0), (1, 11));
    assert_eq!(range(&mut other, TAG, 0), (11, 21));
    assert_eq!(range(&mut one, TAG, 25), (21, 46), "as long as wanted");
    assert_eq!(range(&mut other, TAG, 9), (46, 56), "never shorter than the step");
    assert_eq!(max_id(&mut one, TAG), 56);
}

pub fn a_changed_step_holds_from_the_next_load_on(store: &'static dyn Store) {
    let setting = tagged(store, 10);
    let mut table = open(&setting);
    assert_eq!(range(&mut table, TAG, 0), (1, 11));
    setting.site().tags().set_step(TAG, 4);
    let loaded = load(&mut table, TAG, 0).expect("loaded");
    assert_eq!((loaded.start, loaded.end, loaded.table_step), (11, 15, 4));
}

/// Each range has its declared length, ranges have no gaps, and the table holds their sum, whatever happens to the
/// step. A load that gives up because others held the row too long may leave a gap: it may have reserved its range.
pub fn loads_at_once_have_no_id_in_common(store: &'static dyn Store) {
    const LOADERS: usize = 8;
    const LOADS: usize = 20;
    let setting = tagged(store, 10);
    let (over, steps) = (AtomicBool::new(false), Mutex::new(BTreeSet::new()));
    let gave_up = AtomicUsize::new(0);
    let mut ranges: Vec<LoadedSegment> = thread::scope(|scope| {
        let meddler = scope.spawn(|| {
            for step in (1..40).cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
                setting.site().tags().set_step(TAG, step);
            }
        });
        let loaders: Vec<_> = (0..LOADERS)
            .map(|_| {
                let table = open(&setting);
                let (steps, gave_up) = (&steps, &gave_up);
                scope.spawn(move || {
                    let (mut table, begin) = (table, Instant::now());
                    let mut ranges = Vec::new();
                    // On a busy machine the step seldom changes.
                    while ranges.len() < LOADS || steps.lock().expect("whole").len() < 4 {
                        assert!(begin.elapsed() < LIMIT, "the step does not change");
                        let wanted = ranges.len() as u64 % 30;
                        let loaded = match load(&mut table, TAG, wanted) {
                            Ok(loaded) => loaded,
                            Err(LoadError::Store(Error::Store(error)))
                                if error.kind() == StoreErrorKind::TimedOut =>
                            {
                                gave_up.fetch_add(1, Ordering::Relaxed);
                                continue;
                            }
                            Err(error) => panic!("{}", chain(&error)),
                        };
                        steps.lock().expect("whole").insert(loaded.table_step);
                        ranges.push(loaded);
                    }
                    ranges
                })
            })
            .collect();
        let ranges: Vec<_> = loaders.into_iter().map(|loader| loader.join()).collect();
        over.store(true, Ordering::Relaxed);
        meddler.join().expect("no panic");
        ranges.into_iter().flat_map(|ranges| ranges.expect("no panic")).collect()
    });
    ranges.sort_unstable_by_key(|range| range.start);
    assert!(ranges.len() >= LOADERS * LOADS, "{}", ranges.len());
    let mut gaps = usize::from(ranges[0].start != 1);
    for pair in ranges.windows(2) {
        assert!(pair[0].end - pair[0].start >= pair[0].table_step, "too short: {pair:?}");
        assert!(pair[0].end <= pair[1].start, "two ranges overlap: {pair:?}");
        gaps += usize::from(pair[0].end != pair[1].start);
    }
    let (last, max_id) = (ranges[ranges.len() - 1].end, max_id(&mut open(&setting), TAG));
    assert!(last <= max_id, "{last} of {max_id}");
    gaps += usize::from(last != max_id);
    let gave_up = gave_up.into_inner();
    assert!(gaps <= gave_up, "{gaps} gaps between ranges, though {gave_up} loads gave up");
}

pub fn each_request_of_a_call_is_answered_once(store: &'static dyn Store) {
    let setting = tagged(store, 10);
    setting.site().tags().put(&SegmentTag::new("other").max_id(500).step(3));
    let wanted = [(TAG, 0), ("none", 0), ("other", 7), (TAG, 20)];
    let wanted = wanted.map(|(tag, step)| request(tag, step));
    let mut done = [None, None, None, None];
    open(&setting).load(&wanted, &mut |index, result| {
        let result = result.map(|range| (range.start, range.end));
        assert!(done[index].replace(result).is_none(), "{index} twice");
    });
    let [one, none, other, two] = done.map(|result| result.expect("an answer"));
    assert!(matches!(none, Err(LoadError::NoSuchTag { tag }) if tag == "none"));
    assert_eq!(other.expect("loaded"), (500, 507));
    let mut ranges = [one, two].map(|range| range.expect("loaded"));
    ranges.sort_unstable();
    assert!(ranges[0].0 == 1 && ranges[0].1 == ranges[1].0 && ranges[1].1 == 31, "{ranges:?}");
}

/// With more tags than a transaction loads.
pub fn a_tag_that_cannot_be_loaded_stops_no_other(store: &'static dyn Store) {
    const TAGS: usize = 140;
    let setting = tagged(store, 10);
    let row = |number: usize| {
        let row = SegmentTag::new(format!("tag-{number}")).max_id(500).step(7);
        match number {
            3 => row.step(0),
            5 => row.max_id(i64::MAX),
            _ => row,
        }
    };
    (0..TAGS)
        .filter(|&number| number != 4)
        .for_each(|number| setting.site().tags().put(&row(number)));
    let mut table = open(&setting);
    for round in 0..2 {
        let wanted: Vec<_> = (0..TAGS).rev().map(|n| request(&row(n).tag, 0)).collect();
        let mut done: Vec<_> = wanted.iter().map(|_| None).collect();
        table.load(&wanted, &mut |index, result| {
            assert!(done[index].replace(result).is_none(), "{index} twice");
        });
        for (number, result) in done.into_iter().rev().enumerate() {
            let start = 500 + 7 * round;
            match (number, result.expect("an answer")) {
                (3, Err(LoadError::InvalidRow { tag, .. })) => assert_eq!(tag, "tag-3"),
                (4, Err(LoadError::NoSuchTag { tag })) => assert_eq!(tag, "tag-4"),
                (5, Err(LoadError::UsedUp { tag, .. })) => assert_eq!(tag, "tag-5"),
                (_, Ok(range)) => assert_eq!((range.start, range.end), (start, start + 7)),
                (_, Err(error)) => panic!("tag-{number}: {}", chain(&error)),
            }
        }
    }
    for found in table.tags().expect("listed").iter().filter(|found| found.tag != TAG) {
        let Some(number) = found.tag.strip_prefix("tag-").and_then(|n| n.parse().ok()) else {
            continue;
        };
        let row = row(number);
        let moved = if [3, 5].contains(&number) { 0 } else { 14 };
        let end = row.max_id.map(|max_id| max_id + moved);
        assert_eq!((found.max_id, found.step), (end, row.step), "{}", found.tag);
    }
}

/// Each loader asks in a different order.
pub fn loads_of_many_tags_at_once_have_no_id_in_common(store: &'static dyn Store) {
    const TAGS: usize = 24;
    const LOADERS: usize = 4;
    const LOADS: usize = 8;
    let setting = Setting::shared(store);
    let name = |number: usize| format!("tag-{}", number % TAGS);
    (0..TAGS).for_each(|n| setting.site().tags().put(&SegmentTag::new(name(n)).step(10)));
    let mut ranges: Vec<(String, LoadedSegment)> = thread::scope(|scope| {
        let loaders: Vec<_> = (0..LOADERS)
            .map(|loader| {
                let mut table = open(&setting);
                scope.spawn(move || {
                    let mut ranges = Vec::new();
                    for _ in 0..LOADS {
                        let wanted: Vec<_> =
                            (loader * 7..).take(TAGS).map(|n| request(&name(n), 0)).collect();
                        table.load(&wanted, &mut |index, done| {
                            let range = done.unwrap_or_else(|error| panic!("{}", chain(&error)));
                            ranges.push((wanted[index].tag.clone(), range));
                        });
                    }
                    ranges
                })
            })
            .collect();
        loaders.into_iter().flat_map(|loader| loader.join().expect("no panic")).collect()
    });
    ranges.sort_unstable_by(|a, b| (&a.0, a.1.start).cmp(&(&b.0, b.1.start)));
    assert_eq!(ranges.len(), TAGS * LOADERS * LOADS);
    for pair in ranges.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        assert!(pair[0].1.end == pair[1].1.start, "a gap or an overlap: {pair:?}");
    }
}

pub fn a_tag_is_its_exact_name(store: &'static dyn Store) {
    let setting = tagged(store, 10);
    let mut table = open(&setting);
    for name in ["none", "Orders", "orders ", "\u{f6}rders", "%", ""] {
        let error = load(&mut table, name, 0).expect_err(name);
        assert!(matches!(error, LoadError::NoSuchTag { .. }), "{name:?}: {}", chain(&error));
    }
    let snow = "\u{2603} \u{1f980}'".repeat(16);
    for name in ["Orders", &snow] {
        setting.site().tags().put(&SegmentTag::new(name).max_id(70).step(7));
        assert_eq!(range(&mut table, name, 0), (70, 77), "{name}");
    }
    assert_eq!(range(&mut table, TAG, 0), (1, 11));
    let mut names: Vec<_> = table.tags().expect("listed").into_iter().map(|tag| tag.tag).collect();
    names.retain(|name| name != "made with the table");
    names.sort();
    assert_eq!(names, ["Orders", TAG, &snow]);
}

pub fn what_cannot_be_served_leaves_the_row_as_it_is(store: &'static dyn Store) {
    let setting = tagged(store, 10);
    let mut table = open(&setting);
    let end = i64::MAX;
    for (max_id, step, wanted) in
        [(1, 0, 0), (1, -3, 0), (0, 5, 0), (end, 1, 0), (end, 5, u64::MAX)]
    {
        setting.site().tags().put(&SegmentTag::new(TAG).max_id(max_id).step(step));
        let error = load(&mut table, TAG, wanted).expect_err("refused");
        let is_typed = match error {
            LoadError::InvalidRow { .. } => max_id <= 0 || step <= 0,
            LoadError::UsedUp { max_id: found, .. } => found == max_id && step > 0,
            _ => false,
        };
        assert!(is_typed, "max_id {max_id}, step {step}: {}", chain(&error));
        let rows = table.tags().expect("listed");
        let row = rows.iter().find(|row| row.tag == TAG).expect("still there");
        assert_eq!((row.max_id, row.step), (Ok(max_id), Ok(step)), "it was changed");
    }
}

pub fn the_last_id_is_had_once(store: &'static dyn Store) {
    let setting = tagged(store, 10);
    let mut table = open(&setting);
    setting.site().tags().put(&SegmentTag::new(TAG).max_id(i64::MAX - 8).step(5));
    assert_eq!(range(&mut table, TAG, 10), (END - 8, END - 3), "not as many as are wanted");
    assert_eq!(range(&mut table, TAG, 0), (END - 3, END), "not even the step");
    for _ in 0..2 {
        let error = load(&mut table, TAG, 0).expect_err("used up");
        assert!(matches!(error, LoadError::UsedUp { .. }), "{}", chain(&error));
    }
}

/// Two generators of four threads each.
pub fn generators_at_once_repeat_no_id(store: &'static dyn Store) {
    const TAKES: usize = 300;
    let setting = tagged(store, 20);
    let generators = [(); 2].map(|()| {
        let builder = SegmentGenerator::builder(open(&setting)).max_step(40);
        builder.build().unwrap_or_else(|error| panic!("{}", chain(&error)))
    });
    let mut ids: Vec<u64> = thread::scope(|scope| {
        let takers: Vec<_> = (0..8)
            .map(|taker| {
                let generator = &generators[taker % 2];
                scope.spawn(move || {
                    let take = |_| generator.next_id(TAG).expect("taken");
                    let ids: Vec<_> = (0..TAKES).map(take).collect();
                    assert!(ids.is_sorted_by(|a, b| a < b), "each thread sees its ids grow");
                    ids
                })
            })
            .collect();
        takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect()
    });
    drop(generators);
    ids.sort_unstable();
    assert_eq!(ids.len(), 8 * TAKES);
    assert!(ids.is_sorted_by(|a, b| a < b), "an id comes twice");
    assert!(*ids.last().expect("some") < max_id(&mut open(&setting), TAG));
}

/// Starts a store with the tag, from 1.
pub(super) fn tagged(store: &'static dyn Store, step: i64) -> Setting {
    with_tag(Setting::shared(store), step)
}

pub(super) fn with_tag(setting: Setting, step: i64) -> Setting {
    setting.site().tags().put(&SegmentTag::new(TAG).step(step));
    setting
}

pub(super) fn open(setting: &Setting) -> Box<dyn SegmentStore> {
    open_at(setting, setting.site().address(0))
}

pub(super) fn open_at(setting: &Setting, address: String) -> Box<dyn SegmentStore> {
    setting.segments_at(address).unwrap_or_else(|error| panic!("{}", chain(&error)))
}

fn request(tag: &str, step: u64) -> SegmentRequest {
    SegmentRequest { tag: tag.into(), step }
}

fn load(
    table: &mut Box<dyn SegmentStore>,
    tag: &str,
    step: u64,
) -> Result<LoadedSegment, LoadError> {
    let mut done = None;
    table.load(&[request(tag, step)], &mut |index, result| {
        assert!(index == 0 && done.replace(result).is_none(), "answered twice");
    });
    done.expect("an answer")
}

#[track_caller]
fn range(table: &mut Box<dyn SegmentStore>, tag: &str, step: u64) -> (u64, u64) {
    let loaded = load(table, tag, step).unwrap_or_else(|error| panic!("{}", chain(&error)));
    (loaded.start, loaded.end)
}

/// Loads the next range of the tag at its own step.
pub(super) fn load_tag(table: &mut Box<dyn SegmentStore>) -> Result<(u64, u64), LoadError> {
    load(table, TAG, 0).map(|loaded| (loaded.start, loaded.end))
}

pub(super) fn max_id_of_tag(setting: &Setting) -> u64 {
    max_id(&mut open(setting), TAG)
}

fn max_id(table: &mut Box<dyn SegmentStore>, tag: &str) -> u64 {
    let rows = table.tags().expect("listed");
    let row = rows.iter().find(|row| row.tag == tag).expect("the tag");
    row.max_id.expect("a number").unsigned_abs()
}
