//! The same where there is no fork.

use std::sync::Arc;

use super::{HotWords, Slot};

#[derive(Clone, Debug)]
pub(crate) struct WipeOnForkMemory {
    hot: Arc<HotWords>,
    slots: Arc<[Slot]>,
}

/// Whether this process is a forked child.
pub(crate) fn is_forked_child() -> bool {
    false
}

impl WipeOnForkMemory {
    pub(crate) fn new(count: usize) -> Option<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(count).ok()?;
        slots.resize_with(count, Slot::default);
        Some(Self { hot: Arc::default(), slots: slots.into() })
    }

    #[inline]
    pub(crate) fn is_forked_child(&self) -> bool {
        false
    }

    #[inline]
    pub(crate) fn hot(&self) -> &HotWords {
        &self.hot
    }

    #[inline]
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }
}
