//! Models of a shared ring in which a taker dies after any of its operations. Run with `scripts/loom`.

use loom::sync::Arc as Shared;
use loom::sync::atomic::AtomicBool;
use loom::thread;

use super::*;
use crate::sync::dies_after;

pub(crate) fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 3_000;
    builder.check(model);
}

/// A producer, and two handles that stand for two other processes.
pub(crate) fn shared() -> (Producer, [RingBuffer; 2]) {
    let options = RingOptions::new(2).run_bits(1).spaced();
    let memory = WipeOnForkMemory::shared(options.runs() as usize).expect("memory");
    let (producer, ring) = RingBuffer::new(options.shared(memory)).expect("possible");
    (producer, [(); 2].map(|()| ring.for_all_processes()))
}

/// Checks the model with a death after 0, 1, 2, … operations, until the work ends before the death.
fn wherever_it_dies(
    preemptions: usize,
    model: impl Fn(u32) -> bool + Send + Sync + Copy + 'static,
) {
    for operations in 0.. {
        let died = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let theirs = std::sync::Arc::clone(&died);
        check(preemptions, move || {
            theirs.fetch_or(model(operations), std::sync::atomic::Ordering::Relaxed);
        });
        if !died.load(std::sync::atomic::Ordering::Relaxed) {
            assert!(operations > 20, "it dies at most of its operations: {operations}");
            return;
        }
    }
}

/// One of two takers dies anywhere, even while it opens a run or wakes the producer. The other one gets everything that
/// it did not draw, in order.
#[test]
fn models_a_taker_dies_anywhere() {
    wherever_it_dies(3, |operations| {
        let (mut producer, [ring, others]) = shared();
        producer.put(10).expect("room");
        producer.put(100).expect("room");
        let dying = thread::spawn(move || {
            // Three of the four numbers, so that it uses up a run.
            let mut taken = Vec::new();
            let lived = dies_after(operations, || {
                (0..3).for_each(|_| taken.extend(ring.try_take()));
            });
            (lived.is_none(), taken)
        });
        let mut mine: Vec<_> = others.try_take().into_iter().collect();
        let (died, theirs) = dying.join().expect("no panic");
        // Nobody waits for the dead taker: the producer finds room, and others take what is left.
        mine.extend((0..4).map_while(|_| others.try_take().ok()));
        assert!(mine.is_sorted_by(|a, b| a < b) && theirs.is_sorted_by(|a, b| a < b));
        producer.put(1_000).expect("room");
        mine.extend((0..3).map_while(|_| others.try_take().ok()));
        let mut all = [mine, theirs].concat();
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
        let is_put = |number: &u64| [10, 11, 100, 101, 1_000, 1_001].contains(number);
        assert!(all.iter().all(is_put), "{all:?}");
        // The dead taker may have drawn one number without returning it.
        let lost = 6 - all.len();
        assert!(lost <= usize::from(died), "{lost} lost: {all:?}");
        died
    });
}

/// A taker dies anywhere while it waits or wakes the other. The other one gets what is published, at the latest when
/// its sleep times out.
#[test]
fn models_a_waiter_dies_anywhere() {
    // With two preemptions it takes hours.
    wherever_it_dies(1, |operations| {
        let (mut producer, [ring, other]) = shared();
        let has_got = Shared::new(AtomicBool::new(false));
        let dying = thread::spawn(move || {
            dies_after(operations, || {
                ring.park(None);
                let taken = ring.try_take().is_ok();
                ring.call_next_taker();
                taken
            })
        });
        let (theirs, memory) = (Shared::clone(&has_got), other.memory().clone());
        let waiting = thread::spawn(move || {
            while other.try_take().is_err() {
                other.park(None);
            }
            theirs.store(true, Ordering::Relaxed);
        });
        producer.put(10).expect("room");
        // Stands for the timeout of a sleep, as loom has no time.
        let end_sleeps = || memory.words().published.notify(true);
        end_sleeps();
        let died = dying.join().expect("no panic").is_none();
        end_sleeps();
        waiting.join().expect("no panic");
        assert!(has_got.load(Ordering::Relaxed));
        died
    });
}
