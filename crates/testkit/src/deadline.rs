//! Work that must come to an end.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Long enough for a machine that is busy with something else.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Does the work in a thread of its own, which is left behind if it does not end.
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
