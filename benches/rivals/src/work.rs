//! The measured loops, the same for every contestant.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use crossbeam_utils::CachePadded;

use crate::promise::{Id, Promise, Seen, check_distinct};

/// The number of ids of one bulk call.
pub const FILL: usize = 4096;

/// The number of ids that are checked per thread after each measured stretch.
const SAMPLE: usize = 2 * FILL;

/// The threads of the shared shape.
const THREADS: usize = 2;

/// Ids that a thread of the shared shape takes before it looks for more work.
const PORTION: u64 = 1024;

/// Takes about this many ids, and checks a sample of the following ones.
pub type Work = Box<dyn FnMut(u64) -> Run>;

/// One measured stretch.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub ids: u64,
    pub elapsed: Duration,
}

/// One thread that takes one id per call.
///
/// The state is in a local variable meanwhile, so that a generator without shared parts can live in registers, as in a
/// caller's loop.
pub fn single<S: 'static, I: Id>(
    state: S,
    promise: Promise,
    mut next: impl FnMut(&mut S) -> I + 'static,
) -> Work {
    let mut place = Some(state);
    Box::new(move |ids| {
        let mut state = place.take().expect("it is put back below");
        let before = next(&mut state).number();
        let start = Instant::now();
        for _ in 0..ids {
            black_box(next(&mut state));
        }
        let elapsed = start.elapsed();
        let after = (0..SAMPLE).map(|_| next(&mut state).number()).collect();
        place = Some(state);
        let seen = Seen { before, timed: ids, after };
        promise.check(&seen);
        check_distinct(&[seen]);
        Run { ids, elapsed }
    })
}

/// Two threads that take one id per call from one generator, timed from the first start to the last end.
///
/// They share the work in portions, so that both work until the end. With fixed halves, the slower one would finish
/// alone and undisturbed.
pub fn pair<S: Send + Sync + 'static, I: Id>(
    state: S,
    promise: Promise,
    next: impl Fn(&S) -> I + Send + Sync + 'static,
) -> Work {
    assert_ne!(promise, Promise::Consecutive, "the other thread takes ids in between");
    let state = Arc::new(state);
    Box::new(move |ids| {
        let portions = CachePadded::new(AtomicU64::new(ids.div_ceil(PORTION)));
        let barrier = Barrier::new(THREADS);
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let claim = || {
            let left = portions.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
            left.is_ok()
        };
        let taker = |core: Option<CoreId>| {
            core.map(core_affinity::set_for_current);
            let before = next(&state).number();
            let mut after = Vec::with_capacity(SAMPLE);
            barrier.wait();
            let start = Instant::now();
            let mut timed = 0;
            while claim() {
                for _ in 0..PORTION {
                    black_box(next(&state));
                }
                timed += PORTION;
            }
            let end = Instant::now();
            // The sample is most useful while both threads take.
            barrier.wait();
            for _ in 0..SAMPLE {
                after.push(next(&state).number());
            }
            (start, end, Seen { before, timed, after })
        };
        let takers: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|index| {
                    let core = cores.get(index).copied();
                    scope.spawn(move || taker(core))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("takers finish")).collect()
        });
        let start = takers.iter().map(|taker| taker.0).min().expect("there are threads");
        let end = takers.iter().map(|taker| taker.1).max().expect("there are threads");
        let seen: Vec<_> = takers.into_iter().map(|taker| taker.2).collect();
        seen.iter().for_each(|seen| promise.check(seen));
        check_distinct(&seen);
        Run { ids: seen.iter().map(|seen| seen.timed).sum(), elapsed: end - start }
    })
}

/// One thread that fills [`FILL`] ids per call. The state holds the buffer.
pub fn bulk<S: 'static, I: Id>(
    state: S,
    promise: Promise,
    mut fill: impl for<'a> FnMut(&'a mut S) -> &'a [I] + 'static,
) -> Work {
    let mut place = Some(state);
    Box::new(move |ids| {
        let mut state = place.take().expect("it is put back below");
        let fills = ids.div_ceil(FILL as u64);
        let before = fill(&mut state).last().expect("a fill has ids").number();
        let start = Instant::now();
        for _ in 0..fills {
            // The slice forces the compiler to write every id.
            black_box(fill(&mut state));
        }
        let elapsed = start.elapsed();
        let mut after = Vec::with_capacity(SAMPLE);
        while after.len() < SAMPLE {
            let filled = fill(&mut state);
            assert_eq!(filled.len(), FILL, "a fill was not complete");
            after.extend(filled.iter().map(|id| id.number()));
        }
        place = Some(state);
        let timed = fills * FILL as u64;
        let seen = Seen { before, timed, after };
        promise.check(&seen);
        check_distinct(&[seen]);
        Run { ids: timed, elapsed }
    })
}
