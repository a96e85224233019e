//! fork(2) and tasks: a future polled in a child takes nothing. Neither the poll nor the drop waits for a lock of the
//! parent.
#![cfg(unix)]

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use futures_executor::block_on;
use uidring::clock::ManualClock;
use uidring::policy::TakePolicy;
use uidring::segment::{MemorySegments, SegmentError, SegmentTag};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Layout, SegmentGenerator, TakeError, Tick,
    Timestamp, Uid, UidGenerator,
};
use uidring_testkit::fork::{FORKED, Fork, LIMIT, OTHER_ERROR, alone, in_child, on_both_sides};
use uidring_testkit::namespace::fresh;

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn manual() -> ManualClock {
    ManualClock::new("2026-06-01".parse().expect("a time"))
}

/// A generator at its borrow limit, which 64 uids a tick soon reach.
fn cached(policy: TakePolicy) -> CachedUidGenerator {
    let bits = Bits { time: 40, worker: 8, sequence: 6 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let builder = CachedUidGenerator::builder().layout(layout).worker_id(1).namespace(fresh());
    let builder = builder.max_borrow(Duration::ZERO).take_policy(policy).clock(manual());
    let generator = builder.build().expect("builds");
    while !matches!(generator.try_next_uid(), Err(TakeError::BorrowLimit { .. })) {}
    generator
}

/// A generator whose current tick is used up and does not end.
fn clocked(policy: TakePolicy) -> ClockedUidGenerator<ManualClock> {
    let builder = ClockedUidGenerator::snowflake().worker_id(1).namespace(fresh());
    let generator = builder.take_policy(policy).clock(manual()).build().expect("builds");
    while generator.try_next_uid().is_ok() {}
    generator
}

type Task<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Tasks that wait for each kind of event and for the timer. Each returns whether it got `Forked`.
fn tasks<'a>(
    cached: &'a CachedUidGenerator,
    clocked: &'a ClockedUidGenerator<ManualClock>,
    segments: &'a SegmentGenerator,
) -> [Task<'a>; 4] {
    let is_forked = |taken: Result<Uid, TakeError>| taken == Err(TakeError::Forked);
    [
        Box::pin(async move { is_forked(cached.next_uid_async().await) }),
        Box::pin(async move {
            let mut uids = Vec::new();
            is_forked(cached.fill_async(&mut uids, 9).await.map(|()| uids[0]))
        }),
        Box::pin(async move { is_forked(clocked.next_uid_async().await) }),
        Box::pin(async move {
            let mut ids = Vec::new();
            let filled = segments.fill_async("orders", &mut ids, usize::MAX).await;
            matches!(filled, Err(SegmentError::Forked)) && ids.is_empty()
        }),
    ]
}

#[test]
fn a_task_in_a_child_takes_nothing_and_does_not_hang() {
    let _alone = alone();
    for policy in [TakePolicy::Wait, TakePolicy::WaitFor(10 * LIMIT)] {
        let (cached, clocked) = (cached(policy.clone()), clocked(policy));
        let table = MemorySegments::new();
        table.create(SegmentTag::new("orders").step(1)).expect("positive");
        let segments = SegmentGenerator::builder(table).max_step(1).build().expect("builds");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            // They hold the locks of events and timer most of the time.
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let mut theirs = tasks(&cached, &clocked, &segments);
                        for _ in 0..20 {
                            for task in &mut theirs {
                                assert!(poll(task.as_mut()).is_pending());
                            }
                        }
                    }
                });
            }
            for _ in 0..100 {
                let mut pending = tasks(&cached, &clocked, &segments);
                for task in &mut pending {
                    assert!(poll(task.as_mut()).is_pending());
                }
                let [dropped, polled] = [true, false].map(|is_dropped| {
                    in_child(|to| {
                        for task in &mut pending {
                            if is_dropped {
                                *task = Box::pin(async { true });
                            }
                            to.check(matches!(poll(task.as_mut()), Poll::Ready(true)));
                        }
                        // The child's own timer.
                        let own = self::clocked(TakePolicy::WaitFor(Duration::from_millis(2)));
                        let late = Err(TakeError::DeadlineExceeded);
                        to.check(block_on(own.next_uid_async()) == late);
                        block_on(cached.close_async());
                        to.take(block_on(cached.next_uid_async()));
                    })
                });
                assert_eq!([dropped, polled], [[FORKED], [FORKED]]);
            }
            stop.store(true, Ordering::Relaxed);
        });
        // The parent's timer still runs.
        let own = self::clocked(TakePolicy::WaitFor(Duration::from_millis(2)));
        assert_eq!(block_on(own.next_uid_async()), Err(TakeError::DeadlineExceeded));
    }
}

/// After it calls the waker, the close goes on on both sides.
#[test]
fn a_waker_may_fork() {
    fn close<G: UidGenerator>(
        generator: &G,
        taken: impl Future<Output = Result<Uid, TakeError>>,
        fork: &Fork,
    ) -> Vec<u64> {
        let waker = Waker::from(Arc::new(fork.clone()));
        let mut task = pin!(taken);
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        fork.arm(1);
        generator.close();
        let code = |taken| match taken {
            Err(TakeError::Forked) => FORKED,
            Err(TakeError::Closed) => OTHER_ERROR,
            other => panic!("{other:?}"),
        };
        let polled = match poll(task) {
            Poll::Ready(taken) => taken,
            Poll::Pending => panic!("released"),
        };
        vec![code(polled), code(generator.next_uid())]
    }
    let _alone = alone();
    let sides = [
        on_both_sides(|fork| {
            let generator = cached(TakePolicy::Wait);
            close(&generator, generator.next_uid_async(), fork)
        }),
        on_both_sides(|fork| {
            let generator = clocked(TakePolicy::Wait);
            close(&generator, generator.next_uid_async(), fork)
        }),
    ];
    for side in sides {
        let side = side.expect("the waker was called");
        assert_eq!((&side.parent[..], &side.child[..]), (&[OTHER_ERROR; 2][..], &[FORKED; 2][..]));
    }
}
