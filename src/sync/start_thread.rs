//! Starts a thread, and waits until it runs.

use std::io;
use std::sync::{Arc, Barrier};
use std::thread::{Builder, JoinHandle};

/// Starts a thread, and returns once it runs.
///
/// std holds a lock while a thread begins. If the process forks then, the lock stays held in the child, where no thread
/// can begin any more. So a caller that forks after this returns does not catch this thread at that point.
pub(crate) fn start_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let runs = Arc::new(Barrier::new(2));
    let theirs = Arc::clone(&runs);
    let thread = Builder::new().name(name.into()).spawn(move || {
        theirs.wait();
        work()
    })?;
    runs.wait();
    Ok(thread)
}

#[cfg(all(test, target_os = "linux", not(uidring_loom)))]
mod tests {
    use std::convert::Infallible;
    use std::fs;
    use std::sync::mpsc;

    use super::*;

    /// std names a thread before it calls the thread's closure.
    #[test]
    #[cfg_attr(miri, ignore = "there is no /proc")]
    fn a_thread_that_was_started_runs() {
        for _ in 0..100 {
            let (stays, ends) = mpsc::channel::<Infallible>();
            let thread = start_thread("uidring-begins", move || ends.recv().is_err());
            let tasks = fs::read_dir("/proc/self/task").expect("a folder");
            let mut names =
                tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
            assert!(names.any(|name| name.trim() == "uidring-begins"));
            drop(stays);
            thread.expect("it starts").join().expect("no panic");
        }
    }
}
