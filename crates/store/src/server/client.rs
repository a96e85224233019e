//! The blocking client of a store: a connection and its runtime.

use std::mem;
use std::process;
use std::time::Duration;

use uidring::Error;

use super::connection::{Connection, Failed, Operation};
use super::engine::{Engine, Purpose};
use super::runtime::BlockingRuntime;
use super::settings::Limits;
use super::store::ServerStore;

/// Opens its connection on first use, and again if it broke.
pub struct Client<E: Engine> {
    server: ServerStore<E>,
    connection: Connection<E>,
    runtime: BlockingRuntime,
    /// In a forked child, which has another id, the connection is the parent's.
    process: u32,
}

impl<E: Engine> Client<E> {
    pub fn new(server: &ServerStore<E>, purpose: Purpose) -> Self {
        Self {
            server: server.clone(),
            connection: Connection::new(server.engine.options(purpose)),
            runtime: BlockingRuntime::default(),
            process: process::id(),
        }
    }

    pub fn server(&self) -> &ServerStore<E> {
        &self.server
    }

    /// Limits the time of later work.
    pub fn limit(&mut self, limit: Duration) {
        let Limits { connect, deadline } = &mut self.server.settings.limits;
        *connect = limit.min(*connect);
        *deadline = limit.min(*deadline);
    }

    /// Does the work, and retries failures that may pass.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub fn run<W: Operation<E>>(&mut self, work: &W) -> Result<W::Done, Error> {
        Ok(self.try_run(work)?)
    }

    /// Does the same, and says whether a failure lasts.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub fn try_run<W: Operation<E>>(&mut self, work: &W) -> Result<W::Done, Failed> {
        let done = self.connection.run(&self.server, work);
        // An error of the runtime itself may pass.
        let done = self.runtime.block_on(&self.server, done);
        done.map_err(|error| Failed { error, is_final: false })?
    }

    /// Does the work once, for callers that retry by themselves.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub fn run_once<W: Operation<E>>(&mut self, work: &W) -> Result<W::Done, Error> {
        self.runtime.block_on(&self.server, self.connection.run_once(&self.server, work))?
    }

    /// Returns whether the last attempt had a connection.
    pub fn has_reached(&self) -> bool {
        self.connection.has_reached()
    }

    /// Returns whether it had one, and the server answered before the deadline.
    pub fn has_answered(&self) -> bool {
        self.connection.has_answered()
    }
}

impl<E: Engine> Drop for Client<E> {
    fn drop(&mut self) {
        if process::id() != self.process {
            // Closing or dropping the parent's connection would disturb the parent.
            let own = Connection::new(self.server.engine.options(Purpose::Admin));
            mem::forget(mem::replace(&mut self.connection, own));
            mem::forget(mem::take(&mut self.runtime));
        } else if self.connection.is_open() {
            // Closing cleanly is optional.
            let _ = self.runtime.block_on(&self.server, self.connection.close());
        }
    }
}
