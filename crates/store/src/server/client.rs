//! The blocking client of a store: a connection and its runtime.

use std::mem;
use std::process;
use std::time::Duration;

use uidring::Error;

use super::connection::{Connection, Failed, Operation};
use super::engine::Purpose;
use super::runtime::BlockingRuntime;
use super::settings::Limits;
use super::store::Server;
use super::tables::Table;

/// Opens its connection on first use, and again if it broke.
pub struct Client {
    server: Server,
    connection: Connection,
    runtime: BlockingRuntime,
    /// In a forked child, which has another id, the connection is the parent's.
    process: u32,
}

impl Client {
    pub fn new(server: &Server, purpose: Purpose) -> Self {
        Self {
            server: server.clone(),
            connection: Connection::new(purpose),
            runtime: BlockingRuntime::default(),
            process: process::id(),
        }
    }

    pub fn server(&self) -> &Server {
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
    pub fn run<W: Operation>(&mut self, work: &W) -> Result<W::Done, Error> {
        self.run_creating(work, &[])
    }

    /// Does the same, and creates these tables if they are missing.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub fn run_creating<W: Operation>(
        &mut self,
        work: &W,
        tables: &[Table],
    ) -> Result<W::Done, Error> {
        Ok(self.try_run(work, tables)?)
    }

    /// Does the same, and says whether a failure lasts.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub fn try_run<W: Operation>(&mut self, work: &W, tables: &[Table]) -> Result<W::Done, Failed> {
        let done = self.connection.run(&self.server, work, tables);
        // An error of the runtime itself may pass.
        let done = self.runtime.block_on(&self.server, done);
        done.map_err(|error| Failed { error, is_final: false })?
    }

    /// Does the work once, for callers that retry by themselves.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub fn run_once<W: Operation>(&mut self, work: &W) -> Result<W::Done, Error> {
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

impl Drop for Client {
    fn drop(&mut self) {
        if process::id() != self.process {
            // Closing or dropping the parent's connection would disturb the parent.
            let own = Connection::new(Purpose::Admin);
            mem::forget(mem::replace(&mut self.connection, own));
            mem::forget(mem::take(&mut self.runtime));
        } else if self.connection.is_open() {
            // Closing cleanly is optional.
            let _ = self.runtime.block_on(&self.server, self.connection.close());
        }
    }
}
