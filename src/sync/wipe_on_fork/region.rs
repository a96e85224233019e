//! The memory of a ring that processes share: a header, the words and the slots, in a memory file.
// Casts pointers into the mapping to the header and the words.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::mapped::ALIVE;
use super::{RegionHeader, RingWords, Slot, WipeOnForkMemory};
use crate::sync::shared_memory::SharedMapping;
use crate::sync::{AtomicU64, Ordering};

/// `uidring` and a zero, as a little-endian number.
const MAGIC: u64 = u64::from_le_bytes(*b"uidring\0");

/// The version of the format. Changes whenever takers that know only the old format could not take.
const VERSION: u64 = 1;

const WORDS_AT: usize = size_of::<RegionHeader>();
const SLOTS_AT: usize = WORDS_AT + size_of::<RingWords>();
const MAX_SLOTS: u64 = 1 << 29;

// The words follow the header without a gap, and the slots the words.
const _: () = assert!(WORDS_AT.is_multiple_of(align_of::<RingWords>()));
const _: () = assert!(SLOTS_AT.is_multiple_of(align_of::<Slot>()));

impl WipeOnForkMemory<RingWords> {
    /// Creates memory that forked children share, and every process that gets its file. None finds it wiped.
    pub(crate) fn shared(slots: usize) -> io::Result<Self> {
        let length = Self::bytes(slots).and_then(|bytes| bytes.checked_add(WORDS_AT));
        let mapping = SharedMapping::new(length.ok_or(io::ErrorKind::OutOfMemory)?)?;
        let header = header(&mapping);
        let facts = [
            (&header.magic, MAGIC),
            (&header.version, VERSION),
            (&header.length, mapping.bytes() as u64),
            (&header.words_at, WORDS_AT as u64),
            (&header.slots_at, SLOTS_AT as u64),
            (&header.slots, slots as u64),
        ];
        for (word, value) in facts {
            // Relaxed: nobody else has the memory yet.
            word.store(value, Ordering::Relaxed);
        }
        let memory = Self::behind_header(slots, mapping);
        memory.hot().life.store(ALIVE, Ordering::Relaxed);
        Ok(memory)
    }

    /// Maps the memory in a process that got its file. Refuses files of another format or version.
    pub(crate) fn attach(file: OwnedFd) -> io::Result<Self> {
        let mapping = SharedMapping::attach(file)?;
        let refused = |problem: String| Err(io::Error::other(problem));
        let length = mapping.bytes();
        if length < SLOTS_AT {
            return refused(format!("its memory of {length} bytes is too short"));
        }
        let header = header(&mapping);
        // Relaxed: whoever hands over the file synchronizes. Each word is read once, because a peer may change it.
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        if read(&header.magic) != MAGIC {
            return refused("its memory is not a ring's".into());
        }
        let version = read(&header.version);
        if version != VERSION {
            return refused(format!(
                "its memory has version {version} of the format, and this program knows {VERSION}"
            ));
        }
        let slots = read(&header.slots);
        let at = [&header.words_at, &header.slots_at, &header.length].map(read);
        let is_possible = slots.is_power_of_two() && (2..=MAX_SLOTS).contains(&slots);
        let expected =
            slots.saturating_mul(size_of::<Slot>() as u64).saturating_add(SLOTS_AT as u64);
        if !is_possible
            || at != [WORDS_AT as u64, SLOTS_AT as u64, expected]
            || expected != length as u64
        {
            return refused(format!("its header does not describe its {length} bytes"));
        }
        Ok(Self::behind_header(slots as usize, mapping))
    }

    /// The mapping must hold the header, the words and this many slots.
    fn behind_header(slots: usize, mapping: SharedMapping) -> Self {
        // SAFETY: the words lie within the mapping.
        let words = unsafe { mapping.memory::<u8>().add(WORDS_AT) };
        Self::in_shared(words.cast(), slots, mapping)
    }

    /// Returns the header of shared memory.
    pub(crate) fn header(&self) -> Option<&RegionHeader> {
        self.mapping().map(header)
    }

    /// Returns the file of shared memory.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.mapping().map(SharedMapping::file)
    }
}

/// The mapping must be at least as long as a header.
fn header(mapping: &SharedMapping) -> &RegionHeader {
    // SAFETY: the mapping begins with the header, at the start of a page, and is borrowed. The header
    // consists of atomics, so other processes may store anything meanwhile.
    unsafe { mapping.memory().as_ref() }
}
