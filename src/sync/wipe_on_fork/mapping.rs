//! Mappings that a fork wipes, and a pool of spare ones.
// Mappings, for which std has no API.
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
    /// The entry by which the fork handler finds the mapping, if the kernel does not wipe it.
    entry: Option<&'static Entry>,
}

// SAFETY: a mapping is not tied to a thread, so any thread may unmap it.
unsafe impl Send for Mapping {}
// SAFETY: a `&Mapping` only gives the mapping's address.
unsafe impl Sync for Mapping {}

/// Unused, zeroed mappings, latest first, for reuse at the same length. A fresh mapping takes the kernel longer than all
/// the rest of a generator's start.
///
/// The lock is only tried: in a forked child, it may be held forever.
static SPARE: Mutex<[Option<Mapping>; 8]> = Mutex::new([const { None }; 8]);

/// Longer mappings are not kept, so all spare ones take about half a mebibyte at most. A ring of 1,024 slots
/// still fits.
const MAX_SPARE_BYTES: usize = size_of::<RingWords>() + 1_024 * size_of::<Slot>();

impl Mapping {
    /// Returns a spare mapping of this length, or a new one.
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

    /// Returns its start, which is aligned to a page.
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

    /// Keeps the mapping as a spare one, unless it is too long. If there is no room, unmaps the oldest one.
    pub(super) fn give_back(self) {
        if self.bytes > MAX_SPARE_BYTES {
            return;
        }
        // SAFETY: this is a mapping of that length. Every reference into it borrows a
        // `WipeOnForkMemory`, and none of these is left.
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
        // SAFETY: `Mapping::new` made this mapping, and no reference into it is left: see
        // `give_back`.
        unsafe { libc::munmap(self.memory.as_ptr(), self.bytes) };
    }
}
