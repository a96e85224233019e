//! `WipeOnForkMemory` for the model checker, where a thread may become a forked child of the others' process.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use super::{HotWords, RegionHeader, Slot, Words};

loom::thread_local!(static IS_CHILD: Cell<bool> = Cell::new(false));

/// Makes this thread the only thread of a forked child, which finds all [such memory](WipeOnForkMemory) wiped. The
/// others stay the parent's threads. Unlike a real child, it shares all other memory with the parent, so that a
/// model notices what a child changes, or which of its parent's locks it takes.
///
/// Memory that the child makes later counts as wiped, too.
pub fn become_forked_child() {
    IS_CHILD.with(|is_child| is_child.set(true));
}

/// Whether this thread is a forked child.
pub(crate) fn is_forked_child() -> bool {
    IS_CHILD.with(Cell::get)
}

#[derive(Debug)]
pub(crate) struct WipeOnForkMemory<W> {
    parents: Arc<(W, Vec<Slot>)>,
    /// The parent's if processes share the memory.
    childs: Arc<(W, Vec<Slot>)>,
}

impl<W: Words> WipeOnForkMemory<W> {
    pub(crate) fn new(count: usize) -> Option<Self> {
        let copy = || Arc::new((W::default(), (0..count).map(|_| Slot::default()).collect()));
        Some(Self { parents: copy(), childs: copy() })
    }

    pub(crate) fn shared(count: usize) -> io::Result<Self> {
        let Self { parents, .. } = Self::new(count).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { childs: Arc::clone(&parents), parents })
    }

    /// Returns `None`: models have no header.
    pub(crate) fn header(&self) -> Option<&RegionHeader> {
        None
    }

    pub(crate) fn is_shared(&self) -> bool {
        Arc::ptr_eq(&self.parents, &self.childs)
    }

    fn copy(&self) -> &(W, Vec<Slot>) {
        if is_forked_child() { &self.childs } else { &self.parents }
    }

    pub(crate) fn is_wiped(&self) -> bool {
        is_forked_child() && !self.is_shared()
    }

    pub(crate) fn words(&self) -> &W {
        &self.copy().0
    }

    pub(crate) fn hot(&self) -> &HotWords {
        self.words().hot()
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.copy().1
    }
}

impl<W> Clone for WipeOnForkMemory<W> {
    fn clone(&self) -> Self {
        Self { parents: Arc::clone(&self.parents), childs: Arc::clone(&self.childs) }
    }
}
