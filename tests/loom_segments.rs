//! Models of a tag's segments, like those of the ring in tests/loom.rs. Run them with `scripts/loom`.
#![cfg(uidring_loom)]

use std::ops::Range;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use uidring::segment::{ChainStats, PushError, SegmentChain};
use uidring::{TakeError, become_forked_child};

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // Three preemptions find every known fault among the mutations of the module `segment`. The environment can
    // override this.
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

fn chain(segments: impl IntoIterator<Item = Range<u64>>) -> Arc<SegmentChain> {
    let chain = SegmentChain::new(50).expect("possible");
    for ids in segments {
        chain.push(ids).expect("they increase");
    }
    Arc::new(chain)
}

/// Tries several times. Returns what it got.
fn take(chain: &SegmentChain, tries: usize) -> Vec<u64> {
    let taken: Vec<u64> = (0..tries)
        .filter_map(|_| match chain.try_take() {
            Ok(id) => Some(id),
            Err(TakeError::Empty | TakeError::Closed) => None,
            Err(other) => panic!("{other}"),
        })
        .collect();
    assert!(taken.is_sorted_by(|a, b| a < b), "{taken:?}");
    taken
}

fn taker(chain: &Arc<SegmentChain>, tries: usize) -> thread::JoinHandle<Vec<u64>> {
    let chain = Arc::clone(chain);
    thread::spawn(move || take(&chain, tries))
}

/// Checks that no issued id repeats, and that each is of a segment.
fn assert_distinct(mut issued: Vec<u64>, segments: &[Range<u64>]) {
    assert!(issued.iter().all(|id| segments.iter().any(|ids| ids.contains(id))), "{issued:?}");
    let count = issued.len();
    issued.sort_unstable();
    issued.dedup();
    assert_eq!(issued.len(), count, "an id was issued twice");
}

/// Checks that every id was issued, is left, or is counted as discarded or lost.
fn assert_accounted(chain: &SegmentChain, issued: usize, segments: &[Range<u64>]) {
    let all: u64 = segments.iter().map(|ids| ids.end - ids.start).sum();
    let stats = chain.stats();
    assert_eq!(issued as u64 + stats.left + stats.discarded, all, "{stats:?}");
}

/// Two takers across the ends of segments: each id goes to one of them, and none is lost.
#[test]
fn take_against_take_across_segments() {
    let segments = [10..12, 20..21, 40..42];
    check(move || {
        let chain = chain(segments.clone());
        let other = taker(&chain, 2);
        let mut issued = take(&chain, 2);
        issued.extend(other.join().expect("no panic"));
        assert_eq!(issued.len(), 4, "there was enough: {issued:?}");
        assert_accounted(&chain, 4, &segments);
        assert_distinct(issued, &segments);
    });
}

/// The lanes are reused while a taker sleeps between its look and its draw. It gets an id of its ticket's segment, or
/// none. No id repeats or is lost.
#[test]
fn a_taker_that_sleeps_for_segments() {
    let segments = [10..11, 20..21, 30..31, 40..42];
    check(move || {
        let chain = chain(segments.clone());
        let sleeper = taker(&chain, 1);
        let mut issued = take(&chain, 3);
        let slept = sleeper.join().expect("no panic");
        assert_eq!((issued.len(), slept.len()), (3, 1), "there was enough");
        issued.extend(slept);
        assert_accounted(&chain, 4, &segments);
        assert_distinct(issued, &segments);
    });
}

/// Two takers race with pushes.
#[test]
fn takes_against_pushes() {
    let segments = [10..11, 12..14];
    check(move || {
        let chain = chain([]);
        let other = taker(&chain, 2);
        let pusher = {
            let (chain, segments) = (Arc::clone(&chain), segments.clone());
            thread::spawn(move || {
                segments.into_iter().for_each(|ids| chain.push(ids).expect("they increase"));
            })
        };
        let mut issued = take(&chain, 1);
        issued.extend(other.join().expect("no panic"));
        pusher.join().expect("no panic");
        issued.extend(take(&chain, 3));
        assert_eq!(issued.len(), 3, "whatever was there is given out: {issued:?}");
        assert_distinct(issued, &segments);
    });
}

/// A take that begins after another returned gets the greater id, in any threads.
#[test]
fn ids_increase_from_thread_to_thread() {
    check(|| {
        let chain = chain([10..11, 20..21, 30..31, 40..41]);
        let told = Arc::new(AtomicU64::new(0));
        let other = {
            let (chain, told) = (Arc::clone(&chain), Arc::clone(&told));
            thread::spawn(move || {
                for id in take(&chain, 2) {
                    told.store(id, Ordering::Release);
                }
            })
        };
        let first = take(&chain, 1);
        let before = told.load(Ordering::Acquire);
        let second = take(&chain, 1);
        assert!(first < second && second > vec![before], "{first:?} {before} {second:?}");
        other.join().expect("no panic");
    });
}

