//! The same where there is no fork.

use std::sync::Arc;

use super::{HotWords, Slot};

#[derive(Clone, Debug)]
pub(crate) struct WipeOnForkMemory {
    hot: Arc<HotWords>,
    slots: Arc<[Slot]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Life;

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

    pub(crate) fn life(&self) -> Life {
        Life
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

impl Life {
    pub(crate) fn new() -> Option<Self> {
        Some(Self)
    }

    pub(crate) fn is_forked(&self) -> bool {
        false
    }
}
