//! crossbeam-queue's ArrayQueue instead of the ring: a thread pushes ids, takers pop them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::{Backoff, CachePadded};

use super::{Field, Shape};
use crate::promise::Promise::{Consecutive, Increasing};
use crate::work::{Work, pair, single};

/// The default size of uidring's ring.
const CAPACITY: usize = 65_536;

/// When the producer refills the queue. Which way is faster depends on the number of takers, so both are measured.
#[derive(Clone, Copy)]
enum Refill {
    /// In batches with naps between them, like uidring's padder, so takers and producer seldom meet.
    FromHalf,
    /// Whenever there is room, without sleeping.
    Always,
}

/// Shorter than half a ring lasts.
const NAP: Duration = Duration::from_micros(20);

struct Shared {
    queue: ArrayQueue<u64>,
    /// The producer works only while its queue is measured, so as not to disturb other contestants.
    active: CachePadded<AtomicBool>,
    resting: AtomicBool,
    ended: AtomicBool,
}

/// The queue and its producer thread.
struct Ring {
    shared: Arc<Shared>,
    producer: Option<JoinHandle<()>>,
}

impl Ring {
    fn start(refill: Refill) -> Self {
        let shared = Arc::new(Shared {
            queue: ArrayQueue::new(CAPACITY),
            active: CachePadded::default(),
            resting: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let producer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || produce(&shared, refill)
        });
        Self { shared, producer: Some(producer) }
    }

    /// Runs the takers with the producer active.
    fn around(self, mut takers: Work) -> Work {
        Box::new(move |ids| {
            self.shared.active.store(true, Ordering::Release);
            self.wake();
            let run = takers(ids);
            self.shared.active.store(false, Ordering::Release);
            while !self.shared.resting.load(Ordering::Acquire) {
                thread::yield_now();
            }
            run
        })
    }

    fn wake(&self) {
        if let Some(producer) = &self.producer {
            producer.thread().unpark();
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.wake();
        // If the producer had panicked, the takers would have starved and reported it.
        if let Some(producer) = self.producer.take() {
            let _ = producer.join();
        }
    }
}

fn produce(shared: &Shared, refill: Refill) {
    let mut id = 0;
    let backoff = Backoff::new();
    while !shared.ended.load(Ordering::Acquire) {
        if !shared.active.load(Ordering::Acquire) {
            shared.resting.store(true, Ordering::Release);
            thread::park();
            continue;
        }
        shared.resting.store(false, Ordering::Relaxed);
        match refill {
            Refill::FromHalf => {
                if shared.queue.len() < CAPACITY / 2 {
                    while shared.queue.push(id).is_ok() {
                        id += 1;
                    }
                }
                thread::sleep(NAP);
            }
            Refill::Always => {
                if shared.queue.push(id).is_ok() {
                    id += 1;
                    backoff.reset();
                } else {
                    backoff.snooze();
                }
            }
        }
    }
}

#[inline]
fn pop(shared: &Shared) -> u64 {
    match shared.queue.pop() {
        Some(id) => id,
        None => pop_slowly(shared),
    }
}

#[cold]
fn pop_slowly(shared: &Shared) -> u64 {
    let backoff = Backoff::new();
    loop {
        backoff.snooze();
        if let Some(id) = shared.queue.pop() {
            return id;
        }
    }
}

pub fn enter(shape: Shape, field: &mut Field) {
    const FROM_HALF: &str = "65,536 numbers, no time and no worker; a thread refills it from \
        half empty; no cap but that thread";
    const ALWAYS: &str = "as before; the thread adds one number whenever there is room";
    match shape {
        Shape::Single | Shape::Pair => {
            field.add("crossbeam ArrayQueue; refilled from half", FROM_HALF, move || {
                work(shape, Refill::FromHalf)
            });
            field.add("crossbeam ArrayQueue; kept full", ALWAYS, move || {
                work(shape, Refill::Always)
            });
        }
        Shape::Bulk => field.skip("crossbeam ArrayQueue", "no bulk call: see `single`"),
        Shape::Local => {
            field.skip("crossbeam ArrayQueue", "no form for one thread: see `single`");
        }
    }
}

fn work(shape: Shape, refill: Refill) -> Work {
    let ring = Ring::start(refill);
    let shared = Arc::clone(&ring.shared);
    let takers = match shape {
        Shape::Pair => pair(shared, Increasing, |shared| pop(shared)),
        _ => single(shared, Consecutive, |shared| pop(shared)),
    };
    ring.around(takers)
}
