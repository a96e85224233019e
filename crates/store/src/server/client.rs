//! The blocking client of a store: a connection and the runtime that drives it.

use std::mem;
use std::process;
use std::time::Duration;

use uidring::Error;

use super::connection::{Connection, Failed, Operation};
use super::engine::{Engine, Purpose};
use super::runtime::BlockingRuntime;
use super::settings::Limits;
use super::store::ServerStore;

/// Opens its connection with the first work, and again if it broke.
pub struct Client<E: Engine> {
    server: ServerStore<E>,
    connection: Connection<E>,
    runtime: BlockingRuntime,
    /// In another process, a forked child, the connection is the parent's.
    process: u32,
}

impl<E: Engine> Client<E> {
    /// A client for this.
    pub fn new(server: &ServerStore<E>, purpose: Purpose) -> Self {
        Self {
            server: server.clone(),
            connection: Connection::new(server.engine.options(purpose)),
            runtime: BlockingRuntime::default(),
            process: process::id(),
        }
    }

    /// The server.
    pub fn server(&self) -> &ServerStore<E> {
        &self.server
    }

    /// Lets no later work take longer than this.
    pub fn limit(&mut self, limit: Duration) {
        let Limits { connect, deadline } = &mut self.server.settings.limits;
        *connect = limit.min(*connect);
        *deadline = limit.min(*deadline);
    }

    /// Does the work, and tries again what may pass.
    ///
    /// # Errors
    ///
    /// What the store says.
    pub fn run<W: Operation<E>>(&mut self, work: &W) -> Result<W::Done, Error> {
        Ok(self.try_run(work)?)
    }

    /// The same, and says whether a failure stays.
    ///
    /// # Errors
    ///
    /// What the store says.
    pub fn try_run<W: Operation<E>>(&mut self, work: &W) -> Result<W::Done, Failed> {
        let done = self.connection.run(&self.server, work);
        // An error of the runtime's own is one of this moment.
        let done = self.runtime.block_on(&self.server, done);
        done.map_err(|error| Failed { error, is_final: false })?
    }

    /// Does the work once, for callers that come again by themselves.
    ///
    /// # Errors
    ///
    /// What the store says.
    pub fn run_once<W: Operation<E>>(&mut self, work: &W) -> Result<W::Done, Error> {
        self.runtime.block_on(&self.server, self.connection.run_once(&self.server, work))?
    }

    /// Whether the last attempt of the last work had a connection.
    pub fn has_reached(&self) -> bool {
        self.connection.has_reached()
    }

    /// Whether it had one, and the server answered before the deadline.
    pub fn has_answered(&self) -> bool {
        self.connection.has_answered()
    }
}

impl<E: Engine> Drop for Client<E> {
    fn drop(&mut self) {
        if process::id() != self.process {
            // To close the parent's connection, or even to drop it, would disturb the parent.
            let own = Connection::new(self.server.engine.options(Purpose::Admin));
            mem::forget(mem::replace(&mut self.connection, own));
            mem::forget(mem::take(&mut self.runtime));
        } else if self.connection.is_open() {
            // Only a courtesy.
            let _ = self.runtime.block_on(&self.server, self.connection.close());
        }
    }
}
