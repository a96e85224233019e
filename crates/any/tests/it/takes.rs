//! Takes of each kind of generator.

use std::collections::HashSet;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use uidring_any::uidring::segment::{MemorySegments, SegmentError, SegmentTag};
use uidring_any::uidring::{SegmentGenerator, TakeError, Uid};
use uidring_any::{
    AnyGenerator, AnyStats, AnyTakeError, NewSegmentTag, Options, TagGenerator, WorkerRange, open,
    open_async,
};

use uidring_testkit::fork::{self, FORKED, ForkingClock};

/// A file with a tag, whose URL creates it. The tests run in one process, where no two generators share a worker id, so
/// each file has worker ids of its own.
fn file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("w.db").display());
    let store = Options::from_url(&url).expect("a URL").store().expect("a store");
    static FILES: AtomicU64 = AtomicU64::new(0);
    let first = 1 + 100 * FILES.fetch_add(1, Ordering::Relaxed);
    let range = WorkerRange::new(first, first + 99).expect("a range");
    store.worker_table().expect("worker ids").record_range(range).expect("recorded");
    let tag = NewSegmentTag::new("orders", 100).expect("a tag");
    store.segment_table().expect("segments").create_tag(&tag).expect("a tag");
    (folder, url)
}

#[test]
fn threads_take_distinct_ids_in_all_ways_from_each_kind() {
    let (_folder, url) = file();
    for option in ["boost-power=1", "generator=clock", "generator=leaf-snowflake", "tag=orders"] {
        let generator = open(&format!("{url}&{option}")).expect(option);
        let take = || {
            let mut ids = Vec::new();
            for _ in 0..60 {
                ids.push(generator.next_uid().expect("an id"));
                ids.extend(generator.try_next_uid().ok());
                let mut some = [Uid::default(); 300];
                generator.fill(&mut some).expect("ids");
                ids.extend(some);
                let ready = generator.try_fill(&mut some[..30]).unwrap_or(0);
                ids.extend(&some[..ready]);
            }
            assert!(ids.is_sorted_by(|a, b| a < b), "{option}");
            ids
        };
        let ids = thread::scope(|scope| {
            let threads = [0; 3].map(|_| scope.spawn(take));
            threads.map(|thread| thread.join().expect("takes")).concat()
        });
        let distinct: HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{option}");
        let stats = generator.stats().expect("statistics");
        match option {
            "boost-power=1" => assert!(matches!(stats, AnyStats::Cached(_))),
            "tag=orders" => assert!(matches!(stats, AnyStats::Segment(_))),
            _ => assert!(matches!(stats, AnyStats::Clocked(_))),
        }
        generator.close();
        match generator.next_uid().expect_err("closed") {
            AnyTakeError::Uid(TakeError::Closed) => assert_ne!(option, "tag=orders"),
            AnyTakeError::Segment(error) => {
                assert!(matches!(*error, SegmentError::Closed), "{option}: {error}");
            }
            error => panic!("{option}: {error}"),
        }
    }
}

#[test]
fn the_ids_of_a_tag_are_dense_and_have_no_layout() {
    let (_folder, url) = file();
    let generator = open(&format!("{url}&generator=segment&tag=orders")).expect("opens");
    let mut ids = [Uid::default(); 1_000];
    generator.fill(&mut ids).expect("ids");
    let numbers: Vec<_> = ids.iter().map(|id| id.get()).collect();
    assert_eq!(numbers, (numbers[0]..numbers[0] + 1_000).collect::<Vec<_>>());
    assert!(generator.as_uid_generator().is_none());
    let error = generator.decode(ids[0]).expect_err("a number").to_string();
    assert!(error.contains("the tag orders has plain numbers"), "{error}");
    let error = open(&format!("{url}&tag=bills")).map(|_| ()).expect_err("no such tag").to_string();
    assert!(error.contains("bills"), "{error}");
}

