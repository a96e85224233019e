//! Memory that a forked child finds wiped.

use super::AtomicU64;

/// Two words on a cache line of their own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) AtomicU64, pub(crate) AtomicU64);

pub(crate) use self::imp::Pages;

#[cfg(all(unix, not(uidring_loom)))]
mod imp {
    // The only unsafe code of the crate: memory from the operating system, which std does not hand
    // out, and a handler of fork, which std does not know.
    #![allow(unsafe_code)]

    use std::ffi::c_void;
    use std::ptr::{self, NonNull};
    use std::slice;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
    use std::sync::{Arc, Mutex, Once, OnceLock};

    use super::Line;
    use crate::sync::{AtomicU64, Ordering};

    /// Lines of zeroed memory, and a head before them with the mark of life.
    ///
    /// After a fork the child finds all of it zero, so that what the parent's memory says is not
    /// said twice. Linux does that by itself (`MADV_WIPEONFORK`, from 4.14 on); elsewhere a handler
    /// of fork does it before the child's code goes on.
    ///
    /// A clone is the same memory. Each knows by itself where it lies, so that a look at it does
    /// not go by way of what they share.
    #[derive(Clone, Debug)]
    pub(crate) struct Pages {
        /// The head; `count` lines follow it.
        head: NonNull<Line>,
        count: usize,
        /// Keeps the memory.
        _lent: Arc<Lent>,
    }

    // SAFETY: the memory belongs to the clones of `Pages` alone, which hand out shared references
    // only, to atomics; nothing in it is bound to a thread.
    unsafe impl Send for Pages {}
    // SAFETY: as above.
    unsafe impl Sync for Pages {}

    /// What the last of the clones gives back.
    #[derive(Debug)]
    struct Lent(Option<Mapping>);

    #[derive(Debug)]
    struct Mapping {
        memory: NonNull<c_void>,
        bytes: usize,
        /// Where the handler of fork finds it, if the kernel does not wipe it.
        entry: Option<&'static Entry>,
    }

    // SAFETY: whichever thread drops it may unmap the memory; there is nothing else to do with it.
    unsafe impl Send for Mapping {}
    // SAFETY: a shared `Mapping` can do nothing.
    unsafe impl Sync for Mapping {}

    impl Pages {
        /// So many lines; `None` where there is no memory for them.
        pub(crate) fn new(count: usize) -> Option<Self> {
            let bytes = Self::bytes(count)?;
            let mapping = Mapping::spare(bytes).or_else(|| Mapping::new(bytes, wiped_by_kernel))?;
            Some(Self::with(count, mapping))
        }

        fn bytes(count: usize) -> Option<usize> {
            count.checked_add(1)?.checked_mul(size_of::<Line>())
        }

        /// Pages in a zeroed mapping that is long enough.
        fn with(count: usize, mapping: Mapping) -> Self {
            let head = mapping.memory.cast();
            let pages = Self { head, count, _lent: Arc::new(Lent(Some(mapping))) };
            pages.head().0.store(ALIVE, Ordering::Relaxed);
            pages
        }

        /// Whether this process is a forked child of the one that made the pages.
        #[inline]
        pub(crate) fn are_wiped(&self) -> bool {
            // Relaxed: the wiping is over before the child's first instruction.
            self.head().0.load(Ordering::Relaxed) == 0
        }

        /// A word of the owner's, 0 at first and after a fork.
        #[inline]
        pub(crate) fn word(&self) -> &AtomicU64 {
            &self.head().1
        }

        /// The lines, all 0 at first and after a fork.
        #[inline]
        pub(crate) fn lines(&self) -> &[Line] {
            // SAFETY: the mapping holds `count` lines behind the head and `self` keeps it;
            // a mapping begins at a page, so they are aligned; zero bytes are a valid `Line`, and
            // its atomics allow for whatever others store meanwhile.
            unsafe { slice::from_raw_parts(self.head.as_ptr().add(1), self.count) }
        }

