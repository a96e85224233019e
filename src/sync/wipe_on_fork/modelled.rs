//! The same for the model checker, where a thread may become a forked child of all the others.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use super::{HotWords, RegionHeader, Slot, Words};

loom::thread_local!(static IS_CHILD: Cell<bool> = Cell::new(false));

/// From now on this thread is the only one of a forked child: it finds all [memory](WipeOnForkMemory) of the kind wiped.
/// The others go on as the parent's. All other memory is the parent's too, which is not so of a real
/// child: a model finds out by that what a child changes, or which of its parent's locks it takes.
///
/// What the child makes from now on counts as wiped as well.
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
    /// Where processes share it, the parent's.
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

    /// What shared memory begins with.
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
