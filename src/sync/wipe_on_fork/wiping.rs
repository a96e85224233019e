//! Wiping memory at a fork: by the kernel where it can, elsewhere by a fork handler.
// Advice to the kernel and fork handlers, for which std has no API.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::sync::PushList;

/// Asks the kernel to wipe memory of our own in forked children (`MADV_WIPEONFORK`, Linux 4.14). Returns
/// whether it will.
#[cfg(all(target_os = "linux", not(miri)))]
pub(in crate::sync) fn wiped_by_kernel(memory: *mut c_void, bytes: usize) -> bool {
    // SAFETY: the advice concerns only memory of our own, and takes effect only in children.
    let advise = |advice| unsafe { libc::madvise(memory, bytes, advice) == 0 };
    is_believed(|| !advise(NO_ADVICE)) && advise(libc::MADV_WIPEONFORK)
}

/// Other kernels wipe nothing. Under miri, this claims success: miri has neither forks nor fork handlers.
#[cfg(any(not(target_os = "linux"), miri))]
pub(in crate::sync) fn wiped_by_kernel(_: *mut c_void, _: usize) -> bool {
    cfg!(miri)
}

/// Advice that every kernel refuses.
#[cfg(all(target_os = "linux", not(miri)))]
const NO_ADVICE: libc::c_int = -1;

/// Whether the answers to advice can be believed. qemu's user-mode emulation accepts any advice and wipes
/// nothing, so it also accepts advice that a kernel refuses.
#[cfg(all(target_os = "linux", not(miri)))]
fn is_believed(refuses: impl FnOnce() -> bool) -> bool {
    use std::sync::atomic::AtomicU8;
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    // Not a lock or `Once`: if another thread was inside it at a fork, the child would wait forever.
    // Several threads may find out at once, and all get the same answer. Relaxed: the answer
    // publishes nothing else.
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    match ANSWER.load(Ordering::Relaxed) {
        UNKNOWN => {
            let refuses = refuses();
            ANSWER.store(if refuses { YES } else { NO }, Ordering::Relaxed);
            refuses
        }
        answer => answer == YES,
    }
}

/// Memory that the fork handler must wipe. Entries are reused.
#[derive(Debug)]
pub(in crate::sync) struct Entry {
    used: AtomicBool,
    /// Null while there is nothing to wipe.
    memory: AtomicPtr<c_void>,
    bytes: AtomicUsize,
}

static ENTRIES: PushList<Entry> = PushList::new();

impl Entry {
    pub(in crate::sync) fn enter(memory: *mut c_void, bytes: usize) -> &'static Self {
        register();
        // Acquire: pairs with the Release in `leave`, so the stores below come after its null.
        let take = |entry: &&Self| !entry.used.swap(true, Ordering::Acquire);
        let entry = ENTRIES.iter().find(take).unwrap_or_else(Self::add);
        entry.bytes.store(bytes, Ordering::Relaxed);
        // Release: pairs with the Acquire in `wipe_all`, which sees the length with the memory.
        entry.memory.store(memory, Ordering::Release);
        entry
    }

    /// Adds an entry, which is in use at once.
    fn add() -> &'static Self {
        let new = || Self {
            used: AtomicBool::new(true),
            memory: AtomicPtr::new(ptr::null_mut()),
            bytes: AtomicUsize::new(0),
        };
        loop {
            if let Some(entry) = ENTRIES.push_after(ENTRIES.newest(), new()) {
                return entry;
            }
        }
    }

    pub(super) fn leave(&self) {
        self.memory.store(ptr::null_mut(), Ordering::Relaxed);
        // Release: pairs with the Acquire in `enter`, whose stores come after this null.
        self.used.store(false, Ordering::Release);
    }
}

/// Registers the fork handler. Two threads may both do so, which does no harm. With a `Once`, a child
/// would wait forever if another thread was inside it at the fork.
fn register() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    // Acquire: pairs with the Release below, which follows the registration.
    if REGISTERED.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the handler does only what is allowed between fork and exec: it loads and stores.
    // Registering it fails only for lack of memory.
    let failed = unsafe { libc::pthread_atfork(None, None, Some(wipe_all)) };
    assert_eq!(failed, 0, "no memory for a handler of fork");
    REGISTERED.store(true, Ordering::Release);
}

extern "C" fn wipe_all() {
    for Entry { memory, bytes, .. } in ENTRIES.iter() {
        let memory = memory.load(Ordering::Acquire);
        if !memory.is_null() {
            // SAFETY: memory leaves its entry before it is unmapped, so it is still mapped, and so
            // is the child's copy. The child has no other thread yet, and the memory consists of
            // atomics, for which zeros are valid.
            unsafe { ptr::write_bytes(memory.cast::<u8>(), 0, bytes.load(Ordering::Relaxed)) };
        }
    }
}
