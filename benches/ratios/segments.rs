//! What the callers of a segment generator pay.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use uidring::SegmentGenerator;
use uidring::segment::{MemorySegments, SegmentHandle, SegmentTag};

use super::Comparison;
use super::timing::{additions, by_threads, per_id};

/// As with a busy tag whose step has grown.
const STEP: u64 = 1_000_000;

/// Tags of one generator.
const MANY: u64 = 10_000;

pub fn comparisons() -> impl Iterator<Item = Comparison> {
    let handles = [1, 2].map(|threads| {
        Comparison::new(
            format!("segment handle next_id / fetch_add, threads: {threads}"),
            move |ids| by_handle(threads, ids),
            move |ids| additions(threads, ids),
        )
    });
    let names = [1, 2].map(|threads| {
        Comparison::new(
            format!("segment next_id by name / fetch_add, threads: {threads}"),
            move |ids| by_name(threads, ids),
            move |ids| additions(threads, ids),
        )
    });
    let many = [
        Comparison::new(
            "segment next_id by handle, 10,000 tags in turn / fetch_add",
            |ids| in_turn(ids, |place| handles_of_many()[place].next_id().is_ok()),
            |ids| additions(1, ids),
        ),
        Comparison::new(
            "segment next_id by name, 10,000 tags in turn / fetch_add",
            |ids| in_turn(ids, |place| many().next_id(&names_of_many()[place]).is_ok()),
            |ids| additions(1, ids),
        ),
    ];
    handles.into_iter().chain(names).chain(many)
}

fn generator(tags: &[String], step: u64) -> SegmentGenerator {
    let table = MemorySegments::new();
    for tag in tags {
        table.create(SegmentTag::new(tag).step(step.cast_signed())).expect("positive");
    }
    SegmentGenerator::builder(table).build().expect("builds")
}

fn one() -> &'static (SegmentGenerator, SegmentHandle) {
    static ONE: OnceLock<(SegmentGenerator, SegmentHandle)> = OnceLock::new();
    ONE.get_or_init(|| {
        let generator = generator(&["orders".to_owned()], STEP);
        let handle = generator.tag("orders").expect("there");
        (generator, handle)
    })
}

fn names_of_many() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| (0..MANY).map(|number| format!("tag-{number}")).collect())
}

fn many() -> &'static SegmentGenerator {
    static MANY: OnceLock<SegmentGenerator> = OnceLock::new();
    MANY.get_or_init(|| {
        let generator = generator(names_of_many(), STEP);
        // The first take of each waits for its first segment.
        names_of_many().iter().for_each(|name| assert!(generator.next_id(name).is_ok()));
        generator
    })
}

fn handles_of_many() -> &'static [SegmentHandle] {
    static HANDLES: OnceLock<Vec<SegmentHandle>> = OnceLock::new();
    HANDLES.get_or_init(|| {
        names_of_many().iter().map(|name| many().tag(name).expect("there")).collect()
    })
}

fn by_handle(threads: u64, ids: u64) -> f64 {
    let (_, handle) = one();
    takes(threads, ids, || handle.next_id().expect("waits"))
}

fn by_name(threads: u64, ids: u64) -> f64 {
    let (generator, _) = one();
    takes(threads, ids, || generator.next_id(black_box("orders")).expect("waits"))
}

fn takes(threads: u64, ids: u64, take: impl Fn() -> u64 + Sync) -> f64 {
    let before = take();
    let cost = by_threads(threads, ids, |count| {
        for _ in 0..count {
            black_box(take());
        }
    });
    assert!(take() > before + ids / threads);
    cost
}

fn in_turn(ids: u64, take: impl Fn(usize) -> bool) -> f64 {
    assert!((0..MANY as usize).all(&take), "the first round is not measured");
    let start = Instant::now();
    for id in 0..ids {
        black_box(take((id % MANY) as usize));
    }
    per_id(start.elapsed(), ids)
}
