//! Work that must end in time.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Long enough for a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Does the work in its own thread. If it does not end within the limit, panics and leaves the thread behind.
#[track_caller]
pub fn ends<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, end) = mpsc::channel();
    let worker = thread::spawn(move || drop(done.send(work())));
    match end.recv_timeout(LIMIT) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: it hangs"),
        Err(RecvTimeoutError::Disconnected) => {
            let panic = worker.join().expect_err("no result");
            std::panic::resume_unwind(panic)
        }
    }
}
