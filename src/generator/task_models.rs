//! Loom models of tasks that wait at a ring. Run them with `scripts/loom`.

use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use loom::thread::{self, JoinHandle};

use crate::error::TakeError;
use crate::future::models::{block_on, poll};
use crate::policy::{Pause, Rejections, TakePolicy};
use crate::ring::{Producer, RingBuffer, RingOptions};
use crate::sync::{AtomicBool, EventCount, Ordering, become_forked_child};
use crate::waiting::{self, Waiting};

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    // A thread tries several times before it sleeps.
    builder.max_branches = 2_000;
    builder.check(model);
}

/// A ring of two runs of up to two numbers.
fn ring() -> (Producer, Arc<RingBuffer>) {
    RingBuffer::new(RingOptions::new(2).run_bits(1).spaced()).expect("possible")
}

impl Waiting for RingBuffer {
    type Error = TakeError;

    fn take_policy(&self) -> &TakePolicy {
        &TakePolicy::Wait
    }

    fn pause(&self, rejections: &mut Rejections<'_>, error: TakeError) -> Result<Pause, TakeError> {
        rejections.next(error)
    }

    fn park(&self, timeout: Option<Duration>) {
        Self::park(self, timeout);
    }

    fn event(&self) -> &EventCount {
        self.published()
    }

    fn wake_next(&self) {
        self.call_next_taker();
    }

    fn is_forked(&self) -> bool {
        Self::is_forked(self)
    }

    fn count(&self, _: bool, _: Option<&TakeError>) {}
}

/// What a generator's future does, without the lease.
async fn take(ring: &RingBuffer) -> Result<u64, TakeError> {
    match ring.try_take() {
        Err(error) => waiting::follow_policy_async(ring, error, || ring.try_take()).await,
        taken => taken,
    }
}

fn task(ring: &Arc<RingBuffer>) -> JoinHandle<Result<u64, TakeError>> {
    let ring = Arc::clone(ring);
    thread::spawn(move || block_on(take(&ring)))
}

fn sorted(results: impl IntoIterator<Item = Result<u64, TakeError>>) -> Vec<u64> {
    let numbers = results.into_iter().map(|taken| taken.expect("there are enough"));
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// No wake-up is lost, and nobody sleeps although a number is ready: the model checker would report the deadlock.
#[test]
fn models_two_tasks_and_a_publication() {
    check(|| {
        let (mut producer, ring) = ring();
        let tasks = [(); 2].map(|()| task(&ring));
        producer.put(10).expect("room");
        let taken = tasks.map(|task| task.join().expect("no panic"));
        assert_eq!(sorted(taken), [10, 11]);
    });
}

#[test]
fn models_a_task_and_a_thread_that_waits() {
    check(|| {
        let (mut producer, ring) = ring();
        let task = task(&ring);
        let waiter = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                ring.wait(None);
                ring.try_take()
            })
        };
        producer.put(10).expect("room");
        let taken = [task, waiter].map(|taker| taker.join().expect("no panic"));
        assert_eq!(sorted(taken), [10, 11]);
    });
}

/// Another taker gets what a task was woken for. The next publication wakes the task again.
#[test]
fn models_a_task_that_is_woken_for_nothing() {
    check(|| {
        let (mut producer, ring) = ring();
        let task = task(&ring);
        producer.put_range(10..11).expect("room");
        let mine = ring.try_take();
        producer.put_range(100..101).expect("room");
        let theirs = task.join().expect("no panic");
        assert_eq!(theirs, Ok(if mine == Ok(10) { 100 } else { 10 }));
    });
}

/// A task is dropped after up to two polls, while another waits. It has taken a number if and only if a poll returned
/// one.
#[test]
fn models_a_task_that_is_dropped() {
    for polls in 0..3 {
        check(move || {
            let (mut producer, ring) = ring();
            let other = task(&ring);
            let dropped = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    let mut future = pin!(take(&ring));
                    (0..polls).find_map(|_| match poll(future.as_mut()) {
                        Poll::Ready(taken) => Some(taken),
                        Poll::Pending => None,
                    })
                })
            };
            producer.put(10).expect("room");
            let mut taken = vec![other.join().expect("no panic")];
            taken.extend(dropped.join().expect("no panic"));
            taken.extend((taken.len()..2).map(|_| ring.try_take()));
            assert_eq!(sorted(taken), [10, 11]);
        });
    }
}

