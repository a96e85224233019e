//! Loom models of takers and the loader. Run them with `scripts/loom`.

use super::*;
use crate::future::models::{block_on, poll};
use crate::segment::error::SegmentError;
use crate::segment::shared::Shared;
use crate::segment::shared::tests::shared;
use crate::sync::become_forked_child;
use loom::thread;
use std::pin::pin;
use std::task::Poll;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(model);
}

fn tag_of(shared: &Shared) -> Arc<Tag> {
    shared.sync_tags(&[SegmentTag::new("orders").step(1)]);
    Arc::clone(shared.tag("orders").expect("there"))
}

/// A take that waits without limit.
fn take(shared: &Shared, tag: &Arc<Tag>) -> Result<u64, SegmentError> {
    loop {
        match Takes::new(tag, shared).try_next_id() {
            Err(SegmentError::Empty) => {
                tag.chain.wait_or(None, || tag.health() >= Health::Invalid);
            }
            done => return done,
        }
    }
}

/// Acts as the loader until told to end. Loads segments of one id; after this many, the tag is gone from the table. It
/// polls: the ring's models cover sleeping, and more than one sleep at an event is too much for loom, which does not
/// know that an exchange directly follows what it has read.
fn load(shared: &Shared, segments: u64) {
    let (mut queue, mut start) = (Vec::new(), 1);
    while !shared.is_closed() {
        shared.drain_load_queue(&mut queue);
        let Some(tag) = queue.pop() else {
            thread::yield_now();
            continue;
        };
        if tag.request().is_none() {
            continue;
        }
        let result = if start > segments {
            Err(LoadError::NoSuchTag { tag: tag.name.clone() })
        } else {
            Ok(LoadedSegment { start, end: start + 1, table_step: 1 })
        };
        start += 1;
        if tag.loaded(&shared.settings, result) == Next::Again {
            queue.push(tag);
        }
    }
}

/// Returns what one taker gets from a loader with this many takes.
fn run(segments: u64, takes: usize) -> Vec<Result<u64, SegmentError>> {
    let mut shared = shared();
    (shared.settings.depth, shared.settings.max_depth) = (1, 1);
    let shared = Arc::new(shared);
    let tag = tag_of(&shared);
    let loader = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || load(&shared, segments))
    };
    let done = (0..takes).map(|_| take(&shared, &tag)).collect();
    shared.close();
    loader.join().expect("no panic");
    done
}

/// Every request is heard, whatever the loader is doing: nobody waits forever.
#[test]
fn models_every_wish_is_heard() {
    check(|| {
        let ids = run(9, 3).into_iter().map(|id| id.expect("the table has more"));
        assert_eq!(ids.collect::<Vec<_>>(), [1, 2, 3]);
    });
}

/// Nobody is told that the tag is gone while an id loaded before is left, and nobody waits for it.
#[test]
fn models_an_end_is_told() {
    check(|| {
        let done = run(1, 2);
        assert!(matches!(done[..], [Ok(1), Err(SegmentError::RemovedTag(_))]), "{done:?}");
    });
}

/// One task waits for a segment. Another is dropped after a poll, and has taken an id if and only if the poll returned
/// one.
#[test]
fn models_tasks_that_wait_for_a_segment() {
    check(|| {
        let shared = Arc::new(shared());
        let tag = tag_of(&shared);
        let waiting = {
            let (shared, tag) = (Arc::clone(&shared), Arc::clone(&tag));
            thread::spawn(move || block_on(Takes::new(&tag, &shared).next_id_async()))
        };
        let dropped = {
            let (shared, tag) = (Arc::clone(&shared), Arc::clone(&tag));
            thread::spawn(move || match poll(pin!(Takes::new(&tag, &shared).next_id_async())) {
                Poll::Ready(taken) => Some(taken),
                Poll::Pending => None,
            })
        };
        let segment = LoadedSegment { start: 1, end: 3, table_step: 2 };
        tag.loaded(&shared.settings, Ok(segment));
        let mut ids = vec![waiting.join().expect("no panic").expect("loaded")];
        ids.extend(dropped.join().expect("no panic").map(|taken| taken.expect("loaded")));
        ids.extend((ids.len()..2).map(|_| Takes::new(&tag, &shared).try_next_id().expect("left")));
        ids.sort_unstable();
        assert_eq!(ids, [1, 2]);
    });
}

/// A taker that sees that a tag is removed gets none of its remaining ids, not even by the fast path.
#[test]
fn models_a_removed_tag_has_nothing_left() {
    check(|| {
        let shared = Arc::new(shared());
        let tag = tag_of(&shared);
        let segment = LoadedSegment { start: 1, end: 9, table_step: 8 };
        assert_eq!(tag.loaded(&shared.settings, Ok(segment)), Next::Again);
        let remover = {
            let tag = Arc::clone(&tag);
            thread::spawn(move || tag.remove())
        };
        while !tag.is_removed() {
            thread::yield_now();
        }
        let taken = Takes::new(&tag, &shared).try_next_id();
        assert!(matches!(taken, Err(SegmentError::RemovedTag(_))), "{taken:?}");
        remover.join().expect("no panic");
    });
}

/// A clock forks where a segment begins or ends. Its taker gets the error, not the id that its parent has as well, and
/// does not touch the lock that the loader may hold.
#[test]
fn models_a_fork_in_the_clock() {
    #[derive(Debug)]
    struct Forking;
    impl crate::clock::Clock for Forking {
        fn now(&self) -> crate::timestamp::Timestamp {
            become_forked_child();
            crate::timestamp::Timestamp::default()
        }
    }
    check(|| {
        let mut shared = shared();
        shared.settings.clock = Arc::new(Forking);
        let shared = Arc::new(shared);
        let tag = tag_of(&shared);
        for ids in [1..2, 3..4] {
            tag.chain.append(ids).expect("they increase");
        }
        assert!(matches!(Takes::new(&tag, &shared).try_next_id(), Ok(1)), "without the clock");
        let other = {
            let tag = Arc::clone(&tag);
            thread::spawn(move || {
                tag.set_health(Health::StoreDown, None);
                tag.stats().expect("not the child").taken
            })
        };
        let taken = Takes::new(&tag, &shared).try_next_id();
        assert!(matches!(taken, Err(SegmentError::Forked)), "{taken:?}");
        assert!(matches!(Takes::new(&tag, &shared).try_next_id(), Err(SegmentError::Forked)));
        other.join().expect("no panic");
    });
}
