//! The same for the model checker, where a thread may become a forked child of all the others.

use std::cell::Cell;
use std::sync::Arc;

use super::{HotPair, Line};
use crate::sync::AtomicU64;

loom::thread_local!(static IS_CHILD: Cell<bool> = Cell::new(false));

/// From now on this thread is the only one of a forked child: what there is of pages it finds wiped.
/// The others go on as the parent's. All other memory is the parent's too, which is not so of a real
/// child: a model finds out by that what a child changes, or which of its parent's locks it takes.
///
/// What the child makes from now on counts as wiped as well.
pub fn become_forked_child() {
    IS_CHILD.with(|is_child| is_child.set(true));
}

fn is_child() -> bool {
    IS_CHILD.with(Cell::get)
}

#[derive(Clone, Debug)]
pub(crate) struct Pages {
    parents: Copy,
    childs: Copy,
}

#[derive(Clone, Debug)]
struct Copy {
    word: Arc<AtomicU64>,
    hot: Arc<[HotPair; 2]>,
    lines: Arc<[Line]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Life;

impl Copy {
    fn new(count: usize) -> Option<Self> {
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).ok()?;
        lines.resize_with(count, Line::default);
        Some(Self { word: Arc::default(), hot: Arc::default(), lines: lines.into() })
    }
}

impl Pages {
    pub(crate) fn new(count: usize) -> Option<Self> {
        Some(Self { parents: Copy::new(count)?, childs: Copy::new(count)? })
    }

    fn copy(&self) -> &Copy {
        if is_child() { &self.childs } else { &self.parents }
    }

    pub(crate) fn are_wiped(&self) -> bool {
        is_child()
    }

    pub(crate) fn life(&self) -> Life {
        Life
    }

    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.copy().word
    }

    pub(crate) fn hot(&self) -> &[HotPair; 2] {
        &self.copy().hot
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.copy().lines
    }
}

impl Life {
    pub(crate) fn new() -> Option<Self> {
        Some(Self)
    }

    pub(crate) fn is_forked(&self) -> bool {
        is_child()
    }
}
