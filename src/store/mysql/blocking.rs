//! Async work for callers that are not async.

use std::future::Future;
use std::thread;

use tokio::runtime::Builder;

use super::MySqlServer;
use crate::error::Error;

/// Runs the future to its end on a thread of its own, with a runtime of its own: to start one on a
/// thread that has a runtime already would panic.
pub fn run<T: Send>(
    server: &MySqlServer,
    work: impl Future<Output = Result<T, Error>> + Send,
) -> Result<T, Error> {
    let failed = |what: &str| Err(server.error(format!("the client failed: {what}")));
    thread::scope(|scope| {
        let thread =
            thread::Builder::new().name("uidring-mysql".into()).spawn_scoped(scope, || {
                let runtime = match Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime,
                    Err(error) => return failed(&error.to_string()),
                };
                let done = runtime.block_on(work);
                // A look-up of the host's name may still hang, beyond the deadline. It is left behind.
                runtime.shutdown_background();
                done
            });
        match thread.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => failed("it panicked"),
            Err(error) => failed(&format!("no thread: {error}")),
        }
    })
}