        #[inline]
        fn head(&self) -> &Line {
            // SAFETY: as in `lines`.
            unsafe { self.head.as_ref() }
        }
    }

    /// The mark of life.
    const ALIVE: u64 = 1;

    /// Mappings that nobody uses, zeroed, the latest first, for those who want one of their length:
    /// the kernel takes longer for fresh ones than a generator for all the rest of its start.
    static SPARE: Mutex<[Option<Mapping>; 8]> = Mutex::new([const { None }; 8]);

    /// Longer ones are not kept; 1,024 slots of a ring are. Half a mebibyte in all.
    const MAX_SPARE_BYTES: usize = (1_024 + 1) * size_of::<Line>();

    impl Mapping {
        fn new(bytes: usize, wiped: fn(*mut c_void, usize) -> bool) -> Option<Self> {
            // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory
            // that is in use.
            let memory = unsafe {
                libc::mmap(
                    ptr::null_mut(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANON,
                    -1,
                    0,
                )
            };
            if memory == libc::MAP_FAILED {
                return None;
            }
            let entry = if wiped(memory, bytes) { None } else { Some(Entry::enter(memory, bytes)) };
            Some(Self { memory: NonNull::new(memory)?, bytes, entry })
        }

        // Whoever uses the list only tries its lock: in a forked child it may be held for ever.
        fn spare(bytes: usize) -> Option<Self> {
            let mut spare = SPARE.try_lock().ok()?;
            let fits = |mapping: &&mut Option<Self>| {
                mapping.as_ref().is_some_and(|mapping| mapping.bytes == bytes)
            };
            spare.iter_mut().find(fits)?.take()
        }

        /// Keeps it for others, and unmaps the one that was kept for longest if there is no room.
        fn give_back(self) {
            if self.bytes > MAX_SPARE_BYTES {
                return;
            }
            // SAFETY: this is a mapping of that length; every reference to it borrowed one of the
            // pages, of which none is left.
            unsafe { self.memory.cast::<u8>().write_bytes(0, self.bytes) };
            let Ok(mut spare) = SPARE.try_lock() else { return };
            let free = spare.iter().position(Option::is_none).unwrap_or(spare.len() - 1);
            spare[..=free].rotate_right(1);
            let oldest = spare[0].replace(self);
            drop(spare);
            drop(oldest);
        }
    }

    impl Drop for Lent {
        fn drop(&mut self) {
            if let Some(mapping) = self.0.take() {
                mapping.give_back();
            }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            if let Some(entry) = self.entry {
                entry.leave();
            }
            // SAFETY: this is the mapping that `Mapping::new` made, and nothing refers to it: see
            // `give_back`.
            unsafe { libc::munmap(self.memory.as_ptr(), self.bytes) };
        }
    }

    #[cfg(target_os = "linux")]
    fn wiped_by_kernel(memory: *mut c_void, bytes: usize) -> bool {
        // SAFETY: the advice is about a mapping of our own, and takes effect in children only.
        unsafe { libc::madvise(memory, bytes, libc::MADV_WIPEONFORK) == 0 }
    }

    #[cfg(not(target_os = "linux"))]
    fn wiped_by_kernel(_: *mut c_void, _: usize) -> bool {
        false
    }

    /// Pages that the handler of fork has to wipe: an entry of a list that only grows, and whose
    /// entries are used again. It has no lock, which another thread could hold at the fork.
    #[derive(Debug)]
    struct Entry {
        used: AtomicBool,
        /// Null while there is nothing to wipe.
        memory: AtomicPtr<c_void>,
        bytes: AtomicUsize,
        next: OnceLock<&'static Entry>,
    }

    static ENTRIES: Entry = Entry::new();

    impl Entry {
        const fn new() -> Self {
            Self {
                used: AtomicBool::new(false),
                memory: AtomicPtr::new(ptr::null_mut()),
                bytes: AtomicUsize::new(0),
                next: OnceLock::new(),
            }
        }

