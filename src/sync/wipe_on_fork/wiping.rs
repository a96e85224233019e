//! Who wipes memory at a fork: the kernel where it does, a handler of fork elsewhere.
// Advice to the kernel, and handlers of fork, which std does not know.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::sync::PushList;

/// Has the kernel wipe memory of our own in forked children (`MADV_WIPEONFORK`, Linux 4.14); returns
/// whether it does.
#[cfg(all(target_os = "linux", not(miri)))]
pub(in crate::sync) fn wiped_by_kernel(memory: *mut c_void, bytes: usize) -> bool {
    // SAFETY: the advice is about a mapping of our own, and takes effect in children only.
    let advise = |advice| unsafe { libc::madvise(memory, bytes, advice) == 0 };
    is_believed(|| !advise(NO_ADVICE)) && advise(libc::MADV_WIPEONFORK)
}

/// miri has neither forks nor their handlers.
#[cfg(any(not(target_os = "linux"), miri))]
pub(in crate::sync) fn wiped_by_kernel(_: *mut c_void, _: usize) -> bool {
    cfg!(miri)
}

/// What no kernel knows.
#[cfg(all(target_os = "linux", not(miri)))]
const NO_ADVICE: libc::c_int = -1;

/// Whether what is said about advice is to be believed. qemu's emulation of user programs accepts
/// whatever it gets, and wipes nothing: so it does not refuse what has to be refused.
#[cfg(all(target_os = "linux", not(miri)))]
fn is_believed(refuses: impl FnOnce() -> bool) -> bool {
    use std::sync::atomic::AtomicU8;
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    // Not a lock, nor a `Once`: a thread that is amid it at a fork would leave the child waiting.
    // Several threads may find out at once, and all find the same. Relaxed: the answer is all that
    // there is to it.
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

/// Memory that the handler of fork has to wipe. Entries are used again.
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
        // Acquire: pairs with the Release in `leave`; the entry's old memory is gone.
        let take = |entry: &&Self| !entry.used.swap(true, Ordering::Acquire);
        let entry = ENTRIES.iter().find(take).unwrap_or_else(Self::add);
        entry.bytes.store(bytes, Ordering::Relaxed);
        // Release: a child of a thread that sees the memory sees its length.
        entry.memory.store(memory, Ordering::Release);
        entry
    }

    /// A new entry, which is in use.
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
        // Release: pairs with the Acquire in `enter`.
        self.used.store(false, Ordering::Release);
    }
}

/// Sees to it that there is the handler. Two threads may register it twice, which does no harm; a
/// `Once` that another thread is amid at a fork would leave the child waiting.
fn register() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    // Acquire: pairs with the Release below: the handler is registered.
    if REGISTERED.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the handler only does what is allowed between fork and exec: it stores to memory.
    // It fails for want of memory alone.
    let failed = unsafe { libc::pthread_atfork(None, None, Some(wipe_all)) };
    assert_eq!(failed, 0, "no memory for a handler of fork");
    REGISTERED.store(true, Ordering::Release);
}

extern "C" fn wipe_all() {
    for Entry { memory, bytes, .. } in ENTRIES.iter() {
        let memory = memory.load(Ordering::Acquire);
        if !memory.is_null() {
            // SAFETY: whoever takes memory off the list does it before unmapping it, so it is
            // mapped, also in this copy of the process; no other thread lives in it, and the
            // memory holds atomics alone, for which zeros are valid.
            unsafe { ptr::write_bytes(memory.cast::<u8>(), 0, bytes.load(Ordering::Relaxed)) };
        }
    }
}
