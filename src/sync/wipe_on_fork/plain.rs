//! `WipeOnForkMemory` for systems without fork.

use std::io;
use std::sync::Arc;

use super::{HotWords, RegionHeader, Slot, Words};

#[derive(Debug)]
pub(crate) struct WipeOnForkMemory<W> {
    words: Arc<W>,
    slots: Arc<[Slot]>,
}

/// Whether this process is a forked child.
pub(crate) fn is_forked_child() -> bool {
    false
}

impl<W: Words> WipeOnForkMemory<W> {
    pub(crate) fn new(count: usize) -> Option<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(count).ok()?;
        slots.resize_with(count, Slot::default);
        Some(Self { words: Arc::default(), slots: slots.into() })
    }

    pub(crate) fn shared(_: usize) -> io::Result<Self> {
        super::unsupported()
    }

    /// Returns `None`: there is no shared memory.
    pub(crate) fn header(&self) -> Option<&RegionHeader> {
        None
    }

    pub(crate) fn is_shared(&self) -> bool {
        false
    }

    #[inline]
    pub(crate) fn is_wiped(&self) -> bool {
        false
    }

    #[inline]
    pub(crate) fn words(&self) -> &W {
        &self.words
    }

    #[inline]
    pub(crate) fn hot(&self) -> &HotWords {
        self.words.hot()
    }

    #[inline]
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }
}

impl<W> Clone for WipeOnForkMemory<W> {
    fn clone(&self) -> Self {
        Self { words: Arc::clone(&self.words), slots: Arc::clone(&self.slots) }
    }
}
