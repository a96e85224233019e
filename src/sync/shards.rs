//! Per-thread parts of an object that threads share.
// A thread finds its part by a pointer that it noted.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{recent, threads};

/// A `T` for each [thread number](threads). It belongs to the thread that holds the number, and passes on to
/// the next holder.
pub(crate) struct Shards<T> {
    /// No other `Shards` has or had this id.
    id: u64,
    /// By number, in buckets of 1, 1, 2, 4, 8, …. Each is made whole when a thread first needs it, so no
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

    /// Returns the current thread's `T`, if it is the last one that the thread found in any `Shards`.
    #[inline]
    pub(crate) fn recent(&self) -> Option<&T> {
        let shard = recent::shard_of(self.id)?;
        // SAFETY: this thread noted the pointer with this id, so it is from a reference into these
        // buckets. Their contents stay in place until `self` is dropped, even if `self` is moved.
        Some(unsafe { &*shard.cast::<T>() })
    }

    /// Returns the current thread's `T`, if it has been made.
    pub(crate) fn find(&self) -> Option<&T> {
        let (bucket, index) = find(threads::number_or_acquire()?);
        let own = self.buckets[bucket].get()?.get(index)?;
        recent::note(self.id, ptr::from_ref(own).cast());
        Some(own)
    }

    /// Returns the current thread's `T`, and makes it if needed. `None` if the thread has no number.
    ///
    /// Do not call in a forked child: it would wait forever for a thread of the parent that was making a bucket
    /// at the fork.
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

/// Returns the bucket of a number below 2^15, and the index in it.
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
        // Even after a move.
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
                // Another thread may have the number by now.
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