/// A fill races with takes.
#[test]
fn fill_against_takes() {
    let segments = [10..13, 20..22];
    check(move || {
        let chain = chain(segments.clone());
        let filler = {
            let chain = Arc::clone(&chain);
            thread::spawn(move || {
                let mut batch = [0; 3];
                let filled = chain.try_fill(&mut batch).unwrap_or(0);
                assert!(batch[..filled].is_sorted_by(|a, b| a < b));
                batch[..filled].to_vec()
            })
        };
        let mut issued = take(&chain, 2);
        issued.extend(filler.join().expect("no panic"));
        assert_eq!(issued.len(), 5, "there was enough: {issued:?}");
        assert_distinct(issued, &segments);
    });
}

/// What is discarded during takes is not issued later, and what follows it is.
#[test]
fn discard_against_takes() {
    let segments = [10..12, 20..21, 30..32];
    check(move || {
        let chain = chain(segments[..2].iter().cloned());
        let other = taker(&chain, 2);
        chain.discard();
        chain.push(segments[2].clone()).expect("it is above");
        let mine = take(&chain, 1);
        assert!(mine.iter().all(|id| *id >= 30), "the rest is gone: {mine:?}");
        let mut issued = other.join().expect("no panic");
        issued.extend(mine);
        assert_accounted(&chain, issued.len(), &segments);
        assert_distinct(issued, &segments);
    });
}

/// A push wakes waiting takers; the model checker would report the deadlock.
#[test]
fn waiting_takers_are_woken_by_a_push() {
    check(|| {
        let chain = chain([]);
        let takers = [(); 2].map(|()| {
            let chain = Arc::clone(&chain);
            thread::spawn(move || {
                loop {
                    match chain.try_take() {
                        Err(TakeError::Empty) => chain.wait(None),
                        done => return done.expect("there is enough"),
                    }
                }
            })
        });
        chain.push(10..12).expect("a range");
        let mut issued = takers.map(|taker| taker.join().expect("no panic"));
        issued.sort_unstable();
        assert_eq!(issued, [10, 11]);
    });
}

/// A close releases waiting takers. Takes that begin later get nothing.
#[test]
fn a_close_releases_waiting_takers() {
    check(|| {
        let chain = chain([]);
        let other = {
            let chain = Arc::clone(&chain);
            thread::spawn(move || {
                loop {
                    match chain.try_take() {
                        Err(TakeError::Empty) => chain.wait(None),
                        done => return done,
                    }
                }
            })
        };
        let pusher = {
            let chain = Arc::clone(&chain);
            thread::spawn(move || chain.push(10..11).expect("a range"))
        };
        chain.close();
        assert_eq!(chain.try_take(), Err(TakeError::Closed));
        pusher.join().expect("no panic");
        let done = other.join().expect("no panic");
        assert!(matches!(done, Ok(10) | Err(TakeError::Closed)), "{done:?}");
        assert_eq!(chain.try_take(), Err(TakeError::Closed), "whatever was pushed later");
    });
}

/// Segments are forgotten while a taker sleeps between its draw and its closer look. If its ticket belongs to a later
/// segment of its lane, it is counted as lost, and nobody else gets its id.
#[test]
fn a_taker_that_sleeps_for_more_segments_than_are_remembered() {
    let segments = [10..11, 20..21, 30..31, 40..41, 50..51, 60..62];
    check(move || {
        let chain = chain(segments.clone());
        let sleeper = taker(&chain, 1);
        let mut issued = take(&chain, 5);
        issued.extend(sleeper.join().expect("no panic"));
        assert_eq!(issued.len(), 6, "there was enough: {issued:?}");
        let stats = chain.stats();
        let all: u64 = segments.iter().map(|ids| ids.end - ids.start).sum();
        let accounted = 6 + stats.left + stats.discarded;
        assert!((all - stats.lapped..=all).contains(&accounted), "{stats:?}");
        assert_distinct(issued, &segments);
    });
}

/// A thread becomes a forked child while others take, push and close. All its calls fail at once, and change nothing of
/// its parent's.
#[test]
fn a_forked_child_among_takers() {
    let segments = [10..12, 20..22];
    check(move || {
        let chain = chain(segments.clone());
        let child = {
            let chain = Arc::clone(&chain);
            thread::spawn(move || {
                let taken = take(&chain, 1);
                become_forked_child();
                assert_eq!(chain.try_take(), Err(TakeError::Forked));
                assert_eq!(chain.try_fill(&mut [0; 2]), Err(TakeError::Forked));
                assert_eq!(chain.push(90..91), Err(PushError::Forked));
                chain.wait(None);
                chain.close();
                assert_eq!((chain.discard(), chain.is_low()), (0, false));
                assert_eq!(chain.stats(), ChainStats::default());
                taken
            })
        };
        let mut issued = take(&chain, 2);
        issued.extend(child.join().expect("no panic"));
        assert_eq!(issued.len(), 3, "there was enough: {issued:?}");
        assert_accounted(&chain, 3, &segments);
        issued.extend(take(&chain, 1));
        assert_eq!(issued.len(), 4, "the child has changed nothing: {issued:?}");
        assert_distinct(issued, &segments);
    });
}
