//! The same where there is no fork.

use std::sync::Arc;

use super::{HotPair, Line};
use crate::sync::AtomicU64;

#[derive(Clone, Debug)]
pub(crate) struct Pages {
    word: Arc<AtomicU64>,
    hot: Arc<[HotPair; 2]>,
    lines: Arc<[Line]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Life;

impl Pages {
    pub(crate) fn new(count: usize) -> Option<Self> {
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).ok()?;
        lines.resize_with(count, Line::default);
        Some(Self { word: Arc::default(), hot: Arc::default(), lines: lines.into() })
    }

    #[inline]
    pub(crate) fn are_wiped(&self) -> bool {
        false
    }

    pub(crate) fn life(&self) -> Life {
        Life
    }

    #[inline]
    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.word
    }

    #[inline]
    pub(crate) fn hot(&self) -> &[HotPair; 2] {
        &self.hot
    }

    #[inline]
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
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
