//! Pages of mapped memory.
// A mapping is memory that std does not know of.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use super::mapping::Mapping;
use super::{Head, HotPair, Line};
use crate::sync::{AtomicU64, Ordering};

/// Lines of zeroed memory, and a head before them with the mark of life.
///
/// After a fork the child finds all of it zero, so that what the parent's memory says is not
/// said twice.
///
/// A clone is the same memory. Each knows by itself where it lies, so that a look at it does
/// not go by way of what they share.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    /// The head; `count` lines follow it.
    head: NonNull<Head>,
    count: usize,
    /// Keeps the memory.
    lent: Arc<Lent>,
}

// SAFETY: the memory belongs to the clones of `Pages` alone, which hand out shared references
// only, to atomics; nothing in it is bound to a thread.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

/// The mark of life of some pages, in the size of a pointer: for locks, of which there are many.
#[derive(Clone, Debug)]
pub(crate) struct Life(Arc<Lent>);

/// What the last of the clones gives back. There is a mapping until then.
#[derive(Debug)]
struct Lent(Option<Mapping>);

impl Pages {
    /// So many lines; `None` where there is no memory for them.
    pub(crate) fn new(count: usize) -> Option<Self> {
        Some(Self::with(count, Mapping::lend(Self::bytes(count)?)?))
    }

    /// `None` for more than a slice may span: where pointers have 32 bits, the system may have that much.
    fn bytes(count: usize) -> Option<usize> {
        let bytes = count.checked_mul(size_of::<Line>())?.checked_add(size_of::<Head>())?;
        (bytes <= isize::MAX.cast_unsigned()).then_some(bytes)
    }

    /// Pages in a zeroed mapping that is long enough.
    fn with(count: usize, mapping: Mapping) -> Self {
        let head = mapping.memory();
        let pages = Self { head, count, lent: Arc::new(Lent(Some(mapping))) };
        pages.head().life.0.store(ALIVE, Ordering::Relaxed);
        pages
    }

    /// Whether this process is a forked child of the one that made the pages.
    #[inline]
    pub(crate) fn are_wiped(&self) -> bool {
        // Relaxed: the wiping is over before the child's first instruction.
        self.head().life.0.load(Ordering::Relaxed) == 0
    }

    /// Their mark of life.
    pub(crate) fn life(&self) -> Life {
        Life(Arc::clone(&self.lent))
    }

    /// A word of the owner's, 0 at first and after a fork.
    #[inline]
    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.head().life.1
    }

    /// Words of the owner's that many threads write, likewise.
    #[inline]
    pub(crate) fn hot(&self) -> &[HotPair; 2] {
        &self.head().hot
    }

    /// The lines, all 0 at first and after a fork.
    #[inline]
    pub(crate) fn lines(&self) -> &[Line] {
        // SAFETY: the mapping holds `count` lines behind the head and `self` keeps it;
        // a mapping begins at a page, so they are aligned; zero bytes are a valid `Line`, and
        // its atomics allow for whatever others store meanwhile.
        unsafe { slice::from_raw_parts(self.head.as_ptr().add(1).cast(), self.count) }
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: as in `lines`; the head is a multiple of a line long, and is made of atomics
        // alone.
        unsafe { self.head.as_ref() }
    }
}

impl Life {
    /// A mark of this process's life; `None` where there is no memory for it.
    pub(crate) fn new() -> Option<Self> {
        Some(Pages::new(0)?.life())
    }

    /// Whether this process is a forked child of the one that made the mark.
    pub(crate) fn is_forked(&self) -> bool {
        let head = self.0.0.as_ref().map(Mapping::memory::<Head>);
        // SAFETY: the mapping holds a head and `self` keeps it; the rest is as in `Pages::lines`.
        head.is_none_or(|head| unsafe { head.as_ref() }.life.0.load(Ordering::Relaxed) == 0)
    }
}

/// The mark of life.
const ALIVE: u64 = 1;

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(mapping) = self.0.take() {
            mapping.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;
    use crate::sync::pages::wiping::wiped_by_kernel;

    /// What a forked child finds: whether the pages are wiped, and the sum of all words.
    fn in_a_child(pages: &Pages) -> (bool, u64) {
        let sum = |pages: &Pages| {
            let words = pages
                .lines()
                .iter()
                .map(|line| line.0.load(Ordering::Relaxed) + line.1.load(Ordering::Relaxed));
            let hot = pages.hot().iter().flat_map(|HotPair(one, two)| [one, two]);
            let hot = hot.map(|word| word.load(Ordering::Relaxed));
            words.chain(hot).sum::<u64>() + pages.word().load(Ordering::Relaxed)
        };
        let mut pipe = [0; 2];
        // SAFETY: the child computes, writes to a pipe and ends without running destructors;
        // it allocates nothing.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                let wiped = pages.are_wiped() && pages.life().is_forked();
                let answer = [u64::from(wiped), sum(pages)];
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

    /// Pages of fresh memory.
    fn made(count: usize, wiped: fn(*mut c_void, usize) -> bool) -> Pages {
        let bytes = Pages::bytes(count).expect("few");
        Pages::with(count, Mapping::new(bytes, wiped).expect("memory"))
    }

    fn check(wiped: fn(*mut c_void, usize) -> bool) {
        let pages = made(1_000, wiped);
        assert!(pages.lines().iter().all(|line| line.0.load(Ordering::Relaxed) == 0));
        for (line, number) in pages.lines().iter().zip(1..) {
            line.0.store(number, Ordering::Relaxed);
            line.1.store(number, Ordering::Relaxed);
        }
        pages.word().store(7, Ordering::Relaxed);
        assert_eq!(in_a_child(&pages), (true, 0));
        assert!(!pages.are_wiped());
        assert_eq!(pages.lines()[999].1.load(Ordering::Relaxed), 1_000, "the parent's stay");
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
        // Some come and go; the list's entries are used again.
        let mut pages: Vec<_> = (0..5).map(|_| made(3, |_, _| false)).collect();
        pages.remove(1);
        pages.push(made(9, |_, _| false));
        for pages in &pages {
            pages.word().store(1, Ordering::Relaxed);
            assert_eq!(in_a_child(pages), (true, 0));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no fork, or not so much memory")]
    fn who_comes_next_finds_zeros_and_the_mark_of_life() {
        let pages = Pages::new(77).expect("memory");
        let clone = pages.clone();
        drop(pages);
        for _ in 0..100 {
            // Of the same length, and so of the same mapping as the one before it, if another
            // test does not hold the lock.
            let pages = Pages::new(77).expect("memory");
            let words = pages.lines().iter().map(|line| &line.1).chain([pages.word()]);
            assert!(words.into_iter().all(|word| word.load(Ordering::Relaxed) == 0));
            assert!(!pages.are_wiped());
            pages.lines()[76].1.store(7, Ordering::Relaxed);
            pages.word().store(7, Ordering::Relaxed);
            assert_eq!(in_a_child(&pages), (true, 0));
        }
        assert_eq!(clone.word().load(Ordering::Relaxed), 0, "a mapping in use is nobody else's");
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no fork, or not so much memory")]
    fn too_much_memory_is_refused() {
        assert!(Pages::new(usize::MAX).is_none());
        let span = isize::MAX.cast_unsigned();
        assert!(Pages::new(span / size_of::<Line>()).is_none(), "with the head it is longer");
        assert!(Pages::bytes((span - size_of::<Head>()) / size_of::<Line>()).is_some());
        // What no system has.
        #[cfg(target_pointer_width = "64")]
        assert!(Pages::new(span / 2 / size_of::<Line>()).is_none());
    }
}
