//! Runs async work for blocking callers.

use std::future::Future;
use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};
use uidring::{Error, StoreErrorKind};

use super::error::database;
use super::store::Server;

/// A runtime that the first call starts and that outlives it, as an open connection requires.
#[derive(Default)]
pub struct BlockingRuntime(Option<Runtime>);

impl BlockingRuntime {
    /// Runs the future to its end. If this thread is already in a runtime, where another one would panic, runs it on a
    /// new thread.
    ///
    /// # Errors
    ///
    /// The runtime or the thread cannot be started.
    pub fn block_on<T: Send>(
        &mut self,
        server: &Server,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, Error> {
        let run = || {
            let runtime = self.started().map_err(|error| failed(server, &error.to_string()))?;
            Ok(runtime.block_on(work))
        };
        if Handle::try_current().is_err() {
            return run();
        }
        thread::scope(|scope| {
            let name = format!("uidring-{}", server.engine.name().to_lowercase());
            let thread = thread::Builder::new().name(name).spawn_scoped(scope, run);
            match thread.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(done)) => done,
                Ok(Err(_)) => Err(failed(server, "it panicked")),
                Err(error) => Err(failed(server, &format!("no thread: {error}"))),
            }
        })
    }

    fn started(&mut self) -> io::Result<&Runtime> {
        Ok(match &mut self.0 {
            Some(runtime) => runtime,
            none => none.insert(Builder::new_current_thread().enable_all().build()?),
        })
    }
}

impl Drop for BlockingRuntime {
    /// Does not wait for a name lookup, which may hang beyond its deadline. Nor may a thread of another runtime wait.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn failed(server: &Server, what: &str) -> Error {
    database(server, StoreErrorKind::Other, format!("the client failed: {what}"), None)
}
