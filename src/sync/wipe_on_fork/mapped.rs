//! `WipeOnForkMemory` in a mapping of its own.
// Mappings, for which std has no API.
#![allow(unsafe_code)]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use super::mapping::Mapping;
use super::{HotWords, Slot, Words};
use crate::sync::Ordering;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::sync::shared_memory::SharedMapping;

/// Words, and slots after them, in memory that a forked child finds zeroed, so that it repeats none of its
/// parent's numbers. Memory that processes share is never zeroed.
///
/// Clones refer to the same memory. Each holds the address itself, so that a take follows one pointer.
#[derive(Debug)]
pub(crate) struct WipeOnForkMemory<W> {
    /// `slots` slots follow.
    words: NonNull<W>,
    slots: usize,
    /// Keeps the memory mapped.
    lent: Arc<Lent>,
}

// SAFETY: the clones hand out only shared references to atomics, and nothing in the memory is tied to a
// thread.
unsafe impl<W: Words> Send for WipeOnForkMemory<W> {}
// SAFETY: as above.
unsafe impl<W: Words> Sync for WipeOnForkMemory<W> {}

/// The memory, which the last clone gives back.
#[derive(Debug)]
enum Lent {
    /// `Some` until the drop.
    Private(Option<Mapping>),
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    Shared(SharedMapping),
}

impl<W: Words> WipeOnForkMemory<W> {
    /// Allocates memory for this many slots, all zero. Returns `None` if that fails.
    pub(crate) fn new(slots: usize) -> Option<Self> {
        Some(Self::with(slots, Mapping::lend(Self::bytes(slots)?)?))
    }

    /// Returns `None` for more bytes than a slice may span, which a 32-bit system might be able to allocate.
    pub(super) fn bytes(slots: usize) -> Option<usize> {
        let bytes = slots.checked_mul(size_of::<Slot>())?.checked_add(size_of::<W>())?;
        (bytes <= isize::MAX.cast_unsigned()).then_some(bytes)
    }

    /// Uses a zeroed mapping, which must be long enough.
    fn with(slots: usize, mapping: Mapping) -> Self {
        let (words, lent) = (mapping.memory(), Arc::new(Lent::Private(Some(mapping))));
        let memory = Self { words, slots, lent };
        memory.hot().life.store(ALIVE, Ordering::Relaxed);
        memory
    }

    /// Uses shared memory that holds the words and, after them, this many slots.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(super) fn in_shared(words: NonNull<W>, slots: usize, mapping: SharedMapping) -> Self {
        Self { words, slots, lent: Arc::new(Lent::Shared(mapping)) }
    }

    /// Returns the mapping if processes share it.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(super) fn mapping(&self) -> Option<&SharedMapping> {
        match &*self.lent {
            Lent::Private(_) => None,
            Lent::Shared(mapping) => Some(mapping),
        }
    }

    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    pub(crate) fn shared(_: usize) -> io::Result<Self> {
        super::unsupported()
    }

    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    pub(crate) fn header(&self) -> Option<&super::RegionHeader> {
        None
    }

    /// Whether processes share it.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(*self.lent, Lent::Private(_))
    }

    /// Whether the memory is wiped: it is private, and this is a forked child.
    #[inline]
    pub(crate) fn is_wiped(&self) -> bool {
        // Relaxed: the memory is wiped before `fork` returns in the child.
        self.hot().life.load(Ordering::Relaxed) == 0
    }

    #[inline]
    pub(crate) fn words(&self) -> &W {
        // SAFETY: the words lie in the mapping, which `self` keeps. They are aligned: at the start of a
        // page, or behind a header. By the contract of `Words` they are atomics, for which zeros are
        // valid, and so is whatever others store meanwhile.
        unsafe { self.words.as_ref() }
    }

    #[inline]
    pub(crate) fn hot(&self) -> &HotWords {
        self.words().hot()
    }

    #[inline]
    pub(crate) fn slots(&self) -> &[Slot] {
        // SAFETY: as in `words`. The mapping holds this many slots behind the words, whose length is a
        // multiple of a slot's alignment.
        unsafe { slice::from_raw_parts(self.words.as_ptr().add(1).cast(), self.slots) }
    }
}

impl<W> Clone for WipeOnForkMemory<W> {
    fn clone(&self) -> Self {
        Self { words: self.words, slots: self.slots, lent: Arc::clone(&self.lent) }
    }
}

/// The value of `life` in memory that is not wiped.
pub(super) const ALIVE: u64 = 1;

