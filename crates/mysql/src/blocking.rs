//! Async work for callers that are not async.

use std::future::Future;
use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};
use uidring::{Error, StoreErrorKind};

use super::MySqlStore;

/// Runs the future to its end on a thread of its own, with a runtime of its own: to start one on a
/// thread that has a runtime already would panic.
pub fn run<T: Send>(
    server: &MySqlStore,
    work: impl Future<Output = Result<T, Error>> + Send,
) -> Result<T, Error> {
    on_a_thread(server, || Bridge::default().block_on(server, work))
}

/// A runtime that outlives a call, as a connection that is kept needs it.
#[derive(Default)]
pub struct Bridge(Option<Runtime>);

impl Bridge {
    /// Runs the future to its end: on this thread, unless that has a runtime already.
    pub fn run<T: Send>(
        &mut self,
        server: &MySqlStore,
        work: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        match Handle::try_current() {
            Ok(_) => on_a_thread(server, || self.block_on(server, work)),
            Err(_) => self.block_on(server, work),
        }
    }

    fn block_on<T>(
        &mut self,
        server: &MySqlStore,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match self.runtime() {
            Ok(runtime) => runtime.block_on(work),
            Err(error) => Err(failed(server, &error.to_string())),
        }
    }

    fn runtime(&mut self) -> io::Result<&Runtime> {
        Ok(match &mut self.0 {
            Some(runtime) => runtime,
            none => none.insert(Builder::new_current_thread().enable_all().build()?),
        })
    }
}

impl Drop for Bridge {
    /// A look-up of a host's name may still hang, beyond its deadline. It is left behind. To wait
    /// for it is also what a thread with another runtime must not do.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn on_a_thread<T: Send>(
    server: &MySqlStore,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("uidring-mysql".into()).spawn_scoped(scope, work);
        match thread.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(failed(server, "it panicked")),
            Err(error) => Err(failed(server, &format!("no thread: {error}"))),
        }
    })
}

fn failed(server: &MySqlStore, what: &str) -> Error {
    server.error(StoreErrorKind::Other, format!("the client failed: {what}"))
}