        fn enter(memory: *mut c_void, bytes: usize) -> &'static Self {
            static HANDLER: Once = Once::new();
            HANDLER.call_once(|| {
                // SAFETY: the handler only does what is allowed between fork and exec: it stores
                // to memory. It fails for want of memory alone.
                let failed = unsafe { libc::pthread_atfork(None, None, Some(wipe_all)) };
                assert_eq!(failed, 0, "no memory for a handler of fork");
            });
            let mut entry = &ENTRIES;
            // Acquire: pairs with the Release in `leave`; the entry's old memory is gone.
            while entry
                .used
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
            {
                entry = entry.next.get_or_init(|| Box::leak(Box::new(Self::new())));
            }
            entry.bytes.store(bytes, Ordering::Relaxed);
            // Release: a child of a thread that sees the memory sees its length.
            entry.memory.store(memory, Ordering::Release);
            entry
        }

        fn leave(&self) {
            self.memory.store(ptr::null_mut(), Ordering::Relaxed);
            // Release: pairs with the Acquire in `enter`.
            self.used.store(false, Ordering::Release);
        }
    }

    extern "C" fn wipe_all() {
        let mut entry = Some(&ENTRIES);
        while let Some(Entry { memory, bytes, next, .. }) = entry {
            let memory = memory.load(Ordering::Acquire);
            if !memory.is_null() {
                // SAFETY: whoever takes memory off the list does it before unmapping it, so it is
                // mapped, also in this copy of the process; no other thread lives in it, and the
                // memory holds atomics alone, for which zeros are valid.
                unsafe { ptr::write_bytes(memory.cast::<u8>(), 0, bytes.load(Ordering::Relaxed)) };
            }
            entry = next.get().copied();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// What a forked child finds: whether the pages are wiped, and the sum of all words.
        fn in_a_child(pages: &Pages) -> (bool, u64) {
            let sum = |pages: &Pages| {
                let words = pages
                    .lines()
                    .iter()
                    .map(|line| line.0.load(Ordering::Relaxed) + line.1.load(Ordering::Relaxed));
                words.sum::<u64>() + pages.word().load(Ordering::Relaxed)
            };
            let mut pipe = [0; 2];
            // SAFETY: the child computes, writes to a pipe and ends without running destructors;
            // it allocates nothing.
            unsafe {
                assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
                let child = libc::fork();
                assert!(child >= 0);
                if child == 0 {
                    let answer = [u64::from(pages.are_wiped()), sum(pages)];
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
        fn a_child_finds_them_wiped() {
            check(wiped_by_kernel);
        }

        #[test]
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
            assert_eq!(
                clone.word().load(Ordering::Relaxed),
                0,
                "a mapping in use is nobody else's"
            );
        }

        #[test]
        fn too_much_memory_is_refused() {
            assert!(Pages::new(usize::MAX).is_none());
            assert!(Pages::new(usize::MAX / 128).is_none());
        }
    }
}

#[cfg(not(all(unix, not(uidring_loom))))]
mod imp {
    use std::sync::Arc;

    use super::Line;
    use crate::sync::AtomicU64;

    /// The same where there is no fork.
    #[derive(Clone, Debug)]
    pub(crate) struct Pages {
        word: Arc<AtomicU64>,
        lines: Arc<[Line]>,
    }

    impl Pages {
        pub(crate) fn new(count: usize) -> Option<Self> {
            let mut lines = Vec::new();
            lines.try_reserve_exact(count).ok()?;
            lines.resize_with(count, Line::default);
            Some(Self { word: Arc::new(AtomicU64::new(0)), lines: lines.into() })
        }

        #[inline]
        pub(crate) fn are_wiped(&self) -> bool {
            false
        }

        #[inline]
        pub(crate) fn word(&self) -> &AtomicU64 {
            &self.word
        }

        #[inline]
        pub(crate) fn lines(&self) -> &[Line] {
            &self.lines
        }
    }
}
