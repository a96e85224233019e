//! Small numbers for threads, each held by one live thread at a time.

#[cfg(any(test, not(uidring_loom)))]
use super::{AtomicU64, Ordering};

/// A set of numbers that threads hold and give back. It has no lock, so a thread that is suspended, or
/// missing in a forked child, blocks nobody.
#[cfg(any(test, not(uidring_loom)))]
#[derive(Debug)]
pub(crate) struct NumberSet<const WORDS: usize> {
    /// A bit for each number: whether it is held.
    held: [AtomicU64; WORDS],
}

#[cfg(any(test, not(uidring_loom)))]
impl<const WORDS: usize> NumberSet<WORDS> {
    /// Acquires the lowest number that nobody holds. Returns `None` if all are held.
    pub(crate) fn acquire(&self) -> Option<usize> {
        for (word, first) in self.held.iter().zip((0..).step_by(64)) {
            // Relaxed: this is a guess, which the `fetch_or` confirms.
            let mut held = word.load(Ordering::Relaxed);
            while held != u64::MAX {
                let bit = held.trailing_ones();
                // Acquire: pairs with the Release in `release`. The new holder sees everything that
                // the last one did with the data of this number.
                let before = word.fetch_or(1 << bit, Ordering::Acquire);
                if before >> bit & 1 == 0 {
                    return Some(first + bit as usize);
                }
                held = before;
            }
        }
        None
    }

    /// Gives a number back. The caller must hold it, and not use it any more.
    pub(crate) fn release(&self, number: usize) {
        // Release: pairs with the Acquire in `acquire`.
        self.held[number / 64].fetch_and(!(1 << (number % 64)), Ordering::Release);
    }
}

#[cfg(not(uidring_loom))]
mod current {
    use std::cell::Cell;

    use super::{AtomicU64, NumberSet};
    use crate::sync::recent;

    /// 32,768 threads can hold a number at once, in 4 KiB.
    const WORDS: usize = 512;

    static NUMBERS: NumberSet<WORDS> = NumberSet { held: [const { AtomicU64::new(0) }; WORDS] };

    /// No number yet.
    const NONE: usize = usize::MAX;

    /// This thread never gets a number: it is exiting, or none was free. It must not ask again: the data of a
    /// recycled number may hold uids older than those that it has taken without one.
    const NEVER: usize = usize::MAX - 1;

    thread_local! {
        // Apart from `HOLDER`, because without a destructor, a look at it is one load.
        static NUMBER: Cell<usize> = const { Cell::new(NONE) };
        static HOLDER: Holder = const { Holder(Cell::new(NONE)) };
    }

    /// Gives the number back when its thread ends.
    struct Holder(Cell<usize>);

    impl Drop for Holder {
        fn drop(&mut self) {
            // First, so that destructors that run later do not use a number that another thread has.
            NUMBER.set(NEVER);
            recent::forget();
            let number = self.0.get();
            if number != NONE {
                NUMBERS.release(number);
            }
        }
    }

    /// Returns the current thread's number, and acquires one if it has none. Returns `None` if the thread is
    /// exiting, or once found all 32,768 held.
    pub(crate) fn number_or_acquire() -> Option<usize> {
        if NUMBER.get() == NONE {
            let acquire = |holder: &Holder| {
                let number = NUMBERS.acquire()?;
                holder.0.set(number);
                Some(number)
            };
            // While the thread exits, `HOLDER` may be gone.
            NUMBER.set(HOLDER.try_with(acquire).ok().flatten().unwrap_or(NEVER));
        }
        let number = NUMBER.get();
        (number < NEVER).then_some(number)
    }

    #[cfg(test)]
    mod tests {
        use std::sync::{Arc, Barrier};
        use std::thread;

        use super::*;

        #[test]
        fn threads_that_live_at_the_same_time_have_different_numbers() {
            let barrier = Arc::new(Barrier::new(100));
            let threads: Vec<_> = (0..100)
                .map(|_| {
                    let barrier = Arc::clone(&barrier);
                    thread::spawn(move || {
                        let number = number_or_acquire().expect("few threads");
                        barrier.wait();
                        assert_eq!(number_or_acquire(), Some(number), "it stays");
                        number
                    })
                })
                .collect();
            let mut numbers: Vec<_> =
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), 100);
        }

        #[test]
        fn numbers_of_threads_that_are_gone_are_used_again() {
            for _ in 0..1_000 {
                let number = thread::spawn(|| number_or_acquire().expect("few threads"));
                // Other tests hold some.
                assert!(number.join().expect("no panic") < 1_000);
            }
        }

        #[test]
        fn there_are_no_more_numbers_than_bits() {
            let numbers: NumberSet<2> = NumberSet { held: [const { AtomicU64::new(0) }; 2] };
            for expected in 0..128 {
                assert_eq!(numbers.acquire(), Some(expected));
            }
            assert_eq!(numbers.acquire(), None);
            numbers.release(77);
            numbers.release(13);
            assert_eq!((numbers.acquire(), numbers.acquire()), (Some(13), Some(77)));
            assert_eq!(numbers.acquire(), None);
        }
    }
}

#[cfg(not(uidring_loom))]
pub(crate) use self::current::number_or_acquire;

/// Models use no numbers: their threads are not the operating system's.
#[cfg(uidring_loom)]
pub(crate) fn number_or_acquire() -> Option<usize> {
    None
}

#[cfg(all(test, uidring_loom))]
mod models {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Three threads pass on two numbers. The data of a number belongs to one thread at a time, and each
    /// sees what the one before it did. The cell reports any access that is not ordered.
    #[test]
    fn models_a_number_is_one_threads_at_a_time() {
        loom::model(|| {
            let held = [AtomicU64::new(!0b11)];
            let shared = Arc::new((NumberSet { held }, [UnsafeCell::new(0), UnsafeCell::new(0)]));
            let work = |shared: &(NumberSet<1>, [UnsafeCell<i32>; 2])| {
                let Some(number) = shared.0.acquire() else { return };
                shared.1[number].with_mut(|_| ());
                shared.0.release(number);
            };
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || work(&shared))
                })
                .collect();
            work(&shared);
            for thread in threads {
                thread.join().expect("no panic");
            }
        });
    }
}