#[test]
fn a_fork_within_a_call_gives_the_child_nothing() {
    let _alone = fork::alone();
    for is_try in [true, false] {
        let forks = (1..=3).filter_map(|nth| {
            fork::on_both_sides(|fork| {
                let table = MemorySegments::new();
                table.create(SegmentTag::new("orders").step(300)).expect("a positive step");
                let clock = ForkingClock::new(fork);
                let generator = SegmentGenerator::builder(table).clock(clock).depth(3).build();
                let tag = TagGenerator::new(generator.expect("builds"), "orders").expect("a tag");
                let generator = AnyGenerator::Segment(tag);
                generator.next_uid().expect("an id");
                fork.arm(nth);
                let mut ids = [Uid::default(); 700];
                let filled = match is_try {
                    true => generator.try_fill(&mut ids).unwrap_or(0),
                    false => generator.fill(&mut ids).map_or_else(|e| e.filled, |()| ids.len()),
                };
                // The child lacks the thread that a drop would wait for.
                mem::forget(generator);
                vec![filled as u64]
            })
        });
        let forks: Vec<_> = forks.map(|sides| (sides.parent, sides.child)).collect();
        assert!(!forks.is_empty(), "no look at the clock within a call");
        // What is ready in the parent depends on its loads.
        let is_right = |(parent, child): &(Vec<u64>, Vec<u64>)| parent[0] > 0 && **child == [0];
        assert!(forks.iter().all(is_right), "{forks:?}");
    }
}

#[test]
fn a_forked_child_takes_nothing() {
    let (_folder, url) = file();
    let _alone = fork::alone();
    for option in ["boost-power=1", "generator=clock", "tag=orders"] {
        let generator = open(&format!("{url}&{option}")).expect(option);
        generator.next_uid().expect("an id");
        let taken = fork::in_child(|report| {
            let mut ids = [Uid::default(); 3];
            report.check(generator.fill(&mut ids).expect_err("forked").filled == 0);
            report.check(generator.try_fill(&mut ids).is_err());
            report.take(generator.next_uid().map_err(|error| match error {
                AnyTakeError::Uid(error) => error,
                AnyTakeError::Segment(error) if matches!(*error, SegmentError::Forked) => {
                    TakeError::Forked
                }
                _ => TakeError::Closed,
            }));
        });
        assert_eq!(taken, [FORKED], "{option}");
        generator.next_uid().expect("the parent goes on");
    }
}

#[tokio::test]
async fn a_task_opens_and_takes() {
    let (_folder, url) = file();
    for option in ["boost-power=1", "generator=clock", "tag=orders"] {
        let generator = open_async(&format!("{url}&{option}")).await.expect(option);
        let first = generator.next_uid_async().await.expect("an id");
        assert!(first < generator.next_uid_async().await.expect("an id"), "{option}");
    }
    let error = open_async("worker:7?layout=none").await.map(|_| ()).expect_err("no layout");
    assert!(error.to_string().contains("`layout`"), "{error}");
}

#[test]
fn a_small_worker_field_is_leased_by_default_and_given_back() {
    let (_folder, url) = file();
    let worker_of = |generator: &AnyGenerator| {
        let generator = generator.as_uid_generator().expect("uids");
        generator.worker_id()
    };
    let small = |_| worker_of(&open(&format!("{url}&layout=snowflake")).expect("a lease"));
    let leased: HashSet<_> = (0..3).map(small).collect();
    assert_eq!(leased.len(), 1, "each start had the one that the last gave back");
    let large = |_| worker_of(&open(&url).expect("a worker id"));
    let disposed: HashSet<_> = (0..3).map(large).collect();
    assert_eq!(disposed.len(), 3);
    let url = format!("{url}&layout=snowflake&worker=disposable");
    let chosen = |_| worker_of(&open(&url).expect("a worker id"));
    assert_eq!((0..3).map(chosen).collect::<HashSet<_>>().len(), 3);
}
