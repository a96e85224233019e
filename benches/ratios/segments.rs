//! The cost for callers of segment generators.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use uidring::SegmentGenerator;
use uidring::segment::{MemorySegments, SegmentHandle, SegmentTag};

use super::timing::{additions, per_id, takes};
use super::{Comparison, with_additions};

/// The grown step of a busy tag.
const STEP: u64 = 1_000_000;

/// The tags of one generator.
const MANY: u64 = 10_000;

pub fn comparisons() -> impl Iterator<Item = Comparison> {
    let handles = with_additions("segment handle next_id", &[1, 2], |threads, ids| {
        let (_, handle) = one();
        let take = || handle.next_id().expect("waits");
        takes(threads, ids, take, take)
    });
    let names = with_additions("segment next_id by name", &[1, 2], |threads, ids| {
        let (generator, _) = one();
        let take = || generator.next_id(black_box("orders")).expect("waits");
        takes(threads, ids, take, take)
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
    handles.chain(names).chain(many)
}

fn generator(tags: &[String], step: u64) -> SegmentGenerator {
    let table = MemorySegments::new();
    for tag in tags {
        table.create(SegmentTag::new(tag).step(step.cast_signed())).expect("positive");
    }
    SegmentGenerator::builder(table).build().expect("builds")
}

pub fn one() -> &'static (SegmentGenerator, SegmentHandle) {
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
        // The first take of a tag waits for its first segment.
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

fn in_turn(ids: u64, take: impl Fn(usize) -> bool) -> f64 {
    assert!((0..MANY as usize).all(&take), "the first round is not measured");
    let start = Instant::now();
    for id in 0..ids {
        black_box(take((id % MANY) as usize));
    }
    per_id(start.elapsed(), ids)
}
