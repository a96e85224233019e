//! Refuses SQLite in a forked child whose parent had a file open.
//!
//! The child inherits SQLite's memory but not the parent's locks. SQLite would believe that it holds locks on the file,
//! and would wait for mutexes of threads that the child does not have. So connections are counted, and a child that
//! inherits a count above 0 is refused. It may call `exec`.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The process id in the upper half, and the number of its open connections in the lower half.
static OPEN: AtomicU64 = AtomicU64::new(0);

const COUNT: u64 = u32::MAX as u64;

/// Counts one connection from before it is opened until after it is closed.
#[derive(Debug)]
pub struct Entry(());

impl Entry {
    /// Returns `None` in a forked child whose parent had connections.
    pub fn new() -> Option<Self> {
        let own = u64::from(process::id()) << 32;
        // A child has the parent's memory as of the fork. If that contains anything that SQLite did for a connection in
        // another thread, it must contain the connection's count. The fence orders the count before SQLite's writes;
        // Release in `drop` orders those writes before the decrement. Acquire is not needed: nothing that others wrote
        // before they changed the word is read here.
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
        // A child does not count its parent's connections.
        let leave = |open: u64| (open & !COUNT == own).then(|| open - 1);
        let _ = OPEN.fetch_update(Ordering::Release, Ordering::Relaxed, leave);
    }
}