#[test]
fn models_a_close_releases_a_task() {
    check(|| {
        let (_producer, ring) = ring();
        let task = task(&ring);
        ring.close();
        assert_eq!(task.join().expect("no panic"), Err(TakeError::Closed));
    });
}

/// A ring and the one that follows it, as in a generator that gets a new worker id.
struct Rings {
    first: Arc<RingBuffer>,
    next: Arc<RingBuffer>,
    /// Stands for a ring's `OnceLock`, whose `set` and `get` order in the same way.
    has_next: AtomicBool,
}

impl Rings {
    fn next_of(&self, ring: &RingBuffer) -> Option<&RingBuffer> {
        let is_first = ptr::eq(ring, &*self.first);
        (is_first && self.has_next.load(Ordering::Acquire)).then_some(&*self.next)
    }

    fn current(&self) -> &RingBuffer {
        self.next_of(&self.first).unwrap_or(&self.first)
    }

    fn try_take(&self) -> Result<u64, TakeError> {
        let ring = self.current();
        match ring.try_take() {
            Err(error) => self.next_of(ring).map_or(Err(error), RingBuffer::try_take),
            taken => taken,
        }
    }

    fn take(&self) -> Result<u64, TakeError> {
        self.try_take().or_else(|error| waiting::follow_policy(self, error, || self.try_take()))
    }

    async fn take_async(&self) -> Result<u64, TakeError> {
        match self.try_take() {
            Err(error) => waiting::follow_policy_async(self, error, || self.try_take()).await,
            taken => taken,
        }
    }
}

/// As a generator's, at the current ring.
impl Waiting for Rings {
    type Error = TakeError;

    fn take_policy(&self) -> &TakePolicy {
        &TakePolicy::Wait
    }

    fn pause(&self, rejections: &mut Rejections<'_>, error: TakeError) -> Result<Pause, TakeError> {
        rejections.next(error)
    }

    fn park(&self, timeout: Option<Duration>) {
        self.current().park(timeout);
    }

    fn event(&self) -> &EventCount {
        self.current().published()
    }

    fn wake_next(&self) {
        self.current().call_next_taker();
    }

    fn is_forked(&self) -> bool {
        self.current().is_forked()
    }

    fn count(&self, _: bool, _: Option<&TakeError>) {}
}

/// A thread and a task wait at a ring with one number left when the generator moves on to the next ring. Both continue
/// there, and nothing is lost or repeated.
#[test]
fn models_takers_follow_to_the_next_ring() {
    for is_task in [false, true] {
        check(move || {
            let ((mut producer, first), (mut next_producer, next)) = (ring(), ring());
            let rings = Arc::new(Rings { first, next, has_next: AtomicBool::new(false) });
            let taker = {
                let rings = Arc::clone(&rings);
                thread::spawn(move || match is_task {
                    true => block_on(rings.take_async()),
                    false => rings.take(),
                })
            };
            producer.put_range(10..11).expect("room");
            next_producer.put(4).expect("room");
            rings.has_next.store(true, Ordering::Release);
            rings.first.close();
            rings.first.end();
            let taken = taker.join().expect("no panic");
            assert!(matches!(taken, Ok(10 | 4)), "{taken:?}");
        });
    }
}

/// A task that finds itself in a child between two polls takes nothing, and touches no lock of its parent.
#[test]
fn models_a_task_in_a_child() {
    check(|| {
        let (mut producer, ring) = ring();
        let child = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut future = Box::pin(take(&ring));
                if let Poll::Ready(taken) = poll(future.as_mut()) {
                    return taken;
                }
                become_forked_child();
                match poll(future.as_mut()) {
                    Poll::Ready(Err(TakeError::Forked)) => ring.try_take(),
                    other => panic!("{other:?}"),
                }
            })
        };
        producer.put(10).expect("room");
        let taken = child.join().expect("no panic");
        assert!(matches!(taken, Ok(10) | Err(TakeError::Forked)), "{taken:?}");
        let next = if taken.is_ok() { 11 } else { 10 };
        assert_eq!(ring.try_take(), Ok(next));
    });
}
