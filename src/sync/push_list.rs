//! A list that only grows. A forked child can read it, whatever the parent's threads were doing at the fork.

// Follows raw pointers, to nodes that live as long as the list.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Values that are pushed to the front and never removed.
///
/// It has no lock that another thread could hold at a fork. Each pointer is stored after the node that it
/// points to, and a fork that copies a store of a thread also copies the thread's earlier stores. So a
/// child finds the list whole.
#[derive(Debug)]
pub(crate) struct PushList<T> {
    newest: AtomicPtr<Node<T>>,
}

#[derive(Debug)]
struct Node<T> {
    value: T,
    older: *mut Node<T>,
}

// `AtomicPtr` makes every list `Send` and `Sync`. Only lists of values that are both have methods, so no other list has
// any value.
impl<T: Send + Sync> PushList<T> {
    pub(crate) const fn new() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns the newest value.
    pub(crate) fn newest(&self) -> Option<&T> {
        self.head().map(|node| &node.value)
    }

    /// Iterates over the values, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut next = self.head();
        std::iter::from_fn(move || {
            let node = next?;
            // SAFETY: as in `head`.
            next = unsafe { node.older.as_ref() };
            Some(&node.value)
        })
    }

    /// Pushes the value if `newest` is still the newest one. Otherwise drops it and returns `None`.
    pub(crate) fn push_after(&self, newest: Option<&T>, value: T) -> Option<&T> {
        // Acquire: as in `head`.
        let older = self.newest.load(Ordering::Acquire);
        // SAFETY: as in `head`.
        let is_as_seen = match (unsafe { older.as_ref() }, newest) {
            (None, None) => true,
            (Some(node), Some(seen)) => ptr::eq(&raw const node.value, seen),
            _ => false,
        };
        if !is_as_seen {
            return None;
        }
        let node = Box::into_raw(Box::new(Node { value, older }));
        // Release: pairs with the Acquire in `head`, which then sees the node complete. Relaxed on
        // failure: the pointer found is not followed.
        match self.newest.compare_exchange(older, node, Ordering::Release, Ordering::Relaxed) {
            // SAFETY: the node is complete, and lives as long as the list.
            Ok(_) => Some(unsafe { &(*node).value }),
            Err(_) => {
                // SAFETY: the pointer comes from `Box::into_raw` above, and nobody else has it.
                drop(unsafe { Box::from_raw(node) });
                None
            }
        }
    }

    /// Returns the newest value if it is `ours`, or else pushes one.
    pub(crate) fn newest_or(&self, ours: impl Fn(&T) -> bool, make: impl Fn() -> T) -> &T {
        loop {
            let newest = self.newest();
            if let Some(value) = newest.filter(|value| ours(value)) {
                return value;
            }
            if let Some(value) = self.push_after(newest, make()) {
                return value;
            }
        }
    }

    fn head(&self) -> Option<&Node<T>> {
        // Acquire: pairs with the Release in `push_after`, so this node is complete. So are the older
        // ones: whoever pushed this one had acquired them.
        let node = self.newest.load(Ordering::Acquire);
        // SAFETY: it is null, or a node that `push_after` published, which is not changed, and freed only with the list.
        unsafe { node.as_ref() }
    }
}

impl<T> Drop for PushList<T> {
    fn drop(&mut self) {
        let mut next = *self.newest.get_mut();
        while !next.is_null() {
            // SAFETY: each node's pointer comes from `Box::into_raw` in `push_after`, and no borrow of the list is left.
            let node = unsafe { Box::from_raw(next) };
            next = node.older;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn every_value_is_there_once() {
        static LIST: PushList<u64> = PushList::new();
        thread::scope(|scope| {
            for start in [0, 1_000, 2_000, 3_000] {
                scope.spawn(move || {
                    for value in start..start + 1_000 {
                        while LIST.push_after(LIST.newest(), value).is_none() {}
                    }
                });
            }
        });
        let mut all: Vec<u64> = LIST.iter().copied().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..4_000));
    }

    #[test]
    fn what_was_decided_on_an_old_look_is_not_pushed() {
        static LIST: PushList<u64> = PushList::new();
        let first = LIST.push_after(None, 1).expect("it is empty");
        assert_eq!(LIST.push_after(None, 2), None);
        assert_eq!(LIST.push_after(Some(first), 3), Some(&3));
        assert_eq!(LIST.push_after(Some(first), 4), None);
        assert!(LIST.iter().eq([&3, &1]));
    }

    #[test]
    fn a_dropped_list_drops_each_value_once() {
        let value = Arc::new(());
        let list = PushList::new();
        for count in 1..4 {
            assert!(list.push_after(list.newest(), Arc::clone(&value)).is_some());
            assert_eq!(list.iter().count(), count);
        }
        drop(list);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
