//! Keeps a forked child away from SQLite if its parent was at it.
//!
//! The child has a copy of what SQLite knows, and none of the parent's locks: it would take the file for
//! locked when it is not, and find locks of threads that it does not have. So connections are counted,
//! and a child that inherits a count other than 0 is refused. One that calls `exec` begins anew.

use std::process;

use crate::sync::{AtomicU64, Ordering, fence};

/// The process, and how many connections it has open, in the lower half.
static OPEN: AtomicU64 = AtomicU64::new(0);

const COUNT: u64 = u32::MAX as u64;

/// Stands for a connection that is open, or about to be.
#[derive(Debug)]
pub struct Entry(());

impl Entry {
    /// `None` in a forked child whose parent had connections.
    pub fn new() -> Option<Self> {
        let own = u64::from(process::id()) << 32;
        // A child has the memory of the moment of the fork. If anything is in it that SQLite did for a
        // connection of another thread, then so is the connection's count: the fence keeps what
        // follows behind the count, and Release, in `drop`, keeps what went before ahead of it.
        // Nothing is read that others wrote before they changed the word, so that there is nothing to
        // acquire.
        let enter = |open: u64| {
            let count = open & COUNT;
            (count == 0 || open & !COUNT == own).then_some(own | (count + 1))
        };
        OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter).ok()?;
        fence(Ordering::SeqCst);
        Some(Self(()))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let own = u64::from(process::id()) << 32;
        // A child does not close its parent's.
        let leave = |open: u64| (open & !COUNT == own).then(|| open - 1);
        let _ = OPEN.fetch_update(Ordering::Release, Ordering::Relaxed, leave);
    }
}