impl Drop for Lent {
    fn drop(&mut self) {
        if let Self::Private(mapping) = self
            && let Some(mapping) = mapping.take()
        {
            mapping.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;
    use crate::sync::RingWords;
    use crate::sync::wipe_on_fork::wiping::wiped_by_kernel;

    /// Returns what a forked child finds: whether the memory is wiped, and the sum of its words.
    fn in_a_child(memory: &WipeOnForkMemory<RingWords>) -> (bool, u64) {
        let sum = |memory: &WipeOnForkMemory<RingWords>| {
            let HotWords { next, limit, cursor, freshness, life, .. } = memory.hot();
            let slots = memory.slots().iter().flat_map(|slot| [&slot.flag, &slot.first]);
            let words = slots.chain([next, limit, cursor, freshness, life]);
            words.map(|word| word.load(Ordering::Relaxed)).sum::<u64>()
        };
        let mut pipe = [0; 2];
        // SAFETY: the child computes, writes to a pipe and ends without running destructors;
        // it allocates nothing.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                let wiped = memory.is_wiped();
                let answer = [u64::from(wiped), sum(memory)];
                let written = libc::write(pipe[1], answer.as_ptr().cast(), 16);
                libc::_exit(if written == 16 { 0 } else { 1 });
            }
            let mut answer = [u64::MAX; 2];
            assert_eq!(libc::read(pipe[0], answer.as_mut_ptr().cast(), 16), 16);
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
            libc::close(pipe[0]);
            libc::close(pipe[1]);
            (answer[0] == 1, answer[1])
        }
    }

    /// Makes memory in a fresh mapping.
    fn made(slots: usize, wiped: fn(*mut c_void, usize) -> bool) -> WipeOnForkMemory<RingWords> {
        let bytes = WipeOnForkMemory::<RingWords>::bytes(slots).expect("few");
        WipeOnForkMemory::<RingWords>::with(slots, Mapping::new(bytes, wiped).expect("memory"))
    }

    fn check(wiped: fn(*mut c_void, usize) -> bool) {
        let memory = made(1_000, wiped);
        assert!(memory.slots().iter().all(|slot| slot.flag.load(Ordering::Relaxed) == 0));
        for (slot, number) in memory.slots().iter().zip(1..) {
            slot.flag.store(number, Ordering::Relaxed);
            slot.first.store(number, Ordering::Relaxed);
        }
        memory.hot().next.store(7, Ordering::Relaxed);
        assert_eq!(in_a_child(&memory), (true, 0));
        assert!(!memory.is_wiped());
        assert_eq!(memory.slots()[999].first.load(Ordering::Relaxed), 1_000, "the parent's stay");
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no fork, or not so much memory")]
    fn a_child_finds_them_wiped() {
        check(wiped_by_kernel);
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no fork, or not so much memory")]
    fn the_handler_of_fork_wipes_them_too() {
        check(|_, _| false);
        // Drop one and make another, which reuses an entry of the list.
        let mut all: Vec<_> = (0..5).map(|_| made(3, |_, _| false)).collect();
        all.remove(1);
        all.push(made(9, |_, _| false));
        for memory in &all {
            memory.hot().next.store(1, Ordering::Relaxed);
            assert_eq!(in_a_child(memory), (true, 0));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no fork, or not so much memory")]
    fn who_comes_next_finds_zeros_and_the_mark_of_life() {
        let memory = WipeOnForkMemory::<RingWords>::new(77).expect("memory");
        let clone = memory.clone();
        drop(memory);
        for _ in 0..100 {
            // The length is the same, so this reuses the mapping before it, unless another test
            // holds the lock.
            let memory = WipeOnForkMemory::<RingWords>::new(77).expect("memory");
            let words = memory.slots().iter().map(|slot| &slot.first).chain([&memory.hot().next]);
            assert!(words.into_iter().all(|word| word.load(Ordering::Relaxed) == 0));
            assert!(!memory.is_wiped());
            memory.slots()[76].first.store(7, Ordering::Relaxed);
            memory.hot().next.store(7, Ordering::Relaxed);
            assert_eq!(in_a_child(&memory), (true, 0));
        }
        assert_eq!(
            clone.hot().next.load(Ordering::Relaxed),
            0,
            "a mapping in use is nobody else's"
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no fork, or not so much memory")]
    fn too_much_memory_is_refused() {
        assert!(WipeOnForkMemory::<RingWords>::new(usize::MAX).is_none());
        let span = isize::MAX.cast_unsigned();
        assert!(
            WipeOnForkMemory::<RingWords>::new(span / size_of::<Slot>()).is_none(),
            "with the words it is longer"
        );
        assert!(
            WipeOnForkMemory::<RingWords>::bytes(
                (span - size_of::<RingWords>()) / size_of::<Slot>()
            )
            .is_some()
        );
        // More memory than any system has.
        #[cfg(target_pointer_width = "64")]
        assert!(WipeOnForkMemory::<RingWords>::new(span / 2 / size_of::<Slot>()).is_none());
    }
}
