//! Tells which process something belongs to, by a number that a forked child finds wiped.

pub(crate) use self::imp::ForkToken;

#[cfg(all(unix, not(uidring_loom)))]
mod imp {
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use crate::sync::wipe_on_fork::{Entry, wiped_by_kernel};

    /// Identifies the process that made it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct ForkToken(u64);

    /// This process's number; 0 in a child that has not asked for it. It shares no page with anything else,
    /// because the kernel wipes whole pages. So its alignment is the largest page size: 4 KiB on x86-64, and
    /// at most 64 KiB on any architecture that Rust supports.
    #[cfg_attr(all(target_os = "linux", target_arch = "x86_64"), repr(C, align(4096)))]
    #[cfg_attr(all(target_os = "linux", not(target_arch = "x86_64")), repr(C, align(65536)))]
    struct Generation(AtomicU64);

    static GENERATION: Generation = Generation(AtomicU64::new(0));

    /// The last number that this process or an ancestor has had. Not wiped: a child counts on from here, so its
    /// number differs from all of theirs.
    static LAST: AtomicU64 = AtomicU64::new(0);

    impl ForkToken {
        /// Returns this process's token.
        pub(crate) fn current() -> Self {
            // Relaxed, here and below: the number publishes no other memory.
            match GENERATION.0.load(Ordering::Relaxed) {
                0 => Self::begin(),
                number => Self(number),
            }
        }

        /// Sets the number. Several threads may do so at once, also during a fork: the first one wins.
        #[cold]
        fn begin() -> Self {
            // Before the number is set: until forks wipe it, a child would inherit it.
            have_it_wiped();
            let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            let begun =
                GENERATION.0.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
            Self(begun.err().unwrap_or(number))
        }

        /// Whether this process is a forked child of the one that made the token.
        #[inline]
        pub(crate) fn is_forked_child(self) -> bool {
            // Relaxed: the number is wiped before `fork` returns in the child.
            GENERATION.0.load(Ordering::Relaxed) != self.0
        }
    }

    /// Makes forks wipe the number. Children inherit this.
    fn have_it_wiped() {
        static IS_DONE: AtomicBool = AtomicBool::new(false);
        // Acquire: pairs with the Release below. This thread, and so any child that it forks, sees
        // the entry.
        if IS_DONE.load(Ordering::Acquire) {
            return;
        }
        let memory = (&raw const GENERATION).cast_mut().cast::<c_void>();
        if !wiped_by_kernel(memory, size_of::<Generation>()) {
            Entry::enter(memory, size_of::<Generation>());
        }
        IS_DONE.store(true, Ordering::Release);
    }

    #[cfg(test)]
    mod tests {
        // Forks, and waits for its child.
        #![allow(unsafe_code)]

        use super::ForkToken;

        /// Returns the answer of a forked child.
        fn in_child(answer: impl FnOnce() -> bool) -> bool {
            // SAFETY: the child looks at atomics, forks, and ends without running destructors.
            unsafe {
                let child = libc::fork();
                assert!(child >= 0);
                if child == 0 {
                    libc::_exit(i32::from(!answer()));
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                status == 0
            }
        }

        #[test]
        #[cfg_attr(miri, ignore = "there is no fork")]
        fn each_process_has_a_token_of_its_own() {
            let ours = ForkToken::current();
            assert!(in_child(|| {
                let is_new = ours.is_forked_child();
                let childs = ForkToken::current();
                let is_childs = !childs.is_forked_child() && ours.is_forked_child();
                let in_grandchild = in_child(|| {
                    let all = [ours, childs];
                    all.iter().all(|token| token.is_forked_child())
                        && !ForkToken::current().is_forked_child()
                        && all.iter().all(|token| token.is_forked_child())
                });
                is_new && is_childs && in_grandchild
            }));
            assert!(!ours.is_forked_child() && ForkToken::current() == ours);
        }
    }
}

/// For systems without fork, and for models. In a model, a child's own tokens also count as its parent's.
#[cfg(not(all(unix, not(uidring_loom))))]
mod imp {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct ForkToken;

    impl ForkToken {
        pub(crate) fn current() -> Self {
            Self
        }

        #[inline]
        pub(crate) fn is_forked_child(self) -> bool {
            crate::sync::wipe_on_fork::is_forked_child()
        }
    }
}
