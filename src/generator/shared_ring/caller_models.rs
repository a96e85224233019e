//! Loom models of tasks that wait at a shared ring. Run them with `scripts/loom`.

use loom::thread::{self, JoinHandle};

use super::*;
use crate::error::TakeError;
use crate::future;
use crate::future::models::{block_on, poll};
use crate::policy::TakePolicy;
use crate::ring::Producer;
use crate::ring::death_models::{check, shared};

async fn take(calls: &Calls) -> Result<u64, TakeError> {
    let mut rejections = TakePolicy::Wait.rejections();
    let sleep = |pause| {
        calls.wanted.notify();
        pause
    };
    let next = |error| rejections.next(error);
    let taken =
        future::retry(&calls.tasks, TakeError::Empty, next, || calls.ring.try_take(), sleep);
    let taken = taken.await?;
    calls.ring.call_next_taker();
    Ok(taken)
}

/// Runs the thread during `model`, which publishes two numbers to takers of this and another process. Loom's sleeps have
/// no timeout, so no call is left to one.
fn check_calls(
    preemptions: usize,
    model: impl Fn(&mut Producer, &Arc<Calls>, RingBuffer) + Send + Sync + Copy + 'static,
) {
    check(preemptions, move || {
        let (mut producer, [here, there]) = shared();
        let calls = Arc::new(Calls::new(Arc::new(here), ForkToken::current()));
        let theirs = Arc::clone(&calls);
        let run = thread::spawn(move || theirs.run());
        model(&mut producer, &calls, there);
        calls.end();
        // Stands for the timeout of the last sleep.
        producer.ring().close();
        run.join().expect("no panic");
    });
}

fn publish_to(producer: &mut Producer, takers: [JoinHandle<u64>; 2]) {
    producer.put(10).expect("room");
    let mut taken = takers.map(|taker| taker.join().expect("no panic"));
    taken.sort_unstable();
    assert_eq!(taken, [10, 11]);
}

#[test]
fn models_two_tasks_are_called() {
    check_calls(1, |producer, calls, _| publish_to(producer, [task(calls), task(calls)]));
}

#[test]
fn models_a_task_and_a_taker_of_another_process() {
    check_calls(1, |producer, calls, there| {
        publish_to(producer, [task(calls), thread::spawn(move || wait_and_take(&there))]);
    });
}

/// Nobody sleeps although the call was meant for a task that is gone.
#[test]
fn models_a_called_task_that_is_dropped() {
    check_calls(2, |producer, calls, there| {
        let theirs = thread::spawn(move || wait_and_take(&there));
        let mut task = Box::pin(take(calls));
        let _ = poll(task.as_mut());
        producer.put(10).expect("room");
        drop(task);
        assert!(matches!(theirs.join().expect("no panic"), 10 | 11));
    });
}

fn task(calls: &Arc<Calls>) -> JoinHandle<u64> {
    let calls = Arc::clone(calls);
    thread::spawn(move || block_on(take(&calls)).expect("there are enough"))
}

fn wait_and_take(ring: &RingBuffer) -> u64 {
    loop {
        match ring.try_take() {
            Ok(number) => {
                ring.call_next_taker();
                return number;
            }
            Err(_) => {
                ring.park(None);
            }
        }
    }
}
