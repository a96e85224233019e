//! What each thread has of its own in something that threads share.
// A thread finds it by a pointer that it has noted.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{recent, threads};

/// A `T` for each [number](threads) of a thread: one thread's at a time, and with the number handed on to
/// the next one.
pub(crate) struct Shards<T> {
    /// No others have it, nor had.
    id: u64,
    /// By number, in buckets of 1, 1, 2, 4, 8, …, each made when a thread first needs it, so that no
    /// `T` ever moves.
    buckets: [OnceLock<Box<[T]>>; 16],
}

impl<T: Default> Shards<T> {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: each number comes out once.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, buckets: Default::default() }
    }

    /// The current thread's own, if it was the last that this thread has found in any.
    #[inline]
    pub(crate) fn recent(&self) -> Option<&T> {
        let shard = recent::shard_of(self.id)?;
        // SAFETY: this thread noted it together with this id, from a reference into these buckets.
        // What is in them neither moves nor goes before `self` does, wherever that was moved.
        Some(unsafe { &*shard.cast::<T>() })
    }

    /// The current thread's own, if it was made.
    pub(crate) fn find(&self) -> Option<&T> {
        let (bucket, index) = find(threads::number_or_acquire()?);
        let own = self.buckets[bucket].get()?.get(index)?;
        recent::note(self.id, ptr::from_ref(own).cast());
        Some(own)
    }

    /// The current thread's own; `None` where it has no number.
    ///
    /// Not in a forked child, where a thread of the parent may have been about to make some.
    pub(crate) fn find_or_make(&self) -> Option<&T> {
        let (bucket, _) = find(threads::number_or_acquire()?);
        let length = (1 << bucket >> 1).max(1);
        self.buckets[bucket].get_or_init(|| (0..length).map(|_| T::default()).collect());
        self.find()
    }
}

impl<T> fmt::Debug for Shards<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards").finish_non_exhaustive()
    }
}

/// The bucket of a number below 2^15, and the index in it.
fn find(number: usize) -> (usize, usize) {
    let bucket = usize::BITS - number.leading_zeros();
    (bucket as usize, number ^ (1 << bucket >> 1))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;

    use super::*;

    #[test]
    fn each_thread_finds_its_own() {
        let shards: [Shards<Cell<u32>>; 2] = [Shards::new(), Shards::new()];
        for (index, shards) in shards.iter().enumerate() {
            assert!(shards.find().is_none() && shards.recent().is_none(), "none was made");
            shards.find_or_make().expect("a number").set(index as u32 + 1);
            assert_eq!(shards.recent().map(Cell::get), Some(index as u32 + 1));
        }
        assert!(shards[0].recent().is_none(), "the other one was the last");
        assert_eq!(shards[0].find().map(Cell::get), Some(1));
        // Wherever it is moved.
        let moved = Box::new(shards);
        assert_eq!(moved[0].recent().map(Cell::get), Some(1));
        assert!(moved[1].recent().is_none());
        drop(moved);
        let later: Shards<Cell<u32>> = Shards::new();
        assert!(later.recent().is_none(), "what was noted is another's");
    }

    #[test]
    fn a_thread_that_ends_has_nothing() {
        struct AtEnd(Shards<u32>);
        impl Drop for AtEnd {
            fn drop(&mut self) {
                // Its number may be another thread's by now.
                assert!(self.0.recent().is_none() && self.0.find_or_make().is_none());
            }
        }
        thread_local!(static AT_END: AtEnd = AtEnd(Shards::new()));
        let thread = thread::spawn(|| {
            AT_END.with(|own| assert_eq!(own.0.find_or_make(), Some(&0)));
        });
        thread.join().expect("no panic");
    }

    #[test]
    fn buckets_have_room_for_all_numbers() {
        let mut lengths = [0; 16];
        for number in 0..1 << 15 {
            let (bucket, index) = find(number);
            assert_eq!(index, lengths[bucket], "{number}");
            lengths[bucket] += 1;
        }
        assert_eq!(lengths[..4], [1, 1, 2, 4]);
    }
}
