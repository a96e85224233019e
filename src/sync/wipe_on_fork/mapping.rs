//! Mappings that are wiped at a fork, and those that are kept for whoever comes next.
// Memory from the operating system, which std does not hand out.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use super::wiping::{Entry, wiped_by_kernel};
use super::{RingWords, Slot};

/// Zeroed memory, lent to a `WipeOnForkMemory`.
#[derive(Debug)]
pub(super) struct Mapping {
    memory: NonNull<c_void>,
    bytes: usize,
    /// Where the handler of fork finds it, if the kernel does not wipe it.
    entry: Option<&'static Entry>,
}

// SAFETY: whichever thread drops it may unmap the memory; there is nothing else to do with it.
unsafe impl Send for Mapping {}
// SAFETY: a shared `Mapping` can do nothing but say where it is.
unsafe impl Sync for Mapping {}

/// Mappings that nobody uses, zeroed, the latest first, for those who want one of their length:
/// the kernel takes longer for fresh ones than a generator for all the rest of its start.
///
/// Its lock is only ever tried: in a forked child it may be held for ever.
static SPARE: Mutex<[Option<Mapping>; 8]> = Mutex::new([const { None }; 8]);

/// Longer ones are not kept; 1,024 slots of a ring are. Half a mebibyte in all.
const MAX_SPARE_BYTES: usize = size_of::<RingWords>() + 1_024 * size_of::<Slot>();

impl Mapping {
    /// A spare one, or a new one.
    pub(super) fn lend(bytes: usize) -> Option<Self> {
        Self::spare(bytes).or_else(|| Self::new(bytes, wiped_by_kernel))
    }

    pub(super) fn new(bytes: usize, wiped: fn(*mut c_void, usize) -> bool) -> Option<Self> {
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

    /// Where it begins, at the beginning of a page.
    pub(super) fn memory<T>(&self) -> NonNull<T> {
        self.memory.cast()
    }

    fn spare(bytes: usize) -> Option<Self> {
        let mut spare = SPARE.try_lock().ok()?;
        let fits = |mapping: &&mut Option<Self>| {
            mapping.as_ref().is_some_and(|mapping| mapping.bytes == bytes)
        };
        spare.iter_mut().find(fits)?.take()
    }

    /// Keeps it for others, and unmaps the one that was kept for longest if there is no room.
    pub(super) fn give_back(self) {
        if self.bytes > MAX_SPARE_BYTES {
            return;
        }
        // SAFETY: this is a mapping of that length; every reference to it borrowed a
        // `WipeOnForkMemory`, and none is left.
        unsafe { self.memory.cast::<u8>().write_bytes(0, self.bytes) };
        let Ok(mut spare) = SPARE.try_lock() else { return };
        let free = spare.iter().position(Option::is_none).unwrap_or(spare.len() - 1);
        spare[..=free].rotate_right(1);
        let oldest = spare[0].replace(self);
        drop(spare);
        drop(oldest);
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
